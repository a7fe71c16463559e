"""1-d, 2-d and 3-d pooling with backward passes; im2col, col2im and unfold."""
from __future__ import annotations

import itertools
import math
from typing import Any, List, Optional, Sequence

import numpy as np

from ..graph import Value
from .operators import row, several
from .trace import Absent, Call
from .volumes import padded, turned_images


def axes_in(on: Call) -> int:
    """The number of window axes, from the operator's name."""
    return 3 if "3d" in str(on.node.target) else 2


def batched(x: Value, axes: int) -> Value:
    """(C,...) as (1,C,...)."""
    return x if x.rank == axes + 2 else x.unsqueeze(0)


def like_given(on: Call, made: Value, x: Value) -> Value:
    return made if made.rank == x.rank else made.squeeze(0)


def on_images(x: Value, pool: Any) -> Value:
    """Runs pool(part, axes), which pools images (N,C,.,.), on images or volumes. x (N,C,H,W) is one part, with window axes 0 and 1.
    x (N,C,D,H,W) is pooled as (N,C*D,H,W) with axes 1 and 2, then as (N,C,D,H*W) with axes 0 and -1 (the last axis is unchanged)."""
    if x.rank == 4:
        return pool(x, (0, 1))
    batch, channels, deep = x.shape[:3]
    x = pool(x.reshape([batch, channels * deep, *x.shape[3:]]), (1, 2))
    height, width = x.shape[2:]
    x = pool(x.reshape([batch, channels, deep, height * width]), (0, -1))
    return x.reshape([batch, channels, x.shape[2], height, width])


def sizes_for(part: Value, axes: Sequence[int], sizes: Sequence[int]) -> List[int]:
    """The sizes of a part's result, from the sizes along the window's axes."""
    return [part.shape[3] if axis < 0 else sizes[axis] for axis in axes]


class Window:
    """The settings of a pool's window along each axis."""

    def __init__(self, on: Call, given: Sequence[int], places: Sequence[int], window: Any, stride: Any = (), padding: Any = 0,
                 ceil: bool = False, dilation: Any = 1) -> None:
        self.axes = axes_in(on)
        self.given, self.places, self.ceil = list(given[-self.axes:]), list(places[-self.axes:]), ceil
        self.size = several(window, self.axes)
        self.stride, self.padding = several(stride, self.axes, self.size), several(padding, self.axes)
        self.dilation = several(dilation, self.axes)

    def settings(self, axes: Sequence[int], backward: bool = False) -> dict:
        """Keywords for 2-d pooling over two of the axes; -1: an axis with window size 1."""
        def chosen(numbers: Sequence[int], usual: int) -> List[int]:
            return [usual if axis < 0 else numbers[axis] for axis in axes]
        sides = chosen(self.padding, 0)
        made = {"stride": chosen(self.stride, 1), "padding": sides + sides}
        return made if backward else {**made, "ceil": self.ceil, "all_padding": True}

    def window(self, axes: Sequence[int]) -> List[int]:
        return [1 if axis < 0 else self.size[axis] for axis in axes]


# ---- maxima ----------------------------------------------------------------------------------------------------------


