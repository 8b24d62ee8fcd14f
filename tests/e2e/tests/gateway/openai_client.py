"""What an application does with OpenAI's client, against the address it is given. Prints what came of it."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="any", max_retries=0)
session = {"memory_id": "python"}
found = {"stored": []}

answer = client.chat.completions.create(
    model="m", messages=[{"role": "user", "content": "My dog is called Rex."}], extra_body=session
)
found["answer"] = answer.choices[0].message.content
found["stored"].append(answer.memory_stored)

streamed, hits = "", None
for chunk in client.chat.completions.create(
    model="m",
    messages=[{"role": "user", "content": "How is my dog called?"}],
    stream=True,
    extra_headers={"x-memory-id": "python"},
):
    hits = hits or getattr(chunk, "memory_hits", None)
    stored = getattr(chunk, "memory_stored", None)
    if stored:
        found["stored"].append(stored)
    streamed += chunk.choices[0].delta.content or ""
found["streamed"], found["hits"] = streamed, hits

tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
messages = [{"role": "user", "content": "How is the weather in Rome?"}]
first = client.chat.completions.create(
    model="m", messages=messages, tools=tools, extra_body={"memory_id": "tools"}
)
call = first.choices[0].message.tool_calls[0]
found["called"] = call.function.name
messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}]
second = client.chat.completions.create(
    model="m", messages=messages, tools=tools, extra_body={"memory_id": "tools"}
)
found["after_tool"] = second.choices[0].message.content

try:
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Fail."}])
except openai.BadRequestError as error:
    found["error"] = error.code

found["models"] = [model.id for model in client.models.list()]
embedding = client.embeddings.create(model="e", input="x", encoding_format="float")
found["embedding"] = embedding.data[0].embedding

print(json.dumps(found))
