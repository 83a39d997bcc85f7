"""The cases of check_attend.py: lengths, widths, mechanisms, types, and hard numbers."""

import dataclasses
import itertools
from typing import Callable, Optional

import torch

LENGTHS = ((1, 1), (2, 2), (3, 3), (5, 5), (17, 17), (97, 97), (113, 203), (127, 513),
           (1023, 1024), (1025, 1025))
WIDTHS = (1, 40, 59, 111, 256)
SCORES = ("dot", "scaled_dot", "multiplicative", "additive", "additive_keras", "tanh_unit", "mlp",
          "cosine", "location", "elu_dot")
MASKS = ("everything", "causal", "window:3", "causal+window:9", "local-p:4", "lengths", "segments",
         "matrix", "causal+lengths", "lengths+window:5", "lengths+local-p:4", "causal+matrix")
WEIGHTINGS = ("softmax", "sample", "argmax", "gumbel", "sparsemax", "entmax15", "sigmoid", "none")


@dataclasses.dataclass
class Case:
    name: str
    score: str = "scaled_dot"
    mask: str = "everything"
    weighting: str = "softmax"
    B: int = 1
    H: int = 2
    Hk: int = 2
    Lq: int = 5
    Lk: int = 5
    Dq: int = 8
    Dk: int = 8
    Dv: int = 8
    A: int = 8
    rank: int = 4
    dtype: str = "float32"
    temperature: float = 1.0
    dropout: float = 0.0
    scale: Optional[float] = None
    seed: int = 11
    plan: str = "automatic"
    threads: int = 0
    renormalise: bool = False
    lse: bool = False
    bias: str = ""           # the letters of its dimensions that are not 1
    mask_bool: bool = True
    mask_rank: int = 4
    mask_shape: dict = dataclasses.field(default_factory=dict)
    amplitude: float = 1.0   # of q and k
    against: str = "oracle"  # oracle, torch, threads
    edit: Optional[Callable] = None

    def mechanisms(self):
        if self.against == "torch":
            return ["PyTorch's attention"]
        terms = {"mask " + term.split(":")[0] for term in self.mask.split("+")}
        extras = [name for name, on in (("bias", self.bias), ("dropout", self.dropout),
                                        ("type " + self.dtype, self.dtype != "float32"),
                                        ("plan " + self.plan, self.plan != "automatic")) if on]
        return ["score " + self.score, *terms, "weighting " + self.weighting, *extras]


def sized(name, Lq, Lk, D, **kw):
    """Fewer heads and, for scores of every pair's features, narrower where L is large."""
    large = Lq * Lk > 100_000
    kw.setdefault("H", 1 if large else 2)
    kw.setdefault("Hk", kw["H"])
    kw.setdefault("B", 1 if large else 2)
    if kw.get("score") in ("additive_keras", "mlp") and large:
        D = min(D, 12)
    return Case(name=f"{name}/{Lq}x{Lk}/D{D}", Lq=Lq, Lk=Lk, Dq=D, Dk=D,
                **({"Dv": D} | kw))


def against_torch():
    for (Lq, Lk), kind in itertools.product(LENGTHS, ("plain", "causal", "masked", "grouped")):
        if kind == "causal" and Lq != Lk:
            continue  # aligned at the start there, at the end here: oracle.py has that
        yield sized(f"torch/{kind}", Lq, Lk, 40, against="torch", **torch_kind(kind))
    for D, kind in itertools.product(WIDTHS, ("plain", "causal", "masked", "grouped")):
        if D == 40:
            continue  # among the lengths
        yield sized(f"torch/{kind}", 97, 97, D, against="torch", **torch_kind(kind))


def torch_kind(kind):
    if kind == "masked":
        return {"mask": "matrix", "edit": first_key_allowed}
    if kind == "grouped":
        return {"H": 6, "Hk": 2}
    return {"mask": "causal"} if kind == "causal" else {}


def first_key_allowed(case, t):
    t["mask"][..., 0] = True  # a row without keys is NaN in PyTorch


