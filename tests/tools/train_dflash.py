"""Trains a block-diffusion drafter (DFlash, arXiv 2602.06036) for a model of the demo's kind.

usage: train_dflash.py MODEL_DIR CORPUS.jsonl.xz OUT_DIR SECONDS

The model itself stays as it is. The drafter sees what the layers TAPS of the model left of the text's tokens, and drafts a block in
one pass: the text's last token and mask tokens behind it, each of which sees the text and the whole block. It learns the model's own
distribution over each of the block's tokens, earlier ones weighing more, in blocks of 3 to BLOCK tokens, since an engine may ask for short ones.
Text is the corpus and what the model writes itself. Linear weights are trained with their mxfp4 rounding for the last part of
the time. OUT_DIR gets dflash.safetensors (bf16, the names of published files), dflash.json (configuration and figures) and train.log;
pack_draft_model.py makes a model folder of them. Needs torch, numpy, tokenizers and safetensors, and a GPU unless DRAFT_TINY is set (a trial of
a few steps).
"""
import json, time
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import save_file
from train_draft_model import (B, CFG, D, DEV, EPS, L, STARTED, T, TINY, V, P, Pool, corpus_batch, ids, log, n_val, norm, out_dir, own_text,
                               rng, rope, rounded, seconds, tables, teacher, teacher_hidden, weight)

TAPS, LAYERS, HEADS, KV, HD, WIDTH, BLOCK = (4, L - 1), 2, 4, 2, 64, 96, 6
MASK = CFG["eos_token_id"] if isinstance(CFG["eos_token_id"], int) else CFG["eos_token_id"][0]  # no draft goes on behind it
ANCHORS = 4 if TINY else 64  # blocks of a window
FADE = 4.  # places after which a token weighs 1 / e
THETA = 10000.
TABLE = tables(THETA, HD)


def rope_at(x, at):
    """x: [B, heads, rows, HD]; at: [B, rows] positions."""
    c, s = (y[at].unsqueeze(1).to(x.dtype) for y in TABLE)
    a, b = x.chunk(2, -1)
    return x * c + torch.cat([-b, a], -1) * s


class Layer(nn.Module):
    def __init__(s):
        super().__init__()
        s.n1, s.n2, s.qn, s.kn = (nn.Parameter(torch.ones(x, device=DEV)) for x in (D, D, HD, HD))
        s.q, s.k, s.v, s.o = P(HEADS * HD, D), P(KV * HD, D), P(KV * HD, D), P(D, HEADS * HD, std=.01)
        s.gate, s.up, s.down = P(WIDTH, D), P(WIDTH, D), P(D, WIDTH, std=.01)

    def forward(s, x, c, at, seen, on):
        """x: [B, rows, D] of all blocks; c: [B, T, D] of the text; seen: [B, 1, rows, T + rows]."""
        b, n, t = x.shape[0], x.shape[1], c.shape[1]
        h = norm(x, s.n1)
        rows = torch.cat([c, h], 1)
        split = lambda y, heads: y.view(b, -1, heads, HD).transpose(1, 2)
        q = rope_at(norm(split(h @ weight(s.q, on).T, HEADS), s.qn), at)
        k = norm(split(rows @ weight(s.k, on).T, KV), s.kn)
        k = rope_at(k, torch.cat([torch.arange(t, device=DEV).expand(b, t), at], 1))
        v = split(rows @ weight(s.v, on).T, KV)
        wide = lambda y: y.repeat_interleave(HEADS // KV, 1)
        a = F.scaled_dot_product_attention(q, wide(k), wide(v), attn_mask=seen)
        x = x + a.transpose(1, 2).reshape(b, n, HEADS * HD) @ weight(s.o, on).T
        h = norm(x, s.n2)
        return x + (F.silu(h @ weight(s.gate, on).T) * (h @ weight(s.up, on).T)) @ weight(s.down, on).T


class Drafter(nn.Module):
    def __init__(s):
        super().__init__()
        s.fc = P(D, len(TAPS) * D, std=.01)
        with torch.no_grad():
            s.fc[:, -D:] += torch.eye(D, device=DEV)
        s.nc, s.nf = nn.Parameter(torch.ones(D, device=DEV)), nn.Parameter(teacher["nf"].detach().float().clone())
        s.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])

    def forward(s, x, shown, at, block, on):
        """Rows of the blocks behind the last token, [B, anchors, block - 1, D]. x: [B, T + 1] tokens; shown: [B, T, taps * D];
        at: [B, anchors] places of the text's last tokens."""
        b, n = at.shape
        t = shown.shape[1]
        c = norm(shown @ weight(s.fc, on).T, s.nc)
        tokens = torch.full((b, n, block), MASK, device=DEV)
        tokens[:, :, 0] = x.gather(1, at)
        places = (at.unsqueeze(2) + torch.arange(block, device=DEV)).flatten(1)
        begin = at.repeat_interleave(block, 1)
        which = torch.arange(n, device=DEV).repeat_interleave(block)
        text = torch.arange(t, device=DEV) < begin.unsqueeze(2)
        own = (which.unsqueeze(0) == which.unsqueeze(1)).expand(b, -1, -1)
        seen = torch.cat([text, own], 2).unsqueeze(1)
        h = F.embedding(tokens.flatten(1), teacher["emb"])
        for l in s.layers:
            h = l(h, c, places, seen, on)
        return norm(h, s.nf).view(b, n, block, D)[:, :, 1:]