@row("max_pool2d.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(on: Call, x: Value, window: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False) -> Any:
    w = Window(on, x.shape, on.shape, window, stride, padding, ceil, dilation)
    whole = batched(x, w.axes)

    def pooled(part: Value, axes: Sequence[int]) -> Value:
        return part.max_pool(w.window(axes), dilation=[1 if axis < 0 else w.dilation[axis] for axis in axes], **w.settings(axes))
    made = like_given(on, on_images(whole, pooled), x)
    if "indices" not in str(on.node.target):
        return made
    return made, places_of_most(on, whole, w).reshape(on.shape) if on.reads(1) else Absent()


def places_of_most(on: Call, x: Value, w: Window) -> Value:
    """The index of each window's maximum in its image (H*W) or volume (D*H*W). Ties: the first, as in PyTorch."""
    if math.prod(w.size) > 125:
        raise on.refuse(f"the places of maxima in windows of {' x '.join(map(str, w.size))} are not covered: at most 125 elements")
    first = x.rank - w.axes
    for i in range(w.axes):
        reach = (w.places[i] - 1) * w.stride[i] + (w.size[i] - 1) * w.dilation[i] + 1
        x = padded(x, first + i, w.padding[i], max(0, reach - w.given[i] - w.padding[i]), -math.inf)
    most = places = None
    for taps in itertools.product(*map(range, w.size)):
        part, number = x, np.zeros([1] * w.axes, np.int64)
        for i, tap in enumerate(taps):
            begin = tap * w.dilation[i]
            part = on.graph.apply("slice", part, axis=first + i, begin=begin, end=begin + (w.places[i] - 1) * w.stride[i] + 1, step=w.stride[i])
            line = np.clip(np.arange(w.places[i]) * w.stride[i] + begin - w.padding[i], 0, w.given[i] - 1)
            number = number * w.given[i] + line.reshape([-1 if axis == i else 1 for axis in range(w.axes)])
        here = on.graph.constant(number.astype(np.int32)).expand(part.shape)
        if most is None:
            most, places = part, here
        else:
            is_more = part.greater(most).logical_or(part.isnan())
            most, places = is_more.where(part, most), is_more.where(here, places)
    assert places is not None
    return places


@row("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(on: Call, x: Value, size: Any) -> Any:
    axes, size = axes_in(on), several(size, axes_in(on))
    if not on.reads(1):
        made = on_images(batched(x, axes), lambda part, which: part.adaptive_max_pool(*sizes_for(part, which, size)))
        return like_given(on, made, x), Absent()
    cells = elements_of_cells(on, x.shape[-axes:], size)
    flat = x.reshape([*x.shape[:-axes], math.prod(x.shape[-axes:])])
    taken = flat.gather(on.graph.constant(cells), flat.rank - 1)  # (...,cells,elements)
    chosen = taken.argmax(taken.rank - 1, True)
    numbers = on.graph.constant(cells).expand(taken.shape).gather_elements(chosen, taken.rank - 1)
    return taken.gather_elements(chosen, taken.rank - 1).reshape(on.shape), numbers.reshape(on.shape)


def elements_of_cells(on: Call, given: Sequence[int], size: Sequence[int]) -> np.ndarray:
    """The elements (cells,most elements) in each cell of an adaptive pool; cells with fewer elements repeat their first."""
    if not all(isinstance(number, int) for number in given):
        raise on.refuse("the places of maxima in images with open sizes are not covered")
    lines = [[range(place * have // want, -(-(place + 1) * have // want)) for place in range(want)] for have, want in zip(given, size)]
    cells = []
    for ranges in itertools.product(*lines):
        elements = []
        for element in itertools.product(*ranges):
            number = 0
            for place, have in zip(element, given):
                number = number * have + place
            elements.append(number)
        cells.append(elements)
    most = max(map(len, cells), default=0)
    return np.array([cell + cell[:1] * (most - len(cell)) for cell in cells], np.int32).reshape(len(cells), most)


@row("max_pool2d_with_indices_backward.default", "max_pool3d_with_indices_backward.default", "adaptive_max_pool2d_backward.default",
     "adaptive_max_pool3d_backward.default", backward=True)
def max_pool_backward(on: Call, g: Value, x: Value, *given: Any) -> Value:
    """Adds each gradient at its maximum's index; the last argument has the indices."""
    axes = axes_in(on)
    front = list(x.shape[:-axes])
    none = on.full(0.0, front + [math.prod(x.shape[-axes:])])
    places, g = (value.reshape(front + [math.prod(g.shape[-axes:])]) for value in (given[-1], g))
    return none.scatter_elements(places, g, len(front), "add").reshape(x.shape)


# ---- means -----------------------------------------------------------------------------------------------------------


def scale_of_means(on: Call, w: Window, count_padding: bool, divisor: Optional[int]) -> Optional[Value]:
    """The factor to apply to each window's mean over its elements without padding; None: 1."""
    if divisor is None and not (count_padding and any(w.padding)):
        return None
    scale = np.ones([1] * w.axes)
    for i in range(w.axes):
        begin = np.arange(w.places[i]) * w.stride[i] - w.padding[i]
        end = np.minimum(begin + w.size[i], w.given[i] + w.padding[i])
        elements = np.minimum(end, w.given[i]) - np.maximum(begin, 0)
        scale = scale * (elements / (1 if divisor else end - begin)).reshape([-1 if axis == i else 1 for axis in range(w.axes)])
    return on.graph.constant((scale / (divisor or 1)).astype(np.float32))


@row("avg_pool2d.default", "avg_pool3d.default")
def average_pool(on: Call, x: Value, window: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, count_padding: bool = True,
                 divisor: Optional[int] = None) -> Value:
    return mean_of_windows(on, x, Window(on, x.shape, on.shape, window, stride, padding, ceil), count_padding, divisor)


def mean_of_windows(on: Call, x: Value, w: Window, count_padding: bool, divisor: Optional[int]) -> Value:
    whole, ceil = batched(x, w.axes), w.ceil
    is_plain = divisor is None and w.axes == 2 and not (ceil and count_padding and any(w.padding))
    scale = None if is_plain else scale_of_means(on, w, count_padding, divisor)

    def pooled(part: Value, axes: Sequence[int]) -> Value:
        return part.average_pool(w.window(axes), skip_padding=not is_plain or ceil or not count_padding, **w.settings(axes))
    made = on_images(whole, pooled)
    return like_given(on, made if scale is None else made.mul(scale), x)


@row("avg_pool1d.default")
def average_pool_of_lines(on: Call, x: Value, window: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
                          count_padding: bool = True) -> Value:
    """(…,C,L) as images with one row."""
    number = [values if isinstance(values, int) else values[0] if values else None for values in (window, stride, padding)]
    x = x.unsqueeze(x.rank - 1)
    w = Window(on, x.shape, [1, on.shape[-1]], [1, number[0]], [1, number[1] or number[0]], [0, number[2]], ceil)
    return mean_of_windows(on, x, w, count_padding, None).squeeze(x.rank - 2)


@row("avg_pool2d_backward.default", "avg_pool3d_backward.default", backward=True)
def average_pool_backward(on: Call, g: Value, x: Value, window: Any, stride: Any, padding: Any, ceil: bool, count_padding: bool,
                          divisor: Optional[int]) -> Value:
    w = Window(on, x.shape, g.shape, window, stride, padding, ceil)
    scale = scale_of_means(on, w, count_padding, divisor)
    whole = batched(g if scale is None else g.mul(scale), w.axes)

    def spread(part: Value, axes: Sequence[int]) -> Value:
        return on.graph.apply("average_pool_data", part, window=w.window(axes), size=sizes_for(part, axes, w.given), skip_padding=True,
                              **w.settings(axes, True))
    return on_images(whole, spread).reshape(x.shape)


@row("adaptive_avg_pool1d.default")
def adaptive_pool_of_lines(on: Call, x: Value, size: Any) -> Value:
    made = batched(x.unsqueeze(x.rank - 1), 2).adaptive_average_pool(1, size if isinstance(size, int) else size[0])
    return made.reshape(on.shape)


@row("_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def adaptive_pool(on: Call, x: Value, size: Any) -> Value:
    axes, size = axes_in(on), several(size, axes_in(on))
    if set(size) == {1}:
        return x.mean(list(range(x.rank - axes, x.rank)), True)
    made = on_images(batched(x, axes), lambda part, which: part.adaptive_average_pool(*sizes_for(part, which, size)))
    return like_given(on, made, x)


@row("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default", backward=True)
def adaptive_pool_backward(on: Call, g: Value, x: Value) -> Value:
    axes = axes_in(on)
    places, given = g.shape[-axes:], x.shape[-axes:]

    def spread(part: Value, which: Sequence[int]) -> Value:
        return on.graph.apply("average_pool_data", part, output=sizes_for(part, which, places), size=sizes_for(part, which, given))
    return on_images(batched(g, axes), spread).reshape(x.shape)


# ---- windows as columns ----------------------------------------------------------------------------------------------


@row("col2im.default")
def columns_to_image(on: Call, x: Value, size: Sequence[int], window: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
                     stride: Sequence[int]) -> Value:
    """(N,C*window,places) to (N,C,H,W): a transposed convolution with one-hot weights."""
    taps, places = window[0] * window[1], [_places(size[i], window[i], dilation[i], padding[i], stride[i]) for i in (0, 1)]
    whole = batched(x, 1)
    channels = whole.shape[1] // taps
    weight = np.tile(np.eye(taps, dtype=np.float32), (channels, 1)).reshape(channels * taps, 1, *window)
    made = turned_images(on, whole.reshape([whole.shape[0], channels * taps, *places]), on.graph.constant(weight), size, stride=list(stride),
                         padding=[*padding, *padding], dilation=list(dilation), groups=channels)
    return made.reshape(on.shape)


def _places(size: int, window: int, dilation: int, padding: int, stride: int) -> int:
    return (size + 2 * padding - dilation * (window - 1) - 1) // stride + 1


@row("unfold.default", "unfold_copy.default")
def unfold(on: Call, x: Value, axis: int, size: int, step: int) -> Value:
    """Sliding windows along an axis; the window elements become the last axis."""
    if not x.rank:
        return x.expand(on.shape)
    axis += x.rank if axis < 0 else 0
    count = on.shape[axis]
    if not isinstance(count, int):
        raise on.refuse("windows over an axis with an open size are not covered")
    numbers = (np.arange(count)[:, None] * step + np.arange(size)).astype(np.int32)
    found = x.gather(on.graph.constant(numbers), axis)  # (…,windows,window elements,…)
    return found.transpose([*range(axis + 1), *range(axis + 2, found.rank), axis + 1])
