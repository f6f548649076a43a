#!/usr/bin/env python3
"""Makes tests/data/embedding: tiny random encoders and a decoder, with the vectors and scores that
sentence-transformers and transformers give for them. Run by hand, in an environment of its own:

    python3 -m venv V && V/bin/pip install torch transformers sentence-transformers gguf
    V/bin/python tests/tools/make_embedding_goldens.py

bert      BertModel, WordPiece, mean pooling
bert-gguf the same as GGUF (q8_0), first token; its vectors are those of its own, rounded weights
xlmr      XLMRobertaForSequenceClassification with one label, unigram; scores of pairs
qwen3     Qwen3Model, byte-level BPE, last token; vectors, and scores by "yes" and "no"
"""
import json
import os
import shutil
import struct
import tempfile

import numpy as np
import torch
import transformers as tf
from gguf import GGMLQuantizationType, GGUFWriter, quantize, dequantize
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/embedding")
CORPUS = ["the quick brown fox jumps over the lazy dog", "a river runs through the green valley",
          "how many people live in the city of berlin", "berlin has about four million people",
          "the cat sat on the mat and slept", "machine learning finds patterns in numbers",
          "yes no maybe never", "der schnelle braune fuchs springt", "paris is the capital of france"] * 4
TEXTS = ["The quick brown fox.", "how many people live in berlin?", "Café naïve ÉCOLE – «quoted» €5",
         "a", "  spaces\tand\nlines  ", "日本語 text", "x" * 120 + " end", "berlin has four million people; paris has two.",
         "e\u0301te\u0301 \u1e9b\u0323 \ufb01nd \uff21\uff22", "the " * 25]
PAIRS = [("how many people live in berlin", d) for d in
         ("berlin has about four million people", "the cat sat on the mat", "Paris, the capital", "a b c")]


def charsmap(pairs):
    """SentencePiece's precompiled map for a few texts: a double array of darts-clone's form."""
    texts, place = b"", {}
    for a, b in pairs:
        place[a.encode()] = len(texts)
        texts += b.encode() + b"\0"
    used, units = {0}, {0: 0}

    def build(at, keys, depth):
        nexts = sorted({k[depth] for k in keys if len(k) > depth})
        leaf = [k for k in keys if len(k) == depth]
        labels = ([0] if leaf else []) + nexts
        offset = 1
        while any(at ^ offset ^ c in used for c in labels) or offset >> 21:
            offset += 1
        assert offset < 1 << 21
        units[at] |= offset << 10 | (256 if leaf else 0)
        for c in labels:
            child = at ^ offset ^ c
            used.add(child)
            units[child] = (1 << 31 | place[leaf[0]]) if c == 0 and leaf else c
        for c in nexts:
            build(at ^ offset ^ c, [k for k in keys if len(k) > depth and k[depth] == c], depth + 1)

    build(0, list(place), 0)
    array = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(max(used) + 1))
    return struct.pack("<I", len(array)) + array + texts


def save(name, model, tokenizer, pooling=None):
    path = os.path.join(ROOT, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    model.half().save_pretrained(path)
    tokenizer.save(os.path.join(path, "tokenizer.json"), pretty=False)
    for f in os.listdir(path):
        if f not in ("config.json", "model.safetensors", "tokenizer.json"):
            os.remove(os.path.join(path, f))
    if pooling:
        os.makedirs(os.path.join(path, "1_Pooling"))
        json.dump({"word_embedding_dimension": 32, "pooling_mode_cls_token": pooling == "cls",
                   "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_lasttoken": pooling == "lasttoken"},
                  open(path + "/1_Pooling/config.json", "w"))
        kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
        json.dump([{"idx": i, "name": str(i), "path": p, "type": "sentence_transformers.models." + t}
                   for i, (t, p) in enumerate(kinds)], open(path + "/modules.json", "w"))
    return path


def wrap(tokenizer, **words):
    return tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **words)


