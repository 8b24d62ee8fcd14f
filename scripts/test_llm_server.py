"""Serves one GGUF file on a free port of 127.0.0.1, in OpenAI's protocol, until it is ended.

Usage: test_llm_server.py MODEL. Prints the address when it answers. Part of scripts/test-llm.
"""

import os
import signal
import sys

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
# Two slots, which share the context: one keeps the beginning of the prompt for extraction, the other
# that for reconciliation. Both have room for our longest prompts and their answers.
parameters.n_ctx = 16384
parameters.n_parallel = 2
# Threads wait for each other by spinning: with one core left to others they never wait for long.
parameters.cpuparams.n_threads = int(os.environ.get("TEST_LLM_THREADS", max(1, (os.cpu_count() or 1) - 1)))
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
