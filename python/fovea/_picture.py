"""Pictures that draw themselves in a notebook: the report's own SVG, no script, nothing fetched."""

from __future__ import annotations

import html as _html
import os
from typing import Any, Sequence

SIDE = 240  # rows and columns that are drawn at most
HEADS = 4  # of an Attended that draws itself


class Picture:
    """One picture: a heat-map, a shaded text, an image. `.svg` is a file's text; `save()` writes
    .svg, .png (by librsvg, where it is installed) or .json."""

    __slots__ = ("_drawn", "note")

    def __init__(self, drawn: Any, note: str = ""):
        self._drawn = drawn
        self.note = note

    @property
    def kind(self) -> str:
        return self._drawn.kind

    @property
    def svg(self) -> str:
        return self._drawn.svg()

    @property
    def png(self) -> bytes:
        return self._drawn.png()

    @property
    def json(self) -> str:
        return self._drawn.json()

    def text(self, width: int = 80) -> str:
        """For a terminal."""
        return self._drawn.text(width)

    def save(self, path: Any) -> None:
        ending = os.path.splitext(os.fspath(path))[1]
        made = {".svg": lambda: self.svg.encode(), ".png": lambda: self.png,
                ".json": lambda: self.json.encode()}
        if ending not in made:
            raise ValueError(f"[save] {os.fspath(path)} ends in {ending!r}, expected .svg, .png or .json")
        drawn = made[ending]()
        with open(path, "wb") as file:
            file.write(drawn)

    def _repr_html_(self) -> str:
        svg = self.svg
        svg = svg[svg.index("<svg"):]  # inline: without the XML declaration
        note = f"<p>{_html.escape(self.note)}</p>" if self.note else ""
        return f'<div style="overflow-x:auto;background:white">{svg}{note}</div>'

    def __repr__(self) -> str:
        return f"<fovea.Picture: {self.kind}>"


def _labels(given: Sequence[str] | None, n: int, what: str) -> list[str]:
    if given is None:
        return [str(i) for i in range(n)]
    if len(given) != n:
        raise ValueError(f"[picture] {len(given)} labels of {what}, expected {n}")
    return [str(x) for x in given]


def heatmap(attended: Any, *, rows: Sequence[str] | None, columns: Sequence[str] | None, head: int,
            batch: int, title: str) -> Picture:
    from . import _program

    shape = attended.context.shape
    Lq = shape[-2]
    w = attended.weights(heads=head if len(shape) == 4 else None, rows=slice(0, SIDE) if Lq else None)
    if len(shape) == 4:
        w = w[batch][0]
    elif len(shape) == 3:
        w = w[batch]
    w = w.detach() if hasattr(w, "detach") else w
    Lk = w.shape[-1]
    names = _labels(rows, Lq, "rows")[:SIDE], _labels(columns, Lk, "columns")[:SIDE]
    note = f"{len(names[0])} of {Lq} rows, {len(names[1])} of {Lk} columns" if max(Lq, Lk) > SIDE else ""
    return Picture(_program.heatmap(title, *names, w[:, :SIDE]), note)


def html(attended: Any) -> str:
    shape = attended.context.shape
    heads = shape[1] if len(shape) == 4 else 1
    if 0 in shape or attended.weights(heads=0 if len(shape) == 4 else None, rows=0).shape[-1] == 0:
        return f"<p>{_html.escape(repr(attended))}</p>"
    shown = [attended.picture(head=h, title=f"{attended._what}, head {h}" if heads > 1 else None)
             for h in range(min(heads, HEADS))]
    more = f"<p>{HEADS} of {heads} heads</p>" if heads > HEADS else ""
    return "".join(p._repr_html_() for p in shown) + more
