"""Runs a program under a pseudo-terminal and does what a script says, as a person would: pty.py PROGRAM ARGUMENT...

The script comes on standard input, one JSON list a line: ["wait", TEXT] until the program has written that since
the last wait, ["type", TEXT], ["interrupt"] for Ctrl-C, ["end"] for Ctrl-D. Everything that the program wrote goes
to standard output, and the exit status is the program's."""

import json
import os
import pty
import select
import sys
import time

PATIENCE = 60

script = [json.loads(line) for line in sys.stdin]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])

written = b""
seen = 0


def read(until):
    """Reads what comes; whether the program goes on."""
    global written
    ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
    if not ready:
        sys.stdout.buffer.write(written)
        sys.exit("nothing more came")
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        return False
    written += piece
    return bool(piece)


for step, *argument in script:
    if step == "wait":
        wanted = argument[0].encode()
        until = time.monotonic() + PATIENCE
        while (place := written.find(wanted, seen)) < 0:
            if not read(until):
                sys.stdout.buffer.write(written)
                sys.exit(f"it ended before {argument[0]!r}")
        seen = place + len(wanted)
    else:
        text = {"type": lambda: argument[0].encode(), "interrupt": lambda: b"\x03", "end": lambda: b"\x04"}[step]()
        os.write(terminal, text)

until = time.monotonic() + PATIENCE
while read(until):
    pass
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(written)
sys.exit(os.waitstatus_to_exitcode(status))
