"""Makes tests/data/golden/{qwen2moe,glm4moe}: tiny random models as published folders (bf16, one tensor per expert) and as GGUF
(Q8_0, llama.cpp's names), with logits, intermediates and greedy answers by mlx-lm's own model classes in f32.
Run by hand: pip install 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 gguf==0.19.0 safetensors ml_dtypes;  make_moe.py OUT"""
import importlib, json, os, sys
import gguf, ml_dtypes
import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

OUT = sys.argv[1]
V, H, D, F, MF, E = 64, 64, 32, 64, 32, 6
PROMPTS = {'p1': 1, 'p17': 17, 'p65': 65}
USUAL = dict(vocab_size=V, hidden_size=H, intermediate_size=F, moe_intermediate_size=MF, num_attention_heads=2, num_key_value_heads=1,
             rms_norm_eps=1e-6, rope_theta=10000.0, tie_word_embeddings=False, max_position_embeddings=512, num_experts_per_tok=2, eos_token_id=0)
QWEN = dict(USUAL, model_type='qwen2_moe', architectures=['Qwen2MoeForCausalLM'], num_hidden_layers=2, num_experts=E, shared_expert_intermediate_size=64,
            norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[])
GLM = dict(USUAL, model_type='glm4_moe', architectures=['Glm4MoeForCausalLM'], num_hidden_layers=2, n_routed_experts=E, n_shared_experts=1, head_dim=D,
           partial_rotary_factor=0.5, n_group=3, topk_group=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, use_qk_norm=True,
           attention_bias=True, rope_scaling=None, num_nextn_predict_layers=1)


def weights(c, rng):
    r = lambda *s, k=1.5: (rng.standard_normal(s) / np.sqrt(s[-1]) * k).astype(ml_dtypes.bfloat16)
    norm = lambda n: (1 + 0.2 * rng.standard_normal(n)).astype(ml_dtypes.bfloat16)
    glm, nh, nk = c['model_type'] == 'glm4_moe', c['num_attention_heads'], c['num_key_value_heads']
    w = {'model.embed_tokens.weight': r(V, H, k=8), 'lm_head.weight': r(V, H, k=3), 'model.norm.weight': norm(H)}
    mlp = lambda p, n: {p + 'gate_proj.weight': r(n, H), p + 'up_proj.weight': r(n, H), p + 'down_proj.weight': r(H, n)}
    for i in range(c['num_hidden_layers'] + c.get('num_nextn_predict_layers', 0)):
        p = f'model.layers.{i}.'
        if i == c['num_hidden_layers']:  # the draft layer: must be passed over
            w[p + 'eh_proj.weight'] = r(H, 2 * H)
            continue
        w |= {p + 'input_layernorm.weight': norm(H), p + 'post_attention_layernorm.weight': norm(H), p + 'self_attn.o_proj.weight': r(H, nh * D)}
        for t, n in (('q', nh), ('k', nk), ('v', nk)):
            w[p + f'self_attn.{t}_proj.weight'], w[p + f'self_attn.{t}_proj.bias'] = r(n * D, H), r(n * D, k=3)
        if glm:
            w |= {p + 'self_attn.q_norm.weight': norm(D), p + 'self_attn.k_norm.weight': norm(D)}
        if glm and i < c['first_k_dense_replace']:
            w |= mlp(p + 'mlp.', F)
            continue
        w[p + 'mlp.gate.weight'] = r(E, H)
        for e in range(E):
            w |= mlp(p + f'mlp.experts.{e}.', MF)
        if glm:
            w[p + 'mlp.gate.e_score_correction_bias'] = (0.3 * rng.standard_normal(E)).astype(np.float32)
            w |= mlp(p + 'mlp.shared_experts.', MF)
        else:
            w |= mlp(p + 'mlp.shared_expert.', 64)
            w[p + 'mlp.shared_expert_gate.weight'] = r(1, H, k=3)
    return w


def gguf_name(name):
    table = {'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output',
             'self_attn.q_norm': 'attn_q_norm', 'self_attn.k_norm': 'attn_k_norm', 'input_layernorm': 'attn_norm', 'mlp.gate': 'ffn_gate_inp',
             'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down', 'mlp.shared_expert_gate': 'ffn_gate_inp_shexp'}
    for t in ('gate', 'up', 'down'):
        table[f'mlp.shared_expert.{t}_proj'] = table[f'mlp.shared_experts.{t}_proj'] = f'ffn_{t}_shexp'
    return table[name]


