#!/usr/bin/env python3
"""Writes src/tokens/unicode_table.inc: what the `tokenizers` package says of every code point.

    python3 tests/tokens/unicode_table.py        (needs: pip install tokenizers sentencepiece)

The package mixes several versions of Unicode, so each property is asked of the part that uses it.
"""
import io
import os
import sys

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

OUT = os.path.join(os.path.dirname(__file__), "..", "..", "src", "tokens", "unicode_table.inc")
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = 8 if key & 7 == 1 else 4
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def charsmap_a_to_b():
    """A precompiled map with one rule: a becomes b."""
    with open("/tmp/rule.tsv", "w") as rule:
        rule.write("61\t62\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some words to learn", "of letters"] * 10), model_writer=model,
        vocab_size=30, model_type="unigram", normalization_rule_tsv="/tmp/rule.tsv",
        hard_vocab_limit=False, minloglevel=3)
    normalizer = dict(fields(model.getvalue()))[3]
    return dict(fields(normalizer))[2]


def bits():
    """For each bit of tokens/characters.h, in order: whether a character has it."""
    def removed(pattern):
        split = pre_tokenizers.Split(Regex(pattern), "removed")
        return lambda c: not split.pre_tokenize_str(c)

    bert = pre_tokenizers.BertPreTokenizer()
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False,
                                       lowercase=False)
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                                       lowercase=False)
    accents, nfkd, nfd = normalizers.StripAccents(), normalizers.NFKD(), normalizers.NFD()
    single = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    single.add_tokens([AddedToken("<q>", single_word=True, normalized=False)])
    mapped = normalizers.Precompiled(charsmap_a_to_b())
    return [
        removed(r"\p{L}"),
        removed(r"\p{N}"),
        lambda c: len(bert.pre_tokenize_str("a" + c + "a")) == 3,
        lambda c: clean.normalize_str("a" + c + "a") == "aa",
        lambda c: strip.normalize_str("a" + c) == "a",
        lambda c: accents.normalize_str("a" + c) == "a",
        lambda c: 1 not in single.encode(c + "<q>").ids,
        lambda c: nfkd.normalize_str(c) != c,
        lambda c: nfd.normalize_str("\u0345" + c)[0] != "\u0345",
        lambda c: mapped.normalize_str("a" + c) == "b",
    ]


def check_the_pattern_of_gpt2():
    """It is compiled apart from those of files: the same letters and numbers?"""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letter, number = bits()[:2]
    space = pre_tokenizers.Split(Regex(r"\s"), "removed")
    for code in ALL:
        c = chr(code)
        assert (len(level.pre_tokenize_str("a" + c)) == 1) == letter(c), hex(code)
        assert (len(level.pre_tokenize_str("1" + c)) == 1) == number(c), hex(code)
        other = not letter(c) and not number(c) and bool(space.pre_tokenize_str(c))
        assert (len(level.pre_tokenize_str("!" + c)) == 1) == other, hex(code)


def runs():
    asked = bits()
    found, last, length = [], 0, 0
    for code in range(0x110000):
        mask = 0
        if not 0xD800 <= code < 0xE000:
            c = chr(code)
            mask = sum(1 << i for i, has in enumerate(asked) if has(c))
        if mask != last and length:
            found.append(length << len(asked) | last)
            length = 0
        last = mask
        length += 1
    found.append(length << len(asked) | last)
    return found


def lower_rows():
    lower = normalizers.Lowercase()
    pairs = []
    for code in ALL:
        small = lower.normalize_str(chr(code))
        if small == chr(code) or code < 0x80:
            continue
        if len(small) == 1:
            pairs.append((code, ord(small) - code))
        else:
            assert (code, small) == (0x130, "i\u0307"), hex(code)
    rows = []  # first, last, step, delta
    for code, delta in pairs:
        if rows and rows[-1][3] == delta:
            first, last, step, _ = rows[-1]
            if (first == last and code - last <= 2) or (first != last and code - last == step):
                rows[-1] = (first, code, code - last, delta)
                continue
        rows.append((code, code, 1, delta))
    return rows


def main():
    if "--check" in sys.argv:
        check_the_pattern_of_gpt2()
    lines = [f"// Made by tests/tokens/unicode_table.py, of tokenizers {tokenizers.__version__}.",
             "// How many code points go on with which classes: length << kClassBits | classes.",
             "constexpr uint32_t kClassRuns[] = {"]

    def add(items):
        line = "   "
        for item in items:
            if len(line) + len(item) + 2 > 100:
                lines.append(line)
                line = "   "
            line += " " + item + ","
        lines.extend([line, "};"])

    add([str(run) for run in runs()])
    lines.append("constexpr LowerRow kLower[] = {")
    add(["{0x%X, 0x%X, %d, %d}" % row for row in lower_rows()])
    with open(OUT, "w") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
