"""PyTorch's operators, registered without linking it: torch's C++ changes with every release.

    fovea::attend(q, k, v, parameters, how, seed) -> (context, stat, chosen)
    fovea::look(of, heads, rows, q, …, context, stat, chosen) -> Tensor
    fovea::attend_backward(d, of, heads, rows, needs, q, …, context, stat, chosen) -> Tensor[]

No state crosses them: what the backward pass reads is the inputs, the context and a number a row
(chosen: two). So they may run apart, as torch.compile, export and checkpointing do. `how` is the
choice as text; `seed` a tensor, so that a graph may draw it.

They are defined by torch.library.Library: custom_op flattens a Tensor[] by Python's pytrees, 350 µs
a call with gradients.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, _C
from torch.autograd import forward_ad

from .. import _engine
from .._choice import choice_of, choices, how as how_of

_engine.know_torch(torch.float32, torch.int64, torch.bool,
                   getattr(torch.Tensor, "__dlpack_c_exchange_api__", None))

_LIBRARY = torch.library.Library("fovea", "DEF")
_CALL = "Tensor q, Tensor k, Tensor v, Tensor[] parameters, str how, Tensor? seed"
_COMPUTED = "Tensor context, Tensor stat, Tensor? chosen"


Seed = Union[Tensor, int, None]


def seed_of(seed: Seed) -> int:
    return int(seed) & 0xFFFFFFFFFFFFFFFF if seed is not None else 0


def drawn_by(seed: Seed) -> Optional[Tensor]:
    """As the operators take it."""
    return seed if seed is None or isinstance(seed, Tensor) else torch.tensor(seed) if seed else None


def empty_in_order_of(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Unwritten, in the memory order of `like`: what is made of heads that were split off
    [B,L,H·D] can be merged by a view. As the engine's own (src/attention/layout.h)."""
    n = len(shape)
    order = list(range(n))
    wide = [d for d in range(n - 1) if like.shape[d] != 1]
    if all(like.stride(d) != 0 for d in wide):
        for to, of in zip(wide, sorted(wide, key=like.stride, reverse=True)):
            order[to] = of
    inverse = [0] * n
    for i, d in enumerate(order):
        inverse[d] = i
    return like.new_empty([shape[d] for d in order]).permute(inverse)


# ---- The dispatcher, and when it has nothing to do ------------------------------------------------


_included, _excluded = _C._dispatch_tls_local_include_set, _C._dispatch_tls_local_exclude_set
_keys = _C._dispatch_keys
_is_compiling, _has_torch_function = torch.compiler.is_compiling, torch.overrides.has_torch_function
_is_grad_enabled = torch.is_grad_enabled


def _usual() -> List[Any]:
    """What a thread that nobody has changed has, and a plain tensor."""
    found: List[Any] = []
    fresh = threading.Thread(target=lambda: found.extend((_included(), _excluded(),
                                                          _keys(torch.empty(0, device="cpu")))))
    fresh.start()
    fresh.join()
    return found


_USUALLY_IN, _USUALLY_OUT, _USUAL = _usual()


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether the dispatcher would only record the call and compute it: no compiler, mode,
    transform, autocast or subclass. Then both are done without it, which saves 30 µs."""
    if (_is_compiling() or _has_torch_function(tensors) or not (_included() == _USUALLY_IN and _excluded() == _USUALLY_OUT)):
        return False
    for x in tensors:
        if not _keys(x) == _USUAL:
            return False
    return True


def _define(schema: str, kernel: Callable, fake: Callable, autograd: Callable) -> Any:
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"fovea::{name}", fake, lib=_LIBRARY)
    _LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)
    return getattr(torch.ops.fovea, name).default


def _below_autograd(op: Any, keyset: Any, *args: Any) -> Any:
    with _C._AutoDispatchBelowAutograd():
        return op.redispatch(keyset & _C._after_autograd_keyset, *args)


# ---- Autograd -------------------------------------------------------------------------------------


def _refuse_tangents(tensors: Sequence[Tensor]) -> None:
    for x in tensors:
        if forward_ad.unpack_dual(x).tangent is not None:
            raise RuntimeError("[attend] there is no forward-mode differentiation (jvp): gradients are "
                               "computed backward")


def _learns(tensors: Sequence[Tensor]) -> bool:
    if forward_ad._current_level >= 0:
        _refuse_tangents(tensors)
    if _is_grad_enabled():
        for x in tensors:
            if x.requires_grad:
                return True
    return False


def _in_place(found: Sequence[Tensor], needs: Sequence[bool]) -> Tuple:
    left = iter(found)
    return tuple(next(left) if need else None for need in needs)


class Attend(torch.autograd.Function):
    """`compute()`, recorded as what was `asked` (of, heads, rows) of a call with these inputs. Only
    the context and looks have gradients: Attended.lse is a look. So the first thing computed is the
    output; the others go by `beside`, which saves 5 µs."""

    @staticmethod
    def forward(ctx, call, beside, *inputs):
        compute, asked, how, seed, computed = call
        found = compute()
        if computed is None:
            computed = found
            found, *beside[:] = computed
        ctx.said = asked, how
        ctx.save_for_backward(seed, *computed, *inputs)
        ctx.set_materialize_grads(False)
        return found

    @staticmethod
    def backward(ctx, d):
        needs = ctx.needs_input_grad[2:]
        if d is None:
            return (None,) * (2 + len(needs))
        # Once: checkpointing computes what was saved anew when it is asked for.
        seed, context, stat, chosen, q, k, v, *parameters = ctx.saved_tensors
        asked, how = ctx.said
        found = backward_op(d, *asked, needs, q, k, v, parameters, how, seed, context, stat, chosen)
        return (None, None, *_in_place(found, needs))


class AttendPlainly(torch.autograd.Function):
    """A plain call, as Attend without the dispatcher: `call` is (said, choice, seed), and all that is
    computed goes to `computed`. What was saved is plain, so that a compiler or a batch of gradients
    shows in `d` or in the thread. What a user can change is saved, so torch watches over it; the number
    a row is nobody's, and goes beside."""

    @staticmethod
    def forward(ctx, call, computed, *inputs):
        computed[:] = context, stat, chosen = _engine.torch_attend(inputs, call[1], call[2])
        ctx.call = *call, stat
        ctx.save_for_backward(context, chosen, *inputs)
        return context

    @staticmethod
    def backward(ctx, d):
        said, choice, seed, stat = ctx.call
        needs = ctx.needs_input_grad[2:]
        context, chosen, *inputs = ctx.saved_tensors
        if not _is_grad_enabled() and _is_plain((d,)):
            return (None, None, *_engine.torch_backward(d, needs, (context, stat, chosen, *inputs), choice, seed))
        q, k, v, *parameters = inputs
        found = backward_op(d, *_CONTEXT, needs, q, k, v, parameters, how_of(*said), drawn_by(seed),
                            context, stat, chosen)
        return (None, None, *_in_place(found, needs))


