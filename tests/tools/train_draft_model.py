"""Trains small draft models for a model of the demo's kind (qwen3_moe, MLX mxfp4) by distillation.

usage: train_draft_model.py MODEL_DIR CORPUS.jsonl.xz OUT_DIR SECONDS [NAME ...]

Each student is a dense qwen3 model of the same vocabulary with tied embeddings. It learns the teacher's whole
distribution over the next token, on the corpus and on what the teacher itself writes at several temperatures,
because that is the text it will have to foresee. Linear weights are trained with their mxfp4 rounding for the last
part of the time. All students share the teacher's passes. OUT_DIR gets NAME.safetensors (bf16, MLX's names),
NAME.json (configuration and figures) and train.log; pack_draft_model.py makes model folders of them.
Needs torch, numpy, tokenizers and safetensors, and a GPU unless DRAFT_TINY is set (a trial of a few steps).
"""
import json, lzma, math, os, random, sys, time
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import load_file, save_file

teacher_dir, corpus, out_dir, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
STARTED = time.time()
TINY = bool(os.environ.get("DRAFT_TINY"))
DEV = "cuda" if torch.cuda.is_available() else "cpu"
os.makedirs(out_dir, exist_ok=True)
LOG = open(f"{out_dir}/train.log", "w")


def log(*a):
    line = " ".join(str(x) for x in (f"[{time.time() - STARTED:6.1f}]", *a))
    print(line, flush=True)
    print(line, file=LOG, flush=True)


