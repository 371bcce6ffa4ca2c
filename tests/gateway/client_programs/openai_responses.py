"""A plain loop with the Responses API of the client of OpenAI, streamed if asked."""

import json
import os
import sys

from openai import OpenAI

client = OpenAI()
parameters = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
tools = [{"type": "function", "name": "add", "parameters": parameters, "strict": False}]
items = [{"role": "user", "content": "Add 3 and 4."}]


def ask():
    arguments = {"model": os.environ["OPENAI_MODEL"], "input": items, "tools": tools}
    if "stream" not in sys.argv:
        return client.responses.create(**arguments)
    with client.responses.stream(**arguments) as stream:
        return stream.get_final_response()


calls = True
while calls:
    response = ask()
    calls = [item for item in response.output if item.type == "function_call"]
    items += response.output
    for call in calls:
        arguments = json.loads(call.arguments)
        result = str(arguments["a"] + arguments["b"])
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
print(response.output_text)