def write_gguf(path, c, w):
    """Returns the values as read back, under the published names."""
    glm, arch = c['model_type'] == 'glm4_moe', {'qwen2_moe': 'qwen2moe', 'glm4_moe': 'glm4moe'}[c['model_type']]
    g, read = gguf.GGUFWriter(path, arch), {}
    g.add_context_length(512); g.add_embedding_length(H); g.add_block_count(c['num_hidden_layers'] + (1 if glm else 0)); g.add_head_count(2); g.add_head_count_kv(1)
    g.add_key_length(D); g.add_value_length(D); g.add_feed_forward_length(F); g.add_rope_freq_base(1e4); g.add_layer_norm_rms_eps(1e-6)
    g.add_rope_dimension_count(D // 2 if glm else D); g.add_expert_count(E); g.add_expert_used_count(2); g.add_expert_feed_forward_length(MF); g.add_vocab_size(V)
    if glm:
        g.add_expert_shared_count(1); g.add_leading_dense_block_count(1); g.add_expert_weights_scale(2.5); g.add_expert_weights_norm(True)
        g.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID); g.add_expert_group_count(3); g.add_expert_group_used_count(2)
        g.add_uint32(arch + '.nextn_predict_layers', 1)
    else:
        g.add_expert_shared_feed_forward_length(64)

    def add(name, v):
        v = v.astype(np.float32)
        if v.ndim < 2 or name.endswith('ffn_gate_inp.weight') or 'gate_inp_shexp' in name:
            g.add_tensor(name, v if v.ndim > 1 and v.shape[0] > 1 else v.reshape(-1))
            return v
        q = gguf.quants.quantize(v, gguf.GGMLQuantizationType.Q8_0)
        g.add_tensor(name, q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        return gguf.quants.dequantize(q, gguf.GGMLQuantizationType.Q8_0)

    for k, v in w.items():
        m, _, part = k.rpartition('.')
        if m.startswith('model.layers.'):
            i, _, rest = m[13:].partition('.')
            if rest.startswith('eh_proj'):
                g.add_tensor(f'blk.{i}.nextn.eh_proj.weight', v.astype(np.float32))
            elif rest.startswith('mlp.experts.'):
                t = rest.split('.')[3].split('_')[0]
                if rest.startswith('mlp.experts.0.'):
                    names = [f'model.layers.{i}.mlp.experts.{e}.{t}_proj.weight' for e in range(E)]
                    read |= dict(zip(names, add(f'blk.{i}.ffn_{t}_exps.weight', np.stack([w[n] for n in names]))))
            elif part == 'e_score_correction_bias':
                read[k] = add(f'blk.{i}.exp_probs_b.bias', v)
            else:
                rest = 'post_attention_norm' if rest == 'post_attention_layernorm' and glm else 'ffn_norm' if rest == 'post_attention_layernorm' else gguf_name(rest)
                read[k] = add(f'blk.{i}.{rest}.{part}', v)
        else:
            read[k] = add({'model.embed_tokens': 'token_embd', 'lm_head': 'output', 'model.norm': 'output_norm'}[m] + '.' + part, v)
    g.write_header_to_file(); g.write_kv_data_to_file(); g.write_tensors_to_file(); g.close()
    return read


def truth(c, w, form, prompts, out, traced):
    m = importlib.import_module('mlx_lm.models.' + c['model_type'])
    model = m.Model(m.ModelArgs.from_dict(c))
    model.load_weights(list(model.sanitize({k: mx.array(v.astype(np.float32)) for k, v in w.items()}).items()), strict=True)
    trace = {}

    def watch(cls, what):
        call = cls.__call__
        def seen(self, *a, **k):
            y = call(self, *a, **k)
            trace.setdefault(what, []).append(np.array(y[0], copy=True))
            return y
        cls.__call__ = seen
        return lambda: setattr(cls, '__call__', call)

    layer = type(model.layers[0])
    undo = [watch(type(model.layers[0].self_attn), 'mixer'), watch(layer, 'after_ffn')]
    record = {}
    for name, ids in prompts.items():
        trace.clear()
        logits = np.array(model(mx.array([ids]))[0])
        out[f'{form}/{name}/logits'] = logits[-8:].copy()
        if name == 'p17':
            for i in range(c['num_hidden_layers']):
                for what in ('mixer', 'after_ffn') if traced else ('after_ffn',):
                    out[f'trace/{form}/p17/layers.{i}.{what}'] = trace[what][i]
        answer, margins, ids = [], [], list(ids)
        for _ in range(16):
            last = np.array(model(mx.array([ids]))[0, -1])
            order = np.sort(last)
            answer.append(int(last.argmax())); margins.append(float(order[-1] - order[-2]))
            ids.append(answer[-1])
        record[name] = dict(continuation=answer, top1_top2_margin=margins)
    for u in undo:
        u()
    return record


for name, c in (('qwen2moe', QWEN), ('glm4moe', GLM)):
    rng = np.random.default_rng(11)
    d, w = f'{OUT}/{name}', weights(c, rng)
    os.makedirs(d + '/hf', exist_ok=True); os.makedirs(d + '/gguf', exist_ok=True)
    json.dump(c, open(d + '/hf/config.json', 'w'), indent=1)
    save_file(w, d + '/hf/model.safetensors', metadata={'format': 'pt'})
    prompts = {p: rng.integers(1, V, n).tolist() for p, n in PROMPTS.items()}
    q8 = write_gguf(d + '/gguf/q8_0.gguf', c, w)
    out = {}
    forms = {'hf': dict(files='hf/', dtype='bfloat16', prompts=truth(c, w, 'hf', prompts, out, True)),
             'gguf-q8_0': dict(files='gguf/q8_0.gguf', dtype='float32', prompts=truth(c, q8, 'gguf-q8_0', prompts, out, False))}
    save_file(out, d + '/logits.safetensors')
    json.dump(dict(family=c['model_type'], vocab_size=V, prompts=prompts, forms=forms), open(d + '/golden.json', 'w'), separators=(',', ':'))
