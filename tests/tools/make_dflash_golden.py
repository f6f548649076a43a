"""Makes tests/data/dflash/golden.safetensors: what a tiny random DFlash drafter makes of random hidden states, in float64 by an implementation of its own.

usage: make_dflash_golden.py OUT.safetensors
The drafter is the one that tests/unit/support/drafter_folder.c writes for a model of 64 dimensions, 64 tokens and 2 layers, with
blocks of 5; its values come from the names, so none are stored. `context` are hidden states of 9 tokens from two layers, `block` the embeddings of
the text's last token and four mask tokens, `made` the rows of the block behind the final norm. Needs numpy.
"""
import sys
import numpy as np
from pack_draft_model import write

D, HEAD, HEADS, FF, LAYERS, CONTEXT, BLOCK = 64, 32, 2, 64, 2, 9, 5
M = (1 << 64) - 1


def tensor(name, *shape):
    seed = 0xCBF29CE484222325
    for c in name.encode():
        seed = (seed ^ c) * 0x100000001B3 & M
    out = np.empty(int(np.prod(shape)))
    for i in range(out.size):
        z = seed + (i + 1) * 0x9E3779B97F4A7C15 & M
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M
        z = (z ^ z >> 27) * 0x94D049BB133111EB & M
        z ^= z >> 31
        out[i] = (z >> 40) / (1 << 24) - .5
    vector = len(shape) == 1
    return (vector + out.reshape(shape) * (.5 if vector else 4 / np.sqrt(shape[-1]))).astype(np.float32).astype(np.float64)


def norm(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def rope(x, at):
    angle = np.outer(at, 10000. ** (-np.arange(0, HEAD, 2) / HEAD))[:, None]
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


rng = np.random.default_rng(3)
context = (rng.standard_normal((CONTEXT, 2 * D)) * 2).astype(np.float32)
block = rng.standard_normal((BLOCK, D)).astype(np.float32)
c = norm(context @ tensor("fc.weight", D, 2 * D).T, tensor("hidden_norm.weight", D))
x = block.astype(np.float64)
for n in range(LAYERS):
    w = lambda name, *shape: tensor(f"layers.{n}.{name}.weight", *shape)
    h = norm(x, w("input_layernorm", D))
    rows = np.concatenate([c, h])
    at = np.arange(len(rows))
    k = rope(norm((rows @ w("self_attn.k_proj", HEAD, D).T).reshape(-1, 1, HEAD), w("self_attn.k_norm", HEAD)), at)[:, 0]
    v = rows @ w("self_attn.v_proj", HEAD, D).T
    q = rope(norm((h @ w("self_attn.q_proj", HEADS * HEAD, D).T).reshape(-1, HEADS, HEAD), w("self_attn.q_norm", HEAD)), at[CONTEXT:])
    s = np.einsum("thd,kd->thk", q, k) / np.sqrt(HEAD)
    s = np.exp(s - s.max(-1, keepdims=True))
    mixed = (s / s.sum(-1, keepdims=True)) @ v
    x = x + mixed.reshape(BLOCK, -1) @ w("self_attn.o_proj", D, HEADS * HEAD).T
    h = norm(x, w("post_attention_layernorm", D))
    g = h @ w("mlp.gate_proj", FF, D).T
    x = x + (g / (1 + np.exp(-g)) * (h @ w("mlp.up_proj", FF, D).T)) @ w("mlp.down_proj", D, FF).T
write(sys.argv[1], {"context": context, "block": block, "made": norm(x, tensor("norm.weight", D)).astype(np.float32)})