def encode(path, fast, pooling):
    """By sentence-transformers, in 32 bits from the rounded weights."""
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(path, d, dirs_exist_ok=True)
        fast.save_pretrained(d)
        words = Transformer(d, max_seq_length=64, model_args={"dtype": torch.float32})
        st = SentenceTransformer(modules=[words, Pooling(32, pooling_mode=pooling), Normalize()], device="cpu")
        return [st.encode([t])[0].astype(np.float32) for t in TEXTS]


def rounded(v):
    return [float("%.8g" % x) for x in v]


def golden(path, **what):
    json.dump(what, open(os.path.join(path, "golden.json"), "w"), ensure_ascii=True, separators=(",", ":"))


def spread(model):
    """Weights large enough that every part of the model shows in its vectors."""
    for n, p in model.named_parameters():
        with torch.no_grad():
            p.normal_(1 if n.endswith("norm.weight") or n.endswith("LayerNorm.weight") else 0, 0.25)


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=170, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=60))
    vocab = t.get_vocab()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
    torch.manual_seed(1)
    c = tf.BertConfig(vocab_size=len(vocab), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=32, max_position_embeddings=64, pad_token_id=0)
    m = tf.BertModel(c, add_pooling_layer=False)
    spread(m)
    path = save("bert", m, t, "mean")
    fast = wrap(t, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    golden(path, task="embed", texts=TEXTS, ids=[t.encode(x, add_special_tokens=False).ids for x in TEXTS],
           vectors=[rounded(v) for v in encode(path, fast, "mean")])
    bert_gguf(path, t, fast)


def bert_gguf(source, t, fast):
    path = os.path.join(ROOT, "bert-gguf")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    w = GGUFWriter(path + "/bert.gguf", "bert")
    w.add_block_count(2), w.add_context_length(64), w.add_embedding_length(32), w.add_feed_forward_length(32)
    w.add_head_count(2), w.add_layer_norm_eps(1e-12), w.add_causal_attention(False), w.add_uint32("bert.pooling_type", 2)
    vocab = sorted(t.get_vocab().items(), key=lambda x: x[1])
    special = [x[0].startswith("[") and x[0].endswith("]") and len(x[0]) > 2 for x in vocab]
    spelled = [n if s else n[2:] if n.startswith("##") else "\u2581" + n for (n, _), s in zip(vocab, special)]
    w.add_tokenizer_model("bert"), w.add_tokenizer_pre("jina-v2-en"), w.add_token_list(spelled)
    w.add_token_types([3 if s else 1 for s in special]), w.add_token_type_count(2)
    ids = t.get_vocab()
    w.add_unk_token_id(ids["[UNK]"]), w.add_pad_token_id(0), w.add_uint32("tokenizer.ggml.cls_token_id", ids["[CLS]"]), w.add_sep_token_id(ids["[SEP]"])
    state, back = load_file(source + "/model.safetensors"), {}
    names = {"embeddings.word_embeddings.weight": "token_embd.weight", "embeddings.position_embeddings.weight": "position_embd.weight",
             "embeddings.token_type_embeddings.weight": "token_types.weight", "embeddings.LayerNorm": "token_embd_norm",
             "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
             "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
             "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
    for name, v in state.items():
        short = name
        for a in sorted(names, key=len, reverse=True):
            short = short.replace(a, names[a])
        short = short.replace("encoder.layer.", "blk.")
        a = v.float().numpy()
        if a.ndim == 2 and not short.startswith("token_types") and not short.startswith("position"):
            q = quantize(a, GGMLQuantizationType.Q8_0)
            w.add_tensor(short, q, raw_dtype=GGMLQuantizationType.Q8_0)
            a = dequantize(q, GGMLQuantizationType.Q8_0)
        else:
            w.add_tensor(short, a)
        back[name] = torch.from_numpy(a.copy()).contiguous()
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(source, d, dirs_exist_ok=True)
        save_file(back, d + "/model.safetensors", metadata={"format": "pt"})
        vectors = encode(d, fast, "cls")
    golden(path, task="embed", model="bert.gguf", texts=TEXTS, ids=[t.encode(x, add_special_tokens=False).ids for x in TEXTS],
           vectors=[rounded(v) for v in vectors])


def xlmr():
    t = Tokenizer(models.Unigram())
    table = charsmap([("\ufb01", "fi"), ("\uff21", "A"), ("\uff22", "B"), ("e\u0301", "\u00e9"), ("\t", " "), ("\n", " "),
                      ("\u2013", "-"), ("\u1e9b\u0323", "\u1e69")])
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.train_from_iterator(CORPUS + ["Café école naïve éte find"], trainers.UnigramTrainer(
        vocab_size=150, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>"))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    t.decoder = decoders.Metaspace()
    torch.manual_seed(2)
    c = tf.XLMRobertaConfig(vocab_size=t.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                            intermediate_size=32, max_position_embeddings=66, type_vocab_size=1, num_labels=1,
                            pad_token_id=1, layer_norm_eps=1e-5)
    m = tf.XLMRobertaForSequenceClassification(c)
    spread(m)
    path = save("xlmr", m, t)
    fast = wrap(t, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>")
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(path, d, dirs_exist_ok=True)
        fast.save_pretrained(d)
        scores = [float(CrossEncoder(d, max_length=64, device="cpu", model_kwargs={"dtype": torch.float32}).predict([p])[0]) for p in PAIRS]
    golden(path, task="score", texts=TEXTS, ids=[t.encode(x, add_special_tokens=False).ids for x in TEXTS],
           pairs=[list(p) for p in PAIRS], pair_ids=[t.encode(*p).ids for p in PAIRS], scores=rounded(scores))


def qwen3():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    t.train_from_iterator(CORPUS + ["yes", "no"] * 20, trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special))
    t.add_tokens([AddedToken(w, special=False, normalized=False) for w in ("<think>", "</think>")])
    for w in ("yes", "no"):
        if t.token_to_id(w) is None:
            t.add_tokens([AddedToken(w, normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>", pair="$A $B <|endoftext|>",
                                                     special_tokens=[("<|endoftext|>", t.token_to_id("<|endoftext|>"))])
    t.decoder = decoders.ByteLevel()
    torch.manual_seed(3)
    c = tf.Qwen3Config(vocab_size=t.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                       num_key_value_heads=1, head_dim=16, intermediate_size=32, max_position_embeddings=512,
                       tie_word_embeddings=True, rope_theta=10000.0)
    m = tf.Qwen3ForCausalLM(c)
    spread(m)
    path = save("qwen3", m, t, "lasttoken")
    fast = wrap(t, pad_token="<|endoftext|>", eos_token="<|endoftext|>")
    ids, scores = judge(path, t)
    golden(path, task="embed", texts=TEXTS, ids=[t.encode(x, add_special_tokens=False).ids for x in TEXTS],
           vectors=[rounded(v) for v in encode(path, fast, "lasttoken")],
           pairs=[list(p) for p in PAIRS], pair_ids=ids, scores=rounded(scores))


def judge(path, t):
    """As Qwen3-Reranker's model card has it."""
    before = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. '
              'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
    after = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    task = "Given a web search query, retrieve relevant passages that answer the query"
    m = tf.Qwen3ForCausalLM.from_pretrained(path, dtype=torch.float32)
    all_ids, scores = [], []
    for query, document in PAIRS:
        ids = sum((t.encode(x, add_special_tokens=False).ids for x in
                   (before, f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}", after)), [])
        with torch.no_grad():
            last = m(torch.tensor([ids])).logits[0, -1]
        two = torch.stack([last[t.token_to_id("no")], last[t.token_to_id("yes")]])
        scores.append(float(torch.nn.functional.softmax(two, dim=0)[1]))
        all_ids.append(ids)
    return all_ids, scores


if __name__ == "__main__":
    torch.set_num_threads(1)
    bert()
    xlmr()
    qwen3()
