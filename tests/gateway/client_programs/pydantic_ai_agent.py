"""An agent of Pydantic AI with its chat model or, if asked, that of responses."""

import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

kind = OpenAIResponsesModel if "responses" in sys.argv else OpenAIChatModel
agent = Agent(kind(os.environ["OPENAI_MODEL"]))


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def main() -> None:
    if "stream" not in sys.argv:
        print((await agent.run("Add 3 and 4.")).output)
        return
    async with agent.run_stream("Add 3 and 4.") as result:
        print(await result.get_output())


asyncio.run(main())
