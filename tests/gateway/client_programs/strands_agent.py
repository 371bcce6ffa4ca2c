"""An agent of Strands, which streams always."""

import os

from strands import Agent, tool
from strands.models.openai import OpenAIModel


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


arguments = {"base_url": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
model = OpenAIModel(client_args=arguments, model_id=os.environ["OPENAI_MODEL"])
print(Agent(model=model, tools=[add], callback_handler=None)("Add 3 and 4."))
