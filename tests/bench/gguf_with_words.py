"""Gives a GGUF file of `sluice synth` the demo model's tokenizer and template, so that a server can chat with it.

By hand, for tests/bench/replay.mjs; needs the package gguf: python gguf_with_words.py FROM.gguf DEMO_MODEL_DIR TO.gguf"""
import json
import pathlib
import sys

import gguf

source, demo, target = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
reader = gguf.GGUFReader(source)
arch = bytes(reader.fields["general.architecture"].parts[-1]).decode()
writer = gguf.GGUFWriter(target, arch)
for name, field in reader.fields.items():
    if name.startswith(("GGUF.", "tokenizer.")) or name == "general.architecture":
        continue
    kind, value = field.types[0], field.contents()
    if kind == gguf.GGUFValueType.ARRAY:
        writer.add_array(name, value)
    else:
        writer.add_key_value(name, value, kind)

tokenizer = json.loads((demo / "tokenizer.json").read_text())
vocab = {**tokenizer["model"]["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]}}
special = {t["id"]: t["special"] for t in tokenizer["added_tokens"]}
n = next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1]
names = {i: t for t, i in vocab.items()}
kinds = gguf.TokenType
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("qwen2")
writer.add_token_list([names.get(i, f"[unused{i}]") for i in range(n)])
writer.add_token_types([(kinds.CONTROL if special[i] else kinds.USER_DEFINED) if i in special else kinds.NORMAL if i in names else kinds.UNUSED for i in range(n)])
writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
writer.add_bos_token_id(vocab["<|endoftext|>"])
writer.add_eos_token_id(vocab["<|im_end|>"])
writer.add_pad_token_id(vocab["<|endoftext|>"])
writer.add_add_bos_token(False)
writer.add_chat_template((demo / "chat_template.jinja").read_text())

for tensor in reader.tensors:
    writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