# What Function.apply() comes to where no transform is active.
_apply_plainly = super(torch.autograd.Function, AttendPlainly).apply


class AttendTwice(torch.autograd.Function):
    """Of a backward pass that is recorded itself."""

    @staticmethod
    def forward(ctx, compute, *inputs):
        return tuple(compute())

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("[attend] there is no double backward: gradients of gradients are not computed")


def _recorded(call: tuple, inputs: Sequence[Tensor]) -> Any:
    """`call` is (compute, asked, how, seed, computed), as Attend takes it."""
    if not _learns(inputs):
        return call[0]()
    beside: List[Any] = []
    found = Attend.apply(call, beside, *inputs)
    return (found, *beside) if beside else found


# ---- attend ---------------------------------------------------------------------------------------

_CONTEXT: Tuple[str, List[int], List[int]] = ("context", [], [])


def _attend(q: Tensor, k: Tensor, v: Tensor, parameters: List[Tensor], how: str,
            seed: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    context, stat, chosen = _engine.torch_attend((q, k, v, *parameters), choice_of(how), seed_of(seed))
    return context, stat, q.new_empty((0,), dtype=torch.int64) if chosen is None else chosen


def _attend_fake(q, k, v, parameters, how, seed):
    rows = q.shape[:-1]
    context = empty_in_order_of(q, [*rows, v.shape[-1]])
    chosen = q.new_empty(rows if choice_of(how).hard else (0,), dtype=torch.int64)
    return context, q.new_empty(rows), chosen


def _attend_autograd(keyset, q, k, v, parameters, how, seed):
    compute = lambda: _below_autograd(attend_op, keyset, q, k, v, parameters, how, seed)
    return _recorded((compute, _CONTEXT, how, seed, None), (q, k, v, *parameters))


attend_op = _define(f"attend({_CALL}) -> (Tensor, Tensor, Tensor)", _attend, _attend_fake,
                    _attend_autograd)


def attend(inputs: Tuple[Tensor, ...], said: tuple, seed: Seed) -> tuple:
    """The operator, of (q, k, v, *parameters) and a choice as `choices` has it; of a plain call,
    `chosen` is None where nothing is."""
    if not _is_plain(inputs):
        q, k, v, *parameters = inputs
        return attend_op(q, k, v, parameters, how_of(*said), drawn_by(seed))
    call = said, choices[said], seed_of(seed) if seed else 0
    if not _learns(inputs):
        return _engine.torch_attend(inputs, call[1], call[2])
    computed: List[Any] = []
    computed[0] = _apply_plainly(call, computed, *inputs)
    return tuple(computed)


# ---- look -----------------------------------------------------------------------------------------


def _look(of: str, heads: List[int], rows: List[int], q: Tensor, k: Tensor, v: Tensor,
          parameters: List[Tensor], how: str, seed: Optional[Tensor], context: Tensor, stat: Tensor,
          chosen: Optional[Tensor]) -> Any:
    return _engine.torch_look((context, stat, chosen, q, k, v, *parameters), choice_of(how), seed_of(seed),
                              of, heads, rows)


def _look_fake(of, heads, rows, q, k, v, parameters, how, seed, context, stat, chosen):
    shape = list(q.shape[:-1])
    if of == "weights":
        if rows:
            shape[-1] = len(rows)
        if heads and len(shape) == 3:
            shape[1] = len(heads)
        shape.append(k.shape[-2])
    return q.new_empty(shape)


def _look_autograd(keyset, of, heads, rows, q, k, v, parameters, how, seed, *computed):
    call = (of, heads, rows, q, k, v, parameters, how, seed, *computed)
    compute = lambda: _below_autograd(look_op, keyset, *call)
    return _recorded((compute, (of, heads, rows), how, seed, computed), (q, k, v, *parameters))


look_op = _define(f"look(str of, int[] heads, int[] rows, {_CALL}, {_COMPUTED}) -> Tensor", _look,
                  _look_fake, _look_autograd)

# ---- backward -------------------------------------------------------------------------------------


def _backward(d: Tensor, of: str, heads: List[int], rows: List[int], needs: List[bool], q: Tensor,
              k: Tensor, v: Tensor, parameters: List[Tensor], how: str, seed: Optional[Tensor],
              context: Tensor, stat: Tensor, chosen: Optional[Tensor]) -> List[Tensor]:
    call = (context, stat, chosen, q, k, v, *parameters)
    found = _engine.torch_look_backward(d, tuple(needs), call, choice_of(how), seed_of(seed), of, heads, rows)
    return [x for x in found if x is not None]


def _backward_fake(d, of, heads, rows, needs, q, k, v, parameters, how, seed, context, stat, chosen):
    return [empty_in_order_of(t, t.shape)
            for t, need in zip([q, k, v, *parameters], needs) if need]


def _backward_autograd(keyset, d, of, heads, rows, needs, q, k, v, parameters, *rest):
    call = (d, of, heads, rows, needs, q, k, v, parameters, *rest)
    inputs = (d, q, k, v, *parameters)
    if _learns(inputs):
        return list(AttendTwice.apply(lambda: _below_autograd(backward_op, keyset, *call), *inputs))
    return _below_autograd(backward_op, keyset, *call)


backward_op = _define(f"attend_backward(Tensor d, str of, int[] heads, int[] rows, bool[] needs, {_CALL}, "
                      f"{_COMPUTED}) -> Tensor[]", _backward, _backward_fake, _backward_autograd)


# ---- autocast and vmap ----------------------------------------------------------------------------


def _in_float32(x):
    if isinstance(x, (list, tuple)):
        return [_in_float32(y) for y in x]
    return x.float() if isinstance(x, Tensor) and x.is_floating_point() else x


def _autocast(op):
    def kernel(*args):
        with _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.AutocastCPU)):
            return op(*_in_float32(args))

    return kernel


