"""Writes golden/further.json: the losses of 50 steps from a checkpoint, as PyTorch and transformers have them.

    python3 further_golden.py                 (transformers 5.22.2, torch 2.13.0, on the CPU)

The models are those of tests/checkpoints/golden, the data golden/further.txt and golden/further.tsv. Every step
sees all of what is trained on, so that batches are the same: of the text, its lines but the last, as one window.
AdamW, no dropout, gradients clipped to a norm of 1; biases, norms and positions do not decay.
"""

import json
from pathlib import Path

import tokenizers as tk
import torch
import transformers as tf

HERE = Path(__file__).parent
MODELS = HERE.parent / "checkpoints" / "golden"
STEPS, RATE, DECAY, BETAS = 50, 3e-3, 0.05, (0.9, 0.98)
FROZEN = ("wte", "wpe", ".h.0.", "embeddings", ".layer.0.")  # with --freeze 1


def losses(model, loss_of, freeze):
    plain, decaying = [], []
    for name, p in model.named_parameters():
        p.requires_grad_(not (freeze and any(part in name for part in FROZEN)))
        if not p.requires_grad:
            continue
        no_decay = name.endswith("bias") or "ln_" in name or "norm" in name.lower() or "wpe" in name or (
            "position_embeddings" in name)
        (plain if no_decay else decaying).append(p)
    groups = [dict(params=plain, weight_decay=0.0), dict(params=decaying, weight_decay=DECAY)]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=1e-8)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        found.append(round(loss.item(), 6))
    return found


def text_loss():
    lines = (HERE / "golden" / "further.txt").read_text().splitlines()
    tokenizer = tk.Tokenizer.from_file(str(MODELS / "gpt2" / "tokenizer.json"))
    ids = torch.tensor([tokenizer.encode("\n".join(lines[:-1]) + "\n").ids])
    assert ids.shape[1] <= 65, ids.shape

    def loss_of(model):
        logits = model(ids[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits[0], ids[0, 1:])

    return loss_of


def class_loss():
    tokenizer = tk.Tokenizer.from_file(str(MODELS / "bert_tells" / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=20)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    lines = [line.split("\t") for line in (HERE / "golden" / "further.tsv").read_text().splitlines()]
    rows = tokenizer.encode_batch([text for _, text in lines])
    ids = torch.tensor([row.ids for row in rows])
    mask = torch.tensor([row.attention_mask for row in rows])
    assert int(mask.sum(1).max()) == 20 and int(mask.sum(1).min()) < 20
    classes = torch.tensor([["bad", "fair", "good"].index(label) for label, _ in lines])

    def loss_of(model):
        logits = model(ids, attention_mask=mask).logits
        return torch.nn.functional.cross_entropy(logits, classes)

    return loss_of


def main():
    torch.set_num_threads(1)
    golden = {"steps": STEPS, "rate": RATE, "decay": DECAY}
    cases = {"lm": (tf.GPT2LMHeadModel, "gpt2", text_loss()),
             "documents": (tf.BertForSequenceClassification, "bert_tells", class_loss())}
    for task, (kind, folder, loss_of) in cases.items():
        for name, freeze in (("all", False), ("frozen", True)):
            model = kind.from_pretrained(MODELS / folder).eval()
            golden[f"{task}.{name}"] = losses(model, loss_of, freeze)
            print(task, name, golden[f"{task}.{name}"][::10])
    gemma = tf.Gemma2ForCausalLM.from_pretrained(MODELS / "gemma2", attn_implementation="eager").eval()
    golden["lm.capped"] = losses(gemma, text_loss(), False)
    print("lm capped", golden["lm.capped"][::10])
    (HERE / "golden" / "further.json").write_text(json.dumps(golden) + "\n")


main()
