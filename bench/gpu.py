"""Attention on the GPU beside PyTorch: same inputs, same GPU, one run.

    python3 bench/gpu.py [--build build] [--rounds 9] [--only PATTERN] [--no-compile] [--markdown]

Additive attention beside the formula written out, eager and compiled; dot products beside
scaled_dot_product_attention in float32, without TF32, and of bf16 beside the same by cuDNN.

Needs an NVIDIA GPU, PyTorch with CUDA, and what `./dev cuda` builds. Every side is timed alike: calls
after one another, a wait at both ends, the median of several such rounds, random data. Errors are
‖x − y‖ / ‖y‖ against float64 on the same GPU."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# B (heads of dot products among them), Lq, Lk, A, Dv and masks
CASES = [("dot", (16, 4096, 4096, 64, 64), ("none", "causal")),
         ("dot", (16, 4096, 4096, 128, 128), ("none", "causal")),
         ("dot", (96, 512, 512, 64, 64), ("none", "causal")),
         ("dot", (64, 1024, 1024, 64, 64), ("none", "causal")),
         ("dot", (64, 1024, 1024, 128, 128), ("none", "causal")),
         ("dot", (16, 16384, 16384, 64, 64), ("none", "causal")),
         ("dot", (16, 16384, 16384, 128, 128), ("none", "causal")),
         ("bf16", (64, 1024, 1024, 64, 64), ("none", "causal")),
         ("bf16", (768, 1024, 1024, 64, 64), ("none", "causal")),
         ("bf16", (64, 1024, 1024, 128, 128), ("none", "causal")),
         ("bf16", (16, 4096, 4096, 64, 64), ("none", "causal")),
         ("bf16", (16, 4096, 4096, 128, 128), ("none", "causal")),
         ("bf16", (16, 16384, 16384, 128, 128), ("none", "causal")),
         ("additive", (8, 1024, 1024, 256, 256), ("none", "causal")),
         ("additive", (1, 4096, 4096, 64, 64), ("none", "causal")),
         ("additive", (16, 50, 50, 512, 512), ("none", "lengths")),
         ("additive", (128, 10, 128, 1024, 1024), ("none", "lengths"))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--rounds", type=program.at_least(1), default=9)
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases with this in their name")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-torch", action="store_true", help="Fovea alone")
    parser.add_argument("--json", metavar="FILE", help="all numbers, too")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documents")
    return parser.parse_args()


def hidden(mask, B, Lq, Lk):
    """Which pairs are masked, [B or 1, Lq, Lk]; None without a mask."""
    keys = torch.arange(Lk, device="cuda")
    if mask == "none":
        return None
    if mask == "causal":
        return (keys[None, :] > torch.arange(Lq, device="cuda")[:, None])[None]
    lengths = torch.tensor([Lk - b * Lk // 2 // B for b in range(B)], device="cuda")
    return (keys[None, :] >= lengths[:, None])[:, None, :].expand(B, Lq, Lk)


def additive(q, k, v, u, mask):
    scores = (torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)) * u).sum(-1)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def dot(q, k, v, mask):
    scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def sdpa(causal):
    def run(q, k, v, mask):
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]
    return run


def timed(run, rounds):
    def seconds(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            run()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    seconds(3)
    n = max(3, min(1000, int(0.02 / (seconds(5) / 5))))
    return statistics.median(seconds(n) / n for _ in range(rounds)) * 1e6


def torch_side(function, tensors, mask, rounds):
    """Times and extra memory of both passes."""
    *inputs, up = tensors
    inputs = [x.detach().requires_grad_() for x in inputs]
    with torch.no_grad():
        forward = timed(lambda: function(*inputs, mask), rounds)
    both = lambda: torch.autograd.grad(function(*inputs, mask), inputs, up)
    both_us = timed(both, rounds)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    both()
    torch.cuda.synchronize()
    outputs = sum(x.nbytes for x in inputs) + up.nbytes
    return {"forward_us": forward, "both_us": both_us,
            "both_bytes": torch.cuda.max_memory_allocated() - before - outputs}


def exact(function, tensors, mask):
    """Context and gradients in float64, a batch element at a time."""
    q, k, v, *u, up = [x.double() for x in tensors]
    u = [x.requires_grad_() for x in u]
    results = {name: [] for name in ("context", "dq", "dk", "dv")}
    du = [torch.zeros_like(x) for x in u]
    for b in range(q.shape[0]):
        one = [x[b:b + 1].detach().requires_grad_() for x in (q, k, v)]
        seen = mask if mask is None or mask.shape[0] == 1 else mask[b:b + 1]
        context = function(*one, *u, seen)
        grads = torch.autograd.grad(context, [*one, *u], up[b:b + 1])
        for name, x in zip(("context", "dq", "dk", "dv"), (context.detach(), *grads)):
            results[name].append(x)
        for total, x in zip(du, grads[3:]):
            total += x
    return {**{name: torch.cat(x) for name, x in results.items()},
            **({"du": du[0].detach()} if du else {})}


def fovea_side(options, folder, family, sizes, mask):
    program = os.path.join(options.build, "bench", "gpu_attention")
    environment = {"FOVEA_CUDA_MODULE": os.path.abspath(os.path.join(options.build,
                                                                     "libfovea_cuda.so")), **os.environ}
    done = subprocess.run([program, folder, family, *map(str, sizes), mask, str(options.rounds)],
                          capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"gpu: {done.stderr.strip()}")
    return json.loads(done.stdout)


def errors(folder, truth):
    found = {}
    for name, y in truth.items():
        x = torch.frombuffer(bytearray(open(f"{folder}/{name}.f32", "rb").read()),
                             dtype=torch.float32).cuda().double().reshape(y.shape)
        found[name] = float((x - y).norm() / y.norm())
    return found


def run_case(options, family, sizes, mask):
    B, Lq, Lk, A, Dv = sizes
    torch.manual_seed(0)
    shapes = {"q": (B, Lq, A), "k": (B, Lk, A), "v": (B, Lk, Dv),
              **({"u": (A,)} if family == "additive" else {}), "d_context": (B, Lq, Dv)}
    tensors = {name: torch.randn(shape, device="cuda") for name, shape in shapes.items()}
    if family == "bf16":
        tensors = {name: x.bfloat16().float() for name, x in tensors.items()}
    result = {"family": family, "sizes": sizes, "mask": mask}
    formula = additive if family == "additive" else dot
    with tempfile.TemporaryDirectory() as folder:
        for name, x in tensors.items():
            with open(f"{folder}/{name}.f32", "wb") as file:
                file.write(x.cpu().numpy().tobytes())
        result["fovea"] = fovea_side(options, folder, family, sizes, mask)
        pairs = hidden(mask, B, Lq, Lk)
        truth = exact(formula, tuple(tensors.values()), pairs)
        result["errors"] = errors(folder, truth)
        del truth
        torch.cuda.empty_cache()
    if options.no_torch:
        return result
    if family == "bf16":
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            result["cudnn"] = torch_side(sdpa(mask == "causal"),
                                         [x.bfloat16() for x in tensors.values()], None,
                                         options.rounds)
        torch.cuda.empty_cache()
        return result
    if family == "dot":
        result["sdpa"] = torch_side(sdpa(mask == "causal"), tuple(tensors.values()), None,
                                    options.rounds)
        torch.cuda.empty_cache()
        return result
    result["eager"] = torch_side(additive, tuple(tensors.values()), pairs, options.rounds)
    if not options.no_compile:
        torch._dynamo.reset()
        compiled = torch.compile(additive, dynamic=False)
        result["compile"] = torch_side(compiled, tuple(tensors.values()), pairs, options.rounds)
    torch.cuda.empty_cache()
    return result


def line(r):
    ours, name = r["fovea"], f"{r['family']} {r['sizes']} {r['mask']}"
    text = (f"{name:42} {ours['forward_us']:8.1f} {ours['both_us']:8.1f} us, "
            f"{ours['both_bytes'] / 1e6:6.1f} MB, error {max(r['errors'].values()):.1e} ({max(r['errors'], key=r['errors'].get)}), "
            f"{'same bits' if ours['same_bits'] else 'OTHER BITS'}")
    for side in ("sdpa", "cudnn", "eager", "compile"):
        if side in r:
            peer = r[side]
            text += (f" | {side} {peer['forward_us']:.0f} {peer['both_us']:.0f} us "
                     f"{peer['both_bytes'] / 1e6:.0f} MB: {peer['forward_us'] / ours['forward_us']:.2f}x "
                     f"{peer['both_us'] / ours['both_us']:.2f}x")
    return text


def markdown(results):
    print("| B, Lq, Lk, A, Dv | mask | forward | forward and backward | extra memory | error |"
          " SDPA or eager | torch.compile |\n|---|---|---|---|---|---|---|---|")
    for r in results:
        ours = r["fovea"]
        cells = [r["family"] + " " + ", ".join(map(str, r["sizes"])), r["mask"], f"{ours['forward_us']:.0f} µs",
                 f"{ours['both_us']:.0f} µs", f"{ours['both_bytes'] / 1e6:.1f} MB",
                 f"{max(r['errors'].values()):.1e}"]
        for peer in (r.get("sdpa", r.get("cudnn", r.get("eager"))), r.get("compile")):
            cells.append("" if peer is None else
                         f"{peer['forward_us']:.0f} / {peer['both_us']:.0f} µs, "
                         f"{peer['both_bytes'] / 1e6:.0f} MB: "
                         f"**{peer['forward_us'] / ours['forward_us']:.1f}× / "
                         f"{peer['both_us'] / ours['both_us']:.1f}×**")
        print("| " + " | ".join(cells) + " |")


def main():
    options = arguments()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    results = []
    for family, sizes, masks in CASES:
        for mask in masks:
            if options.only not in f"{family} {sizes} {mask}":
                continue
            results.append(run_case(options, family, sizes, mask))
            print(line(results[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    if options.markdown:
        markdown(results)


main()
