"""Tables and text as HTML, for notebooks."""
from __future__ import annotations

import html
from typing import Any, Iterable, Sequence


def cell(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:.4g}"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    return html.escape(str(value))


def table(rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> str:
    top = "".join(f"<th>{html.escape(word)}</th>" for word in head)
    body = "".join("<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table>{'<tr>' + top + '</tr>' if head else ''}{body}</table>"


def pre(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def polyline(series: Sequence[Sequence[float]], names: Sequence[str], width: int = 480, height: int = 160) -> str:
    """Line plots as SVG; skips values that are not finite."""
    colours = ("#1769b3", "#c2571a", "#3a8a3a", "#8a3a8a")
    points = [[(i, y) for i, y in enumerate(line) if y == y and abs(y) != float("inf")] for line in series]
    heights = [y for line in points for _, y in line]
    if not heights:
        return ""
    low, high = min(heights), max(heights)
    span = (high - low) or 1.0
    parts = []
    for position, (line, name) in enumerate(zip(points, names)):
        last = max(1, len(series[position]) - 1)
        place = " ".join(f"{10 + i / last * (width - 20):.1f},{height - 10 - (y - low) / span * (height - 20):.1f}" for i, y in line)
        colour = colours[position % len(colours)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{place}"/>'
                     f'<text x="{width - 10}" y="{16 + 16 * position}" text-anchor="end" fill="{colour}" font-size="12">'
                     f"{html.escape(name)}</text>")
    return f'<svg width="{width}" height="{height}" role="img">{"".join(parts)}</svg>'


class Result:
    """The base of the dataclasses in koine.types: a table of its fields in notebooks."""

    def _repr_html_(self) -> str:
        return table(vars(self).items())
