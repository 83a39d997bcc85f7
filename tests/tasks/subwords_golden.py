"""Writes golden/subwords.json: subwords of ours, the tokenizer.json that `fovea export` makes of them, and the ids
and texts that the package tokenizers has by it.

    python3 tests/tasks/subwords_golden.py [build/fovea]      (tokenizers 0.23.3)

Holds it, besides, against `fovea tokens` over random mixes."""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import tokenizers as tk

HERE = Path(__file__).parent
FOVEA = sys.argv[1] if len(sys.argv) > 1 else str(HERE.parents[1] / "build" / "fovea")
LINES = ["the old ship came back to the harbour before the storm", "she gave him the key of the house",
         "nobody knew why the clock had stopped", "== the rain was over == and they ran out ====",
         "a quick brown fox jumps, aaa aaaa aaaaaa", "ababab abab banana", "où est le château ? là-bas"] * 3
TEXTS = ["the old ship", "  the\told \r ship ", "", " ", "\n", "the ship\nthe rain\n\nout", "theship shipthe",
         "a aa aaa aaaa aaaaa aaaaaa aaaaaaa", "= == === ==== ===== ======", "abababababab banana",
         "où\u00a0est\u00a0", "Zebra 東京 xyz東", "😀😀 ship😀", "the\u3000rain", "<pad> the <unk> <begin>", "ship\r\nrain"]


def fovea(*arguments, text=None):
    return subprocess.run([FOVEA, *map(str, arguments)], capture_output=True, text=True, check=True, input=text).stdout


def mixes(count):
    drawn = random.Random(1)
    words = [*"abe= \t\n?,", "the", "ship", "aa", "ab", "château", "東", "  ", "rain", "==="]
    return ["".join(drawn.choices(words, k=drawn.randint(1, 12))) for _ in range(count)]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
        fovea("train", "lm", folder / "text.txt", "--unit", "subwords", "--vocab", 110, "--positions", "learned",
              "--blocks", 1, "--query-depth", 8, "--heads", 1, "--context", 16, "--steps", 1, "--out", folder / "run")
        fovea("export", folder / "run", folder / "model")
        theirs = tk.Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
        found = [theirs.encode(text) for text in TEXTS]
        golden = {"vocabulary": json.loads((folder / "run" / "text.vocab").read_text()),
                  "tokenizer": json.loads((folder / "model" / "tokenizer.json").read_text()), "texts": TEXTS,
                  "ids": [e.ids for e in found],
                  "decoded": [theirs.decode(e.ids, skip_special_tokens=True) for e in found]}
        for text in mixes(1000):
            own = json.loads(fovea("tokens", folder / "model", text, "--json"))["ids"]
            assert own == theirs.encode(text).ids, (text, own, theirs.encode(text).ids)
    (HERE / "golden" / "subwords.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n", encoding="utf-8")


main()
