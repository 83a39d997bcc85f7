"""Fovea: attention, all of it, on the CPU: any score, any mask, any weighting, with gradients.

    import numpy, fovea
    x = numpy.random.randn(2, 4, 128, 64).astype("float32")
    found = fovea.attend(x, x, x, score="cosine", mask="causal+window:64,0", weighting="sparsemax")
    found.context, found.weights(heads=0), found.top(3), found.entropy()

Tensors of PyTorch's go in and out likewise, with gradients; `fovea.torch` has modules.
`fovea.load(folder)` opens what `fovea train` made.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import _engine
from ._attend import Attended, Top, attend
from ._engine import isa, masks, memory_in_use, memory_peak, reset_memory_peak, scores
from ._engine import set_threads, threads, weightings

__version__: str = _engine.version()
__all__ = ["Attended", "Top", "attend", "isa", "load", "masks", "memory_in_use", "memory_peak",
           "reset_memory_peak", "scores", "set_threads", "threads", "ways", "weightings"]

_LATER = ("torch", "jax", "keras")


def load(folder: Any) -> Any:
    """Opens a run, the folder that `fovea train` made: `.predict(texts)`, `.explain(text)`."""
    from ._runs import Run

    return Run(folder)


def ways() -> list[str]:
    """The ways in which `load(folder).explain()` can ask a model."""
    from . import _program

    return _program.ways()


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
