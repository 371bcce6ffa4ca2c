"""An agent of AG2."""

import asyncio
import os
import sys

from ag2 import Agent, tool
from ag2.config import OpenAIConfig


@tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


config = OpenAIConfig(model=os.environ["OPENAI_MODEL"], streaming="stream" in sys.argv)
agent = Agent("adder", prompt="Use the tool.", config=config, tools=[add])


async def main() -> None:
    print((await agent.ask("Add 3 and 4.")).body)


asyncio.run(main())
