"""The ratios as a chart, written as SVG: a bar for each peer and row, on a logarithmic scale, with its spread."""

import math
from xml.sax.saxutils import escape

import results
from results import PEERS, TITLES

COLOURS = {
    "torch": "#c1666b",
    "best": "#d4a24e",
    "onnx": "#4f7cac",
    "step": "#6a994e",
    "compiled": "#8d6a9f",
}
INK, PALE, FACE = "#6b7280", "#9ca3af", "font-family='sans-serif'"
WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 820, 150, 70, 11, 12, 64
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


class Scale:
    def __init__(self, numbers):
        low, high = min([1.0, *numbers]), max([1.0, *numbers])
        self.low = max(tick for tick in (TICKS[0], *TICKS) if tick <= low or tick == TICKS[0])
        self.high = min((tick for tick in TICKS if tick >= high), default=high)
        if self.low == self.high:
            self.low, self.high = self.low / 2, self.high * 2

    def x(self, number):
        share = math.log(max(number, self.low) / self.low) / math.log(self.high / self.low)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(share, 1)


def text(x, y, words, size=12, anchor="start", colour=INK, weight="normal"):
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{colour}' "
        f"font-weight='{weight}' {FACE}>{escape(words)}</text>"
    )


def bar(scale, y, found, colour):
    """From 1 to the median, with the spread as a fine line."""
    ends = sorted((scale.x(1), scale.x(found.median)))
    middle = y + BAR / 2 - 1
    return [
        f"<rect x='{ends[0]:.1f}' y='{y:.1f}' width='{max(ends[1] - ends[0], 1):.1f}' height='{BAR - 2}' "
        f"fill='{colour}'/>",
        f"<line x1='{scale.x(found.low):.1f}' x2='{scale.x(found.high):.1f}' y1='{middle:.1f}' y2='{middle:.1f}' "
        f"stroke='{INK}' stroke-width='1.5'/>",
        text(max(ends[1], scale.x(found.high)) + 4, y + BAR - 2, f"{found.median:.3g}", 10),
    ]


def section(lines, mode, scale, y):
    parts = [text(12, y + 10, {"train": "training", "infer": "inference"}[mode], 13, weight="bold")]
    y += 20
    for one in lines:
        peers = [peer for peer in PEERS if peer in one.ratios]
        parts.append(text(LEFT - 8, y + BAR * len(peers) / 2 + 3, f"{one.case} · {one.batch}", 12, "end"))
        for peer in peers:
            parts += bar(scale, y, one.ratios[peer], COLOURS[peer])
            y += BAR
        y += GAP
    return parts, y


def svg(raw):
    lines = [one for one in results.lines(raw) if one.ratios]
    if not lines:
        return None
    scale = Scale([end for one in lines for found in one.ratios.values() for end in (found.low, found.high)])
    body, y = [], HEAD
    for mode in ("train", "infer"):
        chosen = [one for one in lines if one.mode == mode]
        if chosen:
            parts, y = section(chosen, mode, scale, y)
            body += parts
    grid = []
    for tick in TICKS:
        if scale.low <= tick <= scale.high:
            x = scale.x(tick)
            grid += [
                f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{HEAD}' y2='{y}' stroke='{INK if tick == 1 else PALE}' "
                f"stroke-width='{1.5 if tick == 1 else 0.5}'/>",
                text(x, y + 16, f"{tick:g}×", 11, "middle"),
            ]
    legend, x = [], LEFT
    for peer in PEERS:
        if any(peer in one.ratios for one in lines):
            legend += [
                f"<rect x='{x}' y='36' width='12' height='12' fill='{COLOURS[peer]}'/>",
                text(x + 18, 46, TITLES[peer]),
            ]
            x += 36 + 7 * len(TITLES[peer])
    about = raw["about"]
    title = text(
        12,
        22,
        f"How many times faster Koine is · {about['machine']} · {about['threads']} threads · {about['date']}",
        14,
        weight="bold",
    )
    height = y + 30
    return (
        "\n".join(
            [
                f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
                f"viewBox='0 0 {WIDTH} {height}' role='img'>",
                "<title>How many times faster Koine is</title>",
                title,
                *legend,
                *grid,
                *body,
                "</svg>",
            ]
        )
        + "\n"
    )
