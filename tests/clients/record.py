"""What a client sends, written down: a server that the client asks, in front of a gateway or alone, and a stand-in for
the models behind the gateway."""

import gzip
import http.client
import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = "A lemon cake."
AFTER_TOOL = "The lemons are missing."
# A message of the user's with one of these words is answered by a call of the tool.
CALLING = ("shopping.txt", "cost")
USAGE = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}


class Recorder:
    """Answers clients, or passes on what they send, and keeps it."""

    def __init__(self):
        self.requests = []
        self.tool, self.call = None, None
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), kind) for kind in (Front, Upstream)]
        for server in self.servers:
            server.recorder = self
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.front, self.upstream = (f"127.0.0.1:{server.server_port}" for server in self.servers)
        # Where the requests go: a gateway, where there is one.
        self.target = self.upstream

    def use(self, tool, arguments, namespace=None):
        """Has the model call a tool of the client's."""
        self.tool, self.call = tool, {"name": tool, "arguments": json.dumps(arguments)}
        if namespace:
            self.call["namespace"] = namespace

    def reply(self, path, body):
        """The answer to a request, JSON or the events of a stream, and what the model says and calls in it."""
        path = path.split("?")[0]
        if path.endswith("/models"):
            return {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "o"}]}, None, None
        if path.endswith("/count_tokens"):
            return {"input_tokens": 9}, None, None
        ways = {"/chat/completions": completion, "/messages": message, "/responses": response}
        way = next((way for end, way in ways.items() if path.endswith(end)), None)
        if way is None:
            return None, None, None
        request = json.loads(body)
        text, tool = self.answer_to(request)
        return way(request, text, tool and self.call), text, tool

    def answer_to(self, request):
        """What the model says, or the tool that it calls."""
        items = request.get("messages") or request.get("input") or []
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        last = next((i for i in reversed(items) if i.get("role") not in ("system", "developer")), {})
        is_result = (
            last.get("role") == "tool"
            or str(last.get("type", "")).endswith("_output")
            or any(p.get("type") == "tool_result" for p in last.get("content") or [] if isinstance(p, dict))
        )
        if is_result:
            return AFTER_TOOL, None
        tools = request.get("tools") or []
        tools = tools + [one for tool in tools for one in tool.get("tools", [])]
        names = [tool.get("name") or tool.get("function", {}).get("name") for tool in tools]
        if self.tool in names and any(word in last_texts(last) for word in CALLING):
            return "", self.tool
        return WORDS, None


class Base(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def log_message(self, *_):
        """Says nothing."""


def last_texts(message):
    """The texts of a message or an item."""
    content = message.get("content")
    if isinstance(content, str):
        return without_memories(content)
    texts = "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))
    return without_memories(texts)


def without_memories(text):
    """A text as the client sent it: a gateway puts memories before it."""
    return re.sub(r"<memory\b.*?</memory>", "", text, flags=re.DOTALL)


def completion(request, text, tool):
    call = {"id": "call_1", "type": "function", "function": tool}
    base = {"id": "chatcmpl-1", "created": 1, "model": request.get("model", "m")}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    reason = "tool_calls" if tool else "stop"
    if not request.get("stream"):
        message = {"role": "assistant", "content": text or None, **({"tool_calls": [call]} if tool else {})}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    delta = {"role": "assistant", **({"tool_calls": [{"index": 0, **call}]} if tool else {"content": text})}
    chunks = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append({"choices": [], "usage": usage})
    chunks = [{**base, "object": "chat.completion.chunk", **chunk} for chunk in chunks]
    return [(None, json.dumps(chunk)) for chunk in chunks] + [(None, "[DONE]")]


def message(request, text, tool):
    block = {"type": "tool_use", "id": "call_1", "name": tool["name"], "input": json.loads(tool["arguments"])} if tool else {"type": "text", "text": text}
    reason = "tool_use" if tool else "end_turn"
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model", "m")}
    usage = {"input_tokens": 9, "output_tokens": 4}
    if not request.get("stream"):
        return {**base, "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}
    start = {**block, "input": {}} if tool else {"type": "text", "text": ""}
    delta = {"type": "input_json_delta", "partial_json": tool["arguments"]} if tool else {"type": "text_delta", "text": text}
    events = [
        {"type": "message_start", "message": {**base, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return [(event["type"], json.dumps(event)) for event in events]


def response(request, text, tool):
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}
    if tool:
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", **tool, "status": "completed"}
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": request.get("model", "m"), "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    usage = {**USAGE, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {**base, "status": "completed", "output": [item], "usage": usage}
    if not request.get("stream"):
        return whole
    events = [
        {"type": "response.created", "response": {**base, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", **({"arguments": ""} if tool else {"content": []})}},
    ]
    if tool:
        events += [
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": tool["arguments"]},
            {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, **tool},
        ]
    else:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        events += [
            {"type": "response.content_part.added", **place, "part": part},
            {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []},
            {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": {**part, "text": text}},
        ]
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [(e["type"], json.dumps({**e, "sequence_number": n})) for n, e in enumerate(events)]


class Upstream(Base):
    def answer(self):
        body = self.body()
        answer, _, _ = self.server.recorder.reply(self.path, body) if self.command in ("GET", "POST") else (None,) * 3
        if isinstance(answer, list):
            lines = [(f"event: {kind}\n" if kind else "") + f"data: {data}\n\n" for kind, data in answer]
            return self.send(200, "text/event-stream", "".join(lines).encode())
        status = 404 if answer is None else 200
        return self.send(status, "application/json", json.dumps(answer or {"error": {"message": "none", "type": "not_found"}}).encode())

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = answer


class Front(Upstream):
    def answer(self):
        body, recorder = self.body(), self.server.recorder
        headers = list(self.headers.items())
        kept = plain(self.headers, body)
        _, text, tool = recorder.reply(self.path, kept) if self.command == "POST" else (None,) * 3
        told = {"says": text, "calls": tool}
        recorder.requests.append({"method": self.command, "path": self.path, "headers": headers, "body": kept, **told})
        connection = http.client.HTTPConnection(recorder.target, timeout=60)
        skipped = ("host", "connection", "transfer-encoding", "content-length")
        sent = {name: value for name, value in headers if name.lower() not in skipped}
        connection.request(self.command, self.path, body or None, sent)
        answer = connection.getresponse()
        whole = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(whole)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(whole)

    do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = answer


def plain(headers, body):
    """A body without its encoding."""
    coding = headers.get("content-encoding")
    if coding == "gzip":
        return gzip.decompress(body)
    if coding == "zstd":
        return subprocess.run(["zstd", "-dc"], input=body, capture_output=True, check=True).stdout
    return body
