#!/usr/bin/env python3
"""Writes tests/tokens/golden: small tokenizers, and what the package `tokenizers` makes of some texts.

    python3 tests/tokens/make_tokenizers.py tests/tokens/golden --size 400
    python3 tests/tokens/make_goldens.py [NAME...]          all of them by default

cases.json of a folder has texts with their ids, places in bytes and decoded text, and a sum over planes 0
and 1 of Unicode. Needs: pip install tokenizers transformers sentencepiece
"""
import json
import os
import struct
import sys

from compare import mixes, packed, theirs

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
TEXTS = ["", " ", "Hello world", " Hello  world \n", "I'm sure they'll say it isn't ours", "the eye's looks at 12345 things",
         "naïve café cafe\u0301 İstanbul ﬁne ①½…", "北京 and 東京タワー, 한국어", "👩\u200d👩\u200d👧 🇫🇷 e\u0301\u0323",
         "line\r\n\r\nline \t tab\n \n end ", "'S 'LL 'ſ x'Re", "``quoted'' (text)!? a-b_c", "▁▁a Ġ <0x0A> ##ing", "A" * 120,
         "\u00ad\u200b\ufeff\ufffd\x00\x1c"]

# What a folder alone is asked.
MORE = {"contractions": ["x'sa", "x'ſa", "x'Sa", "'ſa", "x 'ſa", "x'ſſa", "x'ſ", "x'ſta", "x'ta'Ma'da", "x'rea'VEa'lla'lLa",
                         "x'ra'la'lſa", "x'Ka"],
        "penalty": ["abc", "ade", "aabc", "abcade", "ab", "ad", "xabc", "bcade"]}


class Sum:
    """FNV-1a, 64 bits, over numbers of 32."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, number):
        for byte in struct.pack("<I", number):
            self.value = ((self.value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF


def sums(tokenizer):
    """Of the first 32 blocks of 256 code points, and of 504, two planes without surrogates."""
    total, found = Sum(), []
    for i, text in enumerate(packed(" ")):
        if i in (32, 504):
            found.append("%016x" % total.value)
        if i == 504:
            return found
        answer = theirs(tokenizer, text)
        for token, (begin, end) in zip(answer["ids"], answer["offsets"]):
            total.add(token), total.add(begin), total.add(end)


def write(folder, golden):
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as out:
        out.write("{\"cases\": [\n" + ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":"))
                                              for case in golden.pop("cases")) + "\n],\n")
        out.write(json.dumps(golden)[1:] + "\n")


def main():
    from tokenizers import Tokenizer
    names = sys.argv[1:] or sorted(os.listdir(GOLDEN))
    for name in names:
        path = os.path.join(GOLDEN, name, "tokenizer.json")
        if not os.path.exists(path):
            continue
        tokenizer = Tokenizer.from_file(path)
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        cases = []
        for text in TEXTS + MORE.get(name, []) + list(mixes(25, added, 1)):
            cases.append({"text": text, **theirs(tokenizer, text)})
        for text in ("the first", "I'm <s> 北"):
            pair = " the second's"
            cases.append({"text": text, "pair": pair, **theirs(tokenizer, text, pair)})
        for case in cases:
            if case["offsets"] is None:
                del case["offsets"]
            if not any(case["types"]):
                del case["types"]
        write(os.path.dirname(path), {"cases": cases, "sums": sums(tokenizer)})

    if "marian" not in names:
        return
    from transformers import AutoTokenizer
    folder = os.path.join(GOLDEN, "marian")
    reference = AutoTokenizer.from_pretrained(folder)
    cases = []
    for text in [">>fr<< the first", ">>fr<<the first", ">>xx<< a"] + TEXTS + list(mixes(20, ["</s>"], 1)):
        cases.append({"text": text, "ids": reference(text)["input_ids"],
                      "target_ids": reference(text_target=text)["input_ids"]})
    write(folder, {"cases": cases, "sums": []})


if __name__ == "__main__":
    main()
