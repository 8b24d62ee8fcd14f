#!/usr/bin/env python3
"""Runs a client and writes what it sends to captured/CLIENT.json. README.md says how.

    capture.py CLIENT FOLDER [--database CONNECTION --program MEMORY_AGENT]

FOLDER has the installed client. With --database, its requests go through a gateway.
"""

import argparse
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import AFTER_TOOL, WORDS, Recorder
from scrub import Scrub

HERE = Path(__file__).parent
GATEWAY = HERE.parent / "e2e/tests/gateway"
BAKE, DRINK = "What can I bake for Lena?", "And to drink?"
LIST, AGENT = "And what is missing in shopping.txt?", "Let an agent read shopping.txt."
COST = "What does the cake cost?"
# How a text on a terminal ends, and what typing waits for.
ENTER, PATIENCE = "\r", 20


class Run:
    """A client on its way: its folders, the servers, and what it printed."""

    def __init__(self, folder, recorder):
        self.folder, self.recorder, self.printed = Path(folder).resolve(), recorder, ""
        self.home, self.work = (Path(tempfile.mkdtemp(prefix=f"{name}-")) for name in ("home", "work"))
        (self.work / "shopping.txt").write_text("flour\n")

    def address(self):
        return self.recorder.front

    def environment(self, more):
        closed = "http://127.0.0.1:9"
        fixed = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "xterm-256color"}
        # Nothing but the recorder is reached.
        fixed |= {"HTTP_PROXY": closed, "HTTPS_PROXY": closed, "NO_PROXY": "127.0.0.1", "DO_NOT_TRACK": "1"}
        return fixed | more

    def call(self, command, **more):
        command = [str(word) for word in command]
        done = subprocess.run(
            command, cwd=self.work, env=self.environment(more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
        self.printed += done.stdout
        if done.returncode:
            sys.exit(f"{command[0]}: {done.returncode}\n{done.stdout}{done.stderr}")

    def type(self, command, lines, **more):
        """Types lines into a terminal, each when the client has been silent for a while."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.work)
            os.execvpe(str(command[0]), [str(word) for word in command], self.environment(more))
        for line in ["", *lines]:
            self.read(terminal)
            os.write(terminal, line.encode())
            self.read(terminal)
            os.write(terminal, ENTER.encode())
        self.read(terminal)
        os.kill(child, signal.SIGTERM)
        os.close(terminal)
        os.waitpid(child, 0)

    def read(self, terminal, quiet=3):
        """What the client writes until it is quiet."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and select.select([terminal], [], [], quiet)[0]:
            try:
                written = os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                return
            # Programs move the cursor where others write a blank.
            self.printed += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", re.sub(r"\x1b\[\d*C", " ", written))


def claude(run, *arguments, typed=()):
    program = run.folder / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    off = ("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER")
    more = {"ANTHROPIC_BASE_URL": f"http://{run.address()}", "ANTHROPIC_API_KEY": "any", **dict.fromkeys(off, "1")}
    settled = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(run.work): settled}}
    settings["customApiKeyResponses"] = {"approved": ["any"], "rejected": []}
    if not (run.home / ".claude.json").exists():
        (run.home / ".claude.json").write_text(json.dumps(settings))
    way = (lambda command, **more: run.type(command, typed, **more)) if typed else run.call
    way([program, *arguments], **more)


def claude_turns(run):
    session = "11111111-1111-4111-8111-111111111111"
    claude(run, "-p", "--session-id", session, BAKE)
    claude(run, "-p", "--resume", session, LIST)


def claude_agent(run):
    claude(run, "-p", "--allowedTools", "Agent", "--", AGENT)


def claude_terminal(run):
    claude(run, typed=[BAKE, "/compact", DRINK])


def codex(run, *arguments):
    provider = {"name": "any", "base_url": f"http://{run.address()}/v1", "env_key": "KEY", "wire_api": "responses"}
    settings = {"model_provider": "any", "model": "m", "analytics.enabled": False, "check_for_update_on_startup": False}
    settings |= {f"model_providers.any.{name}": value for name, value in provider.items()}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    options += ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    program = run.folder / "node_modules/@openai/codex/bin/codex.js"
    run.call(["node", program, "exec", *arguments, *options], KEY="any", CODEX_HOME=str(run.home))


def codex_turns(run):
    (run.work / "AGENTS.md").write_text("Use metric units.\n")
    codex(run, BAKE)
    codex(run, "resume", "--last", LIST)


def codex_compacts(run):
    codex(run, BAKE)
    codex(run, "resume", "--last", "-c", "model_auto_compact_token_limit=5", DRINK)


def codex_agent(run):
    codex(run, AGENT)


def cline(run, *arguments, typed=()):
    program = run.folder / "node_modules/.bin/cline"
    url = f"http://{run.address()}/v1"
    off = {"CLINE_TELEMETRY_DISABLED": "1"}
    run.call([program, "auth", "openai-compatible", "--apikey", "any", "--modelid", "m", "--baseurl", url], **off)
    options = ["-P", "openai-compatible", "-m", "m"]
    run.type([program, "-i", *options], typed, **off)
    # It leaves a process behind, which works for its other terminals.
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        words = command.read_bytes().split(b"\0") if command.exists() else []
        if b"--cline-hub-daemon" in words and str(run.work).encode() in words:
            os.kill(int(command.parent.name), signal.SIGTERM)


# It loses the first line of a terminal.
LOST = "Hello."


def cline_turns(run):
    cline(run, typed=[LOST, BAKE, LIST])


def cline_compacts(run):
    cline(run, typed=[LOST, BAKE, "/compact", DRINK])


def langchain(provider):
    return lambda run: python(run, "langchain_client.py", provider)


def litellm(provider):
    return lambda run: python(run, "litellm_client.py", provider, LITELLM_LOCAL_MODEL_COST_MAP="True")


def python(run, script, provider, **more):
    more |= {"PYTHONPATH": str(run.folder), "PYTHONDONTWRITEBYTECODE": "1"}
    run.call(["/usr/bin/python3", GATEWAY / "libraries" / script, provider, run.address()], **more)


def ai(provider):
    return lambda run: run.call(["node", GATEWAY / "libraries/ai_client.mjs", run.folder, provider, run.address()])


READ = ("Read", {"file_path": "{work}/shopping.txt"})
CLAUDE_AGENT = {"description": "Look", "prompt": "Say what is in the cupboard.", "subagent_type": "general-purpose"}
SHOP = ("shop", {"item": "cake"})
LIBRARY = [BAKE, DRINK, COST]
TITLE = ("<session>", "the title of a session")
COMPACTION = [
    ("CRITICAL: Respond with TEXT ONLY", "the summary of a conversation"),
    ("You are performing a CONTEXT CHECKPOINT", "the summary of a conversation"),
    ("Summarize this session for continuation", "the summary of a conversation"),
]
# Headers of requests that agents of the client's make.
AGENTS = ("x-claude-code-agent-id", "x-openai-subagent")


def library(way, providers):
    return [(f"through {provider}", way(provider), SHOP, LIBRARY) for provider in providers]


# Name, package, and conversations: what is in it, how to run it, the tool that the model calls, what the user types.
CLIENTS = {
    "claude-code": ("Claude Code", "@anthropic-ai/claude-code", [
        ("two turns, and a tool", claude_turns, READ, [BAKE, LIST]),
        ("an agent of the client's", claude_agent, ("Agent", CLAUDE_AGENT), [AGENT]),
        ("a terminal", claude_terminal, (), [BAKE, DRINK]),
    ]),
    "codex": ("Codex", "@openai/codex", [
        ("two turns, and a tool", codex_turns, ("exec_command", {"cmd": "cat shopping.txt"}), [BAKE, LIST]),
        ("a conversation that is condensed", codex_compacts, (), [BAKE, DRINK]),
        ("an agent of the client's", codex_agent, ("spawn_agent", {"message": "Say what is in the cupboard."}, "multi_agent_v1"), [AGENT]),
    ]),
    "cline": ("Cline", "cline", [
        ("two turns, and a tool", cline_turns, ("read_files", {"files": [{"path": "{work}/shopping.txt"}]}), [BAKE, LIST]),
        ("a conversation that is condensed", cline_compacts, (), [BAKE, DRINK]),
    ]),
    "langchain": ("LangChain", "langchain-core", library(langchain, ["completions", "responses", "messages"])),
    "litellm": ("LiteLLM", "litellm", library(litellm, ["completions", "messages"])),
    "ai": ("Vercel AI SDK", "ai", library(ai, ["completions", "responses", "messages", "compatible"])),
}  # fmt: skip


def start_gateway(program, database, recorder):
    """A gateway before the recorder's models, and where it is."""
    upstream = f"http://{recorder.upstream}/v1"
    command = [program, "serve", "--user", "ann", "--listen", "127.0.0.1:0", "--client-sessions", "--database", database]
    command += ["--upstream", upstream, "--messages-upstream", upstream]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if (told := json.loads(line)).get("event") == "listening":
            return process, told["address"]
    sys.exit("the gateway does not start")


def version_of(folder, package):
    # A program for one platform may be a package of its own.
    for installed in Path(folder).glob(f"node_modules/{package}*/package.json"):
        return json.loads(installed.read_text())["version"]
    [found] = Path(folder).glob(f"{package.replace('-', '_')}-*.dist-info")
    return found.name.split("-")[1].removesuffix(".dist")


def said_last(body):
    """The text that the user said last, as the client has it."""
    items = body.get("messages") or body.get("input")
    texts = [item["content"] for item in items if isinstance(item, dict) and item.get("role") == "user"]
    last = texts[-1] if texts else ""
    return last if isinstance(last, str) else "".join(part.get("text", "") for part in last)


def why_not(request):
    """What a request is, if it is none of the user's."""
    if any(name in request["headers"] for name in AGENTS):
        return "what agents of the client's are told"
    last = said_last(request["body"])
    return next((what for begin, what in [TITLE, *COMPACTION] if last.startswith(begin)), None)


def conversation(options, what, way, tool, typed):
    recorder = Recorder()
    run = Run(options.folder, recorder)
    if tool:
        name, arguments, *more = tool
        arguments = json.loads(json.dumps(arguments).replace("{work}", str(run.work)))
        recorder.use(name, arguments, *more)
    gateway = None
    if options.database:
        gateway, recorder.target = start_gateway(options.program, options.database, recorder)
    try:
        way(run)
    finally:
        if gateway:
            gateway.terminate()
        for folder in (run.home, run.work):
            shutil.rmtree(folder, ignore_errors=True)
    scrub = Scrub([(str(run.work), "/home/ann/project"), (str(run.home), "/home/ann"), (str(run.folder), "/client")], typed)
    asked = [scrub.request(request) for request in recorder.requests if request["says"] or request["calls"]]
    answers = [request.get("says") for request in asked if not why_not(request) and request.get("says")]
    for words in {WORDS, AFTER_TOOL} & set(answers):
        if words not in run.printed:
            sys.exit(f"{what}: the client does not show {words!r}: {run.printed}")
    for request in asked:
        if reason := why_not(request):
            request["not"] = reason
    return {"what": what, "typed": typed, "requests": asked}


def written(fixture):
    """A fixture with a request a line."""
    line = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731
    requests = [request for talk in fixture["conversations"] for request in talk["requests"]]
    talks = [{**talk, "requests": [f"@{requests.index(one)}@" for one in talk["requests"]]} for talk in fixture["conversations"]]
    text = json.dumps({**fixture, "conversations": talks}, indent=1, ensure_ascii=False)
    return re.sub(r'"@(\d+)@"', lambda found: line(requests[int(found[1])]), text) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("folder")
    parser.add_argument("--database")
    parser.add_argument("--program", default="memory-agent")
    options = parser.parse_args()
    name, package, conversations = CLIENTS[options.client]
    fixture = {"client": name, "package": package, "version": version_of(options.folder, package)}
    fixture["conversations"] = [conversation(options, *one) for one in conversations]
    file = HERE / "captured" / f"{options.client}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(written(fixture))
    print(file)


main()
