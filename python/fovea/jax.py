"""Fovea in JAX, on the CPU: `fovea.jax.attend()` under jit and grad, by XLA's foreign functions."""

from __future__ import annotations

import functools
from typing import Any, Mapping

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise ImportError("fovea.jax needs JAX 0.5 or newer: pip install jax") from None

import numpy

from . import _engine
from ._choice import choice_of, collected, how as how_of

for _name, _target in zip(("fovea_attend", "fovea_attend_backward"), _engine.jax_targets()):
    jax.ffi.register_ffi_target(_name, _target, platform="cpu")


def _shape(x: Any, dtype: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x if isinstance(x, tuple) else x.shape, dtype or x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(how: str, seed: int, inputs: tuple) -> jax.Array:
    return _forward(how, seed, inputs)[0]


def _forward(how: str, seed: int, inputs: tuple) -> tuple:
    q, _, v = inputs[:3]
    rows = q.shape[:-1]
    call = jax.ffi.ffi_call(
        "fovea_attend", (_shape((*rows, v.shape[-1]), jnp.float32), _shape(rows, jnp.float32),
                         _shape(rows if choice_of(how).hard else (1,), jnp.int32)),
        vmap_method="sequential")
    computed = call(*inputs, how=how, seed=numpy.int64(seed))
    return computed[0], (inputs, tuple(computed))


def _backward(how: str, seed: int, kept: tuple, d: jax.Array) -> tuple:
    inputs, computed = kept
    real = [x for x in inputs if x.dtype == jnp.float32]
    call = jax.ffi.ffi_call("fovea_attend_backward", tuple(_shape(x) for x in real), vmap_method="sequential")
    found = iter(call(*inputs, *computed, d, how=how, seed=numpy.int64(seed)))
    return (tuple(next(found) if x.dtype == jnp.float32 else numpy.zeros(x.shape, jax.dtypes.float0)
                  for x in inputs),)


_attend.defvjp(_forward, _backward)


def attend(q: jax.Array, k: jax.Array, v: jax.Array, *, score: str = "scaled_dot", mask: Any = "",
           weighting: str = "softmax", scale: float | None = None, softcap: float | None = None,
           temperature: float = 1.0, dropout: float = 0.0, seed: int = 0, plan: str = "automatic",
           parameters: Mapping[str, Any] | None = None, **named: Any) -> jax.Array:
    """The context [B,H,Lq,Dv] of `fovea.attend`, with gradients; under jit too. Arguments are those of
    `fovea.attend`; `seed` is a number of Python's."""
    mask, named = collected(mask, parameters, named)
    how = how_of(score, mask, weighting, tuple(named), scale, softcap, temperature, dropout, plan)
    _engine.jax_remember(how, choice_of(how))
    return _attend(how, seed, (q, k, v, *(jnp.asarray(x) for x in named.values())))
