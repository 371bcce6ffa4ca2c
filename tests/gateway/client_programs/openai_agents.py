"""The OpenAI Agents SDK, with chat completions or, as it does by itself, with responses."""

import asyncio
import os
import sys

from agents import Agent, Runner, function_tool, set_default_openai_api


@function_tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if "responses" not in sys.argv:
    set_default_openai_api("chat_completions")
agent = Agent(name="adder", instructions="Use the tool.", tools=[add])
agent.model = os.environ["OPENAI_MODEL"]


async def main() -> None:
    if "stream" not in sys.argv:
        print((await Runner.run(agent, "Add 3 and 4.")).final_output)
        return
    result = Runner.run_streamed(agent, "Add 3 and 4.")
    async for _ in result.stream_events():
        pass
    print(result.final_output)


asyncio.run(main())
