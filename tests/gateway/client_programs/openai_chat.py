"""A plain loop with the client of OpenAI, streamed or asynchronous if asked."""

import asyncio
import json
import os
import sys

from openai import AsyncOpenAI, OpenAI

parameters = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
tools = [{"type": "function", "function": {"name": "add", "parameters": parameters}}]
messages = [{"role": "user", "content": "Add 3 and 4."}]


async def ask_async(arguments):
    async with AsyncOpenAI() as client:
        return await client.chat.completions.create(**arguments)


def ask():
    arguments = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": tools}
    if "async" in sys.argv:
        return asyncio.run(ask_async(arguments)).choices[0].message.model_dump()
    client = OpenAI()
    if "stream" not in sys.argv:
        return client.chat.completions.create(**arguments).choices[0].message.model_dump()
    whole = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in client.chat.completions.create(**arguments, stream=True):
        delta = chunk.choices[0].delta
        whole["content"] += delta.content or ""
        whole["tool_calls"] += [
            call.model_dump(exclude={"index"}) for call in delta.tool_calls or ()
        ]
    return {key: value for key, value in whole.items() if value}


while (message := ask()).get("tool_calls"):
    messages.append(message)
    for call in message["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        result = str(arguments["a"] + arguments["b"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(message["content"])
