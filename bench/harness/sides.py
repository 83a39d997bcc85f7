"""Who takes part in a case: Fovea, and the peers that can do the same."""

from harness import floors

PEERS = ("torch", "onnxruntime", "jax")
GET = {"torch": "torch numpy", "onnxruntime": "onnxruntime onnx numpy", "jax": "jax numpy"}
OWN_ISA = ("onnxruntime",)  # which choose their instructions themselves
NARROW = ("torch",)  # which are asked for 16 bits
DOT_GROUPS = ("dot", "causal", "short", "decode")
OWN_GROUPS = ("score", "weighting")  # which no peer has

# Tensors of the size of all terms that an implementation without fusion holds at once.
TERM_TENSORS = {("eager", "forward"): 2, ("eager", "both"): 4, ("compiled", "both"): 2}


def paths(peer, case, which):
    """The ways in which this peer can do this case."""
    group = case["group"]
    if peer == "torch":
        if group in DOT_GROUPS:
            return ["sdpa", "eager", "compiled"]
        return ["eager", "compiled"] if group not in OWN_GROUPS else []
    if group not in DOT_GROUPS:
        return []
    if peer == "jax":
        return ["xla"]
    return ["fused"] if case["H"] == case["Hk"] and which == "forward" else []


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as info:
        for line in info:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def too_large(path, case, which):
    """Why this path would not fit into memory here, or None."""
    if not floors.is_additive(case):
        return None
    needed = 4 * floors.terms(case) * TERM_TENSORS.get((path, which), 0)
    here = available_bytes()
    if needed <= 0.85 * here:
        return None
    return f"needs about {needed / 2**30:.0f} GiB, {here / 2**30:.0f} GiB are free"
