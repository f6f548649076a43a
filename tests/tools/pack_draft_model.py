"""Makes a model folder of what train_draft_model.py or train_dflash.py wrote: MLX format, linear weights mxfp4, embedding (if any) affine 4-bit.

usage: pack_draft_model.py NAME.safetensors NAME.json MODEL_DIR OUT_DIR
MODEL_DIR is the model that it drafts for: its special token ids are taken over. Needs numpy.
"""
import json, struct, sys
import numpy as np

GRID = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
EDGE = np.array([.25, .75, 1.25, 1.75, 2.5, 3.5, 5], dtype=np.float32)


def read(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            bits = np.frombuffer(raw[8 + n + a:8 + n + b], dtype=np.uint16).astype(np.uint32) << 16
            yield name, bits.view(np.float32).reshape(t["shape"])


def bf16(x):
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def words(values, bits):
    v = values.reshape(*values.shape[:-1], -1, 32 // bits).astype(np.uint32)
    return (v << (bits * np.arange(32 // bits, dtype=np.uint32))).sum(-1, dtype=np.uint32)


def mxfp4(w):
    g = w.reshape(*w.shape[:-1], -1, 32)
    e = np.clip(np.ceil(np.log2(np.maximum(np.abs(g).max(-1, keepdims=True), 1e-20) / 6)), -127, 127)
    code = np.searchsorted(EDGE, np.abs(g / np.exp2(e))) + 8 * (g < 0)
    return words(code.reshape(w.shape), 4), (e[..., 0] + 127).astype(np.uint8)


def affine(w, bits, group):
    """Each group with the range, its own or a part of it, that errs least."""
    g = w.reshape(*w.shape[:-1], -1, group)
    most = (1 << bits) - 1
    middle, half = (g.max(-1, keepdims=True) + g.min(-1, keepdims=True)) / 2, (g.max(-1, keepdims=True) - g.min(-1, keepdims=True)) / 2
    wide = lambda b: (b.astype(np.uint32) << 16).view(np.float32)
    best = None
    for part in np.linspace(.7, 1, 13):
        scale, bias = bf16(np.maximum(2 * half * part / most, 1e-8)), bf16(middle - half * part)
        q = np.clip(np.rint((g - wide(bias)) / wide(scale)), 0, most)
        one = [((q * wide(scale) + wide(bias) - g) ** 2).sum(-1, keepdims=True), q, scale, bias]
        best = one if best is None else [np.where(one[0] < best[0], x, y) for x, y in zip(one, best)]
    return words(best[1].reshape(w.shape), bits), best[2][..., 0], best[3][..., 0]


EMBEDDING = {"bits": 4, "group": 64}
TYPE = {"uint32": "U32", "int32": "I32", "uint16": "BF16", "uint8": "U8", "float32": "F32"}


def write(path, tensors):
    """A safetensors file, wide values first so that all are aligned. Returns the bytes of the values."""
    header, at = {"__metadata__": {"format": "mlx"}}, 0
    order = sorted(tensors, key=lambda n: (-tensors[n].itemsize, n))
    for n in order:
        header[n] = {"dtype": TYPE[tensors[n].dtype.name], "shape": list(tensors[n].shape), "data_offsets": [at, at + tensors[n].nbytes]}
        at += tensors[n].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for n in order:
            f.write(np.ascontiguousarray(tensors[n]).tobytes())
    return at


def main():
    weights, about, model_dir, out_dir = sys.argv[1:5]
    out = {}
    for name, w in read(weights):
        stem = name.removesuffix(".weight")
        if stem == "model.embed_tokens":
            out[name], out[stem + ".scales"], out[stem + ".biases"] = affine(w, **EMBEDDING)
        elif w.ndim == 2:
            out[name], out[stem + ".scales"] = mxfp4(w)
        else:
            out[name] = bf16(w)
    at = write(f"{out_dir}/model.safetensors", out)
    model = json.load(open(f"{model_dir}/config.json"))
    quantization = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
    if "model.embed_tokens.weight" in out:
        quantization["model.embed_tokens"] = {"group_size": EMBEDDING["group"], "bits": EMBEDDING["bits"], "mode": "affine"}
    own = json.load(open(about))["config"]
    config = {"architectures": ["Qwen3ForCausalLM"], **own, "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False,
              "tie_word_embeddings": True, "rope_scaling": None, "use_sliding_window": False, "torch_dtype": "bfloat16",
              **{k: model[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")}, "quantization": quantization, "quantization_config": quantization}
    json.dump(config, open(f"{out_dir}/config.json", "w"), indent=1)
    print(out_dir, at, "bytes of weights")


if __name__ == "__main__":  # pack_mtp_layer.py takes the packing from here
    main()
