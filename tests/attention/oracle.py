"""Attention in float64, written from the formulas alone with whole matrices and PyTorch's autograd:
what check_attend.py holds the program against. Nothing here is shared with the library."""

import math

import numpy as np
import torch

# ---- Scores: q [B,H,Lq,Dq], k [B,H,Lk,Dk] → [B,H,Lq,Lk] -------------------------------------------


def additive(a, kappa, u):
    return torch.tanh(a.unsqueeze(3) + kappa.unsqueeze(2)) @ u


def mlp(q, k, p):
    Lq, Lk = q.shape[2], k.shape[2]
    pairs = torch.cat([q.unsqueeze(3).expand(-1, -1, -1, Lk, -1),
                       k.unsqueeze(2).expand(-1, -1, Lq, -1, -1)], -1)
    one = torch.tanh(pairs @ p["w_1"].T + p["b_1"])
    return torch.tanh(one @ p["w_2"].T + p["b_2"]) @ p["u"]


def cosine(q, k, p):
    def norm(x):
        return torch.sqrt((x * x).sum(-1) + 1e-12)  # so that a zero vector has a gradient
    cos = q @ k.transpose(-1, -2) / (norm(q).unsqueeze(-1) * norm(k).unsqueeze(-2))
    beta = p.get("beta")
    return cos if beta is None else cos * (beta if beta.dim() == 0 else beta.view(-1, 1, 1))


def features(x):
    return torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0)))


SCORES = {
    "dot": lambda q, k, p: q @ k.transpose(-1, -2),
    "scaled_dot": lambda q, k, p: q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]),
    "multiplicative": lambda q, k, p: torch.einsum("bhid,de,bhje->bhij", q, p["w"], k),
    "additive": lambda q, k, p: additive(q @ p["w_q"].T + p.get("b", 0.0), k @ p["w_k"].T, p["u"]),
    "additive_keras": lambda q, k, p: additive(q, k, p["u"]),
    "tanh_unit": lambda q, k, p: torch.tanh((q @ p["w_c"]).unsqueeze(-1)
                                            + (k @ p["w_y"]).unsqueeze(-2)),
    "mlp": mlp,
    "cosine": cosine,
    "location": lambda q, k, p: q @ p["w_loc"][:k.shape[2]].T,
    "elu_dot": lambda q, k, p: features(q) @ features(k).transpose(-1, -2),
}

# ---- Masks: which keys each query may see, [B,H,Lq,Lk] --------------------------------------------


class Masked:
    """The allowed pairs, what is added to the scores and what multiplies the weights."""

    def __init__(self, shape):
        self.allowed = torch.ones(shape, dtype=torch.bool)
        self.added = 0.0
        self.factor = 1.0
        self.unsure = torch.zeros(shape[:3], dtype=torch.bool)  # rows that rounding may decide


def masked(spec, q, t, shape, renormalise):
    B, H, Lq, Lk = shape
    i, j = torch.arange(Lq).view(-1, 1), torch.arange(Lk).view(1, -1)
    terms = sorted((term.split(":") for term in spec.split("+")), key=lambda x: x[0] == "local-p")
    is_causal = ["causal"] in terms
    m = Masked(shape)
    for name, *arguments in terms:
        if name == "causal":
            m.allowed = m.allowed & (j <= i + Lk - Lq)
        elif name == "window":
            center = i + Lk - Lq if is_causal else i
            m.allowed = m.allowed & ((j - center).abs() <= int(arguments[0]))
        elif name == "lengths":
            m.allowed = m.allowed & (j < t["lengths"].view(B, 1, 1, 1))
        elif name == "segments":
            m.allowed = m.allowed & (t["q_segments"].view(B, 1, Lq, 1)
                                     == t["k_segments"].view(B, 1, 1, Lk))
        elif name == "matrix":
            if t["mask"].dtype == torch.bool:
                m.allowed = m.allowed & t["mask"]
            else:
                m.added = m.added + t["mask"]
        elif name == "local-p":
            predicted_window(m, q, t, int(arguments[0]), Lk, j, renormalise)
    return m


def predicted_window(m, q, t, width, Lk, j, renormalise):
    length = t["lengths"].view(-1, 1, 1).to(q.dtype) if "lengths" in t else float(Lk)
    p = length * torch.sigmoid(torch.tanh(q @ t["w_p"].T) @ t["u_p"])
    off = (j - p.unsqueeze(-1)).abs()
    m.unsure |= (m.allowed & ((off - width).abs() < 1e-3)).any(-1)
    m.allowed = m.allowed & (off <= width)
    exponent = -off ** 2 / (2 * (width / 2) ** 2)
    if renormalise:
        m.added = m.added + exponent
    else:
        m.factor = m.factor * torch.exp(exponent)


# ---- Weightings: one row at a time in the formula, all rows at once here --------------------------


def softmax(s, ok):
    top = torch.where(ok, s, -math.inf).amax(-1, keepdim=True).detach()
    top = torch.where(top.isfinite(), top, 0.0)
    e = torch.where(ok, torch.exp(torch.where(ok, s - top, 0.0)), 0.0)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total > 0, total, 1.0)


def threshold(z, ok, power):
    """τ with Σ max(z − τ, 0)^power = 1 by bisection; the support it leaves."""
    z = torch.where(ok, z, -math.inf).detach()
    high = z.amax(-1, keepdim=True)
    high = torch.where(high.isfinite(), high, 0.0)
    low = high - 1.0
    for _ in range(80):
        middle = (low + high) / 2
        above = (z - middle).clamp(min=0).pow(power).sum(-1, keepdim=True) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low, z > low, ((z - low).abs() < 1e-5).any(-1)


