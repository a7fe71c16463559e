"""Operators for norms and pairwise distances, with their backward passes."""
from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

import numpy as np

from ..graph import Value
from .operators import axes_of, row
from .trace import Call


def norm_of(on: Call, apart: Value, p: float, axes: Optional[List[int]] = None, keep: bool = False) -> Value:
    """The p-norm along axes (default: the last axis). Its gradient is 0 where the norm is 0."""
    axes, zero = [apart.rank - 1] if axes is None else axes, on.value(0.0)
    if p == 0:
        return apart.not_equal(zero).cast("float32").sum(axes, keep)
    if p == 1:
        return apart.abs().sum(axes, keep)
    if abs(p) == math.inf:
        return apart.abs().max(axes, keep) if p > 0 else apart.abs().min(axes, keep)
    if p == 2:
        total = apart.mul(apart).sum(axes, keep)
    elif p < 0:
        return apart.abs().pow(on.value(float(p))).sum(axes, keep).pow(on.value(1 / p))
    else:
        is_none = apart.equal(zero)
        total = is_none.where(zero, is_none.where(on.value(1.0), apart.abs()).pow(on.value(float(p)))).sum(axes, keep)
    is_none = total.equal(zero)
    total = is_none.where(on.value(1.0), total)
    return is_none.where(zero, total.sqrt() if p == 2 else total.pow(on.value(1 / p)))


@row("linalg_vector_norm.default")
def vector_norm(on: Call, x: Value, p: float = 2, axes: Any = None, keep: bool = False, **_: Any) -> Value:
    x = on.value(x, "float32")
    return norm_of(on, x, float(p), axes_of(x, axes), keep) if x.rank else norm_of(on, x.reshape([1]), float(p)).reshape([])


def slope_of(on: Call, g: Value, apart: Value, p: float, distance: Value) -> Value:
    """The gradient of a p-norm with respect to its elements along the last axis; g and distance lack that axis."""
    zero, one = on.value(0.0), on.value(1.0)
    g, distance = g.unsqueeze(g.rank), distance.unsqueeze(distance.rank)
    if p == 0:
        return apart.mul(zero)
    if p == 1:
        return apart.sign().mul(g)
    if p == math.inf:
        return apart.abs().equal(distance).where(apart.sign().mul(g), zero)
    is_none = distance.equal(zero)
    distance = is_none.where(one, distance)
    if p == 2:
        return is_none.where(zero, apart.div(distance).mul(g))
    is_none = is_none.logical_or(apart.equal(zero))
    part = is_none.where(one, apart.abs()).div(distance).pow(on.value(float(p - 1)))
    return is_none.where(zero, apart.sign().mul(part).mul(g))


def between(x: Value, y: Value) -> Value:
    """x (...,P,M) and y (...,R,M): the differences (...,P,R,M)."""
    return x.unsqueeze(x.rank - 1).sub(y.unsqueeze(y.rank - 2))


@row("_cdist_forward.default")
def distances(on: Call, x: Value, y: Value, p: float, _: object) -> Value:
    return norm_of(on, between(x, y), p).reshape(on.shape) if x.shape[-1] else on.full(0.0)


@row("_cdist_backward.default", backward=True)
def distances_backward(on: Call, g: Value, x: Value, y: Value, p: float, distance: Value) -> Value:
    made = slope_of(on, g, between(x, y), p, distance)
    return made.sum([made.rank - 2]).reshape(on.shape)


def pairs(on: Call, x: Value) -> Tuple[Value, Value]:
    """The rows i and j of each pair, with i < j."""
    if not isinstance(x.shape[0], int):
        raise on.refuse("the number of rows is open")
    first, second = np.triu_indices(x.shape[0], 1)
    return on.graph.constant(first.astype(np.int32)), on.graph.constant(second.astype(np.int32))


@row("_pdist_forward.default")
def distances_of_pairs(on: Call, x: Value, p: float = 2.0) -> Value:
    first, second = pairs(on, x)
    return norm_of(on, x.gather(first, 0).sub(x.gather(second, 0)), p) if x.shape[1] else on.full(0.0)


@row("_pdist_backward.default", backward=True)
def distances_of_pairs_backward(on: Call, g: Value, x: Value, p: float, distance: Value) -> Value:
    first, second = pairs(on, x)
    made = slope_of(on, g, x.gather(first, 0).sub(x.gather(second, 0)), p, distance)
    return on.full(0.0).scatter(first, made, 0, "add").scatter(second, made.neg(), 0, "add")