torch.manual_seed(1)
rng = random.Random(1)
torch.backends.cuda.matmul.allow_tf32 = True
CFG = json.load(open(f"{teacher_dir}/config.json"))
D, L, H, KV, HD = (CFG[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"))
E, K, V, EPS = CFG["num_experts"], CFG["num_experts_per_tok"], CFG["vocab_size"], CFG["rms_norm_eps"]

# name: width, layers, heads, kv heads, width of the feed-forward
STUDENTS = {
    "w128": (128, 2, 2, 1, 512),
    "w128x3": (128, 3, 2, 1, 512),
    "w192": (192, 2, 3, 1, 768),
    "w192x1": (192, 1, 3, 1, 768),
    "w256": (256, 2, 4, 1, 768),
    "w256x4": (256, 4, 4, 2, 1024),
}
names = sys.argv[5:] or list(STUDENTS)

# ---- the teacher, its weights unpacked
GRID = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def nibbles(w, bits):
    per = 32 // bits
    w = w.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    return ((w.unsqueeze(-1) >> (bits * torch.arange(per))) & ((1 << bits) - 1)).flatten(-2)


def unpack(t, name):
    w, s = t[name + ".weight"], t[name + ".scales"]
    if name + ".biases" in t:
        q = nibbles(w, 8).float().unflatten(-1, (-1, 64))
        return (q * s.float().unsqueeze(-1) + t[name + ".biases"].float().unsqueeze(-1)).flatten(-2)
    q = GRID[nibbles(w, 4)].unflatten(-1, (-1, 32))
    return (q * torch.exp2(s.float() - 127).unsqueeze(-1)).flatten(-2)


def load_teacher():
    t = load_file(f"{teacher_dir}/model.safetensors")
    put = lambda w: w.bfloat16().to(DEV)
    layers = []
    for n in range(L):
        p = f"model.layers.{n}."
        one = {a: put(unpack(t, p + f"self_attn.{a}_proj")) for a in "qkvo"}
        one["n1"], one["n2"] = (t[p + x + ".weight"].float().to(DEV) for x in ("input_layernorm", "post_attention_layernorm"))
        one["qn"], one["kn"] = (t[p + f"self_attn.{x}_norm.weight"].float().to(DEV) for x in "qk")
        one["router"] = unpack(t, p + "mlp.gate").to(DEV)
        gate, up, down = (unpack(t, p + f"mlp.switch_mlp.{a}_proj") for a in ("gate", "up", "down"))
        one["gu"] = put(torch.cat([gate, up], 1)).transpose(1, 2)
        one["down"] = put(down).transpose(1, 2)
        layers.append(one)
    return {"layers": layers, "emb": put(unpack(t, "model.embed_tokens")), "nf": t["model.norm.weight"].float().to(DEV)}


def tables(theta, hd):
    inv = 1.0 / (theta ** (torch.arange(0, hd, 2, device=DEV).float() / hd))
    ang = torch.outer(torch.arange(4096, device=DEV).float(), inv)
    ang = torch.cat([ang, ang], -1)
    return ang.cos(), ang.sin()


def rope(x, table, at=0):
    c, s = (y[at:at + x.shape[2]].to(x.dtype) for y in table)
    a, b = x.chunk(2, -1)
    return x * c + torch.cat([-b, a], -1) * s


def norm(x, w):
    return F.rms_norm(x.float(), (x.shape[-1],), w, EPS).bfloat16()


def grouped(x, w, off):
    if DEV == "cuda":
        return torch._grouped_mm(x, w, offs=off)
    out, at = [], 0
    for e, end in enumerate(off.tolist()):
        out.append(x[at:end] @ w[e])
        at = end
    return torch.cat(out)


def experts(l, h):
    p = (h.float() @ l["router"].T).softmax(-1)
    w, i = p.topk(K, -1)
    w = w / w.sum(-1, keepdim=True)
    flat = i.flatten()
    order = flat.argsort(stable=True)
    off = torch.bincount(flat, minlength=E).cumsum(0).to(torch.int32)
    token = order // K
    g, u = grouped(h[token], l["gu"], off).chunk(2, -1)
    y = grouped((F.silu(g) * u).contiguous(), l["down"], off) * w.flatten()[order].unsqueeze(1).bfloat16()
    return torch.zeros_like(h).index_add(0, token, y)


TABLE = tables(CFG["rope_theta"], HD)


@torch.no_grad()
def teacher_hidden(t, ids, cache=None, at=0, layers=None):
    """The normed hidden states that the head takes; with a cache, of positions at.. on. layers: {number: what it leaves}, filled in."""
    x = F.embedding(ids, t["emb"])
    B, T = ids.shape
    for n, l in enumerate(t["layers"]):
        h = norm(x, l["n1"])
        split = lambda y, heads: y.view(B, T, heads, HD).transpose(1, 2)
        q, k, v = split(h @ l["q"].T, H), split(h @ l["k"].T, KV), split(h @ l["v"].T, KV)
        q, k = rope(norm(q, l["qn"]), TABLE, at), rope(norm(k, l["kn"]), TABLE, at)
        if cache is not None:
            cache[0][n, :, :, at:at + T], cache[1][n, :, :, at:at + T] = k, v
            k, v = cache[0][n, :, :, :at + T], cache[1][n, :, :, :at + T]
        if T > 1:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
        else:  # one row: the heads that share keys go over them together
            a = (q.reshape(B, KV, H // KV, HD) @ k.transpose(2, 3)).float().mul_(HD ** -.5).softmax(-1).bfloat16() @ v
        x = x + a.reshape(B, T, H * HD) @ l["o"].T
        x = x + experts(l, norm(x, l["n2"]).view(B * T, D)).view(B, T, D)
        if layers is not None and n in layers:
            layers[n] = x
    return norm(x, t["nf"])


@torch.no_grad()
def write(t, prompts, n, temperature):
    """The teacher's own continuation: [B, P + n] ids. temperature: [B], 0 greedy."""
    B, P = prompts.shape
    cache = [torch.empty(L, B, KV, P + n, HD, dtype=torch.bfloat16, device=DEV) for _ in range(2)]
    ids = torch.cat([prompts, torch.zeros(B, n, dtype=prompts.dtype, device=DEV)], 1)
    h = teacher_hidden(t, prompts, cache)[:, -1]
    for i in range(P, P + n):
        logits = (h @ t["emb"].T).float()
        sampled = (logits / temperature.clamp_min(1e-4).unsqueeze(1)).softmax(-1)
        noise = torch.empty_like(sampled).exponential_()
        pick = torch.where(temperature > 0, (sampled / noise).argmax(-1), logits.argmax(-1))
        ids[:, i] = pick
        if i + 1 < P + n:
            h = teacher_hidden(t, pick.unsqueeze(1), cache, i)[:, -1]
    return ids


# ---- students
EDGE = torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5], device=DEV)
LEVEL = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6], device=DEV)


