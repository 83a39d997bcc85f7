"""Writes a folder with a model of a real size and random weights, to measure opening and writing on.

    python3 make_large.py gpt2 DIR [float32|bfloat16|float16]      GPT-2 small, 124 million weights
    python3 make_large.py llama DIR bfloat16                       1.2 billion weights, as Llama 3.2 has them

Beside it lies a byte-level tokenizer of 256 tokens, so that any text can be read.
"""

import json
import sys
from pathlib import Path

import torch
import transformers as tf


def tokenizer(folder):
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown, more = {b: chr(b) for b in printed}, 256
    for b in range(256):
        if b not in shown:
            shown[b], more = chr(more), more + 1
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {shown[b]: b for b in range(256)}, "merges": []}}))


def main():
    kind, folder = sys.argv[1], Path(sys.argv[2])
    dtype = getattr(torch, sys.argv[3] if len(sys.argv) > 3 else "float32")
    torch.manual_seed(1)
    if kind == "gpt2":
        model = tf.GPT2LMHeadModel(tf.GPT2Config())
    else:
        torch.set_default_dtype(dtype)
        model = tf.LlamaForCausalLM(tf.LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
            num_attention_heads=32, num_key_value_heads=8, head_dim=64, max_position_embeddings=131072,
            rms_norm_eps=1e-5, tie_word_embeddings=True))
    model.to(dtype).save_pretrained(folder)
    tokenizer(folder)


main()
