"""What is chosen, once for any number of calls."""

from __future__ import annotations

import functools
from typing import Any

from . import _engine


class Choices(dict):
    """By (score, mask, weighting, names of parameters, scale, softcap, temperature, dropout, plan).
    Begun anew where a program says ever new things."""

    def __missing__(self, said: tuple) -> Any:
        if len(self) >= 1024:
            self.clear()
        found = self[said] = _engine.Choice(*said)
        return found


choices = Choices()


def collected(mask: Any, parameters: Any, named: dict) -> tuple:
    """The mask by its name, and all parameters by theirs: a mask that is an array is one."""
    if parameters:
        named = {**parameters, **named}
    if mask is None or type(mask) is str:
        return mask or "", named
    return "matrix", {**named, "mask": mask}


def how(score: str, mask: str, weighting: str, names: tuple, scale: float | None,
        softcap: float | None, temperature: float, dropout: float, plan: str) -> str:
    """The same as text, without what is usual: what an operator takes, and what a graph shows.
    torch.compile follows it."""
    text = f"score={score};mask={mask};weighting={weighting};parameters={','.join(names)}"
    if scale is not None:
        text += f";scale={scale}"
    if softcap is not None:
        text += f";softcap={softcap}"
    if temperature != 1:
        text += f";temperature={temperature}"
    if dropout != 0:
        text += f";dropout={dropout}"
    return text if plan == "automatic" else f"{text};plan={plan}"


@functools.lru_cache(maxsize=1024)
def choice_of(text: str) -> Any:
    said = dict(part.partition("=")[::2] for part in text.split(";"))
    number = {name: float(said[name]) for name in ("scale", "softcap", "temperature", "dropout") if name in said}
    return choices[said["score"], said["mask"], said["weighting"],
                   tuple(name for name in said["parameters"].split(",") if name), number.get("scale"),
                   number.get("softcap"), number.get("temperature", 1.0), number.get("dropout", 0.0),
                   said.get("plan", "automatic")]