def rounded(w):
    g = w.float().unflatten(-1, (-1, 32))
    s = torch.exp2(torch.ceil(torch.log2(g.abs().amax(-1, keepdim=True).clamp_min(1e-20) / 6)).clamp(-127, 127))
    return (LEVEL[torch.bucketize((g / s).abs(), EDGE)] * g.sign() * s).flatten(-2)


def weight(w, on):
    return (w + (rounded(w) - w).detach() if on else w).bfloat16()


def P(*shape, std=.02):
    return nn.Parameter(torch.randn(*shape, device=DEV) * std)


class Block(nn.Module):
    def __init__(s, d, heads, kv, ff, n):
        super().__init__()
        s.heads, s.kv = heads, kv
        s.n1, s.n2, s.qn, s.kn = (nn.Parameter(torch.ones(x, device=DEV)) for x in (d, d, 64, 64))
        s.q, s.k, s.v, s.o = P(heads * 64, d), P(kv * 64, d), P(kv * 64, d), P(d, heads * 64, std=.02 / math.sqrt(2 * n))
        s.gate, s.up, s.down = P(ff, d), P(ff, d), P(d, ff, std=.02 / math.sqrt(2 * n))

    def forward(s, x, on):
        B, T, d = x.shape
        h = norm(x, s.n1)
        split = lambda y, heads: y.view(B, T, heads, 64).transpose(1, 2)
        q, k, v = (split(h @ weight(w, on).T, n) for w, n in ((s.q, s.heads), (s.k, s.kv), (s.v, s.kv)))
        q, k = rope(norm(q, s.qn), DRAFT_TABLE), rope(norm(k, s.kn), DRAFT_TABLE)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + a.transpose(1, 2).reshape(B, T, -1) @ weight(s.o, on).T
        h = norm(x, s.n2)
        return x + (F.silu(h @ weight(s.gate, on).T) * (h @ weight(s.up, on).T)) @ weight(s.down, on).T


THETA = 10000.0
DRAFT_TABLE = tables(THETA, 64)


class Student(nn.Module):
    def __init__(s, shape, embedding):
        super().__init__()
        d, n, heads, kv, ff = s.shape = shape
        s.emb = nn.Parameter(embedding[:, :d].clone())
        s.layers = nn.ModuleList([Block(d, heads, kv, ff, n) for _ in range(n)])
        s.nf = nn.Parameter(torch.ones(d, device=DEV))

    def hidden(s, ids, on):
        x = F.embedding(ids, s.emb).bfloat16()
        for l in s.layers:
            x = l(x, on)
        return norm(x, s.nf)


# ---- text
def segments(o):
    """Text and its weight: answers count whole, the rest a quarter."""
    if "text" in o:
        return [(o["text"] + "<|endoftext|>", 4)]
    out = []
    if o.get("tools"):
        out.append(("<|im_start|>system\n# Tools\n\nYou may call these functions:\n<tools>\n" + "\n".join(json.dumps(x, ensure_ascii=False) for x in o["tools"]) + "\n</tools><|im_end|>\n", 1))
    for m in o["messages"]:
        if m["role"] == "assistant":
            c = m["content"] or ""
            if m.get("reasoning_content"):
                c = "<think>\n" + m["reasoning_content"] + "\n</think>\n\n" + c
            for x in m.get("tool_calls", []):
                c += ("\n" if c else "") + '<tool_call>\n{"name": ' + json.dumps(x["function"]["name"]) + ', "arguments": ' + json.dumps(x["function"]["arguments"], ensure_ascii=False) + "}\n</tool_call>"
            out += [("<|im_start|>assistant\n", 1), (c + "<|im_end|>", 4), ("\n", 1)]
        elif m["role"] == "tool":
            out.append(("<|im_start|>user\n<tool_response>\n" + m["content"] + "\n</tool_response><|im_end|>\n", 1))
        else:
            out.append((f"<|im_start|>{m['role']}\n" + m["content"] + "<|im_end|>\n", 1))
    return out + [("<|endoftext|>", 1)]


