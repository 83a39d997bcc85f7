"""Modules with any score, mask and weighting."""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

import torch
from torch import Tensor, nn

from .. import _engine
from .._attend import Attended
from ._attend import attend


def _drawn_seed() -> Tensor:
    """From torch's generator: torch.manual_seed repeats it, checkpointing draws it again."""
    return torch.randint(0, 2**62, ())


def _of_score(name: str, sizes: dict) -> dict:
    """Fresh parameters of a score, by what it says of them: {"w_q": [A,Dq], …}."""
    for listed in _engine.scores():
        if listed["name"] == name.replace("-", "_"):
            break
    else:
        _engine.Choice(name, "", "softmax", (), None, None, 1.0, 0.0, "automatic")  # says what is wrong
    made = {}
    for text in listed["parameters"]:
        label, _, letters = text.partition(" ")
        shape = [sizes[letter] for letter in letters.strip("[]").split(",") if letter]
        bound = 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 1.0
        if letters == "[H?]":  # a factor for each head
            made[label.rstrip("?")] = torch.ones(shape)
        elif label.endswith("?"):
            made[label.rstrip("?")] = torch.zeros(shape)
        else:
            made[label] = torch.empty(shape).uniform_(-bound, bound)
    return made


def _number(name: str) -> Any:
    """A float of a module, kept as text: torch.compile(dynamic=True) would make a variable of it,
    and a choice is a constant of the graph."""
    kept = f"_{name}_as_text"

    def get(self: nn.Module) -> Any:
        text: Any = getattr(self, kept)
        return None if text == "None" else float(text)

    def put(self: nn.Module, x: Any) -> None:
        setattr(self, kept, repr(x if x is None else float(x)))

    return property(get, put)


class AdditiveAttention(nn.Module):
    """Bahdanau's: Σ_a u_a·tanh(W_q q + W_k k + b)_a, softmax, the sum of the values.

    queries [B,Lq,query_dim], keys [B,Lk,key_dim], values [B,Lk,Dv] → context [B,Lq,Dv]. Time
    O(Lq·Lk·hidden), memory O(Lq + Lk): nothing of size Lq·Lk·hidden is ever there.

    mask and weighting are those of `fovea.attend`; lengths= of the mask "lengths" goes to the call.
    """

    dropout = _number("dropout")

    def __init__(self, query_dim: int, key_dim: int, hidden: int, *, bias: bool = True,
                 mask: str = "", weighting: str = "softmax", dropout: float = 0.0):
        super().__init__()
        self.query = nn.Linear(query_dim, hidden, bias=bias)
        self.key = nn.Linear(key_dim, hidden, bias=False)
        self.u = nn.Parameter(torch.empty(hidden).uniform_(-1 / math.sqrt(hidden),
                                                           1 / math.sqrt(hidden)))
        self.mask = mask
        self.weighting = weighting
        self.dropout = dropout

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Attended:
        """All that can be asked for: `.context`, `.weights()`, `.entropy()`, …"""
        dropout = self.dropout if self.training else 0.0
        return attend(self.query(query), self.key(key), value, score="additive_keras",
                      mask=self.mask, weighting=self.weighting, dropout=dropout,
                      seed=_drawn_seed() if dropout else 0, u=self.u, **named)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Tensor:
        return self.attend(query, key, value, **named).context


