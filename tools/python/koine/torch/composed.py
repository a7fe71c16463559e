"""Operators outside core ATen that have no PyTorch decomposition, composed of other operators."""
from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ..graph import Value
from .arrays import diagonal_of, sliced
from .distances import norm_of
from .layers import with_bias
from .operators import axis_of, row
from .trace import Call

# ---- elementwise -----------------------------------------------------------------------------------------------------


def is_negative(on: Call, x: Value) -> Value:
    """The sign bit, which is set for -0 too."""
    if x.dtype == "float32":
        x = on.graph.apply("bitcast", x, dtype="int32")
    return x.less(on.value(0, x.dtype)) if x.dtype.startswith("int") else on.full(False, x.shape, "bool")


@row("signbit.default")
def signbit(on: Call, x: Value) -> Value:
    return is_negative(on, x)


@row("copysign.Tensor", "copysign.Scalar")
def copysign(on: Call, x: Value, y: Any) -> Value:
    size = on.value(x, "float32").abs()
    if not isinstance(y, Value):
        return size.neg() if math.copysign(1, y) < 0 else size
    return is_negative(on, y).where(size.neg(), size)


@row("hypot.default")
def hypot(on: Call, x: Value, y: Value) -> Value:
    x, y = on.value(x, "float32"), on.value(y, "float32")
    return x.mul(x).add(y.mul(y)).sqrt()


@row("erfc.default")
def erfc(on: Call, x: Value) -> Value:
    return on.value(x, "float32").erf().neg() + 1


@row("angle.default")
def angle(on: Call, x: Value) -> Value:
    x = on.value(x, "float32")
    made = x.less(on.value(0.0)).where(on.value(math.pi), on.value(0.0))
    return x.isnan().where(x, made)


@row("ldexp.Tensor")
def ldexp(on: Call, x: Value, y: Value) -> Value:
    return on.value(x, "float32").mul(on.value(2.0).pow(on.value(y, "float32")))


@row("round.decimals")
def round_to(on: Call, x: Value, decimals: int = 0) -> Value:
    if x.dtype != "float32":
        return x
    factor = 10.0 ** abs(decimals)
    return (x * factor).round().div(on.value(factor)) if decimals > 0 else x.div(on.value(factor)).round() * factor


@row("_safe_softmax.default")
def safe_softmax(on: Call, x: Value, axis: int, _: Any = None) -> Value:
    """0, without a gradient, where all elements along the axis are minus infinity."""
    if not x.rank:
        return x.equal(on.value(-math.inf)).where(on.value(0.0), on.value(1.0))
    axis = axis_of(x, axis)
    is_empty = x.max([axis], True).equal(on.value(-math.inf))
    zero = on.value(0.0)
    return is_empty.where(zero, is_empty.where(zero, x).softmax(axis))


# ---- rows ------------------------------------------------------------------------------------------------------------


@row("dist.default")
def distance(on: Call, x: Value, y: Value, p: float = 2) -> Value:
    apart = on.value(x, "float32").sub(on.value(y, "float32"))
    return norm_of(on, apart.reshape([-1]), float(p))


