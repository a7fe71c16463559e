"""Operators that sample images and volumes on a grid (grid_sampler)."""
from __future__ import annotations

import itertools
import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .. import ops
from ..graph import Value
from .operators import row
from .trace import Absent, Call

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2  # padding modes
_SHAPE = -0.75  # the coefficient of the cubic kernel


class Axis:
    """One axis of the image: the coordinates of the points, in elements, and their slope with respect to the grid."""

    def __init__(self, on: Call, numbers: Value, size: int, mode: int, outside: int, corners: bool) -> None:
        self.on, self.size, self.mode, self.outside, self.corners = on, size, mode, outside, corners
        self.factor = (size - 1) / 2 if corners else size / 2  # scales grid coordinates
        at = (numbers + 1) * self.factor if corners else (numbers + 1) * self.factor - 0.5
        self.slope: Optional[Value] = None  # with respect to the grid; None: factor
        if mode != CUBIC:
            if outside != ZEROS:
                self.slope = self._slope(at)
            at = self.brought_inside(at)
        self.first = at.round() if mode == NEAREST else at.floor()
        self.part = at - self.first
        self.taps = {LINEAR: 2, NEAREST: 1, CUBIC: 4}[mode]

    def _bounds(self) -> Tuple[float, float]:
        """The lower border of reflection, and the distance to the upper border."""
        return (0.0, self.size - 1.0) if self.corners else (-0.5, float(self.size))

    def _reflected(self, at: Value) -> Tuple[Value, Value]:
        """Points reflected between the borders, and the slope, 1 or -1."""
        low, span = self._bounds()
        if span <= 0:
            return at * 0.0, at * 0.0
        apart = at - low
        distance = apart.abs()
        times = (distance * (1 / span)).floor()
        rest = distance - times * span
        is_odd = (times - (times * 0.5).floor() * 2.0).greater(self.on.value(0.5))
        side = apart.less(self.on.value(0.0)).where(self.on.value(-1.0), self.on.value(1.0))
        return is_odd.where(rest.neg() + (low + span), rest + low), is_odd.where(side.neg(), side)

    def brought_inside(self, at: Value) -> Value:
        if self.outside == ZEROS:
            return at
        return (self._reflected(at)[0] if self.outside == REFLECTION else at).clip(0.0, self.size - 1.0)

    def _slope(self, at: Value) -> Value:
        """The slope of the clipped points with respect to the grid."""
        at, slope = self._reflected(at) if self.outside == REFLECTION else (at, self.on.value(1.0).expand(at.shape))
        is_inside = at.greater(self.on.value(0.0)).logical_and(at.less(self.on.value(self.size - 1.0)))
        return is_inside.where(slope * self.factor, self.on.value(0.0))

    def weight(self, tap: int) -> Optional[Value]:
        """The weight of a tap; None: 1."""
        if self.taps == 1:
            return None
        if self.taps == 2:
            return self.part if tap else self.part.neg() + 1
        apart, a = self._distance(tap), _SHAPE
        if tap in (1, 2):
            return (apart * (a + 2) - (a + 3)).mul(apart).mul(apart) + 1
        return (((apart * a) - 5 * a).mul(apart) + 8 * a).mul(apart) - 4 * a

    def _distance(self, tap: int) -> Value:
        return self.part + 1 if tap == 0 else self.part if tap == 1 else self.part.neg() + (tap - 1)

    def slope_of_weight(self, tap: int) -> Optional[Value]:
        """The slope of a tap's weight with respect to the grid; None: 0."""
        if self.taps == 1:
            return None
        if self.taps == 2:
            sign = 1.0 if tap else -1.0
            return self.on.value(sign * self.factor).expand(self.part.shape) if self.slope is None else self.slope * sign
        apart, a = self._distance(tap), _SHAPE
        made = (apart * (3 * (a + 2)) - 2 * (a + 3)).mul(apart) if tap in (1, 2) else ((apart * (3 * a)) - 10 * a).mul(apart) + 8 * a
        return made * (self.factor if tap < 2 else -self.factor)

    def tap(self, tap: int) -> Tuple[Value, Optional[Value]]:
        """The index of a tap's element (int32), and its mask, 1 or 0 (None: 1)."""
        at = self.first + (tap - 1 if self.taps == 4 else tap)
        if self.mode == CUBIC:
            at = self.brought_inside(at)
        inside = at.clip(0.0, self.size - 1.0)
        return inside.cast("int32"), at.equal(inside).cast("float32") if self.outside == ZEROS else None


