"""What an application does with LiteLLM, against the address it is given: through one provider. Prints what came of
it."""

import json
import sys

import litellm

litellm.telemetry, litellm.suppress_debug_info = False, True
provider, address = sys.argv[1:]
fixed = {"model": "openai/m", "api_base": f"http://{address}/v1", "api_key": "any", "num_retries": 0}
if provider == "messages":
    fixed |= {"model": "anthropic/m", "api_base": f"http://{address}", "max_tokens": 64}

shop = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
tools = [{"type": "function", "function": {"name": "shop", "description": "Looks up a price.", "parameters": shop}}]


def ask(**more):
    return litellm.completion(messages=talk, **fixed, **more)


talk = [{"role": "user", "content": "What can I bake for Lena?"}]
first = ask().choices[0].message
talk += [first, {"role": "user", "content": "And to drink?"}]
streamed = "".join(chunk.choices[0].delta.content or "" for chunk in ask(stream=True))
talk += [{"role": "assistant", "content": streamed}, {"role": "user", "content": "What does the cake cost?"}]
called = ask(tools=tools).choices[0].message
call = called.tool_calls[0]
arguments = json.loads(call.function.arguments)
talk += [called, {"role": "tool", "tool_call_id": call.id, "content": "Cake: 20 euros."}]
last = ask(tools=tools).choices[0].message
found = {"answer": first.content, "streamed": streamed, "called": [call.function.name, arguments]}
print(json.dumps({**found, "after_tool": last.content}))
