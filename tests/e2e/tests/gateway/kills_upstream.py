# An upstream that can be killed: kills_upstream.py PORT. It says "Answer to " and what it was asked, word by
# word, with or without stream.
import json
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = body["messages"][-1]["content"].rsplit("Current message: ", 1)[-1]
        text = "Answer to " + asked
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            answer = json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            time.sleep(0.01)
            self.wfile.write(answer)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        words = text.split(" ")
        for number, word in enumerate(words):
            is_last = number + 1 == len(words)
            delta = {"content": word if is_last else word + " "}
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if is_last else None}
            event = json.dumps({"id": "c", "model": "m", "choices": [choice]})
            self.wfile.write(f"data: {event}\n\n".encode())
            time.sleep(0.005)
        self.wfile.write(b"data: [DONE]\n\n")


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