def read_corpus():
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(f"{teacher_dir}/tokenizer.json")
    docs = []
    for i, line in enumerate(lzma.open(corpus, "rt")):
        if not TINY or i % 997 == 0:
            docs.append(line)
        if TINY and len(docs) == 60:
            break
    rng.shuffle(docs)
    flat = [s for d in docs for s in segments(json.loads(d))]
    ids, wts = [], []
    for i in range(0, len(flat), 100000):
        part = flat[i:i + 100000]
        for e, (_, k) in zip(tok.encode_batch_fast([s for s, _ in part], add_special_tokens=False), part):
            ids.append(np.array(e.ids, dtype=np.int16))
            wts.append(np.full(len(e.ids), k, dtype=np.uint8))
    ids, wts = (torch.from_numpy(np.concatenate(x)).to(DEV) for x in (ids, wts))
    turn = [tok.token_to_id("<|im_start|>")] + tok.encode("assistant\n", add_special_tokens=False).ids
    at = torch.arange(len(ids) - len(turn), device=DEV)
    for i, t in enumerate(turn):
        at = at[ids[at + i] == t]
    log("documents", len(docs), "tokens", len(ids), "answers", len(at))
    return ids, wts, at + len(turn)


teacher = load_teacher()
ids, wts, turns = read_corpus()
n_val = len(ids) // 100
B, T = (2, 48) if TINY else (64, 512)


def corpus_batch(lo, hi):
    st = torch.randint(lo, hi - T - 1, (B,), device=DEV)
    ix = st[:, None] + torch.arange(T + 1, device=DEV)
    return ids[ix].long(), wts[ix].float() / 4


GEN_B, GEN_P, GEN_N = (2, 16, 16) if TINY else (1024, (48, 96, 160, 224), (384,))
TEMPERATURES = torch.tensor([0., 0., 0., .3, .3, .8, .8, 1.], device=DEV)


def own_text(lo, hi):
    """Prompts that end where an answer begins, or anywhere, and how the teacher goes on."""
    p = GEN_P if TINY else rng.choice(GEN_P)
    n = GEN_N if TINY else GEN_N[0]
    inside = turns[(turns > lo + p) & (turns < hi)]
    end = torch.randint(lo + p, hi, (GEN_B,), device=DEV)
    if len(inside):
        half = GEN_B // 2
        end[:half] = inside[torch.randint(0, len(inside), (half,), device=DEV)]
    prompts = ids[end[:, None] - p + torch.arange(p, device=DEV)].long()
    temperature = TEMPERATURES[torch.randint(0, len(TEMPERATURES), (GEN_B,), device=DEV)]
    whole = write(teacher, prompts, n, temperature)
    w = torch.full(whole.shape, .1, device=DEV)
    w[:, p:] = 1
    return whole.cpu(), w.cpu(), temperature.cpu()


class Pool:
    """The teacher's own text, cut into windows of T + 1."""
    def __init__(s):
        s.x, s.w, s.most = [], [], 64

    def add(s, lo, hi):
        x, w, _ = own_text(lo, hi)
        n = x.shape[1]
        start = max(0, n - T - 1)
        s.x.append(x[:, start:]), s.w.append(w[:, start:])
        s.x, s.w = s.x[-s.most:], s.w[-s.most:]

    def batch(s):
        k = rng.randrange(len(s.x))
        rows = torch.randint(0, len(s.x[k]), (B,))
        return s.x[k][rows].to(DEV), s.w[k][rows].to(DEV)


