"""An agent of LangGraph with the chat model of langchain-openai."""

import asyncio
import os
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


model = ChatOpenAI(
    model=os.environ["OPENAI_MODEL"],
    streaming="stream" in sys.argv,
    use_responses_api="responses" in sys.argv,
)
agent = create_react_agent(model, [add])
asked = {"messages": [("user", "Add 3 and 4.")]}
found = asyncio.run(agent.ainvoke(asked)) if "async" in sys.argv else agent.invoke(asked)
print(found["messages"][-1].text)