class Sampling:
    """x (N,C,...) at the points of a grid (N,...,axes), whose last coordinate belongs to the first axis."""

    def __init__(self, on: Call, x: Value, grid: Value, mode: int, outside: int, corners: bool) -> None:
        self.on, self.batch, self.channels, self.sizes = on, x.shape[0], x.shape[1], list(x.shape[2:])
        points = grid.shape[1:-1]
        if not all(isinstance(number, int) for number in [*self.sizes, *points]):
            raise on.refuse("images and grids with open sizes are not covered")
        count, self.points = len(self.sizes), math.prod(points)
        parts = [grid.slice(grid.rank - 1, count - 1 - i, count - i).reshape([self.batch, self.points]) for i in range(count)]
        self.axes = [Axis(on, part, size, mode, outside, corners) for part, size in zip(parts, self.sizes)]
        self.rows = x.reshape([self.batch, self.channels, math.prod(self.sizes)]).transpose([0, 2, 1])  # (N,elements,C)

    def taps(self) -> List[Tuple[Sequence[int], Value, List[Value]]]:
        """For each combination of taps, its elements (N,points), and the masks that multiply its interpolation weights."""
        found = []
        for taps in itertools.product(*(range(axis.taps) for axis in self.axes)):
            place, counts = None, []
            for axis, tap in zip(self.axes, taps):
                element, counted = axis.tap(tap)
                place = element if place is None else place.mul(self.on.value(axis.size, "int32")).add(element)
                counts += [] if counted is None else [counted]
            assert place is not None
            found.append((taps, place, counts))
        return found

    def weights(self, taps: Sequence[int], without: int = -1) -> List[Value]:
        made = [axis.weight(tap) for i, (axis, tap) in enumerate(zip(self.axes, taps)) if i != without]
        return [weight for weight in made if weight is not None]

    def picked(self, place: Value) -> Value:
        return self.rows.gather_nd_batches(place.unsqueeze(2), 1)  # (N,points,C)


def product_of(values: Sequence[Value]) -> Optional[Value]:
    made = None
    for value in values:
        made = value if made is None else made.mul(value)
    return made


@row("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(on: Call, x: Value, grid: Value, mode: int, outside: int, corners: bool) -> Value:
    sampling, total = Sampling(on, x, grid, mode, outside, corners), None
    for taps, place, counts in sampling.taps():
        part, weight = sampling.picked(place), product_of(sampling.weights(taps) + counts)
        part = part if weight is None else part.mul(weight.unsqueeze(2))
        total = part if total is None else total + part
    assert total is not None
    return total.transpose([0, 2, 1]).reshape(on.shape)


@row("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default", backward=True)
def grid_sampler_backward(on: Call, g: Value, x: Value, grid: Value, mode: int, outside: int, corners: bool,
                          wanted: Sequence[bool] = (True, True)) -> Tuple[Any, Any]:
    """Scatters the gradient to the elements of x by their weights; the gradient of the grid uses the slopes of the weights."""
    sampling = Sampling(on, x, grid, mode, outside, corners)
    elements, channels = math.prod(sampling.sizes), sampling.channels
    g = g.reshape([sampling.batch, channels, sampling.points]).transpose([0, 2, 1])  # (N,points,C)
    images = on.graph.constant((np.arange(sampling.batch, dtype=np.int32) * elements).reshape(-1, 1))
    by_x = on.full(0.0, [sampling.batch * elements, channels])
    slopes: List[Optional[Value]] = [None] * len(sampling.axes)
    for taps, place, counts in sampling.taps():
        weight = product_of(sampling.weights(taps) + counts)
        part = g if weight is None else g.mul(weight.unsqueeze(2))
        by_x = by_x.scatter(place.add(images).reshape(-1), part.reshape([-1, channels]), 0, "add")
        if not wanted[1]:
            continue
        together = g.mul(sampling.picked(place)).sum(2)
        for i, (axis, tap) in enumerate(zip(sampling.axes, taps)):
            slope = axis.slope_of_weight(tap)
            if slope is not None:
                own = product_of([together, slope, *sampling.weights(taps, i), *counts])
                slopes[i] = own if slopes[i] is None else slopes[i] + own  # type: ignore[operator]
    by_grid: Any = Absent()
    if wanted[1]:
        parts = [on.full(0.0, [sampling.batch, sampling.points]) if slope is None else slope for slope in reversed(slopes)]
        by_grid = ops.stack(parts, 2).reshape(grid.shape)
    return by_x.reshape([sampling.batch, elements, channels]).transpose([0, 2, 1]).reshape(x.shape), by_grid