for _op in (attend_op, look_op):
    _LIBRARY.impl(_op, _autocast(_op), "AutocastCPU")


def _sliced(x, dim, i):
    """Argument x of one of the calls that vmap stands for."""
    if isinstance(x, (list, tuple)):
        dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(x)
        return [_sliced(y, d, i) for y, d in zip(x, dims)]
    return x if dim is None or not isinstance(x, Tensor) else x.select(dim, i)


def _one_by_one(op):
    def rule(info, in_dims, *args):
        calls = [op(*(_sliced(x, dim, i) for x, dim in zip(args, in_dims)))
                 for i in range(info.batch_size)]
        if isinstance(calls[0], Tensor):
            return torch.stack(calls), 0
        stacked = [torch.stack(list(outputs)) for outputs in zip(*calls)]
        if isinstance(calls[0], tuple):
            return tuple(stacked), (0,) * len(stacked)
        return stacked, [0] * len(stacked)

    return rule


def _attend_vmapped(info, in_dims, *args):
    """The batch of vmap and that of the call are one batch, where nothing but q, k and v has
    either; else one by one."""
    parameters = args[3]
    own = any(dim is not None for dim in (in_dims[3] if isinstance(in_dims[3], (list, tuple))
                                          else [in_dims[3]]))
    if own or in_dims[5] is not None or choice_of(args[4]).parameters:
        return _one_by_one(attend_op)(info, in_dims, *args)
    n = info.batch_size
    qkv = [x.unsqueeze(0).expand(n, *x.shape) if dim is None else x.movedim(dim, 0)
           for x, dim in zip(args[:3], in_dims[:3])]
    rank = qkv[0].dim() - 1
    if rank == 2:
        return attend_op(*qkv, parameters, *args[4:]), (0, 0, 0)
    sizes = (n, qkv[0].shape[1])
    found = attend_op(*(x.reshape(n * x.shape[1], *x.shape[2:]) for x in qkv), parameters, *args[4:])
    unfolded = [x.reshape(*sizes, *x.shape[1:]) if x.numel() or x.dim() > 1 else x.expand(n, 0)
                for x in found]
    return tuple(unfolded), (0, 0, 0)


for _name, _rule in (("attend", _attend_vmapped), ("look", _one_by_one(look_op)),
                     ("attend_backward", _one_by_one(backward_op))):
    torch.library.register_vmap(f"fovea::{_name}", _rule, lib=_LIBRARY)
