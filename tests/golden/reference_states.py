"""Independent numpy reference (f64) of gated DeltaNet's states in tests/data/golden/qwen35moe, forms mlx-mixed3 and gguf-q8_0. Run by hand:
    pip install numpy safetensors gguf; reference_states.py DIR
DIR holds qwen35moe. Each layer starts from the reference's own residual stream (trace/FORM/p17/layers.I-1.after_ffn, or the
embedding), so that only DeltaNet is computed here. Writes DIR/states.safetensors: state/FORM/p17/layers.I.conv [channels, 3] and
.recurrent [n_v_head, d_k, d_v], heads in the order of the Hugging Face file. With a second argument FORM (an MLX folder) instead:
checks layer 0 of p65 and p300 against the published states in DIR/logits.safetensors."""
import json, struct, sys
import numpy as np
from safetensors.numpy import load_file, save_file
import gguf
N_K, N_V, D, EPS = 2, 6, 32, 1e-6
FIRST_V, EACH = 2 * N_K * D, N_V // N_K

def bf16(u): return (u.astype(np.uint32) << 16).view(np.float32)

class Mlx:
    def __init__(self, path):
        raw = open(f'{path}/model.safetensors', 'rb').read()
        n = struct.unpack('<Q', raw[:8])[0]
        self.h, self.raw = json.loads(raw[8:8 + n]), raw[8 + n:]
        self.q = json.load(open(f'{path}/config.json'))['quantization']
    def plain(self, name):
        t = self.h[name]; a, b = t['data_offsets']
        kind = {'BF16': np.uint16, 'F32': np.float32, 'U32': np.uint32}[t['dtype']]
        v = np.frombuffer(self.raw[a:b], kind).reshape(t['shape'])
        return bf16(v) if t['dtype'] == 'BF16' else v
    def __call__(self, module, leaf='.weight'):
        module = 'language_model.model.' + module
        w = self.plain(module + leaf)
        if leaf != '.weight' or module + '.scales' not in self.h: return w.astype(np.float64)
        q = self.q.get(module, self.q); bits, group = q['bits'], q['group_size']
        stream = np.unpackbits(np.ascontiguousarray(w).view(np.uint8), axis=1, bitorder='little').reshape(len(w), -1, bits)
        codes = (stream * (1 << np.arange(bits))).sum(-1).reshape(len(w), -1, group)
        s, b = self.plain(module + '.scales')[..., None], self.plain(module + '.biases')[..., None]
        return (codes * s.astype(np.float64) + b).reshape(len(w), -1)
    def layer(self, i):
        p = f'layers.{i}.linear_attn.'
        return dict(norm=self(f'layers.{i}.input_layernorm'), qkv=self(p + 'in_proj_qkv'), a=self(p + 'in_proj_a'), b=self(p + 'in_proj_b'),
                    conv=self(p + 'conv1d').reshape(-1, 4), decay=-np.exp(self(p + 'A_log', '')), dt=self(p + 'dt_bias', ''))
    def embed(self): return self('embed_tokens')

class Gguf: # value heads lie tiled: published head h is number h % EACH * N_K + h / EACH
    def __init__(self, path): self.t = {t.name: t for t in gguf.GGUFReader(path).tensors}
    def __call__(self, name): return gguf.quants.dequantize(self.t[name].data, self.t[name].tensor_type).astype(np.float64)
    def layer(self, i):
        p = f'blk.{i}.'
        heads = np.array([h % EACH * N_K + h // EACH for h in range(N_V)])
        rows = np.concatenate([np.arange(FIRST_V), FIRST_V + (heads[:, None] * D + np.arange(D)).ravel()])
        return dict(norm=self(p + 'attn_norm.weight'), qkv=self(p + 'attn_qkv.weight')[rows], a=self(p + 'ssm_alpha.weight')[heads],
                    b=self(p + 'ssm_beta.weight')[heads], conv=self(p + 'ssm_conv1d.weight')[rows], decay=self(p + 'ssm_a')[heads],
                    dt=self(p + 'ssm_dt.bias')[heads])
    def embed(self): return self('token_embd.weight')

def states(w, x):
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w['norm']
    raw = x @ w['qkv'].T
    late = np.concatenate([np.zeros((3, raw.shape[1])), raw])
    mixed = sum(late[i:i + len(raw)] * w['conv'][:, i] for i in range(4))
    mixed = mixed / (1 + np.exp(-mixed))
    k = mixed[:, N_K * D:FIRST_V].reshape(-1, N_K, D)
    k = np.repeat(k / np.sqrt((k * k).sum(-1, keepdims=True) + EPS), EACH, axis=1)
    v = mixed[:, FIRST_V:].reshape(-1, N_V, D)
    decay = np.exp(w['decay'] * np.log1p(np.exp(x @ w['a'].T + w['dt'])))
    strength = 1 / (1 + np.exp(-(x @ w['b'].T)))
    S = np.zeros((N_V, D, D))
    for t in range(len(x)):
        S = S * decay[t][:, None, None]
        held = np.einsum('hkv,hk->hv', S, k[t])
        S = S + np.einsum('hk,hv->hkv', k[t], (v[t] - held) * strength[t][:, None])
    return late[-3:].T, S

def check(root, form, truth, prompts):
    m = Mlx(f'{root}/{form}')
    for p in 'p65', 'p300':
        for name, ours in zip(('conv', 'recurrent'), states(m.layer(0), m.embed()[prompts[p]])):
            d = np.abs(ours - truth[f'state/{form}/{p}/layers.0.{name}']).max()
            print(f'{form} {p} {name}: {d:.2e}')
            assert d < 1e-5

def main():
    root = sys.argv[1] + '/qwen35moe'
    truth, prompts = load_file(f'{root}/logits.safetensors'), json.load(open(f'{root}/golden.json'))['prompts']
    if len(sys.argv) > 2: return check(root, sys.argv[2], truth, prompts)
    out = {}
    for form, m, layers in ('mlx-mixed3', Mlx(f'{root}/mlx-mixed3'), (0, 1, 2)), ('gguf-q8_0', Gguf(f'{root}/gguf/q8_0.gguf'), (1,)):
        for i in layers:
            x = truth[f'trace/{form}/p17/layers.{i - 1}.after_ffn'].astype(np.float64) if i else m.embed()[prompts['p17']]
            conv, recurrent = states(m.layer(i), x)
            out[f'state/{form}/p17/layers.{i}.conv'] = np.ascontiguousarray(conv, np.float32)
            out[f'state/{form}/p17/layers.{i}.recurrent'] = np.ascontiguousarray(recurrent, np.float32)
    save_file(out, f'{root}/states.safetensors')
main()
