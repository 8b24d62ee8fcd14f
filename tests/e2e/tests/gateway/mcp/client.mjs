// What a program does with the official client for TypeScript: the same as client.py. Takes where the client is
// installed, and a server as JSON; prints what came of it as JSON.

import { createRequire } from "node:module";

const [home, server] = [process.argv.at(-2), JSON.parse(process.argv.at(-1))];
const require = createRequire(`${home}/package.json`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { LATEST_PROTOCOL_VERSION } = require("@modelcontextprotocol/sdk/types.js");

// What the client does not like about the schemas of tools.
const found = { warned: [] };
console.warn = (...said) => found.warned.push(said.join(" "));
const patience = { timeout: 120_000 };
const transport = server.url
    ? new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } })
    : new StdioClientTransport(server);
const client = new Client({ name: "test", version: "1" });
await client.connect(transport, patience);
found.protocol = server.url ? transport.protocolVersion : LATEST_PROTOCOL_VERSION;
found.server = client.getServerVersion().name;
found.instructions = client.getInstructions();
const { tools } = await client.listTools({}, patience);
found.tools = Object.fromEntries(tools.map((tool) => [tool.name, tool.annotations]));

const ask = (name, args) => client.callTool({ name, arguments: args }, undefined, patience);

// The structured answer, which the client has checked against the tool's schema.
async function call(name, args) {
    const result = await ask(name, args);
    const text = result.content[0].text;
    const again = JSON.stringify(result.isError || JSON.parse(text));
    if (again !== JSON.stringify(result.structuredContent)) throw new Error(text);
    return result.structuredContent;
}

async function refused(name, args) {
    const result = await ask(name, args);
    if (!result.isError || result.structuredContent) throw new Error(JSON.stringify(result));
    return result.content[0].text;
}

const allergy = "Lena is allergic to hazelnuts.";
const { id } = await call("add_memory", { text: allergy });
found.again = (await call("add_memory", { text: allergy })).id === id;
await call("add_memory", { text: "Ann lives in Bergen." });
const hits = await call("search_memories", { query: "What is Lena allergic to?", limit: 1 });
found.hits = hits.memories.map((memory) => memory.text);
const first = await call("list_memories", { limit: 1 });
const second = await call("list_memories", { limit: 1, cursor: first.next_cursor });
found.pages = [first, second].flatMap((page) => page.memories.map((memory) => memory.text));
found.more = "next_cursor" in second;
found.turns = (await call("list_memories", { kind: "turn" })).memories;
const { id: changed } = await call("update_memory", { id, text: "Lena is allergic to all nuts." });
const whole = await call("get_memory", { id: changed });
found.whole = [whole.text, whole.kind, whole.role];
found.history = whole.history.map((event) => [event.event, event.text ?? null]);
found.result = (await call("search", { query: "Lena's allergies" })).results[0];
found.document = await call("fetch", { id: changed });
found.new = changed;
found.replaced = await refused("get_memory", { id });
found.stale = await refused("update_memory", { id, text: "Lena eats everything." });
found.deleted = (await call("delete_memory", { id: changed, reason: "wrong" })).id === changed;
found.gone = await refused("delete_memory", { id: changed });
found.no_id = await refused("fetch", { id: "x" });
found.no_model = await refused("summarize_text", { text: "Some words." });
found.oversized = await refused("add_memory", { text: "a".repeat(2_000_000) });
found.zero = await refused("add_memory", { text: "a\0b" });
found.limit = await refused("search_memories", { query: "x", limit: 101 });
found.cursor = await refused("list_memories", { cursor: `2026-13-01_${changed}` });
found.argument = await refused("search_memories", { query: "x", limit: "five" });
try {
    await ask("drop_memories", {});
} catch (error) {
    found.unknown = [error.code, error.message];
}
await client.close();
console.log(JSON.stringify(found));
