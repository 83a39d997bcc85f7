"""Holds the program, `fovea attend`, against PyTorch's own attention and against oracle.py, both in
float64: contexts and weights within 1e-5, gradients within 1e-4 of their largest element. Where
float32 cannot do that (scores of several hundred, say, whose last bit alone is 3e-5), a case is held
against the same formulas computed by PyTorch in float32; those cases are counted and named.

    python3 tests/attention/check_attend.py [--program build/fovea] [--only PATTERN] [-v]

Needs torch, numpy and safetensors. Inputs are N(0, 1). Ends with the worst error of each mechanism
and `N passed, N failed`."""

import argparse
import dataclasses
import hashlib
import math
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import oracle
from check_cases import all_cases
from check_misuse import misuse_checks

FLOAT32_FACTOR = 8  # of the error PyTorch makes in float32
TOLERANCE = {"context": 1e-5, "weights": 1e-5, "lse": 1e-5, "gradient": 1e-4}


def parameters(case, g):
    """What the score and the mask need besides q, k, v; scaled by their width so that scores stay
    of order 1."""
    Dq, Dk, A = case.Dq, case.Dk, case.A
    shapes = {"multiplicative": {"w": (Dq, Dk)},
              "additive": {"w_q": (A, Dq), "w_k": (A, Dk), "u": (A,), "b": (A,)},
              "additive_keras": {"u": (Dq,)},
              "tanh_unit": {"w_y": (Dk,), "w_c": (Dq,)},
              "mlp": {"w_1": (A, Dq + Dk), "b_1": (A,), "w_2": (A, A), "b_2": (A,), "u": (A,)},
              "cosine": {"beta": (case.H,)},
              "location": {"w_loc": (case.Lk + 3, Dq)}}.get(case.score, {})
    t = {name: torch.randn(shape, generator=g) / math.sqrt(max(1, shape[-1]))
         for name, shape in shapes.items()}
    if "beta" in t:
        t["beta"] = torch.randn(case.H, generator=g) * 3
    if "local-p" in case.mask:
        t["w_p"] = torch.randn(A, Dq, generator=g) / math.sqrt(Dq)
        t["u_p"] = torch.randn(A, generator=g)
    return t


def mask_tensors(case, g):
    B, H, Lq, Lk = case.B, case.H, case.Lq, case.Lk
    t = {}
    if "lengths" in case.mask:
        t["lengths"] = torch.randint(0, Lk + 1, (B,), generator=g)
    if "segments" in case.mask:
        t["q_segments"] = torch.sort(torch.randint(0, 3, (B, Lq), generator=g)).values
        t["k_segments"] = torch.sort(torch.randint(0, 3, (B, Lk), generator=g)).values
    if "matrix" in case.mask:
        shape = [case.mask_shape.get(x, n) for x, n in zip("BHij", (B, H, Lq, Lk))]
        shape = shape[4 - case.mask_rank:]
        t["mask"] = (torch.rand(shape, generator=g) < 0.7 if case.mask_bool
                     else torch.randn(shape, generator=g))
    if case.bias:
        t["bias"] = torch.randn([n if x in case.bias else 1
                                 for x, n in zip("BHij", (B, H, Lq, Lk))], generator=g)
    return t


def make_inputs(case):
    seed = int(hashlib.sha256(case.name.encode()).hexdigest()[:8], 16)
    g = torch.Generator().manual_seed(seed)
    shapes = {"q": (case.B, case.H, case.Lq, case.Dq), "k": (case.B, case.Hk, case.Lk, case.Dk),
              "v": (case.B, case.Hk, case.Lk, case.Dv),
              "d_context": (case.B, case.H, case.Lq, case.Dv)}
    t = {name: torch.randn(shape, generator=g) * (case.amplitude if name in "qk" else 1.0)
         for name, shape in shapes.items()}
    t |= parameters(case, g) | mask_tensors(case, g)
    if case.rank < 4:
        for name in shapes:
            t[name] = t[name].squeeze(1)
            if case.rank == 2:
                t[name] = t[name].squeeze(0)
    if case.edit:
        case.edit(case, t)
    dtype = getattr(torch, case.dtype)
    return {name: x.to(dtype).contiguous() if x.is_floating_point() and name != "d_context"
            else x.contiguous() for name, x in t.items()}


