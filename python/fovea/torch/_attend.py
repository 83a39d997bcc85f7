"""fovea.attend() on torch's tensors."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch import Tensor

from .. import _engine
from .._attend import Attended
from .._choice import choice_of, choices, collected, how as how_of
from ._operators import attend as attend_recorded, drawn_by, look_op, seed_of


class Looks:
    """A call, and what was computed, for Attended: each look is an operator with gradients."""

    __slots__ = ("inputs", "said", "seed", "computed")

    def __init__(self, inputs: tuple, said: tuple, seed: Any):
        self.inputs = inputs  # q, k, v, *parameters
        self.said = said
        self.seed = seed
        self.computed = attend_recorded(inputs, said, seed)

    @property
    def context(self) -> Tensor:
        return self.computed[0]

    def _look(self, of: str, heads: list = [], rows: list = []) -> Tensor:
        q, k, v, *parameters = self.inputs
        return look_op(of, heads, rows, q, k, v, parameters, how_of(*self.said), drawn_by(self.seed),
                       *self._plainly())

    def weights(self, heads: list, rows: list) -> Tensor:
        return self._look("weights", heads, rows)

    def top(self, k: int, heads: list, rows: list) -> tuple:
        return _engine.torch_top((*self._plainly(), *self.inputs), choices[self.said], seed_of(self.seed),
                                 k, heads, rows)

    def _plainly(self) -> tuple:
        """What was computed, off the tape."""
        return self.computed[0].detach(), *self.computed[1:]

    def lse(self) -> Tensor:
        return self._look("lse")

    def entropy(self) -> Tensor:
        return self._look("entropy")

    def log_prob(self) -> Tensor:
        return self._look("log_prob")

    def chosen(self) -> Tensor:
        if not choice_of(how_of(*self.said)).hard:
            return self._plain().chosen()  # says which weightings choose
        return self.computed[2]

    @property
    def plan(self) -> str:
        return self._plain().plan

    def _plain(self) -> Any:
        return _engine.attend(tuple(t.detach() for t in self.inputs), choices[self.said], seed_of(self.seed),
                              _engine.Kind.torch)


def _parameter(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        x = torch.as_tensor(x)
        if x.is_floating_point():
            x = x.float()
    if x.dtype in (torch.int8, torch.int16, torch.int32, torch.uint8):
        x = x.long()
    return x


def attend(q: Tensor, k: Tensor, v: Tensor, *, score: str = "scaled_dot", mask: Any = "",
           weighting: str = "softmax", scale: float | None = None, softcap: float | None = None,
           temperature: float = 1.0, dropout: float = 0.0, seed: Any = 0, plan: str = "automatic",
           parameters: Mapping[str, Any] | None = None, **named: Any) -> Attended:
    """As `fovea.attend`, for tensors; `seed` may be one, int64 [], so that a graph can draw it."""
    mask, named = collected(mask, parameters, named)
    said = (score, mask, weighting, tuple(named), scale, softcap, temperature, dropout, plan)
    return attended(q, k, v, said, tuple(named.values()), seed)


def attended(q: Tensor, k: Tensor, v: Tensor, said: tuple, values: Sequence, seed: Any) -> Attended:
    """The same with the choice as `_choice.choices` has it, and parameters in its order."""
    if not (isinstance(k, Tensor) and isinstance(v, Tensor)):
        name, x = ("v", v) if isinstance(k, Tensor) else ("k", k)
        raise ValueError(f"[attend] {name} is a {type(x).__name__}, q is a torch.Tensor")
    inputs = (q, k, v, *[_parameter(x) for x in values]) if values else (q, k, v)
    return Attended(Looks(inputs, said, seed), said)
