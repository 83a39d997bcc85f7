"""The operators, against the formulas in PyTorch's float64, in three layouts; and bad use."""

import dataclasses
import hashlib
import math

import pytest

torch = pytest.importorskip("torch")

import fovea
import fovea.torch
import oracle

SCORES = sorted(one["name"] for one in fovea.scores())
MASKS = ["everything", "causal", "window:2", "causal+window:2", "lengths", "segments", "matrix", "local-p:3"]
WEIGHTINGS = sorted(one["name"] for one in fovea.weightings())
B, H, HK, LQ, LK, D, DV, A = 2, 4, 2, 6, 7, 8, 5, 6


@dataclasses.dataclass
class Case:
    score: str
    mask: str
    weighting: str
    scale: object = None
    temperature: float = 1.0
    dropout: float = 0.0
    renormalise: bool = False
    seed: int = 5


def inputs(case):
    g = torch.Generator().manual_seed(int(hashlib.sha256(repr(case).encode()).hexdigest()[:8], 16))

    def normal(*shape, scale=1.0):
        return torch.randn(shape, generator=g) * scale

    t = {"q": normal(B, H, LQ, D), "k": normal(B, HK, LK, D), "v": normal(B, HK, LK, DV)}
    t |= {"multiplicative": lambda: {"w": normal(D, D, scale=D**-0.5)},
          "additive": lambda: {"w_q": normal(A, D, scale=D**-0.5), "w_k": normal(A, D, scale=D**-0.5),
                               "u": normal(A), "b": normal(A)},
          "additive_keras": lambda: {"u": normal(D)},
          "tanh_unit": lambda: {"w_y": normal(D, scale=D**-0.5), "w_c": normal(D, scale=D**-0.5)},
          "mlp": lambda: {"w_1": normal(A, 2 * D, scale=0.25), "b_1": normal(A),
                          "w_2": normal(A, A, scale=A**-0.5), "b_2": normal(A), "u": normal(A)},
          "cosine": lambda: {"beta": 3 * normal(H)},
          "location": lambda: {"w_loc": normal(LK + 3, D, scale=D**-0.5)}}.get(case.score, dict)()
    if "lengths" in case.mask:
        t["lengths"] = torch.tensor([4, 7])
    if "segments" in case.mask:
        t["q_segments"] = torch.tensor([[0, 0, 0, 1, 1, 1]] * B)
        t["k_segments"] = torch.tensor([[0, 0, 0, 0, 1, 1, 1]] * B)
    if "matrix" in case.mask:
        t["mask"] = torch.rand(B, 1, LQ, LK, generator=g) < 0.7
    if "local-p" in case.mask:
        t["w_p"], t["u_p"] = normal(A, D, scale=D**-0.5), normal(A)
    return t


def run(case, t):
    named = {name: x for name, x in t.items() if name not in "qkv"}
    return fovea.attend(t["q"], t["k"], t["v"], score=case.score, mask=case.mask.replace("-", "_"),
                        weighting=case.weighting, seed=case.seed, parameters=named)


def check(case, layout):
    t = inputs(case)
    wide = {n: x.double().requires_grad_() if x.is_floating_point() else x for n, x in t.items()}
    context, weights, lse, unsure = oracle.attend(case, wide)
    d = torch.randn(context.shape, generator=torch.Generator().manual_seed(1))
    d = torch.where(unsure[..., None], 0.0, d)
    # Of a draw there is nothing to learn by the context but the values.
    context.backward(d.double())
    leaves = {n: x.clone().requires_grad_() if x.is_floating_point() else x for n, x in t.items()}
    given = {n: layout(x) if n in "qkv" else x for n, x in leaves.items()}
    found = run(case, given)
    where = ~unsure
    close(found.context[where], context.detach()[where], 1e-5, "context")
    close(found.weights()[where], weights.detach()[where], 1e-5, "weights")
    found.context.backward(d)
    for name, x in leaves.items():
        if not x.is_floating_point():
            continue
        right = wide[name].grad if wide[name].grad is not None else torch.zeros_like(wide[name])
        got = x.grad if x.grad is not None else torch.zeros_like(x)
        close(got, right, 1e-4, f"d_{name}")


def close(found, right, most, what):
    size = max(1.0, float(right.abs().max()) if right.numel() else 1.0)
    error = float((found.detach().double() - right.double()).abs().max()) / size if right.numel() else 0
    assert error <= most, f"{what}: {error:.2g}"


def contiguous(x):
    return x


