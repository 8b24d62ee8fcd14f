// Lets @modelcontextprotocol/conformance run on Node.js 20, which lacks a function that only its check of repositories
// calls. For node's option --import.

import { register } from "node:module";

const fs = 'export * from "node:fs"; export const globSync = undefined;';
const url = "data:text/javascript," + encodeURIComponent(fs);
const hook = `export const resolve = (name, context, next) =>
    name === "fs" && context.parentURL?.includes("/conformance/dist/")
        ? { url: ${JSON.stringify(url)}, shortCircuit: true }
        : next(name, context);`;
register("data:text/javascript," + encodeURIComponent(hook));
