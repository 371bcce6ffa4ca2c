"""An agent of LangGraph with the chat model of langchain-openai."""

import os
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


model = ChatOpenAI(model=os.environ["OPENAI_MODEL"], streaming="stream" in sys.argv)
agent = create_react_agent(model, [add])
print(agent.invoke({"messages": [("user", "Add 3 and 4.")]})["messages"][-1].content)