def split_off(x):
    """Heads as they come out of [B,L,H·D]."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_every_score_mask_and_weighting(score, mask, weighting):
    check(Case(score, mask, weighting), contiguous)
    check(Case(score, mask, weighting), split_off)


@pytest.mark.parametrize("score", SCORES)
def test_stride_0(score):
    """One key and value head seen by all, expanded; and gradients that come expanded."""
    t = inputs(Case(score, "everything", "softmax"))
    narrow = {"k": t["k"][:, :1], "v": t["v"][:, :1]}
    found = []
    for copied in (False, True):
        leaves = {n: narrow.get(n, x).clone().requires_grad_() for n, x in t.items()}
        given = dict(leaves)
        for n in narrow:
            given[n] = leaves[n].expand(-1, HK, -1, -1)
            if copied:
                given[n] = given[n].contiguous()
        context = run(Case(score, "everything", "softmax"), given).context
        context.sum().backward()  # an upstream gradient of stride 0
        found.append({n: x.grad for n, x in leaves.items()} | {"context": context.detach()})
    for name, x in found[0].items():
        torch.testing.assert_close(x, found[1][name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("of", ["lse", "entropy", "weights", "log_prob"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_looks_have_gradients(of, score):
    case = Case(score, "causal", "sample" if of == "log_prob" else "softmax")
    t = inputs(case)
    wide = {n: x.double().requires_grad_() for n, x in t.items()}
    context, weights, lse, _ = oracle.attend(case, wide)
    leaves = {n: x.clone().requires_grad_() for n, x in t.items()}
    found = run(case, leaves)
    got = {"lse": lambda: found.lse, "entropy": found.entropy, "weights": found.weights,
           "log_prob": lambda: found.log_prob}[of]()
    soft = Case(score, "causal", "softmax")
    p = oracle.attend(soft, wide)[1]
    if of == "log_prob":
        right = p.gather(-1, found.chosen[..., None])[..., 0].log()
    elif of == "entropy":
        right = -torch.where(p > 0, p * torch.where(p > 0, p, 1.0).log(), 0.0).sum(-1)
    else:
        right = {"lse": lse, "weights": p}[of]
    seen = lse.isfinite()
    close(got[seen] if of != "weights" else got, right[seen] if of != "weights" else right, 1e-5, of)
    d = torch.randn(got.shape, generator=torch.Generator().manual_seed(2))
    got.backward(d)
    right.backward(d.double())
    for name in ("q", "k"):
        close(leaves[name].grad, wide[name].grad, 1e-4, f"d_{name}")


def test_dropout_is_that_of_the_formula():
    case = Case("scaled_dot", "everything", "softmax", dropout=0.4)
    t = inputs(case)
    right = oracle.attend(case, {n: x.double() for n, x in t.items()})[0]
    found = fovea.attend(t["q"], t["k"], t["v"], dropout=0.4, seed=5)
    close(found.context, right, 1e-5, "context")


def calls():
    """What the operator takes, with the choice as _choice.choices has it."""
    t = inputs(Case("additive", "lengths", "softmax"))
    names = ("w_q", "w_k", "u", "b", "lengths")
    additive = ("additive", "lengths", "softmax", names, None, None, 1.0, 0.0, "automatic")
    plain = ("scaled_dot", "", "softmax", (), None, None, 1.0, 0.0, "automatic")
    drawn = ("scaled_dot", "causal", "sample", (), None, None, 1.0, 0.0, "automatic")
    qkv = [t[x].requires_grad_() for x in "qkv"]
    parameters = [t[n].requires_grad_() if t[n].is_floating_point() else t[n] for n in names]
    yield (*qkv, parameters, additive, None)
    yield (*qkv, [], plain, None)
    yield (*(split_off(x.detach()).requires_grad_() for x in qkv), [], plain, None)
    yield (*(x.detach()[:, 0].requires_grad_() for x in qkv), [], plain, None)
    yield (*qkv, [], drawn, torch.tensor(3))


@pytest.mark.parametrize("number", range(5))
def test_opcheck(number):
    from fovea._choice import how
    from fovea.torch._operators import attend_op, backward_op, look_op

    *rest, said, seed = list(calls())[number]
    call = (*rest, how(*said), seed)
    torch.library.opcheck(attend_op, call)
    computed = [x.detach() for x in attend_op(*call)]
    torch.library.opcheck(look_op, ("weights", [], [1], *call, *computed))
    needs = [True] * 3 + [x.is_floating_point() for x in call[3]]
    plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in call[:3]]
    rest = ([x.detach() for x in call[3]], *call[4:])
    torch.library.opcheck(backward_op, (torch.randn(computed[0].shape), "context", [], [], needs, *plain,
                                        *rest, *computed))


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """The operators that torch's dispatcher is asked for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.names.append(str(op))
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("number", range(5))
def test_with_the_dispatcher_and_without(number):
    """Where nobody else wants to see a call it does not go through the dispatcher: the same bits."""
    from fovea._choice import how
    from fovea.torch import _operators

    def operator(q, k, v, parameters, said, seed):
        return _operators.attend_op(q, k, v, parameters, how(*said), seed)

    def either(q, k, v, parameters, said, seed):
        return _operators.attend((q, k, v, *parameters), said, seed)

    def gradients(attend, call):
        context = attend(*call)[0]
        learned = [x for x in (*call[:3], *call[3]) if x.requires_grad]
        return [context, *torch.autograd.grad(context.square().sum(), learned)]

    call = list(calls())[number]
    plain = gradients(either, call)
    for found, right in zip(gradients(operator, call), plain):
        assert torch.equal(found, right) and found.stride() == right.stride()
    seen = Seen()
    with seen:
        for found, right in zip(gradients(either, call), plain):
            assert torch.equal(found, right)
    assert "fovea.attend.default" in seen.names and "fovea.attend_backward.default" in seen.names


