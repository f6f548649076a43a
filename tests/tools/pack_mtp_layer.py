"""Packs what train_mtp_layer.py wrote: mtp.safetensors for the model's folder, MLX format, linear weights mxfp4; and writes a golden.

usage: pack_mtp_layer.py mtp.safetensors MODEL_DIR GOLDEN_DIR
MODEL_DIR gets the file, and must say in its config.json that layer num_hidden_layers is dense (mlp_only_layers) and how wide it is
(intermediate_size). GOLDEN_DIR gets golden.safetensors: hidden states and token ids, what the layer makes of them in float32 by an
implementation of its own (numpy, on the dequantized weights), and what it makes of its own last output. Needs numpy.
"""
import json, struct, sys
import numpy as np
from pack_draft_model import bf16, mxfp4, read, write

weights, model_dir, golden_dir = sys.argv[1:4]
CFG = json.load(open(f"{model_dir}/config.json"))
D, H, KV, HD, EPS, THETA = (CFG[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta"))

out, w = {}, {}
for name, x in read(weights):
    stem = name.removesuffix(".weight")
    w[stem.removeprefix("mtp.")] = x.astype(np.float64)  # linear ones are what mxfp4 keeps already
    if x.ndim == 2:
        out[name], out[stem + ".scales"] = mxfp4(x)
    else:
        out[name] = bf16(x)
print(write(f"{model_dir}/mtp.safetensors", out), "bytes")


def norm(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * g


def rope(x, at):  # [T, heads, HD]
    angle = np.outer(at, THETA ** (-np.arange(0, HD, 2) / HD))[:, None]
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def layer(embedded, hidden, past):
    """Rows behind those of `past`, a list of (k, v) by position; it grows."""
    x = np.concatenate([norm(embedded, w["pre_fc_norm_embedding"]), norm(hidden, w["pre_fc_norm_hidden"])], -1) @ w["fc"].T
    a = lambda n: w[f"layers.0.self_attn.{n}"]
    h = norm(x, w["layers.0.input_layernorm"])
    at = len(past) + np.arange(len(x))
    q, k, v = (h @ a(f"{n}_proj").T for n in "qkv")
    q = rope(norm(q.reshape(-1, H, HD), a("q_norm")), at)
    k = rope(norm(k.reshape(-1, KV, HD), a("k_norm")), at)
    past += list(zip(k, v.reshape(-1, KV, HD)))
    mixed = np.zeros((len(x), H, HD))
    for i, p in enumerate(at):
        for head in range(H):
            keys, values = (np.stack([row[j][head // (H // KV)] for row in past[:p + 1]]) for j in (0, 1))
            s = keys @ q[i, head] / np.sqrt(HD)
            s = np.exp(s - s.max())
            mixed[i, head] = s / s.sum() @ values
    x = x + mixed.reshape(len(x), -1) @ a("o_proj").T
    h = norm(x, w["layers.0.post_attention_layernorm"])
    m = lambda n: w[f"layers.0.mlp.{n}_proj"]
    g = h @ m("gate").T
    x = x + (g / (1 + np.exp(-g)) * (h @ m("up").T)) @ m("down").T
    return norm(x, w["norm"])


def embeddings(ids):
    """Rows of the model's embedding: affine, 8 bits, groups of 64."""
    raw = open(f"{model_dir}/model.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    table = json.loads(raw[8:8 + n])

    def rows(part, kind):
        t = table["model.embed_tokens." + part]
        return np.frombuffer(raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]], dtype=kind).reshape(t["shape"][0], -1)[ids]

    wide = lambda b: (b.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    q = rows("weight", np.uint8).reshape(len(ids), -1, 64)
    return (q * wide(rows("scales", np.uint16))[..., None] + wide(rows("biases", np.uint16))[..., None]).reshape(len(ids), -1)


rng = np.random.default_rng(1)
ids = rng.integers(0, CFG["vocab_size"], 12).astype(np.int32)
given = (rng.standard_normal((10, D)) * 3).astype(np.float32)
past = []
made = layer(embeddings(ids[:10]), given.astype(np.float64), past)
chain = [made[-1:]]
for i in (10, 11):  # each goes on from the output before it
    chain.append(layer(embeddings(ids[i:i + 1]), chain[-1], past))
made = np.concatenate([made] + chain[1:])
write(f"{golden_dir}/golden.safetensors", {"ids": ids, "given": given, "made": made.astype(np.float32)})