def learn(students, x, w, on, backward=True):
    """One batch: every student's distance from the teacher, and its gradient. Rows go chunk by chunk, so that no
    whole table of logits is ever in memory."""
    ht = teacher_hidden(teacher, x[:, :-1]).flatten(0, 1)
    w = w[:, 1:].flatten()
    w = w / w.sum()
    hs = [s.hidden(x[:, :-1], on).flatten(0, 1) for s in students]
    leaf = [h.detach().float() for h in hs]
    gh = [torch.zeros_like(h) for h in leaf]
    ge = [torch.zeros_like(s.emb) for s in students]
    loss = [0.] * len(students)
    with torch.no_grad():
        for a in range(0, len(w), 8192):
            lt = (ht[a:a + 8192] @ teacher["emb"].T).float()
            logp = lt.log_softmax(-1)
            p, wa = logp.exp(), w[a:a + 8192]
            own = (p * logp).sum(-1)
            for i, s in enumerate(students):
                emb, h = s.emb.bfloat16(), hs[i][a:a + 8192].detach()
                ls = (h @ emb.T).float().log_softmax(-1)
                loss[i] = loss[i] + ((own - (p * ls).sum(-1)) * wa).sum()
                if backward:
                    g = ((ls.exp() - p) * wa.unsqueeze(1)).bfloat16()
                    gh[i][a:a + 8192] = (g @ emb).float()
                    ge[i] += (g.T @ h).float()
    if backward:
        for i, s in enumerate(students):
            hs[i].backward(gh[i].to(hs[i].dtype))
            s.emb.grad = ge[i] if s.emb.grad is None else s.emb.grad + ge[i]
    return loss


@torch.no_grad()
def measure(students, sets, on):
    """Per student and temperature: how often its first choice is the teacher's token, and the share of the two
    distributions that is common, by how sure the student is."""
    out = []
    for s in students:
        rows = {}
        for temperature in (0, .8):
            hit = torch.zeros(7, device=DEV)
            n = torch.zeros(7, device=DEV)
            common = total = 0.
            for x, w, t in sets:
                keep = (t == 0) if temperature == 0 else (t > 0)
                if not keep.any():
                    continue
                x_, w_ = x[keep][:96].to(DEV), (w[keep][:96, 1:] == 1).flatten().to(DEV)
                ht = teacher_hidden(teacher, x_[:, :-1]).flatten(0, 1)[w_]
                hs = s.hidden(x_[:, :-1], on).flatten(0, 1)[w_]
                for a in range(0, len(ht), 8192):
                    lt, ls = (ht[a:a + 8192] @ teacher["emb"].T).float(), (hs[a:a + 8192] @ s.emb.bfloat16().T).float()
                    sure, pick = ls.softmax(-1).max(-1)
                    if temperature:
                        pt, ps = (lt / temperature).softmax(-1), (ls / temperature).softmax(-1)
                        right = pt.gather(1, pick.unsqueeze(1)).squeeze(1)
                        common += torch.minimum(pt, ps).sum().item()
                    else:
                        right = (lt.argmax(-1) == pick).float()
                        common += right.sum().item()
                    total += len(pick)
                    bucket = torch.bucketize(sure, torch.tensor([.3, .5, .7, .85, .95, .99], device=DEV))
                    hit += torch.zeros(7, device=DEV).index_add(0, bucket, right)
                    n += torch.zeros(7, device=DEV).index_add(0, bucket, torch.ones_like(right))
            rows[str(temperature)] = {"common": common / max(total, 1), "first": (hit.sum() / n.sum()).item(),
                                      "by_sureness": [[round((a / b).item(), 3) if b else 0, round((b / n.sum()).item(), 3)] for a, b in zip(hit, n)]}
        out.append(rows)
    return out


