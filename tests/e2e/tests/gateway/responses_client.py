"""What an application does with OpenAI's client for responses, against the address it is given."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="any", max_retries=0)
session = {"memory_id": "python"}
found = {"stored": []}

answer = client.responses.create(
    model="m", instructions="Be brief.", input="My dog is called Rex.", extra_body=session
)
found["answer"] = answer.output_text
found["stored"].append(answer.memory_stored)

streamed, kinds = "", []
for event in client.responses.create(
    model="m",
    input=[{"role": "user", "content": [{"type": "input_text", "text": "How is my dog called?"}]}],
    stream=True,
    extra_headers={"x-memory-id": "python"},
):
    kinds.append(event.type)
    if event.type == "response.created":
        found["hits"] = event.response.memory_hits
    elif event.type == "response.output_text.delta":
        streamed += event.delta
    elif event.type == "response.completed":
        found["stored"].append(event.response.memory_stored)
found["streamed"], found["kinds"] = streamed, kinds

with client.responses.stream(
    model="m", input="And how is he called?", extra_headers={"x-memory-id": "python"}
) as stream:
    for event in stream:
        if event.type == "response.created":
            found["helped_hits"] = event.response.memory_hits
    final = stream.get_final_response()
found["helped"] = final.output_text
found["stored"].append(final.memory_stored)

tools = [{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}]
items = [{"role": "user", "content": "How is the weather in Rome?"}]
first = client.responses.create(model="m", input=items, tools=tools, extra_body={"memory_id": "tools"})
call = first.output[0]
found["called"] = call.name
items += [*first.output, {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}]
second = client.responses.create(model="m", input=items, tools=tools, extra_body={"memory_id": "tools"})
found["after_tool"] = second.output_text

try:
    client.responses.create(model="m", input="Fail.")
except openai.BadRequestError as error:
    found["error"] = error.code
try:
    client.responses.create(model="m", input="Hello.", extra_body={"memory_top_k": "many"})
except openai.BadRequestError as error:
    found["refused"] = error.code

print(json.dumps(found))
