#!/usr/bin/env python3
"""Writes unicode_table.c: one byte per code point, in two stages of 128.

Classes come from tests/data/unicode/classes.json.xz (what Hugging Face `tokenizers` sees, Unicode 16);
the NFC bit from Python's unicodedata (any version from 13 on; code points that it does not know
take the slow path). Run by hand when the truth changes:
    python3 engine/base/unicode_table.py > engine/base/unicode_table.c
"""
import json
import lzma
import os
import unicodedata as u

here = os.path.dirname(os.path.abspath(__file__))
classes = json.load(lzma.open(os.path.join(here, "../../tests/data/unicode/classes.json.xz")))
# the order of enum unicode_class in utf8.h
order = [r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\s"]
N = 0x110000
table = bytearray(N)
for i, name in enumerate(order):
    for lo, hi in classes[name]["ranges"]:
        for cp in range(int(lo, 16), int(hi, 16) + 1):
            assert table[cp] == 0, "classes overlap"
            table[cp] = i + 1
for lo, hi in classes[r"\p{L}"]["ranges"]:
    assert all(1 <= table[cp] <= 5 for cp in range(int(lo, 16), int(hi, 16) + 1))

seconds = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
for cp in range(N):
    d = u.decomposition(chr(cp))
    if d and not d.startswith("<") and " " in d and u.normalize("NFC", chr(cp)) == chr(cp):
        seconds.add(int(d.split()[1], 16))
for cp in range(N):
    c = chr(cp)
    unknown = u.category(c) == "Cn"
    if unknown or u.combining(c) or cp in seconds or u.normalize("NFC", c) != c:
        table[cp] |= 0x10
    # PCRE2 10.42 knows Unicode 14, and takes U+180E for a space
    if (unknown and table[cp] & 15) or cp == 0x180E:
        table[cp] |= 0x20

SIZE = 128
blocks, index = {}, []
for b in range(0, N, SIZE):
    index.append(blocks.setdefault(bytes(table[b : b + SIZE]), len(blocks)))
assert len(blocks) < 65536
print("/* Made by unicode_table.py; not edited by hand. */")
print('#include "engine/base/utf8.h"\n')
print("/* clang-format off */")
print("const uint16_t unicode_index[%d] = {" % len(index))
for i in range(0, len(index), 24):
    print(",".join(str(x) for x in index[i : i + 24]) + ",")
print("};\n\nconst uint8_t unicode_blocks[%d][%d] = {" % (len(blocks), SIZE))
for b in blocks:
    print("{" + ",".join(str(x) for x in b) + "},")
print("};")
