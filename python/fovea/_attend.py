"""attend() for arrays of any kind, and what it answers."""

from __future__ import annotations

import sys
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Union

from . import _engine
from ._choice import choices, collected

Array = Any  # NumPy's, torch's, or anything with DLPack
Pick = Union[int, slice, Iterable[int], None]

_NUMPY = _engine.Kind.numpy
_DLPACK = _engine.Kind.dlpack


class Top(NamedTuple):
    """The largest weights of each row, and the keys they belong to."""

    weights: Array  # float32 [B,H,Lq,k], largest first
    keys: Array  # int64 [B,H,Lq,k]


def _picked(pick: Pick, n: int) -> list[int]:
    """Empty: all."""
    if pick is None:
        return []
    if isinstance(pick, slice):
        found = list(range(n))[pick]
    elif hasattr(pick, "__index__"):
        found = [pick.__index__()]
    else:
        found = [int(i) for i in pick]
    if not found:
        raise ValueError("[weights] nothing is picked; None picks all")
    return [i + n if i < 0 else i for i in found]


class Attended:
    """What `attend()` computed. Arrays are of the caller's kind; shapes are those of queries
    [B,H,Lq,D], and have the rank the caller used.

    In a notebook it draws itself.
    """

    __slots__ = ("_context", "_looks", "_said", "_as")

    def __init__(self, looks: Any, said: tuple, convert: Callable[[Any], Array] | None = None):
        self._looks = looks
        self._said = said
        self._as = convert
        self._context = None

    @property
    def _what(self) -> str:
        """As in "scaled_dot causal softmax"."""
        return " ".join(name for name in self._said[:3] if name)

    def _given(self, array: Any) -> Array:
        return array if self._as is None else self._as(array)

    @property
    def context(self) -> Array:
        """float32 [B,H,Lq,Dv]: the values, summed by their weights."""
        found = self._context
        if found is None:
            found = self._looks.context
            if self._as is not None:
                found = self._as(found)
            self._context = found
        return found

    def weights(self, heads: Pick = None, rows: Pick = None) -> Array:
        """float32 [B,H',Lq',Lk]: of all heads and rows, or of those picked (an int, a slice or
        several ints). Computed when asked for: without it they are never there."""
        return self._given(self._looks.weights(*self._select(heads, rows)))

    def top(self, k: int, heads: Pick = None, rows: Pick = None) -> Top:
        """The k largest weights of each row [B,H',Lq',k] and their keys; the matrix of all weights
        is never there at once."""
        weights, keys = self._looks.top(k, *self._select(heads, rows))
        return Top(self._given(weights), self._given(keys))

    def entropy(self) -> Array:
        """float32 [B,H,Lq], in nats: of each row's probabilities."""
        return self._given(self._looks.entropy())

    @property
    def lse(self) -> Array:
        """float32 [B,H,Lq]: the logarithm of each row's sum of exponentials."""
        return self._given(self._looks.lse())

    @property
    def chosen(self) -> Array:
        """int64 [B,H,Lq], of weightings that choose one key (sample, argmax, gumbel): that key; −1
        where none may be seen."""
        return self._given(self._looks.chosen())

    @property
    def log_prob(self) -> Array:
        """float32 [B,H,Lq]: the logarithm of the chosen keys' probabilities."""
        return self._given(self._looks.log_prob())

    @property
    def plan(self) -> str:
        """How it was computed: linear, fused, composed or reference."""
        return self._looks.plan

    def picture(self, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None,
                head: int = 0, batch: int = 0, title: str | None = None) -> Any:
        """The weights of one head as a picture: `rows` are labels of the queries, `columns` of the
        keys. `.svg`, `.save("x.svg")`; in a notebook it shows itself."""
        from ._picture import heatmap

        return heatmap(self, rows=rows, columns=columns, head=head, batch=batch,
                       title=self._what if title is None else title)

    def _select(self, heads: Pick, rows: Pick) -> tuple[list[int], list[int]]:
        if heads is None and rows is None:
            return [], []
        shape = self.context.shape
        return _picked(heads, shape[1] if len(shape) == 4 else 1), _picked(rows, shape[-2])

    def __repr__(self) -> str:
        return f"<fovea.Attended {self._what}: context {list(self.context.shape)}, plan {self.plan}>"

    def _repr_html_(self) -> str:
        from ._picture import html

        return html(self)


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError("a list as a parameter needs NumPy: pip install numpy") from None
    return numpy


