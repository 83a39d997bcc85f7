"""PyTorch's operators, registered without linking it: torch's C++ changes with every release.

    fovea::attend(q, k, v, parameters, how, seed) -> (context, stat, chosen)
    fovea::look(of, heads, rows, q, …, context, stat, chosen) -> Tensor
    fovea::attend_backward(d, of, heads, rows, needs, q, …, context, stat, chosen) -> Tensor[]

No state crosses them: what the backward pass reads is the inputs, the context and a number a row
(chosen: two). So they may run apart, as torch.compile, export and checkpointing do. `how` is the
choice as text; `seed` a tensor, so that a graph may draw it.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _engine
from .._choice import choice_of

_engine.know_torch(torch.float32, torch.int64, torch.bool)


def seed_of(seed: Optional[Tensor]) -> int:
    return 0 if seed is None else int(seed) & 0xFFFFFFFFFFFFFFFF


def empty_in_order_of(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Unwritten, in the memory order of `like`: what is made of heads that were split off
    [B,L,H·D] can be merged by a view. As the engine's own (src/attention/layout.h)."""
    n = len(shape)
    order = list(range(n))
    wide = [d for d in range(n - 1) if like.shape[d] != 1]
    if all(like.stride(d) != 0 for d in wide):
        for to, of in zip(wide, sorted(wide, key=lambda d: -like.stride(d))):
            order[to] = of
    inverse = [0] * n
    for i, d in enumerate(order):
        inverse[d] = i
    return like.new_empty([shape[d] for d in order]).permute(inverse)


# ---- attend ---------------------------------------------------------------------------------------


@torch.library.custom_op("fovea::attend", mutates_args=())
def attend_op(q: Tensor, k: Tensor, v: Tensor, parameters: List[Tensor], how: str,
              seed: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    return _engine.torch_attend((q, k, v), parameters, choice_of(how), seed_of(seed))


@attend_op.register_fake
def _(q, k, v, parameters, how, seed):
    rows = q.shape[:-1]
    context = empty_in_order_of(q, [*rows, v.shape[-1]])
    chosen = q.new_empty(rows if choice_of(how).hard else (0,), dtype=torch.int64)
    return context, q.new_empty(rows), chosen


def _keep(ctx, inputs, output):
    q, k, v, parameters, ctx.how, seed = inputs
    ctx.seeded, ctx.count = seed is not None, len(parameters)
    ctx.save_for_backward(*([seed] if ctx.seeded else []), *output, q, k, v, *parameters)
    ctx.mark_non_differentiable(*output[1:])  # Attended.lse has gradients


def _kept(ctx):
    """Once: checkpointing computes what was saved anew when it is asked for."""
    saved = list(ctx.saved_tensors)
    seed = saved.pop(0) if ctx.seeded else None
    return saved[:3], saved[3:6], saved[6:], seed


def _gradients(ctx, d, of, heads, rows, needs_qkv, needs_parameters):
    """One for each of q, k, v, and a list for the parameters."""
    computed, qkv, parameters, seed = _kept(ctx)
    needs = [*needs_qkv, *(t.is_floating_point() and need
                           for t, need in zip(parameters, needs_parameters))]
    found = iter(backward_op(d, of, heads, rows, needs, *qkv, parameters, ctx.how, seed, *computed))
    spread = [next(found) if need else None for need in needs]
    return spread[:3], spread[3:]


def _needed(need, n):
    """Of a list of tensors: one answer for all, or one each."""
    return need if isinstance(need, (list, tuple)) else [need] * n


def _attend_gradients(ctx, d_context, d_stat, d_chosen):
    needs = ctx.needs_input_grad
    qkv, parameters = _gradients(ctx, d_context, "context", [], [], needs[:3], _needed(needs[3], ctx.count))
    return (*qkv, parameters, None, None)


attend_op.register_autograd(_attend_gradients, setup_context=_keep)

# ---- look -----------------------------------------------------------------------------------------


@torch.library.custom_op("fovea::look", mutates_args=())
def look_op(of: str, heads: List[int], rows: List[int], q: Tensor, k: Tensor, v: Tensor,
            parameters: List[Tensor], how: str, seed: Optional[Tensor], context: Tensor,
            stat: Tensor, chosen: Tensor) -> Tensor:
    return _engine.torch_look((q, k, v), parameters, choice_of(how), seed_of(seed),
                              (context, stat, chosen), of, heads, rows)


@look_op.register_fake
def _(of, heads, rows, q, k, v, parameters, how, seed, context, stat, chosen):
    shape = list(q.shape[:-1])
    if of == "weights":
        if rows:
            shape[-1] = len(rows)
        if heads and len(shape) == 3:
            shape[1] = len(heads)
        shape.append(k.shape[-2])
    return q.new_empty(shape)


def _keep_look(ctx, inputs, output):
    of, heads, rows, q, k, v, parameters, ctx.how, seed, context, stat, chosen = inputs
    ctx.asked = of, list(heads), list(rows)
    ctx.seeded, ctx.count = seed is not None, len(parameters)
    ctx.save_for_backward(*([seed] if ctx.seeded else []), context, stat, chosen, q, k, v,
                          *parameters)


def _look_gradients(ctx, d):
    needs = ctx.needs_input_grad
    qkv, parameters = _gradients(ctx, d, *ctx.asked, needs[3:6], _needed(needs[6], ctx.count))
    none = [None if picked else [] for picked in ctx.asked[1:]]  # of ints; as autograd counts lists
    return (None, *none, *qkv, parameters, None, None, None, None, None)


look_op.register_autograd(_look_gradients, setup_context=_keep_look)

# ---- backward -------------------------------------------------------------------------------------


@torch.library.custom_op("fovea::attend_backward", mutates_args=())
def backward_op(d: Tensor, of: str, heads: List[int], rows: List[int], needs: List[bool], q: Tensor,
                k: Tensor, v: Tensor, parameters: List[Tensor], how: str, seed: Optional[Tensor],
                context: Tensor, stat: Tensor, chosen: Tensor) -> List[Tensor]:
    return _engine.torch_backward(d, needs, (q, k, v), parameters, choice_of(how), seed_of(seed),
                                  (context, stat, chosen), of, heads, rows)


@backward_op.register_fake
def _(d, of, heads, rows, needs, q, k, v, parameters, how, seed, context, stat, chosen):
    return [empty_in_order_of(t, t.shape)
            for t, need in zip([q, k, v, *parameters], needs) if need]


# ---- autocast and vmap ----------------------------------------------------------------------------

for _op in (attend_op, look_op):
    _op.register_autocast("cpu", torch.float32)


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


attend_op.register_vmap(_attend_vmapped)
look_op.register_vmap(_one_by_one(look_op))
backward_op.register_vmap(_one_by_one(backward_op))
