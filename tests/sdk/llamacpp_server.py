"""llama.cpp's own server, as the package xllamacpp brings it: python llamacpp_server.py MODEL.gguf prints its address and serves until its
standard input ends. Of tests/api/upstream_peers.test.mjs."""
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 2048
params.n_parallel = 2
params.cpuparams.n_threads = 1
params.port = 0 if len(sys.argv) < 3 else int(sys.argv[2])
params.api_keys = ["sk-of-the-peer"]
params.use_jinja = True
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