def by_oracle(case, t):
    return oracle.attend(case, t)


def by_torch(case, t):
    """scaled_dot_product_attention itself: plain, causal, masked, grouped."""
    causal = case.mask == "causal"
    allowed = t.get("mask")
    context = F.scaled_dot_product_attention(t["q"], t["k"], t["v"], attn_mask=allowed,
                                             is_causal=causal, enable_gqa=case.H != case.Hk)
    return context, None, None, torch.zeros(context.shape[:3], dtype=torch.bool)


def expected(case, inputs, dtype=torch.float64):
    """Results by name, and the rows where rounding may decide a choice: these are left out, and
    their d_context is zeroed in `inputs` so that gradients leave them out too."""
    t = {name: x.to(dtype).clone() if x.is_floating_point() else x for name, x in inputs.items()}
    leaves = {n: x.requires_grad_() for n, x in t.items()
              if x.is_floating_point() and n != "d_context"}
    context, weights, lse, unsure = (by_torch if case.against == "torch" else by_oracle)(case, t)
    shape = inputs["d_context"].shape
    inputs["d_context"] = torch.where(unsure.unsqueeze(-1).reshape(*shape[:-1], 1), 0.0,
                                      inputs["d_context"]).to(inputs["d_context"].dtype)
    want = {"context": context.detach().reshape(shape)}
    if weights is not None:
        want["weights"] = weights.detach().reshape(*shape[:-1], case.Lk)
    if lse is not None:
        want["lse"] = lse.detach().reshape(shape[:-1])
    if context.requires_grad:
        context.backward(inputs["d_context"].to(context.dtype).reshape(context.shape))
    for name, x in leaves.items():
        want["d_" + name] = torch.zeros_like(x) if x.grad is None else x.grad
    return want, unsure.reshape(shape[:-1])


def command(case, program, folder):
    line = [program, "attend", f"{folder}/in.safetensors", "-o", f"{folder}/out.safetensors",
            "--score", case.score, "--mask", case.mask, "--weighting", case.weighting, "--grad",
            "--weights", "--seed", str(case.seed), "--plan", case.plan]
    if case.lse:
        line.append("--lse")
    if case.temperature != 1:
        line += ["--temperature", str(case.temperature)]
    if case.dropout:
        line += ["--dropout", str(case.dropout)]
    if case.scale is not None:
        line += ["--scale", str(case.scale)]
    if case.renormalise:
        line.append("--renormalise")
    if case.threads:
        line += ["--threads", str(case.threads)]
    return line


def error_of(name, got, want, unsure):
    """Contexts and weights: absolute, or of the largest where that is above 1. Gradients: of the
    largest. Infinite where something is not finite that should be, or the other way round."""
    got, want = got.double(), want.double()
    if got.shape != want.shape:
        return math.inf
    if not name.startswith("d_"):
        keep = ~unsure.reshape(unsure.shape + (1,) * (want.dim() - unsure.dim()))
        got, want = torch.where(keep, got, 0.0), torch.where(keep, want, 0.0)
    if want.numel() == 0:
        return 0.0
    infinite = want.isinf()
    if not torch.equal(got[infinite], want[infinite]) or not got[~infinite].isfinite().all():
        return math.inf
    got, want = got[~infinite], want[~infinite]
    if want.numel() == 0:
        return 0.0
    largest = want.abs().max().item()
    off = (got - want).abs().max().item()
    if not name.startswith("d_"):
        return off / max(1.0, largest)
    # A gradient that is 0 in exact arithmetic (a bias that shifts a whole row) is rounding alone.
    return off / largest if largest > 1e-12 else off


