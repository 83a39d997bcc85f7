"""Fovea from Python beside what people use there: same inputs, same threads, one run, taking turns.

    ./dev bench python [--threads 2] [--only PATTERN] [--rounds 7] [--json FILE]

Needs the package (`pip install .`) and torch; keras, entmax and others join where they are installed.
docs/python.md says how to read what it prints."""

import argparse
import fnmatch
import importlib.util
import json
import math
import os
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench python", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder, for the JSON")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases whose name matches")
    parser.add_argument("--rounds", type=int, default=7, help="turns each side takes")
    parser.add_argument("--seconds", type=float, default=0.15, help="of a turn, at least")
    parser.add_argument("--json", metavar="FILE", help="default: BUILD/bench/python.json")
    return parser.parse_args()


OPTIONS = arguments()
os.environ["OMP_NUM_THREADS"] = os.environ["FOVEA_THREADS"] = str(OPTIONS.threads)
for needed in ("numpy", "torch", "fovea"):
    if importlib.util.find_spec(needed) is None:
        sys.exit(f"./dev bench python: {sys.executable} has no {needed}: pip install "
                 + ("." if needed == "fovea" else needed))

import numpy as np
import torch
import torch.nn.functional as F

import fovea
import fovea.torch
from fovea import _engine
from fovea._choice import choices

torch.set_num_threads(OPTIONS.threads)

# ---- Timing ---------------------------------------------------------------------------------------


def turn(f, calls, clock=time.perf_counter):
    begun = clock()
    for _ in range(calls):
        f()
    return (clock() - begun) / calls


def race(sides):
    """Seconds a call of each, by name: the median of turns that they take one after the other."""
    calls, found = {}, {name: [] for name in sides}
    for name, f in sides.items():
        f(), f()  # what is compiled, is
        calls[name] = max(1, math.ceil(OPTIONS.seconds / max(turn(f, 1), 1e-7)))
    for _ in range(OPTIONS.rounds):
        for name, f in sides.items():
            found[name].append(turn(f, calls[name]))
    return {name: statistics.median(times) for name, times in found.items()}


# ---- Cases: name → sides, Fovea's first, each a function without arguments ------------------------


def normal(*shape):
    return torch.randn(shape)


def both_ways(f, leaves, d):
    """Forward, and gradients of all leaves."""
    def run():
        out = f(*leaves)
        torch.autograd.grad(out, leaves, d)

    return run


def compiled(f):
    return torch.compile(f, fullgraph=True, dynamic=False)


def additive(B, Lq, Lk, A):
    q, k, v, u = (x.requires_grad_() for x in (normal(B, Lq, A), normal(B, Lk, A), normal(B, Lk, A), normal(A)))
    d = normal(B, Lq, A)

    def theirs(q, k, v, u):
        return (torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)) @ u).softmax(-1) @ v

    def ours(q, k, v, u):
        return fovea.attend(q, k, v, score="additive_keras", u=u).context

    sides = {"fovea": both_ways(ours, (q, k, v, u), d), "eager": both_ways(theirs, (q, k, v, u), d),
             "compiled": both_ways(compiled(theirs), (q, k, v, u), d)}
    keras = keras_additive(A)
    if keras is not None:
        sides["keras"] = both_ways(lambda q, k, v: keras([q, v, k]), (q, k, v), d)
    return sides


def keras_additive(A):
    if importlib.util.find_spec("keras") is None:
        return None
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    layer = keras.layers.AdditiveAttention(use_scale=True)
    layer.build([(1, 2, A), (1, 2, A), (1, 2, A)])
    scale = layer.scale.value

    def call(inputs):
        out = layer(inputs)
        return out + 0 * scale.sum()

    return call


