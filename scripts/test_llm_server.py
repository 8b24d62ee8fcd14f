"""Serves one GGUF file on a free port of 127.0.0.1, in OpenAI's protocol, until it is ended.

Usage: test_llm_server.py MODEL. Prints the address when it answers. Part of scripts/test-llm.
"""

import os
import signal
import sys

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
# Room for our longest prompts and their answers.
parameters.n_ctx = 8192
parameters.n_parallel = 1
parameters.cpuparams.n_threads = os.cpu_count()
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