class MultiheadAttention(nn.Module):
    """nn.MultiheadAttention with any score, mask and weighting: the same arguments, shapes and
    state_dict.

    query [L,N,E], key [S,N,kdim], value [S,N,vdim] (N first where batch_first; no N without a
    batch) → output of the query's shape and, where need_weights, weights [N,L,S] (averaged over
    heads) or [N,H,L,S].

    A score's own parameters, of a head's width and the same for all heads, are `score_NAME`; their
    hidden widths are `hidden`, a head's width where None; `longest` is that of "location".
    """

    dropout, softcap = _number("dropout"), _number("softcap")

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 kdim: Optional[int] = None, vdim: Optional[int] = None, batch_first: bool = False,
                 *, score: str = "scaled_dot", mask: str = "", weighting: str = "softmax",
                 softcap: Optional[float] = None, hidden: Optional[int] = None, longest: int = 512):
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"[MultiheadAttention] num_heads={num_heads} does not divide "
                             f"embed_dim={embed_dim}")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first = batch_first
        self.score, self.mask, self.weighting, self.softcap = score, mask, weighting, softcap
        if self.kdim == embed_dim and self.vdim == embed_dim:
            self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        else:
            self.q_proj_weight = nn.Parameter(torch.empty(embed_dim, embed_dim))
            self.k_proj_weight = nn.Parameter(torch.empty(embed_dim, self.kdim))
            self.v_proj_weight = nn.Parameter(torch.empty(embed_dim, self.vdim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        for name, p in self.named_parameters():
            if name.endswith("proj_weight"):
                nn.init.xavier_uniform_(p)
        if bias:
            nn.init.zeros_(self.out_proj.bias)

        width = embed_dim // num_heads
        sizes = {"A": hidden or width, "A2": hidden or width, "Dq": width, "Dk": width,
                 "D": width, "Dq+Dk": 2 * width, "H": num_heads, "H?": num_heads, "Lmax": longest}
        of_score = _of_score(score, sizes)
        for name, x in of_score.items():
            self.register_parameter(f"score_{name}", nn.Parameter(x))
        self._of_score = tuple(of_score)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> Tuple[Tensor, ...]:
        if hasattr(self, "in_proj_weight"):
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        heads = (self.num_heads, self.embed_dim // self.num_heads)
        return tuple(nn.functional.linear(x, w, b).unflatten(-1, heads).transpose(1, 2)
                     for x, w, b in zip((query, key, value), weights, biases))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, key_padding_mask=None,
               attn_mask=None, is_causal: bool = False, **named: Any) -> Attended:
        """Of batches first: query [N,L,E], … The result before the output projection."""
        q, k, v = self._projected(query, key, value)
        masks = [self.mask] if self.mask else []
        # A causal mask is also given as a matrix, by torch's convention; then the hint says so.
        if is_causal and "causal" not in self.mask:
            masks.append("causal")
        elif attn_mask is not None:
            if attn_mask.dim() == 3:
                attn_mask = attn_mask.unflatten(0, (-1, self.num_heads))
            if attn_mask.dtype == torch.bool:
                named["mask"] = ~attn_mask
                masks.append("matrix")
            else:
                named["bias"] = attn_mask
        if key_padding_mask is not None:
            padding = key_padding_mask[:, None, None, :]
            if key_padding_mask.dtype == torch.bool:
                named["mask"] = named["mask"] & ~padding if "mask" in named else ~padding
                if "matrix" not in masks:
                    masks.append("matrix")
            else:
                named["bias"] = named["bias"] + padding if "bias" in named else padding
        for name in self._of_score:
            named[name] = getattr(self, f"score_{name}")
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, score=self.score, mask="+".join(masks), weighting=self.weighting,
                      softcap=self.softcap, dropout=dropout, parameters=named,
                      seed=_drawn_seed() if dropout else 0)

    def forward(self, query: Tensor, key: Tensor, value: Tensor,
                key_padding_mask: Optional[Tensor] = None, need_weights: bool = True,
                attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
        batched = query.dim() == 3
        swap = batched and not self.batch_first
        if swap:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        elif not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        found = self.attend(query, key, value, key_padding_mask=key_padding_mask,
                            attn_mask=attn_mask, is_causal=is_causal)
        output = self.out_proj(found.context.transpose(1, 2).flatten(2))
        weights = None
        if need_weights:
            weights = found.weights()
            weights = weights.mean(1) if average_attn_weights else weights
        if swap:
            output = output.transpose(0, 1)
        elif not batched:
            output = output.squeeze(0)
            weights = weights.squeeze(0) if weights is not None else None
        return output, weights


class HardAttention(nn.Module):
    """One key for each query, drawn by its probability in training, the likeliest otherwise.

    queries [B,Lq,D], keys [B,Lk,D], values [B,Lk,Dv] (or [B,H,L,D]) → Attended, whose context are
    the values of the chosen keys. A draw has no gradient: add `loss(found, reward)` to the loss,
    REINFORCE with a moving average of the rewards as the baseline.
    """

    baseline: Tensor
    seen: Tensor

    def __init__(self, score: str = "scaled_dot", mask: str = "", momentum: float = 0.9):
        super().__init__()
        self.score, self.mask, self.momentum = score, mask, momentum
        self.register_buffer("baseline", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Attended:
        return attend(query, key, value, score=self.score, mask=self.mask,
                      weighting="sample" if self.training else "argmax",
                      seed=_drawn_seed() if self.training else 0, **named)

    def loss(self, found: Attended, reward: Tensor, entropy: float = 0.0) -> Tensor:
        """−(reward − baseline)·log p(chosen) − entropy·H, averaged. reward [B], or anything that
        broadcasts to log p [B,Lq] ([B,H,Lq]) from the left; larger is better."""
        log_prob = found.log_prob
        reward = reward.detach().float()
        with torch.no_grad():
            mean = reward.mean()
            kept = torch.where(self.seen > 0, self.baseline, mean)
            self.baseline.copy_(self.momentum * kept + (1 - self.momentum) * mean)
            self.seen.add_(1)
        gain = (reward - kept).reshape(*reward.shape, *[1] * (log_prob.dim() - reward.dim()))
        loss = -(gain * log_prob).mean()
        return loss - entropy * found.entropy().mean() if entropy else loss
