"""Trains a next-token layer (multi-token prediction, as Qwen3-Next and Qwen3.5 have one) for a model of the demo's kind.

usage: train_mtp_layer.py MODEL_DIR CORPUS.jsonl.xz OUT_DIR SECONDS

The model itself stays as it is. At position p the layer takes the model's normed hidden state of p and the embedding of
token p + 1, and learns the model's own distribution over token p + 2. It goes on by feeding back its own normed output,
so it is trained on three such steps: what a later step attends to is what it would find when drafting, the first step's
keys up to where the draft began and its own behind them. Text is the corpus and what the model writes itself.
Linear weights are trained with their mxfp4 rounding for the last part of the time. OUT_DIR gets mtp.safetensors (bf16,
the names of published files), mtp.json (figures) and train.log; pack_mtp_layer.py packs them.
Needs torch, numpy, tokenizers and safetensors, and a GPU unless DRAFT_TINY is set (a trial of a few steps).
"""
import json, math, time
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import save_file
from train_draft_model import (B, CFG, D, DEV, H, HD, KV, L, STARTED, T, TABLE, TINY, P, Pool, corpus_batch, ids, log, n_val, norm, out_dir, own_text,
                               rng, rope, rounded, seconds, teacher, teacher_hidden, weight)

STEPS = 3  # drafted tokens that are trained
SHARE = (1, .8, .6)  # what each weighs in the loss
WIDTH = 64  # of the feed-forward