def test_a_subclass_is_told():
    told = []

    class Telling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            told.append(str(f))
            return super().__torch_function__(f, types, args, kwargs)

    x = torch.ones(1, 1, 3, 4).as_subclass(Telling)
    assert isinstance(fovea.attend(x, x, x).context, Telling)
    assert "fovea.attend.default" in told


def test_memory_order_of_the_queries():
    t = inputs(Case("scaled_dot", "everything", "softmax"))
    q, k, v = (split_off(t[x]) for x in "qkv")
    context = fovea.attend(q, k, v).context
    assert context.transpose(1, 2).is_contiguous()  # heads are merged by a view


def test_nothing_is_copied():
    q, k, v = (torch.randn(1, 8, 512, 512) for _ in range(3))
    assert fovea._engine.address_of(q) == q.data_ptr()
    fovea.attend(q, k, v)
    before = fovea.memory_in_use()
    fovea.reset_memory_peak()
    context = fovea.attend(q, k, v).context
    assert fovea.memory_peak() - before < 2.3 * context.numel() * 4  # and the kernels' panels of keys


# ---- Bad use --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change, line", [
    (dict(q=torch.zeros(2, 4, 6, 8, dtype=torch.bfloat16)),
     r"q is a torch.Tensor of torch.bfloat16, expected torch.float32 .*x.float\(\)"),
    (dict(k=torch.zeros(2, 2, 7, 8, dtype=torch.float64)), r"k is a torch.Tensor of torch.float64, expected"),
    (dict(v=[[1.0]]), r"v is a list, q is a torch.Tensor"),
    (dict(k=torch.zeros(2, 2, 7, 9)), r"\[attend\] k has D=9, q has D=8"),
    (dict(q=torch.zeros(2, 4, 6, 8, device="meta")), r"expected one in this machine's memory"),
])
def test_bad_use_is_said_in_one_line(change, line):
    t = inputs(Case("scaled_dot", "everything", "softmax")) | change
    with pytest.raises(ValueError, match=line) as error:
        if t["q"].device.type == "meta":
            fovea._engine.torch_attend((t["q"], t["k"], t["v"]), choice(), 0)
        fovea.attend(t["q"], t["k"], t["v"])
    assert "\n" not in str(error.value)


def choice():
    from fovea._choice import choices

    return choices["scaled_dot", "", "softmax", (), None, None, 1.0, 0.0, "automatic"]


def test_a_tensor_changed_between_forward_and_backward():
    t = inputs(Case("scaled_dot", "everything", "softmax"))
    k = t["k"].clone()
    q = t["q"].requires_grad_()
    context = fovea.attend(q, k, t["v"]).context
    k.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        context.sum().backward()


def test_double_backward():
    t = inputs(Case("scaled_dot", "everything", "softmax"))
    q = t["q"].requires_grad_()
    context = fovea.attend(q, t["k"], t["v"]).context
    d, = torch.autograd.grad(context.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"\[attend\] there is no double backward") as error:
        d.sum().backward()
    assert "\n" not in str(error.value)


def test_forward_mode():
    t = inputs(Case("scaled_dot", "everything", "softmax"))
    refused = pytest.raises(RuntimeError, match=r"\[attend\] there is no forward-mode differentiation")
    with refused:
        torch.func.jvp(lambda q: fovea.attend(q, t["k"], t["v"]).context, (t["q"],), (t["q"],))
    with torch.autograd.forward_ad.dual_level(), refused:
        fovea.attend(torch.autograd.forward_ad.make_dual(t["q"], t["q"]), t["k"], t["v"])


def test_views_whose_sign_is_a_bit():
    """torch keeps the minus beside the memory that the engine reads."""
    t = inputs(Case("scaled_dot", "everything", "softmax"))
    up = torch.randn(t["q"].shape[:3] + t["v"].shape[3:])

    def both(q, d):
        q.requires_grad_()
        context = fovea.attend(q, t["k"], t["v"]).context
        return context, torch.autograd.grad(context, q, d)[0]

    right = both(-t["q"], -up)
    for q, d in ((torch._neg_view(t["q"]), -up), (-t["q"], torch._neg_view(up))):
        assert all(torch.equal(x, y) for x, y in zip(both(q, d), right))


def test_what_chooses_nothing_says_so_in_any_rank():
    t = inputs(Case("scaled_dot", "everything", "softmax"))
    found = fovea.attend(t["q"][0, 0], t["k"][0, 0], t["v"][0, 0])
    with pytest.raises(ValueError, match="chooses no key"):
        found.chosen


def test_nan_and_queries_that_see_nothing():
    t = inputs(Case("scaled_dot", "lengths", "softmax"))
    k = t["k"].clone()
    k[0, :, 4:] = math.nan  # beyond the length: never read
    q = t["q"].requires_grad_()
    found = fovea.attend(q, k, t["v"], mask="lengths", lengths=torch.tensor([4, 0]))
    assert found.context[1].eq(0).all() and found.context.isfinite().all()
    found.context.sum().backward()
    assert q.grad.isfinite().all() and q.grad[1].eq(0).all()
