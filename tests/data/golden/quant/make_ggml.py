"""Writes ggml.safetensors: random blocks of the GGUF formats that quant.safetensors lacks, and their values
by the gguf package's own dequantisation (pip install gguf safetensors)."""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize
from safetensors.numpy import save_file

ROWS, COLS = 4, 512
HALVES = {T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108], T.IQ4_NL: [0], T.IQ4_XS: [0]}
rng = np.random.default_rng(20261121)
out = {}
for t, halves in HALVES.items():
    cols, size = GGML_QUANT_SIZES[t]
    blocks = rng.integers(0, 256, (ROWS, COLS // cols, size), dtype=np.uint8)
    for at in halves:  # scales: finite halves of every magnitude, negative ones too
        d = (rng.standard_normal((ROWS, COLS // cols)) * 10.0 ** rng.uniform(-6, 2, (ROWS, COLS // cols)))
        blocks[:, :, at:at + 2] = d.astype("<f2").view(np.uint8).reshape(ROWS, COLS // cols, 2)
    blocks = blocks.reshape(ROWS, -1)
    out[f"gguf.{t.name}.bytes"] = blocks
    out[f"gguf.{t.name}.f32"] = dequantize(blocks, t).astype(np.float32)
save_file(out, "ggml.safetensors")
