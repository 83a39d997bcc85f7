"""Writes layers.safetensors: PyTorch's MultiheadAttention, TransformerEncoderLayer and
TransformerDecoderLayer, both norm orders, plain, causal and with padding, with all gradients.

    python3 make_layers.py layers.safetensors

Weights go under the names that Fovea gives them. Inputs are rounded to float32, so that they reach
the tests exactly; the rest is float64.
"""

import sys

import torch
from safetensors.torch import save_file
from torch import nn

B, L, S, W, H, M = 3, 5, 7, 12, 3, 20
LENGTHS = [7, 2, 4]  # of the memory
OWN = [5, 3, 1]      # of the sequence


def draw(*shape):
    return torch.randn(*shape).float().double()


def set_weights(module):
    for p in module.parameters():
        p.data = draw(*p.shape) * 0.4


def heads(prefix, m, cross):
    """PyTorch keeps queries, keys and values in one matrix also where the latter are of a memory."""
    found = {"out.weight": m.out_proj.weight, "out.bias": m.out_proj.bias}
    if cross:
        found |= {"query.weight": m.in_proj_weight[:W], "query.bias": m.in_proj_bias[:W],
                  "memory.weight": m.in_proj_weight[W:], "memory.bias": m.in_proj_bias[W:]}
    else:
        found |= {"in.weight": m.in_proj_weight, "in.bias": m.in_proj_bias}
    return {f"{prefix}.{k}": v for k, v in found.items()}


def grads_of(m, cross):
    """The same of the gradients, which slices of a parameter do not have."""
    w, b = m.in_proj_weight.grad, m.in_proj_bias.grad
    found = {"out.weight": m.out_proj.weight.grad, "out.bias": m.out_proj.bias.grad}
    if cross:
        found |= {"query.weight": w[:W], "query.bias": b[:W],
                  "memory.weight": w[W:], "memory.bias": b[W:]}
    else:
        found |= {"in.weight": w, "in.bias": b}
    return found


def pair(weight_name, module, grad):
    pick = (lambda p: p.grad) if grad else (lambda p: p)
    return {f"{weight_name}.weight": pick(module.weight), f"{weight_name}.bias": pick(module.bias)}


def layer_weights(layer, cross, grad=False):
    own = grads_of(layer.self_attn, False) if grad else None
    found = {f"block.self.{k}": v for k, v in own.items()} if grad else heads(
        "block.self", layer.self_attn, False)
    norms = [("block.self_norm", layer.norm1)]
    if cross:
        theirs = grads_of(layer.multihead_attn, True) if grad else None
        found |= {f"block.cross.{k}": v for k, v in theirs.items()} if grad else heads(
            "block.cross", layer.multihead_attn, True)
        norms += [("block.cross_norm", layer.norm2), ("block.mlp_norm", layer.norm3)]
    else:
        norms += [("block.mlp_norm", layer.norm2)]
    for name, module in [("block.mlp.up", layer.linear1), ("block.mlp.down", layer.linear2), *norms]:
        found |= pair(name, module, grad)
    return found


def padding(lengths, width):
    return torch.arange(width)[None] >= torch.tensor(lengths)[:, None]


def finish(name, out, inputs, weights, gradients):
    start = draw(*out.shape)
    out.backward(start)
    tensors = {f"{name}/out": out, f"{name}/d_out": start}
    for k, v in inputs.items():
        tensors[f"{name}/{k}"] = v
        tensors[f"{name}/gradients/{k}"] = v.grad
    tensors |= {f"{name}/weights/{k}": v for k, v in weights.items()}
    tensors |= {f"{name}/gradients/{k}": v for k, v in gradients().items()}
    return {k: v.detach().clone() for k, v in tensors.items()}


def leaf(*shape):
    return draw(*shape).requires_grad_()


torch.manual_seed(11)
tensors = {"lengths": torch.tensor(LENGTHS), "own": torch.tensor(OWN)}
causal = torch.triu(torch.ones(L, L, dtype=torch.bool), 1)

for name, cross, masked in (("self", False, False), ("causal", False, True),
                            ("cross", True, False), ("padded", True, True)):
    m = nn.MultiheadAttention(W, H, batch_first=True).double()
    set_weights(m)
    x, memory = leaf(B, L, W), leaf(B, S, W)
    if cross:
        mask = padding(LENGTHS, S) if masked else None
        out, _ = m(x, memory, memory, key_padding_mask=mask)
    else:
        out, _ = m(x, x, x, attn_mask=causal if masked else None)
    inputs = {"x": x, "memory": memory} if cross else {"x": x}
    tensors |= finish(f"heads_{name}", out, inputs, heads("heads", m, cross),
                      lambda: {f"heads.{k}": v for k, v in grads_of(m, cross).items()})

for order in ("post", "pre"):
    for activation in ("relu", "gelu"):
        layer = nn.TransformerEncoderLayer(W, H, M, dropout=0.0, activation=activation,
                                           batch_first=True, norm_first=order == "pre").double()
        set_weights(layer)
        x = leaf(B, L, W)
        out = layer(x, src_key_padding_mask=padding(OWN, L))
        # what stands at padding is nobody's business
        out = out * (~padding(OWN, L))[..., None]
        tensors |= finish(f"encoder_{order}_{activation}", out, {"x": x},
                          layer_weights(layer, False), lambda: layer_weights(layer, False, True))
    layer = nn.TransformerDecoderLayer(W, H, M, dropout=0.0, batch_first=True,
                                       norm_first=order == "pre").double()
    set_weights(layer)
    x, memory = leaf(B, L, W), leaf(B, S, W)
    out = layer(x, memory, tgt_mask=causal, memory_key_padding_mask=padding(LENGTHS, S))
    tensors |= finish(f"decoder_{order}_relu", out, {"x": x, "memory": memory},
                      layer_weights(layer, True), lambda: layer_weights(layer, True, True))

save_file({k: v.contiguous() if v.dtype == torch.int64 else v.float().contiguous()
           for k, v in tensors.items()}, sys.argv[1])
