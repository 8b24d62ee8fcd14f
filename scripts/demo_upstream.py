"""Stands in for a language model in `make demo`: answers a chat with the message that it was sent, so that one
sees what a model would read. Writes its address to a file: demo_upstream.py FILE."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text_of(content):
    """The text of a message, whose content may be parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802, the name is http.server's
        self.send_json({"object": "list", "data": [{"id": "demo", "object": "model", "owned_by": "demo"}]})

    def do_POST(self):  # noqa: N802
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = [m for m in request["messages"] if m["role"] == "user"][-1]
        answer = "There is no language model in this demo. One would have read:\n\n" + text_of(said["content"])
        completion = {"id": "chatcmpl-demo", "created": 0, "model": "demo"}
        choice = {"index": 0, "finish_reason": "stop"}
        if not request.get("stream"):
            message = {"role": "assistant", "content": answer}
            choices = [{**choice, "message": message}]
            return self.send_json({**completion, "object": "chat.completion", "choices": choices})
        chunks = [{"index": 0, "delta": {"content": answer}, "finish_reason": None}, {**choice, "delta": {}}]
        events = [{**completion, "object": "chat.completion.chunk", "choices": [chunk]} for chunk in chunks]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
        self.send("text/event-stream", "".join(lines))

    def send_json(self, document):
        self.send("application/json", json.dumps(document))

    def send(self, kind, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing: what is said to a model is nobody else's."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".new", "w", encoding="utf-8") as file:
    file.write(f"http://127.0.0.1:{server.server_port}/v1")
os.replace(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
