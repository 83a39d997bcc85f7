#!/usr/bin/env python3
"""Writes operations.json: inputs, outputs and gradients of some operations by PyTorch.

Every case's output y is multiplied by fixed numbers and summed; gradients are of that sum.
"""
import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def numbers(t):
    return {"shape": list(t.shape), "values": [float(f"{v:.9g}") for v in t.flatten().tolist()]}


def case(name, f, *shapes):
    inputs = [torch.randn(s, requires_grad=True) for s in shapes]
    y = f(*inputs)
    dy = torch.randn_like(y)
    y.backward(dy)
    return {"name": name, "inputs": [numbers(t.detach()) for t in inputs],
            "output": numbers(y.detach()), "d_output": numbers(dy),
            "gradients": [numbers(t.grad) for t in inputs]}


targets = torch.tensor([1, 4, -100, 0, 2])
running = [torch.zeros(3), torch.ones(3)]
cases = [
    case("gelu", F.gelu, [40]),
    case("layer_norm", lambda x, w, b: F.layer_norm(x, [19], w, b), [4, 19], [19], [19]),
    case("rms_norm", lambda x, w: F.rms_norm(x, [19], w, 1e-6), [4, 19], [19]),
    case("batch_norm", lambda x, w, b: F.batch_norm(x, *running, w, b, True), [2, 3, 2, 3], [3], [3]),
    case("cross_entropy", lambda x: F.cross_entropy(x, targets, label_smoothing=0.1), [5, 6]),
    case("cross_entropy_sum", lambda x: F.cross_entropy(x, targets, reduction="sum"), [5, 6]),
    case("conv2d", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
         [2, 4, 6, 7], [4, 2, 3, 2], [4]),
    case("conv1d", lambda x, w: F.conv1d(x, w, None, 2, 1), [2, 3, 9], [4, 3, 3]),
    case("max_pool2d", lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 1)), [1, 2, 6, 5]),
    case("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 1)), [1, 2, 6, 5]),
    case("elu", lambda x: F.elu(x, 0.5), [20]),
    case("log_softmax", lambda x: F.log_softmax(x, 0), [5, 4]),
]
text = json.dumps({"torch": torch.__version__, "running": [numbers(t) for t in running],
                   "cases": cases}, separators=(",", ":"))
pathlib.Path(__file__).with_name("operations.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")
