"""Writes inside_gpt2.safetensors: what transformers computes inside golden/gpt2, taken apart by hooks.

    python3 make_inside.py                 (transformers 5.22.2, torch 2.13.0, on the CPU)

`ids` [L] and `other` [L] are two texts. `lens` [blocks + 1, L, V]: the last norm and the output layer on
what goes into each block, and on what comes out of the last. `lost` [blocks, heads]: the mean log p of the
text's tokens, the first left out, less that without the head. `patched` [blocks, L, V]: logits after the
text when a row that goes into a block is the other text's.
"""

from pathlib import Path

import torch
import transformers as tf
from safetensors.torch import save_file

HERE = Path(__file__).parent
model = tf.GPT2LMHeadModel.from_pretrained(HERE / "golden/gpt2").eval()
blocks, heads = model.config.n_layer, model.config.n_head
depth = model.config.n_embd // heads
ids, other = torch.tensor([7, 23, 41, 7, 23, 12]), torch.tensor([7, 30, 41, 7, 50, 12])


def rows_of(text):
    """What goes into each block, and comes out of the last: [1,L,W] each."""
    rows = []
    hooks = [b.register_forward_pre_hook(lambda m, x: rows.append(x[0].clone())) for b in model.transformer.h]
    hooks.append(model.transformer.ln_f.register_forward_pre_hook(lambda m, x: rows.append(x[0].clone())))
    model(text[None])
    for h in hooks:
        h.remove()
    return rows


def log_p(logits):
    return torch.log_softmax(logits[0, :-1], -1).gather(1, ids[1:, None]).mean()


with torch.no_grad():
    own, others = rows_of(ids), rows_of(other)
    lens = torch.stack([model.lm_head(model.transformer.ln_f(r))[0] for r in own])
    whole, lost = log_p(model(ids[None]).logits), torch.zeros(blocks, heads)
    for b in range(blocks):
        for h in range(heads):
            def leave_out(m, x, h=h):
                y = x[0].clone()
                y[..., h * depth : (h + 1) * depth] = 0
                return (y,)
            hook = model.transformer.h[b].attn.c_proj.register_forward_pre_hook(leave_out)
            lost[b, h] = whole - log_p(model(ids[None]).logits)
            hook.remove()
    patched = torch.zeros(blocks, len(ids), model.config.vocab_size)
    for b in range(blocks):
        for t in range(len(ids)):
            def exchange(m, x, b=b, t=t):
                y = x[0].clone()
                y[:, t] = others[b][:, t]
                return (y, *x[1:])
            hook = model.transformer.h[b].register_forward_pre_hook(exchange)
            patched[b, t] = model(ids[None]).logits[0, -1]
            hook.remove()

save_file({"ids": ids, "other": other, "lens": lens, "lost": lost, "patched": patched},
          HERE / "inside_gpt2.safetensors")
