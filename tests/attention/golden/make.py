"""Writes golden.json: attention by PyTorch in float64, and the sparse weightings by bisection.

    python3 make.py > golden.json

Inputs are rounded to float32, so that they reach the tests exactly.
"""

import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(7)


def rand(*shape):
    return torch.tensor(rng.standard_normal(shape).astype(np.float32).astype(np.float64))


def numbers(x):
    return [float(f"{v:.15g}") for v in x.detach().reshape(-1).tolist()]


def sdpa(name, B, H, Hk, Lq, Lk, D, Dv, mask=None, scale=None, **extra):
    q, k, v = rand(B, H, Lq, D), rand(B, Hk, Lk, D), rand(B, Hk, Lk, Dv)
    for x in (q, k, v):
        x.requires_grad_()
    if mask is not None and mask.dtype != torch.bool:
        mask.requires_grad_()
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=H != Hk)
    d_out = rand(B, H, Lq, Dv)
    out.backward(d_out)
    case = dict(name=name, sizes=[B, H, Hk, Lq, Lk, D, Dv], **extra)
    for key, x in dict(q=q, k=k, v=v, d_context=d_out, context=out, dq=q.grad, dk=k.grad,
                       dv=v.grad).items():
        case[key] = numbers(x)
    if scale is not None:
        case["scale"] = scale
    if mask is not None and mask.dtype != torch.bool:
        case["bias_shape"], case["bias"] = list(mask.shape), numbers(mask)
        case["d_bias"] = numbers(mask.grad)
    return case


def allowed(Lq, Lk):
    return torch.tensor(rng.random((Lq, Lk)) < 0.6) | (torch.arange(Lk) == 0)


def attention_cases():
    i, j = torch.arange(5)[:, None], torch.arange(7)[None, :]
    causal = j <= i + 2
    some = allowed(3, 6)
    return [
        sdpa("plain", 2, 2, 2, 3, 5, 4, 3),
        sdpa("scaled", 1, 1, 1, 4, 3, 2, 2, scale=0.75),
        sdpa("causal", 1, 2, 2, 5, 7, 3, 2, mask=causal, mask_spec="causal"),
        sdpa("square_causal", 1, 1, 1, 5, 5, 3, 2, mask=j[:, :5] <= i, mask_spec="causal"),
        sdpa("sliding", 1, 1, 1, 5, 7, 3, 2, mask=causal & (j >= i + 2 - 2),
             mask_spec="causal+window:2"),
        sdpa("local_m", 1, 1, 1, 5, 7, 3, 2, mask=(j - i).abs() <= 1, mask_spec="window:1"),
        sdpa("masked", 2, 2, 2, 3, 6, 4, 2, mask=some, allowed=some.int().reshape(-1).tolist()),
        sdpa("biased", 2, 2, 2, 3, 4, 4, 2, mask=rand(2, 3, 4)),
        sdpa("grouped", 2, 4, 2, 3, 4, 3, 2),
        sdpa("one_kv_head", 1, 3, 1, 2, 5, 3, 2),
    ]


def threshold(s, total):
    """The τ with total(s − τ) = 1, by bisection: total falls as τ grows."""
    low, high = s.min() - 2.0, s.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(s - middle) > 1 else (low, middle)
    return (low + high) / 2


def sparsemax(s):
    return np.maximum(s - threshold(s, lambda x: np.maximum(x, 0).sum()), 0)


def entmax15(s):
    z = s / 2
    return np.maximum(z - threshold(z, lambda x: (np.maximum(x, 0) ** 2).sum()), 0) ** 2


def sparse_gradient(w, dw, power):
    """ds = g∘dw − g·Σ(g∘dw)/Σg with g = w^power on the support (Peters et al. 2019)."""
    g = np.where(w > 0, np.maximum(w, 1e-300) ** power, 0)
    return g * dw - g * (g * dw).sum() / g.sum()


def row_cases():
    rows = []
    for n, spread in [(1, 1.0), (2, 0.3), (5, 1.0), (9, 3.0), (17, 0.1), (33, 10.0)]:
        s = (rng.standard_normal(n) * spread).astype(np.float32).astype(np.float64)
        dw = rng.standard_normal(n)
        for name, f, power in [("sparsemax", sparsemax, 0.0), ("entmax15", entmax15, 0.5)]:
            w = f(s)
            rows.append(dict(weighting=name, scores=s.tolist(), weights=w.tolist(),
                             d_weights=dw.tolist(), d_scores=sparse_gradient(w, dw, power).tolist()))
    return rows


def t5_bucket(distance, bidirectional, buckets, max_distance):
    """T5's, in float32 as published."""
    first = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        first = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    far = exact + (torch.log(distance.float() / exact) / math.log(max_distance / exact)
                   * (buckets - exact)).long()
    return first + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def t5_cases():
    distance = torch.arange(-300, 301)
    return [dict(buckets=n, bidirectional=both, max_distance=far, lowest=-300,
                 bucket=t5_bucket(distance, both, n, far).tolist())
            for n, both, far in [(32, True, 128), (32, False, 128), (8, True, 20), (6, False, 64)]]


json.dump(dict(attention=attention_cases(), rows=row_cases(), t5=t5_cases()), sys.stdout)
print()
