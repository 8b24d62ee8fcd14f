"""What an application does with LangChain, against the address it is given: through one provider. Prints what came of
it."""

import json
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool


@tool
def shop(item: str) -> str:
    """Looks up a price."""
    return f"{item}: 20 euros."


def model(provider, address):
    fixed = {"model": "m", "api_key": "any", "max_retries": 0}
    if provider == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(base_url=f"http://{address}", max_tokens=64, **fixed)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=f"http://{address}/v1", use_responses_api=provider == "responses", **fixed)


llm = model(*sys.argv[1:])
talk = [HumanMessage("What can I bake for Lena?")]
found = {"answer": llm.invoke(talk)}
talk += [found["answer"], HumanMessage("And to drink?")]
chunks = list(llm.stream(talk))
found["streamed"] = sum(chunks[1:], chunks[0])
talk += [found["streamed"], HumanMessage("What does the cake cost?")]
found["called"] = llm.bind_tools([shop]).invoke(talk)
[call] = found["called"].tool_calls
talk += [found["called"], ToolMessage(shop.invoke(call["args"]), tool_call_id=call["id"])]
found["after_tool"] = llm.bind_tools([shop]).invoke(talk)
said = {name: message.text for name, message in found.items()}
print(json.dumps({**said, "called": [call["name"], call["args"]]}))