def run_case(case, program, folder):
    """→ ({kind: worst error}, lines that say what failed, whether float32 was the limit)."""
    inputs = make_inputs(case)
    want, unsure = expected(case, inputs)
    if unsure.numel() and unsure.double().mean() > 0.2:
        return {}, ["too many rows that rounding decides"], False
    out = f"{folder}/out.safetensors"
    if os.path.exists(out):
        os.remove(out)
    save_file(inputs, f"{folder}/in.safetensors")
    ran = subprocess.run(command(case, program, folder), capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return {}, [f"exit {ran.returncode}: {ran.stderr.strip()[:300]}"], False
    return compare(case, inputs, load_file(out), want, unsure)


def compare(case, inputs, got, want, unsure):
    worst, faults, by_float32 = {}, [], None
    for name, value in want.items():
        kind = "gradient" if name.startswith("d_") else name
        if name == "lse" and not case.lse:
            continue
        if name not in got:
            faults.append(f"{name} is missing")
            continue
        error = error_of(name, got[name], value, unsure)
        if error > TOLERANCE[kind] and math.isfinite(error):
            by_float32 = by_float32 or expected(case, dict(inputs), torch.float32)[0]
            limit = FLOAT32_FACTOR * error_of(name, by_float32[name], value, unsure)
            if error <= limit:
                continue
        worst[kind] = max(worst.get(kind, 0.0), error)
        if not error <= TOLERANCE[kind]:
            faults.append(f"{name} is off by {error:.2g}")
    return worst, faults, by_float32 is not None


def bit_equality(case, program, folder):
    """The same bytes with 1, 2 and 4 threads."""
    save_file(make_inputs(case), f"{folder}/in.safetensors")
    seen = set()
    for threads in (1, 2, 4):
        line = command(dataclasses.replace(case, threads=threads), program, folder)
        ran = subprocess.run(line, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            return [f"exit {ran.returncode}: {ran.stderr.strip()[:300]}"]
        with open(f"{folder}/out.safetensors", "rb") as file:
            seen.add(hashlib.sha256(file.read()).hexdigest())
    return [] if len(seen) == 1 else ["outputs depend on the number of threads"]


class Tally:
    def __init__(self, verbose):
        self.verbose, self.worst, self.passed, self.failed = verbose, {}, 0, []
        self.limited = []

    def add(self, case, errors, faults, limited):
        if limited and not faults:
            self.limited.append(case.name)
        for mechanism in case.mechanisms():
            row = self.worst.setdefault(mechanism, {"runs": 0})
            row["runs"] += 1
            for kind, error in errors.items():
                row[kind] = max(row.get(kind, 0.0), error)
        self.count(case.name, faults)

    def count(self, name, faults):
        if faults:
            self.failed.append(name)
            print(f"FAILED {name}: {'; '.join(faults)}", flush=True)
        else:
            self.passed += 1
            if self.verbose:
                print(f"ok     {name}", flush=True)

    def table(self):
        kinds = list(TOLERANCE)
        print(f"\n{'worst error by mechanism':<30}{'runs':>6}" + "".join(f"{k:>11}" for k in kinds))
        for mechanism in sorted(self.worst):
            row = self.worst[mechanism]
            print(f"{mechanism:<30}{row['runs']:>6}" + "".join(
                f"{row[k]:>11.1e}" if k in row else f"{'–':>11}" for k in kinds))
        print(f"{'allowed':<36}" + "".join(f"{TOLERANCE[k]:>11.0e}" for k in kinds))
        if self.limited:
            print(f"{len(self.limited)} cases within {FLOAT32_FACTOR} times PyTorch's own error in "
                  f"float32: {', '.join(self.limited)}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(here, "..", "..", "build", "fovea"))
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads leave the cores to others
    tally = Tally(options.verbose)
    with tempfile.TemporaryDirectory(prefix="fovea-check-") as folder:
        for case in all_cases():
            if options.only not in case.name:
                continue
            if case.against == "threads":
                tally.count(case.name, bit_equality(case, options.program, folder))
            else:
                tally.add(case, *run_case(case, options.program, folder))
        for name, check in misuse_checks():
            if options.only in name:
                tally.count(name, check(options.program, folder))
    tally.table()
    print(f"{tally.passed} passed, {len(tally.failed)} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
