"""A drop-in for Keras's AdditiveAttention, on its torch backend.

    from fovea.keras import AdditiveAttention

The same arguments, inputs, masks, weights and outputs; memory O(Tq + Tv) instead of O(Tq·Tv·dim).
"""

from __future__ import annotations

try:
    import keras
except ImportError:
    raise ImportError("fovea.keras needs Keras 3: pip install keras") from None

if keras.backend.backend() != "torch":
    raise ImportError(f"fovea.keras needs Keras's torch backend, not {keras.backend.backend()}: "
                      "set KERAS_BACKEND=torch before keras is imported")

import torch

from .torch import attend


class AdditiveAttention(keras.layers.AdditiveAttention):
    """keras.layers.AdditiveAttention: query [B,Tq,dim], value [B,Tv,dim], key [B,Tv,dim] → [B,Tq,dim],
    and where return_attention_scores the weights [B,Tq,Tv]."""

    def call(self, inputs, mask=None, training=False, return_attention_scores=False, use_causal_mask=False):
        self._validate_inputs(inputs=inputs, mask=mask)
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        q_mask, v_mask = (mask[0], mask[1]) if mask else (None, None)
        named, masks = {}, []
        if use_causal_mask:  # of Keras: key j up to query i, both counted from the first
            steps = torch.arange(max(query.shape[1], key.shape[1]))
            named["mask"] = steps[:key.shape[1]] <= steps[:query.shape[1], None]
        if v_mask is not None:
            seen = torch.as_tensor(v_mask, dtype=torch.bool)[:, None, None, :]
            named["mask"] = named["mask"] & seen if named else seen
        if named:
            masks.append("matrix")
        dropout = self.dropout if training else 0.0
        u = self.scale.value if self.use_scale else query.new_ones(query.shape[-1])
        found = attend(query, key, value, score="additive_keras", mask="+".join(masks), u=u, dropout=dropout,
                       seed=torch.randint(0, 2**62, ()) if dropout else 0, parameters=named)
        output = found.context
        if q_mask is not None:
            output = torch.where(torch.as_tensor(q_mask, dtype=torch.bool)[..., None], output, 0.0)
        return (output, found.weights()) if return_attention_scores else output