def save(students, figures, step, tokens):
    for name, s, f in zip(names, students, figures):
        d, n, heads, kv, ff = s.shape
        t = {"model.embed_tokens.weight": s.emb, "model.norm.weight": s.nf}
        for i, l in enumerate(s.layers):
            p = f"model.layers.{i}."
            t |= {p + "input_layernorm.weight": l.n1, p + "post_attention_layernorm.weight": l.n2, p + "self_attn.q_norm.weight": l.qn, p + "self_attn.k_norm.weight": l.kn}
            t |= {p + f"self_attn.{a}_proj.weight": getattr(l, a) for a in "qkvo"} | {p + f"mlp.{a}_proj.weight": getattr(l, a) for a in ("gate", "up", "down")}
        # linear weights in the values that mxfp4 keeps; bf16 holds these exactly
        t = {k: (rounded(v.detach()) if k.endswith("_proj.weight") else v.detach()).bfloat16().cpu().contiguous() for k, v in t.items()}
        save_file(t, f"{out_dir}/{name}.safetensors")
        cfg = dict(hidden_size=d, num_hidden_layers=n, num_attention_heads=heads, num_key_value_heads=kv, head_dim=64, intermediate_size=ff,
                   rope_theta=THETA, rms_norm_eps=EPS, vocab_size=V, max_position_embeddings=2048)
        json.dump({"config": cfg, "figures": f, "steps": step, "tokens": tokens}, open(f"{out_dir}/{name}.json", "w"))


def main():
    with torch.no_grad():
        whole = teacher["emb"].float() * teacher["nf"]
        basis = torch.linalg.svd(whole.T @ whole)[0]
        start = whole @ basis
        start = start / start[:, :128].std() * .03
    students = [Student(STUDENTS[n], start) for n in names]
    for n, s in zip(names, students):
        log(n, "parameters", sum(p.numel() for p in s.parameters()) / 1e6)
    opts = [torch.optim.AdamW([{"params": [p for p in s.parameters() if p.ndim > 1], "weight_decay": .02},
                               {"params": [p for p in s.parameters() if p.ndim == 1], "weight_decay": 0}], lr=1e-3, betas=(.9, .98), fused=DEV == "cuda") for s in students]
    pool = Pool()
    for _ in range(1 if TINY else 8):
        pool.add(n_val, len(ids))
    sets = [own_text(T + 300, n_val) for _ in range(1 if TINY else 3)] if n_val > 2 * T + 300 else [own_text(0, len(ids))]
    log("own text", sum(x.numel() for x in pool.x))
    LR, step, saved, began = 3e-3, 0, time.time(), time.time()
    tail = 2 if TINY else 15  # seconds for the last figures
    while True:
        f = (time.time() - began) / max(1, STARTED + seconds - tail - began)
        if f >= 1:
            break
        if saved + 120 < time.time():
            save(students, [None] * len(students), step, step * B * T)
            saved = time.time()
            log("saved")
        on = f > .6
        lr = LR * min(1, (step + 1) / 200) * (1 if f < .4 else max(.01, (1 - f) / .6))
        for o in opts:
            for g in o.param_groups:
                g["lr"] = lr
        if not TINY and step % 200 == 199:
            pool.add(n_val, len(ids))
        x, w = pool.batch() if rng.random() < .6 else corpus_batch(n_val, len(ids))
        loss = learn(students, x, w, on)
        for s, o in zip(students, opts):
            nn.utils.clip_grad_norm_(s.parameters(), 1.0)
            o.step()
            o.zero_grad(set_to_none=True)
        step += 1
        if step % (2 if TINY else 200) == 0:
            log(f"step {step} f {f:.2f} on {int(on)} lr {lr:.1e}", *(f"{n} {l.item():.3f}" for n, l in zip(names, loss)))
    figures = measure(students, sets, True)
    save(students, figures, step, step * B * T)
    for n, f in zip(names, figures):
        log(n, json.dumps(f))
    log("end", step)


if __name__ == "__main__":  # train_mtp_layer.py takes the teacher and the text from here
    main()
