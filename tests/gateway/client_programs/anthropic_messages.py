"""A plain loop with the client of Anthropic, streamed if asked."""

import os
import sys

from anthropic import Anthropic

client = Anthropic()
parameters = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
tools = [{"name": "add", "description": "Adds two numbers.", "input_schema": parameters}]
messages = [{"role": "user", "content": "Add 3 and 4."}]


def ask():
    arguments = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": tools}
    if "stream" not in sys.argv:
        return client.messages.create(**arguments, max_tokens=100)
    with client.messages.stream(**arguments, max_tokens=100) as stream:
        return stream.get_final_message()


while (message := ask()).stop_reason == "tool_use":
    messages.append({"role": "assistant", "content": message.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": str(sum(block.input.values()))}
        for block in message.content
        if block.type == "tool_use"
    ]
    messages.append({"role": "user", "content": results})
print("".join(block.text for block in message.content if block.type == "text"))
