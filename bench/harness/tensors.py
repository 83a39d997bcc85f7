"""Safetensors files as numpy arrays, a case's random inputs, and whether two results agree."""

import json
import struct
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("bench: inputs are made by NumPy, which is not here; to have it: "
             "apt install python3-numpy, or pip install numpy")

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "BOOL": np.bool_}
NAMES = {np.dtype(v): k for k, v in TYPES.items()}

CONTEXT_TOLERANCE = 1e-4   # absolute, contexts and weights
GRADIENT_TOLERANCE = 1e-3  # of the largest element
NARROW_TOLERANCE = 3e-2    # of either, in 16 bits


def save(path, tensors):
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).data)


def load(path):
    """Maps the file: nothing is read before it is looked at."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin = entry["data_offsets"][0]
        shape = tuple(entry["shape"])
        if 0 in shape:
            tensors[name] = np.zeros(shape, TYPES[entry["dtype"]])
        else:
            tensors[name] = np.memmap(path, TYPES[entry["dtype"]], "r", 8 + size + begin, shape)
    return tensors


def make_inputs(case, seed=0):
    """N(0, 1), and parameters scaled by their width so that scores stay of order 1."""
    normal = np.random.default_rng(seed).standard_normal
    B, H, Hk, Lq, Lk = (case[x] for x in ("B", "H", "Hk", "Lq", "Lk"))
    D, Dv, A = case["D"], case["Dv"], case["A"]
    inputs = {"q": normal((B, H, Lq, D), np.float32), "k": normal((B, Hk, Lk, D), np.float32),
              "v": normal((B, Hk, Lk, Dv), np.float32),
              "d_context": normal((B, H, Lq, Dv), np.float32)}
    if case["score"] == "additive":
        for name, shape in (("w_q", (A, D)), ("w_k", (A, D)), ("b", (A,)), ("u", (A,))):
            inputs[name] = normal(shape, np.float32) / np.float32(shape[-1] ** 0.5)
    elif case["score"] == "additive_keras":
        inputs["u"] = normal((A,), np.float32) / np.float32(A ** 0.5)
    if case["backward"] == "log_prob":
        inputs["d_log_prob"] = normal((B, H, Lq), np.float32)
    return inputs


def rounded(inputs):
    """The nearest numbers of bf16, of two the even one, as float32."""
    def nearest(array):
        bits = array.view(np.uint32)
        return ((bits + (0x7fff + ((bits >> 16) & 1))) & np.uint32(0xffff0000)).view(np.float32)
    return {name: nearest(array) for name, array in inputs.items()}


def context_error(inputs, outputs, causal):
    """The largest error of the first head's context beside float64."""
    q, k, v = (np.asarray(inputs[x][0, 0], np.float64) for x in "qkv")
    worst = 0.0
    for i in range(0, len(q), 512):
        scores = q[i:i + 512] @ k.T / q.shape[-1] ** 0.5
        if causal:
            rows = np.arange(i, i + len(scores))[:, None] + len(k) - len(q)
            scores[np.arange(len(k))[None, :] > rows] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        context = p @ v / p.sum(-1, keepdims=True)
        got = np.asarray(outputs["context"][0, 0, i:i + 512], np.float64)
        worst = max(worst, float(np.abs(got - context).max()))
    return worst


def difference(ours, theirs, relative):
    worst, largest = 0.0, 0.0
    step = max(1, (1 << 24) // max(1, ours[0].size))
    for i in range(0, len(ours), step):
        a = np.asarray(ours[i:i + step], np.float64)
        b = np.asarray(theirs[i:i + step], np.float64)
        worst = max(worst, float(np.max(np.abs(a - b), initial=0)))
        largest = max(largest, float(np.max(np.abs(b), initial=0)))
        if not np.all(np.isfinite(a)):
            return float("inf")
    return worst / max(largest, 1e-30) if relative else worst


def disagreements(ours, theirs, narrow=False):
    """Lines that say where two results differ by more than rounding; outputs that only one side
    has are passed over, the context must be in both."""
    lines = []
    for name in sorted(set(ours) & set(theirs) | {"context"}):
        if name not in ours or name not in theirs:
            lines.append(f"{name} is missing")
            continue
        if ours[name].shape != theirs[name].shape:
            lines.append(f"{name} is {ours[name].shape}, the peer's {theirs[name].shape}")
            continue
        gradient = name.startswith("d_")
        off = difference(ours[name].reshape(-1, ours[name].shape[-1]),
                         theirs[name].reshape(-1, theirs[name].shape[-1]), gradient)
        limit = GRADIENT_TOLERANCE if gradient else CONTEXT_TOLERANCE
        if narrow:
            limit = NARROW_TOLERANCE
        if not off <= limit:
            lines.append(f"{name} differs by {off:.2g}, more than {limit:g}")
    return lines


def sampling_faults(inputs, outputs):
    """Two samplers never draw the same keys, so each draw is held against its distribution: every
    context is the value chosen, and the chosen keys are as probable as draws are on average,
    E p = Σ p², within five standard errors. Gradients are held against the formula."""
    q, k, v = (np.asarray(inputs[x], np.float64) for x in "qkv")
    chosen = np.asarray(outputs["chosen"]).reshape(q.shape[:3])
    scale = q.shape[-1] ** -0.5
    scores = (q @ k.swapaxes(-1, -2)) * scale
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    faults = []
    picked = np.take_along_axis(p, chosen[..., None], -1)[..., 0]
    expected, spread = (p ** 2).sum(-1), (p ** 3).sum(-1) - (p ** 2).sum(-1) ** 2
    error = abs((picked - expected).sum()) / np.sqrt(spread.sum())
    if not error < 5:
        faults.append(f"keys are not drawn by their probability ({error:.1f} standard errors)")
    wanted = {"context": np.take_along_axis(v, chosen[..., None], 2)}
    if "d_q" in outputs:
        g = -p * np.asarray(inputs["d_log_prob"], np.float64)[..., None]
        hit = np.take_along_axis(g, chosen[..., None], -1) + inputs["d_log_prob"][..., None]
        np.put_along_axis(g, chosen[..., None], hit, -1)
        g *= scale
        d_v = np.zeros_like(v)
        b, h = np.indices(chosen.shape)[:2]
        np.add.at(d_v, (b, h, chosen), np.asarray(inputs["d_context"], np.float64))
        wanted |= {"d_q": g @ k, "d_k": g.swapaxes(-1, -2) @ q, "d_v": d_v}
    return faults + disagreements({x: outputs[x] for x in wanted}, wanted)
