"""Fovea in PyTorch: `fovea.attend()` on tensors with gradients, and modules.

Works under autograd, torch.compile(fullgraph=True), torch.export, checkpointing, vmap and autocast,
on the CPU, in float32.
"""

from __future__ import annotations

import os

try:
    import torch
except ImportError:
    raise ImportError("fovea.torch needs PyTorch 2.6 or newer: pip install torch") from None

from .. import set_threads
from ._attend import attend
from ._modules import AdditiveAttention, HardAttention, MultiheadAttention

__all__ = ["AdditiveAttention", "HardAttention", "MultiheadAttention", "attend"]

if not os.environ.get("FOVEA_THREADS"):
    set_threads(torch.get_num_threads())
