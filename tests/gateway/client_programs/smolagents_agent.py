"""A ToolCallingAgent of smolagents, which requires a call in every reply."""

import os
import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: the one.
        b: the other.
    """
    return a + b


model = OpenAIServerModel(
    os.environ["OPENAI_MODEL"],
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
)
stream = "stream" in sys.argv
agent = ToolCallingAgent(tools=[add], model=model, max_steps=3, stream_outputs=stream)
print(agent.run("Add 3 and 4."))
