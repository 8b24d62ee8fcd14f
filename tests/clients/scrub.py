"""Makes a fixture of what a client sent: without the machine it ran on, and without its prompts, of which only the form
is kept."""

import json
import re

# Headers of a connection, of a library and its platform.
DROPPED = re.compile(
    r"^(host|connection|content-length|content-encoding|transfer-encoding|accept.*|x-stainless-.*|anthropic-dangerous-.*"
    r"|sec-fetch-.*|x-client-request-id|x-codex-turn-metadata|x-codex-installation-id|traceparent|tracestate)$"
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Most of a text that is kept, at its beginning and at its end.
BEGIN, END = 100, 40
# What the gateway knows a text by, wherever it stands in it.
MARKS = ["<summary>", "handoff summary", "</session>", "\n\nConversation:\n", "\n## Files\nRead:\n"]


class Scrub:
    """Scrubs the requests of a client; equal ids stay equal."""

    def __init__(self, places, typed):
        """`places` are paths of this machine with what takes their place, `typed` what the user typed."""
        self.places, self.typed, self.ids = places, typed, {}

    def request(self, request):
        headers = {name.lower(): value for name, value in request["headers"]}
        headers = {name: self.plain(value) for name, value in headers.items() if not DROPPED.match(name)}
        if agent := headers.get("user-agent"):
            headers["user-agent"] = agent.split(" (")[0]
        for name in ("authorization", "x-api-key"):
            if name in headers:
                headers[name] = "Bearer any" if headers[name].startswith("Bearer ") else "any"
        told = {"calls": request["calls"]} if request["calls"] else {"says": request["says"]}
        body = self.body(json.loads(request["body"]))
        return {"path": request["path"], "headers": headers, "body": body, **told}

    def plain(self, text):
        """A text without paths, ids and times."""
        for place, name in self.places:
            text = text.replace(place, name)

        def id_of(found):
            # Those that the capture chose are no secret.
            number = self.ids.setdefault(found[0], len(self.ids) + 1)
            return f"00000000-0000-4000-8000-{number:012}"

        text = UUID.sub(id_of, text)
        text = re.sub(r"\b[0-9a-f]{64}\b", "0" * 64, text)
        return re.sub(r"\b1[789]\d{11}\b", "1700000000000", text)

    def body(self, body):
        kept = {}
        for name, value in body.items():
            if name in ("system", "instructions"):
                kept[name] = self.hidden(value)
            elif name == "tools":
                kept[name] = [self.tool(tool) for tool in value[:1]]
            elif name == "client_metadata":
                continue
            elif name in ("messages", "input") and isinstance(value, list):
                kept[name] = [self.message(message) for message in value]
            else:
                kept[name] = self.short(value)
        return kept

    def tool(self, tool):
        """The form of a tool."""
        schema = {"type": "object", "properties": {}}
        if "function" in tool:
            return {"type": "function", "function": {"name": tool["function"]["name"], "parameters": schema}}
        kept = {name: tool[name] for name in ("type", "name") if name in tool}
        name = "input_schema" if "input_schema" in tool else "parameters"
        return {**kept, name: schema}

    def message(self, message):
        role = message.get("role")
        way = self.hidden if role in ("system", "developer") else self.said if role == "user" else self.short
        return {name: way(value) if name == "content" else self.short(value) for name, value in message.items()}

    def hidden(self, value):
        """Instructions of the client's: their form alone."""
        if isinstance(value, str):
            return "(instructions)"
        return [{**self.short(part), "text": "(instructions)"} for part in value]

    def said(self, value):
        if isinstance(value, str):
            return self.words(value)
        return [{n: self.words(v) if n == "text" else self.short(v) for n, v in part.items()} for part in value]

    def words(self, text):
        """A text in the user's name: what stands in elements of the client's is cut, what the user typed stays."""
        typed = max((words for words in self.typed if words in text), key=len, default=None)
        if text == typed:
            return text
        if typed is None:
            return self.cut(self.plain(text))
        before, after = text.split(typed, 1)
        return self.around(before) + typed + self.around(after)

    def around(self, text):
        inside = lambda found: f"<{found[1]}{found[2]}>…</{found[1]}>"  # noqa: E731
        return self.cut(re.sub(r"<([a-z][\w-]*)([^>]*)>.*?</\1>", inside, self.plain(text), flags=re.DOTALL))

    def cut(self, text):
        if len(text) <= BEGIN + END:
            return text
        ends = text[:BEGIN], text[-END:]
        marks = [mark for mark in MARKS if mark in text and not any(mark in end for end in ends)]
        return "…".join([ends[0], *marks, ends[1]])

    def short(self, value):
        """Any value, with its texts cut."""
        if isinstance(value, str):
            return self.cut(self.plain(value))
        if isinstance(value, list):
            return [self.short(one) for one in value]
        if isinstance(value, dict):
            return {name: self.short(one) for name, one in value.items()}
        return value