def every_score():
    for score, (Lq, Lk) in itertools.product(SCORES, LENGTHS):
        yield sized(f"score/{score}", Lq, Lk, 40, score=score, Dv=24, **lse(score))
        yield sized(f"score/{score}/causal", Lq, Lk, 24, score=score, mask="causal")
    for score, D in itertools.product(SCORES, WIDTHS):
        yield sized(f"score/{score}", 17, 97, D, score=score, A=max(1, D // 2))
        yield sized(f"score/{score}/grouped", 29, 35, D, score=score, H=6, Hk=3)
    for score in ("multiplicative", "additive", "tanh_unit", "mlp", "location"):
        yield Case(name=f"score/{score}/unequal widths", score=score, Lq=33, Lk=47, Dq=19, Dk=26,
                   Dv=7, A=13)
    yield Case(name="score/additive/wide range", score="additive_keras", Lq=33, Lk=47,
               amplitude=30.0)
    yield Case(name="score/additive/far beyond", score="additive_keras", Lq=33, Lk=47,
               amplitude=300.0)
    yield Case(name="score/additive/without b", score="additive", Lq=33, Lk=47,
               edit=lambda case, t: t.pop("b"))
    yield Case(name="score/cosine/one beta", score="cosine", Lq=33, Lk=47,
               edit=lambda case, t: t.update(beta=torch.tensor(2.5)))
    yield Case(name="score/cosine/without beta", score="cosine", Lq=33, Lk=47,
               edit=lambda case, t: t.pop("beta"))
    for score in ("scaled_dot", "additive", "cosine"):
        yield Case(name=f"score/{score}/scale", score=score, Lq=33, Lk=47, scale=0.3, lse=True)


def lse(score):
    return {"lse": True} if score in ("scaled_dot", "additive") else {}


def every_mask():
    shapes = ((5, 5), (17, 40), (40, 17), (113, 203), (127, 513))
    for mask, score, (Lq, Lk) in itertools.product(MASKS, ("scaled_dot", "additive", "mlp"), shapes):
        yield sized(f"mask/{mask}/{score}", Lq, Lk, 16, mask=mask, score=score, H=4, Hk=2, B=3)
    for rank, (broadcast, label) in itertools.product(
            (1, 2, 3, 4), (({}, "full"), ({"B": 1, "i": 1}, "broadcast"))):
        for boolean in (True, False):
            yield Case(name=f"mask/matrix/rank {rank} {label} {'bool' if boolean else 'added'}",
                       mask="matrix", mask_rank=rank, mask_shape=broadcast, mask_bool=boolean, B=2,
                       Lq=9, Lk=14)
    for bias in ("", "ij", "Hij", "BHij", "j", "Bi"):
        if bias:
            for score in ("scaled_dot", "additive", "mlp"):
                yield Case(name=f"bias/{bias}/{score}", bias=bias, score=score, B=2, Lq=33, Lk=47)
    for weighting in ("softmax", "sigmoid", "entmax15"):
        yield Case(name=f"mask/local-p/renormalise/{weighting}", mask="local-p:4", renormalise=True,
                   weighting=weighting, B=2, Lq=33, Lk=47, temperature=0.7)
    yield Case(name="mask/window:0", mask="window:0", Lq=9, Lk=9)


def every_weighting():
    lengths = ((1, 1), (5, 5), (97, 97), (113, 203), (127, 513), (1023, 1024))
    for weighting, score, (Lq, Lk) in itertools.product(
            WEIGHTINGS, ("scaled_dot", "additive", "elu_dot"), lengths):
        yield sized(f"weighting/{weighting}/{score}", Lq, Lk, 16, weighting=weighting, score=score,
                    **({"scale": 0.05} if score == "elu_dot" else {}))
    for weighting, mask in itertools.product(WEIGHTINGS, MASKS[1:]):
        yield Case(name=f"weighting/{weighting}/{mask}", weighting=weighting, mask=mask, B=2, H=4,
                   Lq=33, Lk=47)
    for weighting in WEIGHTINGS:
        yield Case(name=f"weighting/{weighting}/temperature", weighting=weighting, Lq=33, Lk=47,
                   temperature=0.4, B=2)
        yield Case(name=f"weighting/{weighting}/dropout", weighting=weighting, Lq=33, Lk=47,
                   dropout=0.3, B=2)
        yield Case(name=f"weighting/{weighting}/mlp", weighting=weighting, score="mlp", Lq=33,
                   Lk=47, B=2)
    for D in WIDTHS:
        yield sized("weighting/none/causal dot", 97, 97, D, weighting="none", score="scaled_dot",
                    mask="causal")
    yield Case(name="weighting/sample/another seed", weighting="sample", Lq=97, Lk=113,
               seed=2 ** 63 + 5)


def other_forms():
    for rank, score in itertools.product((2, 3, 4), ("scaled_dot", "additive", "mlp")):
        yield Case(name=f"rank/{rank}/{score}", rank=rank, score=score, B=1 if rank == 2 else 3, H=1,
                   Hk=1, Lq=9, Lk=14)
    for rank, weighting in itertools.product((2, 3), WEIGHTINGS):
        yield Case(name=f"rank/{rank}/{weighting}", rank=rank, weighting=weighting, H=1, Hk=1,
                   B=1 if rank == 2 else 3, Lq=9, Lk=14)
    for dtype, score in itertools.product(("float16", "bfloat16", "float64"), SCORES):
        yield Case(name=f"type/{dtype}/{score}", dtype=dtype, score=score, Lq=17, Lk=33,
                   edit=representable)
    for plan, score in itertools.product(("composed", "reference"), SCORES):
        yield Case(name=f"plan/{plan}/{score}", plan=plan, score=score, mask="causal", Lq=13, Lk=17)
    for score, mask in itertools.product(("dot", "elu_dot"), ("everything", "causal")):
        yield sized(f"plan/linear/{score}/{mask}", 113, 203, 24, plan="linear", score=score,
                    mask=mask, weighting="none")


def representable(case, t):
    """float64 inputs that are exactly float32 numbers: the rounding of the input is no error."""
    if case.dtype == "float64":
        for name in t:
            if t[name].is_floating_point():
                t[name] = t[name].float().double() if name != "d_context" else t[name]


def hard_numbers():
    def no_key_for_some(case, t):
        t["mask"][:, :, ::3] = False

    def no_key_at_all(case, t):
        t["mask"][:] = False

    def not_finite_where_masked(case, t):
        t["lengths"][:] = 6
        for name in "kv":
            t[name][:, :, 6:8] = float("nan")
            t[name][:, :, 8:] = float("inf")

    def forbidden_key(case, t):
        t["bias"][..., 2] = -float("inf")

    def lowest_for_a_row(case, t):
        t["mask"][..., 0, :] = torch.finfo(torch.float32).min

    for score, weighting in itertools.product(("scaled_dot", "additive", "mlp"), WEIGHTINGS):
        yield Case(name=f"hard/rows without keys/{score}/{weighting}", mask="matrix", score=score,
                   weighting=weighting, B=2, Lq=9, Lk=14, edit=no_key_for_some)
    yield Case(name="hard/no keys at all", mask="matrix", B=2, Lq=9, Lk=14, edit=no_key_at_all,
               lse=True)
    for score in SCORES:
        yield Case(name=f"hard/NaN and Inf where masked/{score}", mask="lengths", score=score, B=2,
                   Lq=9, Lk=14, edit=not_finite_where_masked)
        yield Case(name=f"hard/a forbidden key/{score}", bias="ij", score=score, B=2, Lq=9, Lk=14,
                   edit=forbidden_key)
    for score in ("dot", "scaled_dot"):
        yield Case(name=f"hard/scores of 1e4/{score}", score=score, Lq=33, Lk=47, amplitude=60.0)
    yield Case(name="hard/the lowest finite number", mask="matrix", mask_bool=False, Lq=9, Lk=14,
               edit=lowest_for_a_row)
    for score, (Lq, Lk) in itertools.product(("scaled_dot", "additive", "mlp"), ((0, 5), (5, 0))):
        yield Case(name=f"hard/empty/{score}/{Lq}x{Lk}", score=score, Lq=Lq, Lk=Lk)
    for factor in range(2, 8):
        yield Case(name=f"hard/tiles/{5 * factor}x{3 * factor}", Lq=5 * factor, Lk=3 * factor)


def any_number_of_threads():
    for score, mask, weighting in (("scaled_dot", "everything", "softmax"),
                                   ("scaled_dot", "causal", "sample"),
                                   ("additive", "lengths", "softmax"),
                                   ("additive", "causal", "gumbel"), ("mlp", "causal", "softmax"),
                                   ("scaled_dot", "local-p:9", "softmax"),
                                   ("cosine", "window:9", "entmax15"), ("dot", "causal", "none")):
        yield Case(name=f"threads/{score}/{mask}/{weighting}", score=score, mask=mask,
                   weighting=weighting, B=2, H=4, Hk=2, Lq=113, Lk=203, Dq=40, Dk=40, Dv=40,
                   against="threads")


def all_cases():
    return itertools.chain(against_torch(), every_score(), every_mask(), every_weighting(),
                           other_forms(), hard_numbers(), any_number_of_threads())