def _parameter(x: Any) -> Any:
    """Lists and other integers than int64 are converted; nothing else is copied."""
    if isinstance(x, (list, tuple, int, float)):
        x = _numpy().asarray(x)
        if x.dtype.kind == "f":
            x = x.astype("float32")
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if kind in "iu" and kind and x.dtype.itemsize != 8:
        x = x.astype("int64")
    return x


_ndarray: Any = None  # once NumPy was there


def _is_numpy(x: Any) -> bool:
    global _ndarray
    if _ndarray is None and "numpy" in sys.modules:
        _ndarray = getattr(sys.modules["numpy"], "ndarray", None)
    return _ndarray is not None and type(x) is _ndarray


_attended_torch: Callable[..., Attended] | None = None


def _torch() -> Callable[..., Attended]:
    """attended() of fovea.torch, which is imported by the first tensor."""
    global _attended_torch
    from .torch._attend import attended

    _attended_torch = attended
    return attended


def _namespace(x: Any) -> Callable[[Any], Array]:
    """How arrays of x's kind are made of DLPack."""
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().from_dlpack
    module = sys.modules.get(type(x).__module__.partition(".")[0])
    return getattr(module, "from_dlpack", None) or _numpy().from_dlpack


def attend(q: Array, k: Array, v: Array, *, score: str = "scaled_dot", mask: Any = "",
           weighting: str = "softmax", scale: float | None = None, softcap: float | None = None,
           temperature: float = 1.0, dropout: float = 0.0, seed: int = 0, plan: str = "automatic",
           parameters: Mapping[str, Array] | None = None, **named: Array) -> Attended:
    """Attention: score queries against keys, turn scores into weights, sum the values.

    q [B,H,Lq,D], k [B,Hk,Lk,D], v [B,Hk,Lk,Dv], float32, any strides; [B,L,D] and [L,D] too, and
    answers have that rank. Hk divides H. NumPy arrays, torch tensors (with gradients), or anything
    with DLPack; answers are of the same kind. Nothing is copied.

    score       "scaled_dot", "additive", … `fovea.scores()` lists them with their parameters
    mask        "causal", "causal+window:64,0", "lengths", …; or an array broadcastable to
                [B,H,Lq,Lk]: bool, True where a key may be seen, or float32, added to the scores
    weighting   "softmax", "sparsemax", "sample", …
    scale       multiplies the score; None: the score's own
    softcap     c·tanh(s/c) instead of the scaled score s
    temperature scores are divided by it
    dropout     the probability that a weight is dropped
    seed        of sampling, gumbel and dropout
    bias=       float32, broadcastable to [B,H,Lq,Lk], added to the scores; distance_bias=
                [..,Lq+Lk−1] the same by distance, read at j − i + Lq − 1
    NAME=       what the choice needs, as in w_q=, w_k=, u= of "additive" or lengths= of "lengths";
                `parameters` takes the same as a dictionary

    What cannot work raises ValueError and says why in one line.
    """
    if parameters or type(mask) is not str:
        mask, named = collected(mask, parameters, named)
    said = (score, mask, weighting, tuple(named), scale, softcap, temperature, dropout, plan)
    kind, convert = _NUMPY, None
    if type(q) is not _ndarray:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(q, torch.Tensor):
            return (_attended_torch or _torch())(q, k, v, said, tuple(named.values()), seed)
        if not _is_numpy(q):
            kind, convert = _DLPACK, _namespace(q) if hasattr(q, "__dlpack__") else None

    inputs = (q, k, v, *[_parameter(x) for x in named.values()]) if named else (q, k, v)
    return Attended(_engine.attend(inputs, choices[said], seed, kind), said, convert)