@row("addbmm.default")
def addbmm(on: Call, bias: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    return with_bias(on, a.matmul(b).sum([0]), bias, beta, alpha)


@row("_trilinear.default")
def trilinear(on: Call, first: Value, second: Value, third: Value, axes: Sequence[int], other: Sequence[int], last: Sequence[int],
              summed: Sequence[int], _: int = 1) -> Value:
    def expanded(x: Value, new: Sequence[int]) -> Value:
        shape = list(x.shape)
        for axis in sorted(new):
            shape.insert(axis, 1)
        return x.reshape(shape)
    made = expanded(first, axes).mul(expanded(second, other)).mul(expanded(third, last))
    return made.sum(list(summed)) if summed else made


def chosen(on: Call, x: Value, axis: int, number: int, nan: bool) -> Tuple[Value, Value]:
    """The element of rank `number` and its index, with keepdim; nan: a NaN, if there is one."""
    places = x.top_k(number + 1, axis, True, places=True)[1].slice(axis, number, number + 1)
    if nan and x.dtype == "float32":
        is_nan = x.isnan().cast("float32")
        places = is_nan.max([axis], True).greater(on.value(0.0)).where(is_nan.argmax(axis, True), places)
    return x.gather_elements(places, axis), places


def length_of(on: Call, x: Value, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int) or not size:
        raise on.refuse(f"an axis with the size {size} is not covered")
    return size


@row("median.default")
def median(on: Call, x: Value) -> Value:
    flat = x.reshape([-1]) if x.rank else x.reshape([1])
    return chosen(on, flat, 0, (length_of(on, flat, 0) - 1) // 2, True)[0].squeeze(0)


def chosen_along(on: Call, x: Value, axis: int, keep: bool, number: Optional[int]) -> Tuple[Value, Value]:
    """number: the rank of the element; None: the lower median."""
    if not x.rank:
        return x, on.full(0, [], "int32")
    axis = axis_of(x, axis)
    size = length_of(on, x, axis)
    value, place = chosen(on, x, axis, (size - 1) // 2 if number is None else number, number is None)
    return (value, place) if keep else (value.squeeze(axis), place.squeeze(axis))


@row("median.dim")
def median_along(on: Call, x: Value, axis: int, keep: bool = False) -> Tuple[Value, Value]:
    return chosen_along(on, x, axis, keep, None)


@row("kthvalue.default")
def kthvalue(on: Call, x: Value, number: int, axis: int = -1, keep: bool = False) -> Tuple[Value, Value]:
    return chosen_along(on, x, axis, keep, number - 1)


@row("searchsorted.Tensor", "bucketize.Tensor")
def search(on: Call, first: Value, second: Value, out_int32: bool = False, right: bool = False, side: Optional[str] = None,
           sorter: Optional[Value] = None) -> Value:
    """The number of sorted values that are less than each element, or, with `right`, not greater."""
    is_search = "searchsorted" in str(on.node.target)
    line, x = (first, second) if is_search else (second, first)
    if sorter is not None:
        line = line.gather_elements(on.value(sorter, "int32"), line.rank - 1)
    line, x = on.value(line, "float32"), on.value(x, "float32")
    if line.rank == 1:
        line = line.reshape([1] * x.rank + list(line.shape))
    else:
        line = line.unsqueeze(line.rank - 1)
    x = x.unsqueeze(x.rank)
    right = right or side == "right"
    is_below = line.less_equal(x) if right else line.less(x)
    return is_below.cast("int32").sum([is_below.rank - 1])


# ---- shapes ----------------------------------------------------------------------------------------------------------


@row("view_copy.default")
def view_copy(on: Call, x: Value, *_: Any) -> Value:
    return x.reshape(on.shape)


@row("permute_copy.default")
def permute_copy(on: Call, x: Value, order: Sequence[int]) -> Value:
    return x.transpose([axis_of(x, axis) for axis in order]) if x.rank > 1 else x


@row("narrow_copy.default")
def narrow_copy(on: Call, x: Value, axis: int, begin: int, length: int) -> Value:
    axis = axis_of(x, axis)
    begin += x.shape[axis] if begin < 0 else 0
    return sliced(on, x, axis, begin, begin + length)


@row("unbind_copy.int")
def unbind_copy(on: Call, x: Value, axis: int = 0) -> List[Value]:
    axis = axis_of(x, axis)
    return [x.slice(axis, i, i + 1).squeeze(axis) for i in range(length_of(on, x, axis))]


@row("diagonal_scatter.default")
def diagonal_scatter(on: Call, x: Value, source: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    """Replaces the diagonal of two axes by the last axis of the source."""
    order, flat, places = diagonal_of(on, x, source.shape[-1], offset, first, second)
    made = flat.scatter(places, source, len(order) - 2).reshape([x.shape[axis] for axis in order])
    return made.transpose([order.index(axis) for axis in range(x.rank)])


@row("upsample_trilinear3d.default", "upsample_trilinear3d.vec")
def upsample_volumes(on: Call, x: Value, size: Any, corners: bool, *scales: Any) -> Value:
    """Resizes height and width, then the depth as (N,C,D,H*W)."""
    depth, height, width = on.shape[2:]
    if scales and isinstance(scales[0], (list, tuple)):
        scales = tuple(scales[0])
    given = list(scales) if len(scales) == 3 and None not in scales else [0, 0, 0]
    settings = {"mode": "linear", "coordinates": "align-corners" if corners else "half-pixel"}
    batch, channels, deep, *plane = x.shape
    x = x.reshape([batch, channels * deep, *plane]).resize_image(height, width, scale=given[1:], **settings)
    x = x.reshape([batch, channels, deep, height * width]).resize_image(depth, height * width, scale=[given[0], 0], **settings)
    return x.reshape(on.shape)
