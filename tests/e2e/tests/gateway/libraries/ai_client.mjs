// What an application does with Vercel's AI SDK, against the address it is given: through one provider. Prints what
// came of it. Takes where the SDK is installed, the provider and the address.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, provider, address] = process.argv.slice(-3);
const require = createRequire(`${home}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { generateText, streamText, isStepCount, stepCountIs, tool, jsonSchema } = await load("ai");
const options = { baseURL: `http://${address}/v1`, apiKey: "any" };
const model = await {
    completions: async () => (await load("@ai-sdk/openai")).createOpenAI(options).chat("m"),
    responses: async () => (await load("@ai-sdk/openai")).createOpenAI(options).responses("m"),
    messages: async () => (await load("@ai-sdk/anthropic")).createAnthropic(options)("m"),
    compatible: async () =>
        (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "any", ...options })("m"),
}[provider]();

const fixed = { model, maxRetries: 0 };
const user = (content) => ({ role: "user", content });
const talk = [user("What can I bake for Lena?")];
const first = await generateText({ ...fixed, messages: talk });
talk.push(...first.response.messages, user("And to drink?"));
const second = streamText({ ...fixed, messages: talk });
let streamed = "";
for await (const text of second.textStream) streamed += text;
talk.push(...(await second.response).messages, user("What does the cake cost?"));
const inputSchema = jsonSchema({ type: "object", properties: { item: { type: "string" } }, required: ["item"] });
const shop = tool({ inputSchema, execute: ({ item }) => `${item}: 20 euros.` });
const third = await generateText({ ...fixed, messages: talk, tools: { shop }, stopWhen: (isStepCount ?? stepCountIs)(2) });
const [call] = third.steps[0].toolCalls;
const found = { answer: first.text, streamed, called: [call.toolName, call.input], after_tool: third.text };
console.log(JSON.stringify(found));