class Layer(nn.Module):
    def __init__(s):
        super().__init__()
        last = teacher["layers"][-1]
        take = lambda w: nn.Parameter(w.detach().float().clone())
        s.ne, s.nh, s.n2 = (nn.Parameter(torch.ones(D, device=DEV)) for _ in range(3))
        s.n1, s.qn, s.kn, s.nf = (take(w) for w in (last["n1"], last["qn"], last["kn"], teacher["nf"]))
        s.q, s.k, s.v, s.o = (take(last[a]) for a in "qkvo")
        s.fc = P(D, 2 * D, std=.01)
        with torch.no_grad():
            s.fc[:, D:] += torch.eye(D, device=DEV)
        s.gate, s.up, s.down = P(WIDTH, D), P(WIDTH, D), P(D, WIDTH, std=.005)

    def forward(s, tokens, hidden, past, on):
        """Step len(past) + 1 of a draft. past: keys and values of the steps before it, [(k, v)] each [B, KV, T, HD]."""
        n, (b, t) = len(past), tokens.shape
        both = torch.cat([norm(F.embedding(tokens, teacher["emb"]), s.ne), norm(hidden, s.nh)], -1)
        x = both @ weight(s.fc, on).T
        h = norm(x, s.n1)
        split = lambda y, heads: y.view(b, t, heads, HD).transpose(1, 2)
        q, k, v = (split(h @ weight(w, on).T, m) for w, m in ((s.q, H), (s.k, KV), (s.v, KV)))
        q, k = rope(norm(q, s.qn), TABLE), rope(norm(k, s.kn), TABLE)
        past = past + [(k, v)]
        if not n:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            wide = lambda y: y.repeat_interleave(H // KV, 1)
            at = torch.arange(t, device=DEV)
            seen = at[None, :] <= at[:, None] - n  # of the first step: up to where the draft began
            scores = [(q @ wide(past[0][0]).transpose(2, 3)).float().masked_fill(~seen, -math.inf)]
            own = []
            for j in range(1, n + 1):  # step j + 1 of the same draft stood n - j positions before
                move = lambda y: F.pad(wide(y), (0, 0, n - j, 0))[:, :, :t]
                kj, vj = (move(y) for y in past[j])
                one = (q * kj).float().sum(-1, keepdim=True)
                scores.append(one.masked_fill((at < n - j)[:, None], -math.inf))
                own.append(vj)
            p = (torch.cat(scores, -1) * HD ** -.5).softmax(-1).bfloat16()
            a = p[..., :t] @ wide(past[0][1])
            for j, vj in enumerate(own):
                a = a + p[..., t + j:t + j + 1] * vj
        x = x + a.transpose(1, 2).reshape(b, t, H * HD) @ weight(s.o, on).T
        h = norm(x, s.n2)
        x = x + (F.silu(h @ weight(s.gate, on).T) * (h @ weight(s.up, on).T)) @ weight(s.down, on).T
        return norm(x, s.nf), past


def outputs(layer, x, h, on):
    """The hidden states of each step, [B, T - 1, D]: what the model has at the next position. h: [B, T, D] of x[:, :-1]."""
    tokens, given, past, out = x[:, 1:-1], h[:, :-1], [], []
    for _ in range(STEPS):
        g, past = layer(tokens, given, past, on)
        out.append(g)
        given = F.pad(g, (0, 0, 1, 0))[:, :-1]  # the step before stood one position before
    return out


def learn(layer, x, w, on):
    """One batch: distance from the model by step, and gradients. Logits go chunk by chunk."""
    h = teacher_hidden(teacher, x[:, :-1])
    outs = outputs(layer, x, h, on)
    flat, target = [g.flatten(0, 1) for g in outs], h[:, 1:].flatten(0, 1)
    emb, loss, grads = teacher["emb"], [0.] * STEPS, [torch.zeros_like(g) for g in flat]
    there = torch.arange(x.shape[1] - 2, device=DEV)
    wts = []
    for n in range(STEPS):
        wn = (w[:, 2:] * (there >= n)).flatten()
        wts.append(wn / wn.sum())
    with torch.no_grad():
        for a in range(0, len(target), 8192):
            logp = (target[a:a + 8192] @ emb.T).float().log_softmax(-1)
            p = logp.exp()
            own = (p * logp).sum(-1)
            for n in range(STEPS):
                ls = (flat[n][a:a + 8192].detach() @ emb.T).float().log_softmax(-1)
                wa = wts[n][a:a + 8192]
                loss[n] = loss[n] + ((own - (p * ls).sum(-1)) * wa).sum()
                grads[n][a:a + 8192] = ((ls.exp() - p) * (wa * SHARE[n]).unsqueeze(1)).bfloat16() @ emb
    torch.autograd.backward(flat, [g.to(f.dtype) for g, f in zip(grads, flat)])
    return loss


@torch.no_grad()
def measure(layer, sets, on):
    """By temperature and step: how often its first choice is the model's token (0), the share of the two distributions
    that is common (0.8), each where all tokens before were right."""
    out = {}
    for temperature in (0, .8):
        good, total = [0.] * STEPS, 0
        for x, w, t in sets:
            keep = (t == 0) if temperature == 0 else (t > 0)
            for rows in keep.nonzero().flatten()[:96].split(32):
                x_, w_ = x[rows].to(DEV), (w[rows][:, 2:] == 1).flatten().to(DEV)
                h = teacher_hidden(teacher, x_[:, :-1])
                target = h[:, 1:].flatten(0, 1)[w_]
                outs = [g.flatten(0, 1)[w_] for g in outputs(layer, x_, h, on)]
                total += len(target)
                for a in range(0, len(target), 8192):
                    lt = (target[a:a + 8192] @ teacher["emb"].T).float()
                    for n in range(STEPS):
                        ls = (outs[n][a:a + 8192] @ teacher["emb"].T).float()
                        if temperature:
                            good[n] += torch.minimum((lt / temperature).softmax(-1), (ls / temperature).softmax(-1)).sum().item()
                        else:
                            good[n] += (lt.argmax(-1) == ls.argmax(-1)).float().sum().item()
        out[str(temperature)] = [round(g / max(total, 1), 4) for g in good]
    return out


def save(layer, figures, step):
    one = {"fc": layer.fc, "pre_fc_norm_embedding": layer.ne, "pre_fc_norm_hidden": layer.nh, "norm": layer.nf}
    p = "layers.0."
    one |= {p + "input_layernorm": layer.n1, p + "post_attention_layernorm": layer.n2, p + "self_attn.q_norm": layer.qn, p + "self_attn.k_norm": layer.kn}
    one |= {p + f"self_attn.{a}_proj": getattr(layer, a) for a in "qkvo"} | {p + f"mlp.{a}_proj": getattr(layer, a) for a in ("gate", "up", "down")}
    # linear weights in the values that mxfp4 keeps; bf16 holds these exactly
    t = {f"mtp.{k}.weight": (rounded(v.detach()) if v.ndim > 1 else v.detach()).bfloat16().cpu().contiguous() for k, v in one.items()}
    save_file(t, f"{out_dir}/mtp.safetensors")
    json.dump({"width": WIDTH, "figures": figures, "steps": step, "tokens": step * B * T}, open(f"{out_dir}/mtp.json", "w"))


def main():
    layer = Layer()
    log("parameters", sum(p.numel() for p in layer.parameters()) / 1e6)
    opt = torch.optim.AdamW([{"params": [p for p in layer.parameters() if p.ndim > 1], "weight_decay": .01},
                             {"params": [p for p in layer.parameters() if p.ndim == 1], "weight_decay": 0}], lr=1e-3, betas=(.9, .98), fused=DEV == "cuda")
    pool = Pool()
    for _ in range(1 if TINY else 6):
        pool.add(n_val, len(ids))
    sets = [own_text(T + 300, n_val) for _ in range(1 if TINY else 2)] if n_val > 2 * T + 300 else [own_text(0, len(ids))]
    log("own text", sum(x.numel() for x in pool.x))
    top, step, saved, began = 1.5e-3, 0, time.time(), time.time()
    tail = 2 if TINY else 12  # seconds for the last figures
    while True:
        f = (time.time() - began) / max(1, STARTED + seconds - tail - began)
        if f >= 1:
            break
        if saved + 60 < time.time():
            save(layer, None, step)
            saved = time.time()
            log("saved")
        on = f > .5
        for g in opt.param_groups:
            g["lr"] = top * min(1, (step + 1) / 100) * (1 if f < .3 else max(.01, (1 - f) / .7))
        if not TINY and step % 250 == 249:
            pool.add(n_val, len(ids))
        x, w = pool.batch() if rng.random() < .7 else corpus_batch(n_val, len(ids))
        loss = learn(layer, x, w, on)
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step % (2 if TINY else 100) == 0:
            log(f"step {step} f {f:.2f} on {int(on)}", *(f"{l.item():.4f}" for l in loss))
    figures = measure(layer, sets, True)
    save(layer, figures, step)
    log(json.dumps(figures))
    log("end", step)


main()
