"""Holds models that `fovea export` gives back against transformers: the same logits.

    python3 tests/tasks/check_export.py [build/fovea]      (transformers, torch, safetensors)

Trains a few steps of each kind, from the small models of tests/checkpoints/golden and from scratch, gives the run
back, and asks both for the logits of a text.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers as tf
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
FOVEA = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "fovea")
GOLDEN = ROOT / "tests" / "checkpoints" / "golden"
DATA = ROOT / "tests" / "tasks" / "golden"
TEXT = "the old ship came"
STEPS = ["--steps", "5", "--rate", "0.002", "--validate-every", "5"]

LM = ["lm", str(DATA / "further.txt")]
TEXTS = ["documents", str(DATA / "further.tsv"), "--valid", str(DATA / "further.tsv"), "--test-share", "0"]
PAIRS = ["translate", str(DATA / "further_pairs.tsv"), "--valid-sentences", "0", "--watch", "loss"]
SCRATCH = ["--blocks", "2", "--query-depth", "16", "--heads", "2", "--context", "24"]
CASES = {
    "gpt2 from scratch": (LM + SCRATCH + ["--positions", "learned"], tf.AutoModelForCausalLM),
    "gpt2 of subwords": (LM + SCRATCH + ["--positions", "learned", "--unit", "subwords", "--vocab", "60"],
                         tf.AutoModelForCausalLM),
    "llama from scratch": (LM + SCRATCH + ["--norm", "rms", "--activation", "swiglu", "--key-heads", "1"],
                           tf.AutoModelForCausalLM),
}
for name in ("gpt2", "gpt2_bf16", "llama", "llama_scaled", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"):
    if (GOLDEN / name / "tokenizer.json").exists():
        CASES[name] = (LM + ["--from", str(GOLDEN / name)], tf.AutoModelForCausalLM)
for name in ("bert_fills", "bert_tells", "roberta_fills", "roberta_tells", "distilbert_fills", "albert_fills"):
    CASES[name] = (TEXTS + ["--from", str(GOLDEN / name)], tf.AutoModelForSequenceClassification)
for name in ("marian", "t5", "t5_gated"):
    CASES[name] = (PAIRS + ["--from", str(GOLDEN / name)], tf.AutoModelForSeq2SeqLM)


def fovea(*arguments):
    done = subprocess.run([FOVEA, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"fovea {' '.join(map(str, arguments))}: {done.stderr}")


def difference(train, kind, folder):
    fovea("train", *train, *STEPS, "--out", folder / "run")
    fovea("export", folder / "run", folder / "model")
    fovea("predict", folder / "model", TEXT, "--logits", folder / "out.safetensors")
    ours = load_file(folder / "out.safetensors")
    model, report = kind.from_pretrained(folder / "model", output_loading_info=True)
    missing = report["missing_keys"] or report["unexpected_keys"] or report["mismatched_keys"]
    assert not missing, report
    model.eval()
    ids = ours["ids"][None]
    with torch.no_grad():
        if kind is tf.AutoModelForSeq2SeqLM:
            logits = model(ours["source"][None], decoder_input_ids=ids).logits[0]
        else:
            logits = model(ids).logits[0]
    if not any("--from" in word for word in train):  # the tokenizer is ours
        read = tf.AutoTokenizer.from_pretrained(folder / "model")(TEXT)["input_ids"]
        assert read == ours["ids"].tolist(), (read, ours["ids"])
    return float((logits - ours["logits"]).abs().max() / logits.abs().max())


def main():
    tf.logging.set_verbosity_error()
    worst = 0.0
    for name, (train, kind) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = difference(train, kind, Path(folder))
        worst = max(worst, found)
        print(f"{name:20} {found:.2e}")
    print(f"the worst: {worst:.2e}")
    sys.exit(worst > 1e-4)


main()