def sparsemax(s, ok):
    _, support, unsure = threshold(s, ok, 1)
    n = support.sum(-1, keepdim=True).clamp(min=1)
    tau = (torch.where(support, s, 0.0).sum(-1, keepdim=True) - 1) / n
    return torch.where(support, s - tau, 0.0), unsure


def entmax15(s, ok):
    z = s / 2
    _, support, unsure = threshold(z, ok, 2)
    n = support.sum(-1, keepdim=True).clamp(min=1)
    mean = torch.where(support, z, 0.0).sum(-1, keepdim=True) / n
    spread = torch.where(support, (z - mean) ** 2, 0.0).sum(-1, keepdim=True)
    tau = mean - torch.sqrt(((1 - spread) / n).clamp(min=1e-300))
    return torch.where(support, (z - tau) ** 2, 0.0), unsure


def one_hot_of_max(s, ok):
    s = torch.where(ok, s, -math.inf).detach()
    chosen = s.argmax(-1)
    hot = torch.nn.functional.one_hot(chosen, s.shape[-1]).to(s.dtype) * ok.any(-1, keepdim=True)
    unsure = torch.zeros(s.shape[:-1], dtype=torch.bool)
    if s.shape[-1] > 1:
        two = s.topk(2, -1).values
        unsure = (two[..., 0] - two[..., 1]).abs() < 1e-4 * two[..., 0].abs().clamp(min=1)
        unsure &= two[..., 1].isfinite()
    return hot, unsure


def weigh(name, s, ok, noise):
    """Weights, and the rows where rounding may decide otherwise."""
    sure = torch.zeros(s.shape[:-1], dtype=torch.bool)
    if name == "softmax":
        return softmax(s, ok), sure
    if name == "sigmoid":
        return torch.where(ok, torch.sigmoid(s), 0.0), sure
    if name == "none":
        return torch.where(ok, s, 0.0), sure
    if name == "sparsemax":
        return sparsemax(s, ok)
    if name == "entmax15":
        return entmax15(s, ok)
    if name == "argmax":
        return one_hot_of_max(s, ok)
    hot, unsure = one_hot_of_max(s + noise, ok)
    if name == "gumbel":  # straight-through
        soft = softmax(s + noise, ok)
        hot = hot + soft - soft.detach()
    return hot, unsure


# ---- Counter-based random numbers, vectorised -----------------------------------------------------

GUMBEL, WEIGHT_DROPOUT = 2, 3


def mix64(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def mix32(x):
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def random_bits(seed, purpose, shape):
    """32 bits for every (b, h, i, j)."""
    b, h, i, j = np.indices(shape, dtype=np.uint64)
    with np.errstate(over="ignore"):
        key = mix64(np.uint64(seed) ^ mix64(np.uint64(purpose)))
        for coordinate in (b, h, i):
            key = mix64(key ^ coordinate)
        low = key.astype(np.uint32)
        high = (key >> np.uint64(32)).astype(np.uint32)
        return mix32(mix32(j.astype(np.uint32) ^ low) + high)


def gumbel_noise(seed, shape):
    u = (random_bits(seed, GUMBEL, shape).astype(np.float64) + 0.5) * 2.0 ** -32
    return torch.from_numpy(-np.log(-np.log1p(-u)))


def keep_factor(seed, rate, shape):
    kept = random_bits(seed, WEIGHT_DROPOUT, shape) >= np.uint32(math.floor(rate * 2.0 ** 32))
    return torch.from_numpy(kept / (1 - rate))


# ---- All together ---------------------------------------------------------------------------------


def as_rank_4(x):
    while x.dim() < 4:
        x = x.unsqueeze(0) if x.dim() == 2 else x.unsqueeze(1)
    return x


def attend(case, t):
    """t: float64 inputs by name. → context, weights, lse, unsure rows, in rank 4."""
    q, k, v = (as_rank_4(t[x]) for x in "qkv")
    B, H, Lq, _ = q.shape
    Hk, Lk = k.shape[1:3]
    k, v = (x.repeat_interleave(H // Hk, 1) for x in (k, v))
    shape = (B, H, Lq, Lk)
    if Lk == 0:
        empty = torch.zeros(shape, dtype=q.dtype)
        return empty @ v, empty, torch.full(shape[:3], -math.inf), empty.any(-1)
    m = masked(case.mask, q, t, shape, case.renormalise)
    # What no query sees is never read; 1 stands in for it, so that 0 times NaN cannot occur.
    seen = m.allowed.any(2).unsqueeze(-1)
    k, v = (torch.where(seen, x, 1.0) for x in (k, v))
    s = SCORES[case.score](q, k, t)
    if case.scale is not None:
        s = s * case.scale * (math.sqrt(q.shape[-1]) if case.score == "scaled_dot" else 1.0)
    added = t["bias"] if "bias" in t else 0.0
    if isinstance(m.added, torch.Tensor) and "local-p" not in case.mask:
        added = added + m.added
    s = s + added
    ok = (m.allowed & (s > -math.inf)).detach()
    s = torch.where(ok, s, 0.0) / case.temperature
    if "local-p" in case.mask:
        s = s + m.added  # after the temperature
    noise = gumbel_noise(case.seed, shape).to(s) if case.weighting in ("sample", "gumbel") else None
    weights, unsure = weigh(case.weighting, s, ok, noise)
    weights = weights * m.factor
    if case.dropout:
        weights = weights * keep_factor(case.seed, case.dropout, shape).to(s)
    weights = torch.where(ok, weights, 0.0)
    lse = torch.logsumexp(torch.where(ok, s, -math.inf), -1)
    return weights @ v, weights, lse, unsure | m.unsure