def see(x):
    """The model's normed hidden states and what its tapped layers leave, of a window's tokens."""
    layers = dict.fromkeys(TAPS)
    h = teacher_hidden(teacher, x[:, :-1], layers=layers)
    return h, torch.cat([layers[n] for n in TAPS], -1)


def anchors(b, t, block, n):
    return torch.randint(8, t - block, (b, n), device=DEV)


def behind(at, block):
    """Places whose hidden state decides each token of the blocks behind the last one: [B, anchors * (block - 1)]."""
    return (at.unsqueeze(2) + torch.arange(block - 1, device=DEV)).flatten(1)


def take(h, places):
    return h.gather(1, places.unsqueeze(2).expand(-1, -1, h.shape[2])).flatten(0, 1)


def learn(drafter, x, w, on):
    """One batch: distance from the model by place in the block, and gradients. Logits go chunk by chunk."""
    block = rng.choice((3, 4, 5, BLOCK, BLOCK, BLOCK))
    h, shown = see(x)
    at = anchors(*h.shape[:2], block, ANCHORS)
    out = drafter(x, shown, at, block, on).flatten(0, 2)
    places = behind(at, block)
    target, wts = take(h, places), w[:, 1:].gather(1, places).flatten()
    fade = torch.exp(-torch.arange(block - 1, device=DEV) / FADE).repeat(len(out) // (block - 1))
    wts = wts * fade
    wts, emb = wts / wts.sum(), teacher["emb"]
    loss, grad = torch.zeros(block - 1, device=DEV), torch.zeros_like(out)
    with torch.no_grad():
        for a in range(0, len(out), 8192):
            logp = (target[a:a + 8192] @ emb.T).float().log_softmax(-1)
            ls = (out[a:a + 8192].detach() @ emb.T).float().log_softmax(-1)
            p, wa = logp.exp(), wts[a:a + 8192]
            far = (p * (logp - ls)).sum(-1)
            loss.index_add_(0, (a + torch.arange(len(far), device=DEV)) % (block - 1), far / (len(out) // (block - 1)))
            grad[a:a + 8192] = ((ls.exp() - p) * wa.unsqueeze(1)).bfloat16() @ emb
    out.backward(grad.to(out.dtype))
    return loss


@torch.no_grad()
def measure(drafter, sets, on, block=BLOCK):
    """By temperature and place: how often the first choice is the model's token (0) where all before it were right; the share of the two
    distributions that is common (0.8)."""
    out = {}
    for temperature in (0, .8):
        good, tried = ([0.] * (block - 1) for _ in range(2))
        for x, w, t in sets:
            keep = (t == 0) if temperature == 0 else (t > 0)
            for rows in keep.nonzero().flatten()[:96].split(16):
                x_, w_ = x[rows].to(DEV), w[rows].to(DEV)
                h, shown = see(x_)
                at = anchors(*h.shape[:2], block, ANCHORS)
                places = behind(at, block)
                lt = (take(h, places) @ teacher["emb"].T).float().view(-1, block - 1, V)
                ls = (drafter(x_, shown, at, block, on).flatten(0, 2) @ teacher["emb"].T).float().view(-1, block - 1, V)
                alive = (w_[:, 1:].gather(1, places).view(-1, block - 1) == 1).all(1)
                for n in range(block - 1):
                    tried[n] += alive.sum().item()
                    if temperature:
                        both = torch.minimum((lt[:, n] / temperature).softmax(-1), (ls[:, n] / temperature).softmax(-1)).sum(-1)
                        good[n] += both[alive].sum().item()
                    else:
                        alive = alive & (lt[:, n].argmax(-1) == ls[:, n].argmax(-1))
                        good[n] += alive.sum().item()
        out[str(temperature)] = [round(g / max(t, 1), 4) for g, t in zip(good, tried)]
    return out


def save(drafter, figures, step):
    one = {"fc": drafter.fc, "hidden_norm": drafter.nc, "norm": drafter.nf}
    for i, l in enumerate(drafter.layers):
        p = f"layers.{i}."
        one |= {p + "input_layernorm": l.n1, p + "post_attention_layernorm": l.n2, p + "self_attn.q_norm": l.qn, p + "self_attn.k_norm": l.kn}
        one |= {p + f"self_attn.{a}_proj": getattr(l, a) for a in "qkvo"} | {p + f"mlp.{a}_proj": getattr(l, a) for a in ("gate", "up", "down")}
    # linear weights in the values that mxfp4 keeps; bf16 holds these exactly
    t = {f"{k}.weight": (rounded(v.detach()) if v.ndim > 1 else v.detach()).bfloat16().cpu().contiguous() for k, v in one.items()}
    save_file(t, f"{out_dir}/dflash.safetensors")
    cfg = dict(architectures=["DFlashDraftModel"], block_size=BLOCK, dflash_config=dict(mask_token_id=MASK, target_layer_ids=list(TAPS)), num_target_layers=L,
               hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV, head_dim=HD, intermediate_size=WIDTH,
               rope_theta=THETA, rms_norm_eps=EPS, vocab_size=V, max_position_embeddings=2048)
    json.dump({"config": cfg, "figures": figures, "steps": step, "tokens": step * B * T}, open(f"{out_dir}/dflash.json", "w"))


def main():
    drafter = Drafter()
    log("parameters", sum(p.numel() for p in drafter.parameters()) / 1e6)
    opt = torch.optim.AdamW([{"params": [p for p in drafter.parameters() if p.ndim > 1], "weight_decay": .01},
                             {"params": [p for p in drafter.parameters() if p.ndim == 1], "weight_decay": 0}], lr=1e-3, betas=(.9, .98), fused=DEV == "cuda")
    pool = Pool()
    for _ in range(1 if TINY else 6):
        pool.add(n_val, len(ids))
    sets = [own_text(T + 300, n_val) for _ in range(1 if TINY else 2)] if n_val > 2 * T + 300 else [own_text(0, len(ids))]
    log("own text", sum(x.numel() for x in pool.x))
    top, step, saved, began = 2e-3, 0, time.time(), time.time()
    tail = 2 if TINY else 12  # seconds for the last figures
    while True:
        f = (time.time() - began) / max(1, STARTED + seconds - tail - began)
        if f >= 1:
            break
        if saved + 60 < time.time():
            save(drafter, None, step)
            saved = time.time()
            log("saved")
        on = f > .5
        for g in opt.param_groups:
            g["lr"] = top * min(1, (step + 1) / 100) * (1 if f < .3 else max(.01, (1 - f) / .7))
        if not TINY and step % 250 == 249:
            pool.add(n_val, len(ids))
        x, w = pool.batch() if rng.random() < .7 else corpus_batch(n_val, len(ids))
        loss = learn(drafter, x, w, on)
        nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step % (2 if TINY else 100) == 0:
            log(f"step {step} f {f:.2f} on {int(on)}", *(f"{l:.4f}" for l in loss.tolist()))
    save(drafter, None, step)
    figures = measure(drafter, sets, True)
    save(drafter, figures, step)
    log(json.dumps(figures))
    log("end", step)


main()
