#!/usr/bin/env python3
"""Reduces a tokenizer.json to what its cases can reach: python3 reduce.py FULL.json CASES.jsonl[.gz]... > OUT.json

Keeps every token whose bytes occur anywhere in a case's text (as given, or in NFC), every single
byte, the added tokens, and each merge whose product is kept. What is left out could never have been
a candidate, so that the ids are those of the whole vocabulary. Ids keep their numbers.
"""
import gzip
import json
import sys
import unicodedata

byte_of, nxt = {}, 256
for b in range(256):
    if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174:
        byte_of[chr(b)] = b
    else:
        byte_of[chr(nxt)] = b
        nxt += 1

full = json.load(open(sys.argv[1], encoding="utf8"))
vocab, longest = {}, 0
for token, id in full["model"]["vocab"].items():
    if all(c in byte_of for c in token):
        vocab[bytes(byte_of[c] for c in token)] = token
        longest = max(longest, len(token))
kept = {t for raw, t in vocab.items() if len(raw) == 1}
seen = set()
for name in sys.argv[2:]:
    unpack = gzip.open if name.endswith(".gz") else open
    for line in unpack(name, "rt", encoding="utf8", newline="\n").read().split("\n"):
        case = json.loads(line) if line else {}
        for text in {case.get("text", case.get("full", "")), unicodedata.normalize("NFC", case.get("text", ""))}:
            raw = text.encode("utf8")
            for id in case.get("ids", []):
                seen.add(id)
            for i in range(len(raw)):
                for n in range(2, min(longest, len(raw) - i) + 1):
                    if raw[i : i + n] in vocab:
                        kept.add(vocab[raw[i : i + n]])
kept |= {t for t, id in full["model"]["vocab"].items() if id in seen}
full["model"]["vocab"] = {t: i for t, i in full["model"]["vocab"].items() if t in kept}
parts = lambda m: m if isinstance(m, list) else m.split(" ")
full["model"]["merges"] = [m for m in full["model"]["merges"] if "".join(parts(m)) in kept and set(parts(m)) <= kept]
json.dump(full, sys.stdout, ensure_ascii=False, separators=(",", ":"))
