"""What a program does with the official client for Python: every tool, and every way to be refused. Takes a
server as JSON and the client's mode; prints what came of it as JSON."""

import asyncio
import json
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

server, mode = json.loads(sys.argv[1]), sys.argv[2]
found = {}


def transport():
    if "url" not in server:
        return StdioServerParameters(**server)
    http = httpx2.AsyncClient(headers=server["headers"], timeout=120)
    return streamable_http_client(server["url"], http_client=http)


async def main():
    async with Client(transport(), mode=mode) as client:
        found["protocol"] = client.protocol_version
        found["server"] = client.server_info.name
        found["instructions"] = client.instructions
        tools = (await client.list_tools()).tools
        found["tools"] = {
            tool.name: tool.model_dump(mode="json", by_alias=True)["annotations"] for tool in tools
        }

        async def call(name, arguments):
            """The structured answer, which the client has checked against the tool's schema."""
            result = await client.call_tool(name, arguments)
            text = result.content[0].text
            assert not result.is_error, text
            assert json.loads(text) == result.structured_content
            return result.structured_content

        async def refused(name, arguments):
            result = await client.call_tool(name, arguments)
            assert result.is_error and result.structured_content is None, result
            return result.content[0].text

        allergy = "Lena is allergic to hazelnuts."
        id = (await call("add_memory", {"text": allergy}))["id"]
        found["again"] = (await call("add_memory", {"text": allergy}))["id"] == id
        await call("add_memory", {"text": "Ann lives in Bergen."})
        hits = await call("search_memories", {"query": "What is Lena allergic to?", "limit": 1})
        found["hits"] = [memory["text"] for memory in hits["memories"]]
        first = await call("list_memories", {"limit": 1})
        second = await call("list_memories", {"limit": 1, "cursor": first["next_cursor"]})
        found["pages"] = [memory["text"] for page in (first, second) for memory in page["memories"]]
        found["more"] = "next_cursor" in second
        found["turns"] = (await call("list_memories", {"kind": "turn"}))["memories"]
        new = (await call("update_memory", {"id": id, "text": "Lena is allergic to all nuts."}))["id"]
        whole = await call("get_memory", {"id": new})
        found["whole"] = [whole["text"], whole["kind"], whole["role"]]
        found["history"] = [[event["event"], event.get("text")] for event in whole["history"]]
        found["result"] = (await call("search", {"query": "Lena's allergies"}))["results"][0]
        found["document"] = await call("fetch", {"id": new})
        found["new"] = new
        found["replaced"] = await refused("get_memory", {"id": id})
        found["stale"] = await refused("update_memory", {"id": id, "text": "Lena eats everything."})
        found["deleted"] = (await call("delete_memory", {"id": new, "reason": "wrong"}))["id"] == new
        found["gone"] = await refused("delete_memory", {"id": new})
        found["no_id"] = await refused("fetch", {"id": "x"})
        found["no_model"] = await refused("summarize_text", {"text": "Some words."})
        found["oversized"] = await refused("add_memory", {"text": "a" * 2_000_000})
        found["zero"] = await refused("add_memory", {"text": "a\0b"})
        found["limit"] = await refused("search_memories", {"query": "x", "limit": 101})
        found["cursor"] = await refused("list_memories", {"cursor": "2026-13-01_" + new})
        found["argument"] = await refused("search_memories", {"query": "x", "limit": "five"})
        try:
            await client.call_tool("drop_memories", {})
        except MCPError as error:
            found["unknown"] = [error.error.code, error.error.message]
    print(json.dumps(found))


asyncio.run(main())
