#!/usr/bin/env python3
"""Writes optimizers.json: weights after each of some steps of PyTorch's optimizers, in float64 and
rounded once. Needs torch."""
import json
import pathlib

import torch

N, STEPS = 21, 12
RATES = [0.1 * 0.8**t for t in range(STEPS)]
CASES = {
    "adam": (torch.optim.Adam, {"betas": (0.9, 0.999), "eps": 1e-8}),
    "adam decay": (torch.optim.Adam, {"betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.05}),
    "sgd": (torch.optim.SGD, {"momentum": 0.0}),
    "sgd momentum decay": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.02}),
}


def single(values):
    return values.to(torch.float32).flatten().tolist()


torch.manual_seed(1)
start = torch.randn(N).double()
gradients = (torch.randn(STEPS, N) * torch.logspace(-3, 1, N)).double()
cases = []
for name, (kind, options) in CASES.items():
    weight = start.clone().requires_grad_()
    optimizer = kind([weight], lr=RATES[0], **options)
    after = []
    for rate, gradient in zip(RATES, gradients):
        optimizer.param_groups[0]["lr"] = rate
        weight.grad = gradient.clone()
        optimizer.step()
        after.append(weight.detach().clone())
    cases.append({
        "name": name,
        "method": kind.__name__.lower(),
        "beta1": options.get("betas", (0.9, 0.999))[0],
        "beta2": options.get("betas", (0.9, 0.999))[1],
        "epsilon": options.get("eps", 1e-8),
        "momentum": options.get("momentum", 0.0),
        "weight_decay": options.get("weight_decay", 0.0),
        "after": single(torch.stack(after)),
    })
golden = {"torch": torch.__version__, "n": N, "rates": RATES, "start": single(start),
          "gradients": single(gradients), "cases": cases}
path = pathlib.Path(__file__).with_name("optimizers.json")
path.write_text(json.dumps(golden, indent=None, separators=(",", ":")) + "\n")
