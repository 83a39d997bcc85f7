"""How much work a case is, and how fast this machine could do it at best.

Conventions
  dot family   4·B·H·Lq·Lk·D floating-point operations forward (a multiply-add counts two), half of
               that when causal; forward and backward together 3.5 times as many: two matrix
               products forward, five backward. Exponentials are not counted.
  sample       only the scores, 2·B·H·Lq·Lk·D: the context is one value, looked up.
  additive     B·H·Lq·Lk·A terms u·tanh(a + κ), forward or forward and backward alike.
The floor is the time that remains when nothing but this work is left, at the rates measured in
this run:
  dot family   the operations at the FMA peak
  additive     in the factored form a term is three instructions forward (FMA, reciprocal, FMA) and
               four more backward, each as dear as an FMA; the matrix products at the FMA peak
  decode       the bytes of K and V, read once, at the bandwidth measured for as many bytes
"""

FMA_PER_TERM = {"forward": 3, "both": 7}
MATRIX_PRODUCTS = {"forward": 1.0, "both": 3.5}


def pairs(case):
    return case["B"] * case["H"] * case["Lq"] * case["Lk"]


def is_additive(case):
    return case["group"] in ("additive", "projected")


def flops(case, which):
    if case["weighting"] == "sample":
        return 2 * pairs(case) * case["D"] * {"forward": 1, "both": 3}[which]
    half = 0.5 if case["mask"] == "causal" else 1.0
    return 2 * pairs(case) * (case["D"] + case["Dv"]) * half * MATRIX_PRODUCTS[which]


def terms(case):
    return pairs(case) * case["A"]


def cache_bytes(case):
    return 4 * case["B"] * case["Hk"] * case["Lk"] * (case["D"] + case["Dv"])


def product_flops(case, which):
    """Of an additive case: the context, the projections, and their gradients."""
    context = 2 * pairs(case) * case["Dv"] * {"forward": 1, "both": 3}[which]
    projections = 0
    if case["group"] == "projected":
        rows = case["B"] * (case["H"] * case["Lq"] + case["Hk"] * case["Lk"])
        projections = 2 * rows * case["D"] * case["A"] * {"forward": 1, "both": 3}[which]
    return context + projections


def rate(case, which, seconds):
    """(number, unit), or None where no formula applies to every score."""
    if case["group"] == "score":
        return None
    if is_additive(case):
        return terms(case) / seconds / 1e9, "G terms/s"
    return flops(case, which) / seconds / 1e9, "GFLOP/s"


def floor_seconds(case, which, machine):
    """machine: {"flops": FLOP/s, "bandwidth": {bytes: bytes/s}}."""
    if case["group"] == "score":
        return None
    if case["group"] == "decode":
        wanted = cache_bytes(case)
        return wanted / machine["bandwidth"][wanted]
    if is_additive(case):
        instructions = 2 * terms(case) * FMA_PER_TERM[which]
        return (instructions + product_flops(case, which)) / machine["flops"]
    return flops(case, which) / machine["flops"]
