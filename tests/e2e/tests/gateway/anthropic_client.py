"""What an application does with Anthropic's client, against the address it is given. Prints what came of it."""

import json
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="any", max_retries=0)
common = {"model": "m", "max_tokens": 64}
found = {"stored": []}


def user(text):
    return [{"role": "user", "content": text}]


answer = client.messages.create(
    **common, system="Be brief.", messages=user("My dog is called Rex."), extra_body={"memory_id": "python"}
)
found["answer"] = answer.content[0].text
found["stored"].append(answer.memory_stored)

streamed, kinds = "", []
for event in client.messages.create(
    **common, messages=user("How is my dog called?"), stream=True, extra_headers={"x-memory-id": "python"}
):
    kinds.append(event.type)
    if event.type == "message_start":
        found["hits"] = event.message.memory_hits
    elif event.type == "content_block_delta":
        streamed += event.delta.text
    elif event.type == "message_delta":
        found["stored"].append(event.memory_stored)
found["streamed"], found["kinds"] = streamed, kinds

with client.messages.stream(
    **common, messages=user("And how is he called?"), extra_headers={"x-memory-id": "python"}
) as stream:
    for event in stream:
        if event.type == "message_delta":
            found["stored"].append(event.memory_stored)
    final = stream.get_final_message()
found["helped"], found["stop"] = final.content[0].text, final.stop_reason
found["helped_hits"] = final.memory_hits

tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]
messages = user("How is the weather in Rome?")
first = client.messages.create(**common, messages=messages, tools=tools, extra_body={"memory_id": "tools"})
call = first.content[0]
found["called"] = call.name
messages += [
    {"role": "assistant", "content": first.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."}]},
]
second = client.beta.messages.create(
    **common, messages=messages, tools=tools, extra_body={"memory_id": "tools"}, betas=["context-1m-2025-08-07"]
)
found["after_tool"] = second.content[0].text

try:
    client.messages.create(**common, messages=user("Fail."))
except anthropic.BadRequestError as error:
    found["error"] = error.body["error"]["type"]
try:
    client.messages.create(**common, messages=user("Hello."), extra_body={"memory_top_k": "many"})
except anthropic.BadRequestError as error:
    found["refused"] = error.body["error"]["code"]
found["tokens"] = client.messages.count_tokens(model="m", messages=user("Hello.")).input_tokens

print(json.dumps(found))