def dot(B, H, L, D, causal=False, backward=True):
    q, k, v = (normal(B, H, L, D).requires_grad_(backward) for _ in range(3))
    d = normal(B, H, L, D)
    mask = "causal" if causal else ""

    def ours(q, k, v):
        return fovea.attend(q, k, v, mask=mask).context

    def theirs(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    if not backward:
        return {"fovea": lambda: ours(q, k, v), "sdpa": lambda: theirs(q, k, v)}
    arrays = tuple(x.detach().numpy() for x in (q, k, v))
    plain = choices["scaled_dot", mask, "softmax", (), None, None, 1.0, 0.0, "automatic"]
    return {"fovea": both_ways(ours, (q, k, v), d), "sdpa": both_ways(theirs, (q, k, v), d),
            "the engine itself": lambda: _engine.time_both(arrays, plain, 1)}


def heads_with_weights(B, L, E, H):
    x = normal(B, L, E).requires_grad_()
    theirs = torch.nn.MultiheadAttention(E, H, batch_first=True)
    ours = fovea.torch.MultiheadAttention(E, H, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    d = normal(B, L, E)
    return {"fovea": both_ways(lambda x: ours(x, x, x)[0], (x,), d),
            "nn.MultiheadAttention": both_ways(lambda x: theirs(x, x, x)[0], (x,), d)}


def flexible(B, H, L, D):
    """A cap on the scores, forward: FlexAttention has no backward on a CPU."""
    q, k, v = (normal(B, H, L, D) for _ in range(3))
    sides = {"fovea": lambda: fovea.attend(q, k, v, softcap=20.0).context}
    try:
        from torch.nn.attention.flex_attention import flex_attention

        theirs = torch.compile(flex_attention)
        cap = lambda s, b, h, i, j: 20.0 * torch.tanh(s / 20.0)
        theirs(q, k, v, score_mod=cap)
        sides["flex, compiled"] = lambda: theirs(q, k, v, score_mod=cap)
    except Exception as error:
        print(f"  FlexAttention: {str(error).splitlines()[0][:90]}", file=sys.stderr)

    def eager():
        s = q @ k.transpose(-1, -2) / math.sqrt(D)
        return (20.0 * torch.tanh(s / 20.0)).softmax(-1) @ v

    sides["eager"] = eager
    return sides


def sparse(B, H, L, D):
    q, k, v = (normal(B, H, L, D).requires_grad_() for _ in range(3))
    d = normal(B, H, L, D)
    sides = {"fovea": both_ways(lambda q, k, v: fovea.attend(q, k, v, weighting="entmax15").context, (q, k, v), d)}
    if importlib.util.find_spec("entmax"):
        from entmax import entmax15

        sides["entmax"] = both_ways(lambda q, k, v: entmax15(q @ k.transpose(-1, -2) / math.sqrt(D), -1) @ v,
                                    (q, k, v), d)
    return sides


CASES = {
    "additive/B16_50x50_A512": lambda: additive(16, 50, 50, 512),
    "additive/B1_512x512_A256": lambda: additive(1, 512, 512, 256),
    "additive/B128_10x128_A1024": lambda: additive(128, 10, 128, 1024),
    "dot/H8_L128_D64": lambda: dot(1, 8, 128, 64),
    "dot/H8_L512_D64": lambda: dot(1, 8, 512, 64),
    "dot/H8_L1024_D64": lambda: dot(1, 8, 1024, 64),
    "causal/H8_L1024_D64": lambda: dot(1, 8, 1024, 64, causal=True),
    "short/B64_H4_L16": lambda: dot(64, 4, 16, 64),
    "short/B64_H4_L16 forward": lambda: dot(64, 4, 16, 64, backward=False),
    "weights/L512_E512_H8": lambda: heads_with_weights(1, 512, 512, 8),
    "flex/H8_L512_D64 forward": lambda: flexible(1, 8, 512, 64),
    "entmax/H8_L512_D64": lambda: sparse(1, 8, 512, 64),
}

# ---- What a call costs beside the engine ----------------------------------------------------------


def at_best(sides, calls=200, turns=100):
    """Seconds of this thread's own time that a call takes in the best of short turns: what other
    programs take of the cores does not count."""
    found = {name: math.inf for name in sides}
    for _ in range(turns):
        for name, f in sides.items():
            found[name] = min(found[name], turn(f, calls, time.thread_time))
    return found


class Nothing(torch.autograd.Function):
    """What autograd takes for any function that is written in Python."""

    @staticmethod
    def forward(ctx, q, k, v):
        return v.detach()

    @staticmethod
    def backward(ctx, d):
        return d, d, d


def overheads():
    """What a call of the smallest size takes beyond the engine, which is timed without Python, with the
    choice made and the arrays at hand; and what autograd takes for the smallest operator of torch's own
    that has three inputs, and for an empty function."""
    x = np.ones((1, 1, 8, 8), np.float32)
    t = torch.ones(1, 1, 8, 8)
    leaves = tuple(torch.ones(1, 1, 8, 8, requires_grad=True) for _ in range(3))
    d = torch.ones(1, 1, 8, 8)
    plain = choices["scaled_dot", "", "softmax", (), None, None, 1.0, 0.0, "automatic"]
    threads = fovea.threads()
    fovea.set_threads(1)
    times = at_best({"numpy": lambda: fovea.attend(x, x, x).context,
                     "torch": lambda: fovea.attend(t, t, t).context,
                     "recorded": lambda: fovea.attend(*leaves).context,
                     "both ways": both_ways(lambda *x: fovea.attend(*x).context, leaves, d),
                     "addcmul": lambda: torch.addcmul(t, t, t),
                     "addcmul, both ways": both_ways(torch.addcmul, leaves, d),
                     "nothing, both ways": both_ways(Nothing.apply, leaves, d)})
    many = 200
    engine = at_best({"forward": lambda: _engine.time_forward((x, x, x), plain, many),
                      "both ways": lambda: _engine.time_both((x, x, x), plain, many)}, calls=1)
    fovea.set_threads(threads)
    forward, both = engine["forward"] / many, engine["both ways"] / many
    autograd = times["addcmul, both ways"] - times["addcmul"]
    return {"the engine alone": forward, "the engine alone, both ways": both,
            "from numpy, beyond it": times["numpy"] - forward,
            "from torch, beyond it": times["torch"] - forward,
            "from torch, recorded, beyond it": times["recorded"] - forward,
            "with gradients, beyond it": times["both ways"] - both,
            "autograd's own, of an empty function": times["nothing, both ways"],
            "autograd's own, of torch.addcmul": autograd,
            "with gradients, beyond both": times["both ways"] - both - autograd}


def in_turns(calls=10, turns=60):
    """torch's products and Fovea's attention alone, and called in turns: the share of its speed that
    each keeps. The best of short turns, as above, but by the clock: threads that wait for a core that
    the other side's threads spin on take no time of their own."""
    a = normal(512, 512)
    q = normal(1, 8, 256, 64)
    sides = {"fovea": lambda: fovea.attend(q, q, q).context, "torch": lambda: a @ a}
    alone, among = dict.fromkeys(sides, math.inf), dict.fromkeys(sides, math.inf)
    for _ in range(turns):
        for name, f in sides.items():
            alone[name] = min(alone[name], turn(f, calls))
        spent = dict.fromkeys(sides, 0.0)
        for _ in range(calls):
            for name, f in sides.items():
                spent[name] += turn(f, 1)
        among = {name: min(among[name], spent[name] / calls) for name in sides}
    return {name: {"alone": alone[name], "in turns": among[name], "share": alone[name] / among[name]}
            for name in sides}


def main():
    found = {"threads": OPTIONS.threads, "isa": fovea.isa(), "torch": torch.__version__, "cases": {}}
    print(f"fovea {fovea.__version__} ({fovea.isa()}), torch {torch.__version__}, {OPTIONS.threads} threads\n")
    print(f"{'case':<28} {'fovea':>10}   {'beside it, and how many times fovea is as fast'}")
    for name, make in CASES.items():
        if not fnmatch.fnmatch(name, OPTIONS.only):
            continue
        torch.manual_seed(1)
        times = race(make())
        ours = times.pop("fovea")
        beside = "   ".join(f"{who} {t * 1e3:.3f} ms, {t / ours:.2f} ×" for who, t in times.items())
        print(f"{name:<28} {ours * 1e3:>7.3f} ms   {beside}", flush=True)
        found["cases"][name] = {"fovea": ours, **times}
    if OPTIONS.only == "*" or fnmatch.fnmatch("overhead", OPTIONS.only):
        found["overhead"] = overheads()
        print("\nA call at 1×1×8×8, in microseconds")
        for name, t in found["overhead"].items():
            print(f"  {name:<36} {t * 1e6:6.2f}")
        found["in turns"] = in_turns()
        print("\nIn turns, " + ", ".join(f"{name} keeps {t['share']:.2f} of its speed alone"
                                         for name, t in found["in turns"].items()))
    path = OPTIONS.json or os.path.join(OPTIONS.build, "bench", "python.json")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)


main()
