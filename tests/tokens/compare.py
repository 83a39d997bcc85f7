#!/usr/bin/env python3
"""Holds build/fovea's tokens against the package `tokenizers`: ids, places and decoded text.

    python3 tests/tokens/make_tokenizers.py /tmp/tokenizers --size 2000 --real-map
    python3 tests/tokens/compare.py /tmp/tokenizers/*        [--mixes 10000] [--alone 1114112] [--first N]

For every folder: all code points as words and between letters (a few hundred a text); the first ALONE of
them as texts of their own; random mixes of words, spaces, apostrophes, added tokens, marks and anything.
Needs: pip install tokenizers (and transformers for folders with .spm files)
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CODES = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
WORDS = ["the", "attention", "looks", "I'm", "we'll", "don't", "they've", "'S", "'LL", "'ſ", "x's", "2024", "3.14",
         "1234567", "naïve", "café", "cafe\u0301", "straße", "İstanbul", "Ǆ", "ﬁne", "北京", "東京タワー", "한국어",
         "हिन्दी", "עברית", "العربية", "ไทย", "😀", "👩\u200d👩\u200d👧", "🇫🇷", "e\u0301\u0323", "a\u0323\u0301", "``", "''",
         "...", "?!", "a-b_c", "http://a.b/c?d=e", "▁", "▁▁a", "Ġ", "Ċ", "<0x0A>", "##ing", "\u00ad", "\u200b", "\ufeff",
         "ｶﾞ", "㌔", "\u0344", "ﷺ", "A" * 120, "a", "no", "©\u200d©", "\u0600a", "\ufffd"]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n ", "\t", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", ""]


def packed(form):
    for i in range(0, len(CODES), 256):
        yield form.join(CODES[i : i + 256])


def mixes(count, added, seed):
    chance = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(chance.randint(1, 12)):
            kind = chance.random()
            if kind < 0.45:
                parts.append(chance.choice(WORDS))
            elif kind < 0.7:
                parts.append(chance.choice(SPACES))
            elif kind < 0.82 and added:
                token = chance.choice(added)
                cut = chance.random()
                parts.append(token if cut < 0.6 else token[: chance.randint(0, len(token))] if cut < 0.8
                             else token[chance.randint(0, len(token)) :])
            elif kind < 0.9:
                parts.append(chr(chance.choice([0x300, 0x5D0, 0x900, 0xE00, 0x1100, 0x1F1E6, 0x1F3FB, 0xFB00])
                                 + chance.randint(0, 40)))
            elif kind < 0.95:
                parts.append(chance.choice(CODES))
            else:
                parts.append(chr(chance.randint(0, 0x7F)))
        yield "".join(parts)


def ours(program, folder, texts, extra=()):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as asked:
        for text in texts:
            asked.write(json.dumps(text) + "\n")
        asked.flush()
        done = subprocess.run([program, "tokens", folder, "--lines", asked.name, *extra], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def byte_places(text, places):
    at, starts = 0, []
    for c in text:
        starts.append(at)
        at += len(c.encode())
    starts.append(at)
    return [[starts[min(b, len(text))], starts[min(e, len(text))]] for b, e in places]


def theirs(tokenizer, text, pair=None):
    encoding = tokenizer.encode(text, pair)
    return {"ids": encoding.ids, "types": encoding.type_ids,
            "offsets": None if pair else byte_places(text, encoding.offsets),
            "decoded": tokenizer.decode(encoding.ids),
            "decoded_whole": tokenizer.decode(encoding.ids, skip_special_tokens=False)}


def differences(tokenizer, program, folder, texts, pair=None):
    wrong = []
    for text, got in zip(texts, ours(program, folder, texts, ["--pair", pair] if pair else [])):
        want = theirs(tokenizer, text, pair)
        parts = [k for k, v in want.items() if v is not None and got[k] != v]
        if parts:
            wrong.append((text, parts, want, got))
    return wrong


def tell(name, what, count, wrong, first):
    print(f"{name:12} {what:16} {count:8} texts, {len(wrong)} differ", flush=True)
    for text, parts, want, got in wrong[:first]:
        print("   ", ascii(text[:80]), parts)
        for part in parts:
            print("      theirs", ascii(str(want[part])[:300]), "\n      ours  ", ascii(str(got[part])[:300]))


def compare(asked, folder):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    sets = {"words": list(packed(" ")), "between letters": [f"a{t}b" for t in packed("b a")],
            "glued": list(packed("a")), "alone": CODES[: asked.alone],
            "mixes": list(mixes(asked.mixes, added, folder)), "empty": ["", " ", "\n", "  a  "]}
    failed = 0
    for what, texts in sets.items():
        wrong = differences(tokenizer, asked.program, folder, texts)
        tell(os.path.basename(folder), what, len(texts), wrong, asked.first)
        failed += len(wrong)
    pairs = list(mixes(200, added, 5))
    wrong = differences(tokenizer, asked.program, folder, pairs, pair="a second  text's end")
    tell(os.path.basename(folder), "pairs", len(pairs), wrong, asked.first)
    return failed + len(wrong)


def compare_by_transformers(asked, folder):
    """Of folders without tokenizer.json: ids and decoded text; their tokenizers know no places."""
    from transformers import AutoTokenizer
    reference = AutoTokenizer.from_pretrained(folder)
    texts = [">>fr<< the first", ">>fr<<the first", ">>xx<< a"] + list(
        mixes(asked.mixes, list(reference.all_special_tokens), folder))
    failed = 0
    for side in ("source", "target") if os.path.exists(os.path.join(folder, "target.spm")) else ("source",):
        wrong = []
        for text, got in zip(texts, ours(asked.program, folder, texts, ["--target"] if side == "target" else [])):
            ids = reference(text_target=text)["input_ids"] if side == "target" else reference(text)["input_ids"]
            if got["ids"] != ids:
                wrong.append((text, ["ids"], {"ids": ids}, got))
        tell(os.path.basename(folder), side, len(texts), wrong, asked.first)
        failed += len(wrong)
    return failed


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folders", nargs="+")
    arguments.add_argument("--program", default=os.path.join(ROOT, "build", "fovea"))
    arguments.add_argument("--mixes", type=int, default=10000)
    arguments.add_argument("--alone", type=int, default=0x3000)
    arguments.add_argument("--first", type=int, default=3, help="differences to print")
    asked = arguments.parse_args()
    failed = 0
    for folder in asked.folders:
        whole = os.path.exists(os.path.join(folder, "tokenizer.json"))
        failed += (compare if whole else compare_by_transformers)(asked, folder.rstrip("/"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
