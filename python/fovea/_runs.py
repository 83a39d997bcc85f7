"""Runs that `fovea train` made, from Python."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, NamedTuple

from . import _program
from ._picture import Picture


class Prediction(NamedTuple):
    """One of the answers to an input, best first."""

    text: str
    score: float  # larger is likelier
    ended: bool  # False: cut at a limit
    pictures: list  # where the model looked, if asked for

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        import html

        return f"<p>{html.escape(self.text)}</p>" + "".join(p._repr_html_() for p in self.pictures)


class Explanation(NamedTuple):
    """What moved each output, by one way of asking."""

    by: str
    weights: Any  # float32 [outputs, inputs]
    outputs: list
    inputs: list
    note: str  # what should be known about it
    picture: Picture

    def _repr_html_(self) -> str:
        return self.picture._repr_html_()


class Run:
    """A trained model: what `fovea train` left in a folder. It never changes; any number of threads
    may ask it at once."""

    def __init__(self, folder: Any):
        self._opened = _program.Opened(os.fspath(folder))
        self.folder = os.fspath(folder)

    @property
    def task(self) -> str:
        return self._opened.task

    @property
    def config(self) -> dict:
        """All settings of its training."""
        return json.loads(self._opened.config)

    @property
    def parameters(self) -> int:
        """How many numbers it learned."""
        return self._opened.weights

    def predict(self, inputs: Any, *, pictures: bool = False, **settings: Any) -> Any:
        """What the model makes of texts, or of images by their file names: for each input its best
        Prediction, or a list of them where the settings ask for several. Settings are the options
        of `fovea predict RUN`, as in beam=5."""
        one = isinstance(inputs, (str, os.PathLike))
        typed = [os.fspath(x) for x in ([inputs] if one else inputs)]
        given = {name.replace("_", "-"): _typed(x) for name, x in settings.items()}
        found = [[Prediction(text, score, ended, [Picture(p) for p in drawn])
                  for text, score, ended, drawn in best]
                 for best in self._opened.predict(typed, given, pictures)]
        answers = [best[0] if len(best) == 1 else best for best in found]
        return answers[0] if one else answers

    def generate(self, prompt: str, **settings: Any) -> str:
        """The text that a language model goes on with. Settings as for predict()."""
        found = self.predict(prompt, **settings)
        return found.text if isinstance(found, Prediction) else found[0].text

    def explain(self, text: Any, by: str | Iterable[str] = "attention", *, output: Any = "",
                layer: Any = "", head: Any = "") -> Any:
        """Which parts of an input moved the output: an Explanation, or a list for several ways.
        `fovea.ways()` lists them: attention, rollout, jacobian, saliency, occlusion, …"""
        ways = [by] if isinstance(by, str) else list(by)
        which = {"output": str(output), "layer": str(layer), "head": str(head)}
        found = [Explanation(way, weights, outputs, inputs, note, Picture(drawn, note))
                 for way, weights, outputs, inputs, note, drawn
                 in self._opened.explain(os.fspath(text), ways, which)]
        return found[0] if isinstance(by, str) else found

    def __repr__(self) -> str:
        return f"<fovea.Run {self.folder}: {self.task}, {self.parameters} parameters>"


def _typed(x: Any) -> str:
    return str(x).lower() if isinstance(x, bool) else str(x)
