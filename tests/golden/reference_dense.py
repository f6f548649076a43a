"""Independent numpy reference (f64) of the dense families: llama (with and without Llama 3's rope scaling), qwen3, qwen2, each as
a plain folder and as GGUF with llama.cpp's permutation of q and k. Run by hand: pip install numpy safetensors gguf;
    reference_dense.py path/to/sluice
Random models of 3 layers; logits of all 50 positions with --exact must agree within 2e-3 (measured: 2e-5)."""
import json, math, os, shutil, subprocess, sys, tempfile
import numpy as np
from safetensors.numpy import save_file, load_file
import gguf
S = sys.argv[1]
DIR = tempfile.mkdtemp()
rng = np.random.default_rng(5)
H, L, NH, NK, D, F, V, T = 64, 3, 4, 2, 32, 96, 80, 50
def inv_freq(kind, base):
    f = 1.0 / base ** (np.arange(0, D, 2) / D)
    if kind != 'llama3': return f, np.ones(D // 2)
    factor, low, high, orig = 8.0, 1.0, 4.0, 16
    out = []
    for x in f:
        w = 2 * math.pi / x
        if w < orig / high: out.append(x)
        elif w > orig / low: out.append(x / factor)
        else:
            s = (orig / w - low) / (high - low); out.append((1 - s) * x / factor + s * x)
    out = np.array(out); return out, f / out
def rms(x, w, eps): return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w
def forward(w, ids, f, qk, bias, eps):
    x = w['model.embed_tokens.weight'][ids].astype(np.float64); n = len(ids)
    ang = np.outer(np.arange(n), f); c, s = np.cos(ang)[:, None], np.sin(ang)[:, None]
    def rot(v):
        a, b = v[..., :D // 2], v[..., D // 2:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)
    for i in range(L):
        p = f'model.layers.{i}.'; g = lambda k: w[p + k].astype(np.float64)
        h = rms(x, g('input_layernorm.weight'), eps)
        q, k, v = (h @ g(f'self_attn.{t}_proj.weight').T + (g(f'self_attn.{t}_proj.bias') if bias else 0) for t in 'qkv')
        q, k, v = q.reshape(n, NH, D), k.reshape(n, NK, D), v.reshape(n, NK, D)
        if qk: q, k = rms(q, g('self_attn.q_norm.weight'), eps), rms(k, g('self_attn.k_norm.weight'), eps)
        q, k = rot(q), rot(k); k, v = (np.repeat(t, NH // NK, 1) for t in (k, v))
        sc = np.einsum('qhd,khd->hqk', q, k) / math.sqrt(D)
        sc = np.where(np.tril(np.ones((n, n), bool)), sc, -np.inf); sc = np.exp(sc - sc.max(-1, keepdims=True)); sc /= sc.sum(-1, keepdims=True)
        x = x + np.einsum('hqk,khd->qhd', sc, v).reshape(n, NH * D) @ g('self_attn.o_proj.weight').T
        h = rms(x, g('post_attention_layernorm.weight'), eps); a = h @ g('mlp.gate_proj.weight').T
        x = x + (a / (1 + np.exp(-a)) * (h @ g('mlp.up_proj.weight').T)) @ g('mlp.down_proj.weight').T
    return rms(x, w['model.norm.weight'], eps) @ w['lm_head.weight'].astype(np.float64).T
def weights(qk, bias):
    r = lambda *s: (rng.standard_normal(s) / math.sqrt(s[-1]) * 1.5).astype(np.float32)
    w = {'model.embed_tokens.weight': r(V, H) * 8, 'lm_head.weight': r(V, H) * 2, 'model.norm.weight': 1 + r(H)}
    for i in range(L):
        p = f'model.layers.{i}.'
        w |= {p + 'input_layernorm.weight': 1 + r(H), p + 'post_attention_layernorm.weight': 1 + r(H), p + 'self_attn.q_proj.weight': r(NH * D, H),
              p + 'self_attn.k_proj.weight': r(NK * D, H), p + 'self_attn.v_proj.weight': r(NK * D, H), p + 'self_attn.o_proj.weight': r(H, NH * D),
              p + 'mlp.gate_proj.weight': r(F, H), p + 'mlp.up_proj.weight': r(F, H), p + 'mlp.down_proj.weight': r(H, F)}
        if qk: w |= {p + 'self_attn.q_norm.weight': 1 + r(D), p + 'self_attn.k_norm.weight': 1 + r(D)}
        if bias: w |= {p + f'self_attn.{t}_proj.bias': r(n * D) * 3 for t, n in (('q', NH), ('k', NK), ('v', NK))}
    return w
def permute(a, n): return a.reshape(n, 2, a.shape[0] // n // 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)
def run(model, ids, want, name):
    open(DIR + '/ids.txt', 'w').write(' '.join(map(str, ids)))
    subprocess.run([S, 'logits', '--model', model, '--ids-file', DIR + '/ids.txt', '--last', str(len(ids)), '--out', DIR + '/logits.safetensors', '--backend', 'cpu', '--exact'], check=True)
    d = np.abs(load_file(DIR + '/logits.safetensors')['logits'] - want).max(); print(name, 'largest difference', d, 'std', want.std()); assert d < 2e-3
for mt, rope, qk, bias, eps in (('llama', 'llama3', 0, 0, 1e-5), ('llama', 'default', 0, 0, 1e-5), ('qwen3', 'default', 1, 0, 1e-6), ('qwen2', 'default', 0, 1, 1e-6)):
    base = 10000.0; w = weights(qk, bias); ids = rng.integers(0, V, T); f, factors = inv_freq(rope, base); want = forward(w, ids, f, qk, bias, eps)
    d = DIR + '/model'; shutil.rmtree(d, ignore_errors=True); os.makedirs(d)
    cfg = dict(model_type=mt, hidden_size=H, num_hidden_layers=L, num_attention_heads=NH, num_key_value_heads=NK, head_dim=D, intermediate_size=F, vocab_size=V, max_position_embeddings=256, rms_norm_eps=eps, rope_theta=base, tie_word_embeddings=False)
    if rope == 'llama3': cfg['rope_scaling'] = dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
    json.dump(cfg, open(d + '/config.json', 'w')); save_file(w, d + '/model.safetensors'); run(d, ids, want, f'{mt} {rope} hf')
    g = gguf.GGUFWriter(DIR + '/model.gguf', mt); g.add_context_length(256); g.add_embedding_length(H); g.add_block_count(L); g.add_head_count(NH); g.add_head_count_kv(NK)
    g.add_key_length(D); g.add_value_length(D); g.add_feed_forward_length(F); g.add_rope_freq_base(base); g.add_layer_norm_rms_eps(eps); g.add_rope_dimension_count(D)
    names = {'input_layernorm': 'attn_norm', 'post_attention_layernorm': 'ffn_norm', 'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output', 'self_attn.q_norm': 'attn_q_norm', 'self_attn.k_norm': 'attn_k_norm', 'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}
    for k, v in w.items():
        m, _, part = k.rpartition('.')
        if m.startswith('model.layers.'):
            i, _, rest = m[13:].partition('.')
            if mt == 'llama' and rest.endswith(('q_proj', 'k_proj')): v = permute(v, NH if 'q_' in rest else NK)
            n = f'blk.{i}.{names[rest]}.{part}'
        else: n = {'model.embed_tokens': 'token_embd', 'lm_head': 'output', 'model.norm': 'output_norm'}[m] + '.' + part
        g.add_tensor(n, np.ascontiguousarray(v))
    if rope == 'llama3': g.add_tensor('rope_freqs.weight', factors.astype(np.float32))
    g.write_header_to_file(); g.write_kv_data_to_file(); g.write_tensors_to_file(); g.close(); run(DIR + '/model.gguf', ids, want, f'{mt} {rope} gguf')
shutil.rmtree(DIR)
