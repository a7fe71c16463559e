"""The table's operators on whole arrays: types, constants, reductions, shapes, indices."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .. import ops
from ..graph import Value
from .operators import axes_of, axis_of, is_number, row
from .trace import Call

# ---- types, copies and constants -------------------------------------------------------------------------------------


@row("_to_copy.default", "clone.default", "alias.default", "copy.default", "lift_fresh_copy.default")
def copy(on: Call, x: Value, *others: Any, **_: Any) -> Value:
    if others and isinstance(others[0], Value):  # copy: the second tensor in the type and shape of the first
        return on.value(others[0], on.dtype).expand(on.shape)
    return on.value(x, on.dtype)


def without_gradient(on: Call, x: Value) -> Value:
    """x as a constant: a bit cast has no gradient."""
    return on.graph.apply("bitcast", on.graph.apply("bitcast", x, dtype="int32"), dtype="float32")


@row("detach.default")
def detach(on: Call, x: Value) -> Value:
    return x if x.dtype != "float32" or on.build.functional else without_gradient(on, x)


@row("full.default", "full_like.default")
def full(on: Call, _: Any, number: Any, **__: Any) -> Value:
    made = on.full(number)
    if number == 0:
        on.build.zeros.add(made.name)
    return made


@row("fill.Scalar")
def fill(on: Call, x: Value, number: Any) -> Value:
    return on.full(number)


@row("empty.memory_format", "empty_strided.default", "empty_permuted.default")
def empty(on: Call, *_: Any, **__: Any) -> Value:
    return on.full(0)


@row("scalar_tensor.default")
def scalar_tensor(on: Call, number: Any, **_: Any) -> Value:
    return on.value(number, on.dtype)


@row("arange.start_step")
def arange(on: Call, start: Any, end: Any, step: Any = 1, **_: Any) -> Value:
    if not any(isinstance(number, str) for number in (start, end, step)):
        return on.graph.range(on.dtype, start, end, step)
    count = on.full(1.0, dtype="float32").cumulative_sum(0, exclusive=True)  # dynamic size: 0, 1, …
    return on.value(count.mul(on.value(step, "float32")).add(on.value(start, "float32")), on.dtype)


# ---- reductions ------------------------------------------------------------------------------------------------------


@row("sum.dim_IntList")
def total(on: Call, x: Value, axes: Any = None, keep: bool = False, **_: Any) -> Value:
    return on.value(x, on.dtype).sum(axes_of(x, axes), keep) if x.rank else on.value(x, on.dtype)


@row("mean.dim", "mean.default")
def mean(on: Call, x: Value, axes: Any = None, keep: bool = False, **_: Any) -> Value:
    return x.mean(axes_of(x, axes), keep) if x.rank else x


@row("amax.default", "amin.default", "max.default", "min.default")
def most(on: Call, x: Value, axes: Any = (), keep: bool = False) -> Value:
    if not x.rank:
        return x
    return (x.max if "max" in str(on.node.target) else x.min)(axes_of(x, axes), keep)


@row("prod.default", "prod.dim_int")
def product(on: Call, x: Value, axis: Any = None, keep: bool = False, **_: Any) -> Value:
    return on.value(x, on.dtype).prod(axes_of(x, axis if axis is None else [axis]), keep) if x.rank else x


@row("any.default", "any.dim", "any.dims")
def any_of(on: Call, x: Value, axes: Any = None, keep: bool = False) -> Value:
    x = on.value(on.value(x, "bool"), "int32")
    return on.value(x.max(axes_of(x, axes), keep) if x.rank else x, "bool")


@row("var.correction", "var.dim")
def variance(on: Call, x: Value, axes: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Optional[float] = 1) -> Value:
    """var.dim passes `unbiased` and keepdim by position; var.correction passes keywords."""
    if unbiased is not None:
        correction = 1 if unbiased else 0
    taken = axes_of(x, axes)
    apart = x - x.mean(taken, True)
    count: Any = 1
    for axis in taken:
        size = x.shape[axis]
        count = count * size if isinstance(count, int) and isinstance(size, int) else f"{count}*({size})"
    sums = apart.mul(apart).sum(taken, keepdim)
    correction = 1 if correction is None else correction
    if isinstance(count, int):
        return sums * (1 / max(0, count - correction)) if count > correction else sums.div(on.value(0.0))
    return sums.div(on.value(count, "float32").shift(-float(correction)).maximum(on.value(0.0)))


@row("var_mean.correction")
def variance_and_mean(on: Call, x: Value, axes: Any = None, correction: Optional[float] = 1, keepdim: bool = False) -> Tuple[Value, Value]:
    return variance(on, x, axes, correction=correction, keepdim=keepdim), mean(on, x, axes, keepdim)


@row("max.dim", "min.dim")
def most_along(on: Call, x: Value, axis: int, keep: bool = False) -> Tuple[Value, Value]:
    """The maxima and their indices; the gradient flows to the element at the index."""
    if not x.rank:
        return x, on.full(0, [], "int32")
    places = (x.argmax if "max" in str(on.node.target) else x.argmin)(axis_of(x, axis), True)
    values = x.gather_elements(places, axis_of(x, axis))
    return (values, places) if keep else (values.squeeze(axis_of(x, axis)), places.squeeze(axis_of(x, axis)))


@row("argmax.default", "argmin.default")
def place_of_most(on: Call, x: Value, axis: Optional[int] = None, keep: bool = False) -> Value:
    if not x.rank:
        return on.full(0)
    if axis is None:
        x, axis = x.reshape(-1), 0
        keep = False
    return (x.argmax if "max" in str(on.node.target) else x.argmin)(axis_of(x, axis), keep)


@row("cumsum.default")
def cumsum(on: Call, x: Value, axis: int, **_: Any) -> Value:
    return on.value(x, on.dtype).cumulative_sum(axis_of(x, axis)) if x.rank else on.value(x, on.dtype)


@row("histc.default")
def histc(on: Call, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Value:
    if not low < high:
        raise on.refuse("the range of the bins depends on the data; pass min and max")
    x = x.reshape([-1, 1])
    inside = x.greater_equal(on.value(float(low))).logical_and(x.less_equal(on.value(float(high))))
    # In PyTorch's order of operations: rounding decides the bin of an element at an edge.
    places = ((x - float(low)) * float(bins) / (high - low)).floor().minimum(on.value(float(bins - 1)))
    return places.equal(on.value(np.arange(bins, dtype=np.float32))).logical_and(inside).cast("float32").sum([0])


@row("topk.default")
def topk(on: Call, x: Value, k: int, axis: int = -1, largest: bool = True, ordered: bool = True) -> Tuple[Value, Value]:
    if not x.rank:
        return x, on.full(0, [], "int32")
    return x.top_k(k, axis_of(x, axis), not largest, places=True)


@row("sort.default")
def sort(on: Call, x: Value, axis: int = -1, descending: bool = False) -> Tuple[Value, Value]:
    if not x.rank:
        return x, on.full(0, [], "int32")
    size = x.shape[axis]
    if not isinstance(size, int):
        raise on.refuse(f"the sorted axis has an open size, {size}")
    return x.top_k(size, axis_of(x, axis), not descending, places=True)


@row("_softmax.default", "_log_softmax.default")
def softmax(on: Call, x: Value, axis: int, half: bool = False) -> Value:
    return (x.log_softmax if "log" in str(on.node.target) else x.softmax)(axis_of(x, axis)) if x.rank else on.full(0.0 if "log" in str(
        on.node.target) else 1.0)


# ---- shapes ----------------------------------------------------------------------------------------------------------


@row("view.default", "_unsafe_view.default")
def view(on: Call, x: Value, shape: Any) -> Value:
    return x.reshape(on.shape)


@row("permute.default")
def permute(on: Call, x: Value, order: Sequence[int]) -> Value:
    return on.permuted(x, [axis_of(x, axis) for axis in order])


def without_axes(on: Call, x: Value, axes: Sequence[int]) -> Value:
    """Removes axes of size 1. If x is a permutation, removes them before it, so that a later permutation can cancel it."""
    if x.name not in on.build.orders:
        return x.reshape(on.shape)
    source, order = on.build.orders[x.name]
    left = [place for place in range(x.rank) if place not in {order[axis] for axis in axes}]
    return on.permuted(source.reshape([source.shape[place] for place in left]), [left.index(place) for place in order if place in left])


@row("unsqueeze.default")
def insert_axis(on: Call, x: Value, axis: Any) -> Value:
    return x.reshape(on.shape)


@row("squeeze.dim", "squeeze.dims")
def squeeze(on: Call, x: Value, axes: Any) -> Value:
    return without_axes(on, x, [axis for axis in axes_of(x, axes) if x.shape[axis] == 1]) if x.rank else x


@row("expand.default")
def expand(on: Call, x: Value, shape: Any, **_: Any) -> Value:
    return x.expand(on.shape) if on.shape else x


@row("repeat.default")
def repeat(on: Call, x: Value, times: Sequence[Any]) -> Value:
    if any(isinstance(number, str) for number in times):
        raise on.refuse(f"it repeats an open number of times, {times}")
    return x.tile(list(times)) if times else x


def diagonal_of(on: Call, x: Value, length: int, offset: int, first: int, second: int) -> Tuple[List[int], Value, Value]:
    """The permutation that moves the two axes last, x permuted with both flattened, and the diagonal's indices on the flat axis."""
    first, second = axis_of(x, first), axis_of(x, second)
    rows, columns = x.shape[first], x.shape[second]
    if not is_number(rows) or not is_number(columns):
        raise on.refuse(f"a diagonal of axes with open sizes, {rows} and {columns}")
    order = [*(axis for axis in range(x.rank) if axis not in (first, second)), first, second]
    flat = x.transpose(order).reshape([*(x.shape[axis] for axis in order[:-2]), rows * columns])
    places = (np.arange(length) + max(0, -offset)) * columns + np.arange(length) + max(0, offset)
    return order, flat, on.graph.constant(places.astype(np.int32))


@row("diagonal.default")
def diagonal(on: Call, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    """Gathers the diagonal of two axes."""
    order, flat, places = diagonal_of(on, x, on.shape[-1], offset, first, second)
    return flat.gather(places, len(order) - 2)


@row("flip.default")
def flip(on: Call, x: Value, axes: Sequence[int]) -> Value:
    return x.flip(axes_of(x, axes)) if axes else x


def sliced(on: Call, x: Value, axis: int, begin: Any, end: Any, step: int = 1) -> Value:
    """Elements from begin to end, with the semantics of a Python slice."""
    size = x.shape[axis]
    begin = 0 if begin is None else begin
    if end is None or end == size or (is_number(end) and end >= (size if is_number(size) else 2**62)):
        end = None
    if isinstance(begin, str) or isinstance(end, str):
        raise on.refuse(f"it takes elements {begin} to {end} of {size}: bounds with open sizes are not covered")
    if begin == 0 and end is None and step == 1:
        return x
    if x.name in on.build.orders:  # slice before the permutation
        source, order = on.build.orders[x.name]
        return on.permuted(sliced(on, source, order[axis], begin, end, step), order)
    return on.graph.apply("slice", x, axis=axis, begin=begin, step=step, **({} if end is None else {"end": end}))


@row("slice.Tensor")
def slice_of(on: Call, x: Value, axis: int = 0, begin: Any = None, end: Any = None, step: int = 1) -> Value:
    return sliced(on, x, axis_of(x, axis), begin, end, step)


@row("select.int")
def select(on: Call, x: Value, axis: int, position: Any) -> Value:
    axis = axis_of(x, axis)
    return without_axes(on, sliced(on, x, axis, position, None if position == -1 else position + 1), [axis])


@row("slice_scatter.default")
def slice_scatter(on: Call, x: Value, source: Value, axis: int = 0, begin: Any = None, end: Any = None, step: int = 1) -> Value:
    axis, size = axis_of(x, axis), x.shape[axis_of(x, axis)]
    if step != 1 or not is_number(size):
        raise on.refuse("slices with steps, or of an axis with an open size, are not written")
    begin = min(size, max(0, (begin or 0) + (size if (begin or 0) < 0 else 0)))
    end = size if end is None else min(size, max(begin, end + (size if end < 0 else 0)))
    parts = [sliced(on, x, axis, 0, begin) if begin else None, on.value(source, x.dtype) if end > begin else None,
             sliced(on, x, axis, end, None) if end < size else None]
    return ops.concat([part for part in parts if part is not None], axis)


@row("select_scatter.default")
def select_scatter(on: Call, x: Value, source: Value, axis: int, position: int) -> Value:
    axis = axis_of(x, axis)
    position += x.shape[axis] if position < 0 else 0
    return slice_scatter(on, x, source.unsqueeze(axis), axis, position, position + 1)


@row("cat.default")
def cat(on: Call, values: Sequence[Value], axis: int = 0) -> Value:
    values = [on.value(value, on.dtype) for value in values if value.shape != (0,)]
    return ops.concat(values, axis_of(values[0], axis)) if len(values) > 1 else values[0]


@row("split_with_sizes.default")
def split(on: Call, x: Value, sizes: Sequence[Any], axis: int = 0) -> List[Value]:
    if any(isinstance(size, str) for size in sizes):
        raise on.refuse(f"it splits into open sizes, {sizes}")
    return x.split(axis_of(x, axis), list(sizes))


@row("constant_pad_nd.default")
def constant_pad(on: Call, x: Value, amounts: Sequence[Any], value: Any = 0.0) -> Value:
    before, after = pad_amounts(on, x, amounts)
    for axis in range(x.rank):  # negative amounts crop
        x = sliced(on, x, axis, max(0, -before[axis]), min(0, after[axis]) or None)
    amounts = [max(0, amount) for amount in before + after]
    return x.pad(amounts, float(value)) if any(amounts) else x


def pad_amounts(on: Call, x: Value, amounts: Sequence[Any]) -> Tuple[List[int], List[int]]:
    """Padding before and after each axis, from (before, after) pairs that start at the last axis."""
    if any(isinstance(amount, str) for amount in amounts):
        raise on.refuse(f"it pads by open sizes, {amounts}")
    rest = x.rank - len(amounts) // 2
    return [0] * rest + list(amounts[-2::-2]), [0] * rest + list(amounts[::-2])


@row("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default", "replication_pad1d.default",
     "replication_pad2d.default", "replication_pad3d.default")
def pad_with_mode(on: Call, x: Value, amounts: Sequence[int]) -> Value:
    before, after = pad_amounts(on, x, amounts)
    if any(amount < 0 for amount in before + after):
        raise on.refuse("negative amounts, which cut, are not covered: slice the tensor")
    return x.pad_with_mode(before + after, "reflect" if "reflection" in str(on.node.target) else "edge")


@row("tril.default", "triu.default")
def triangle(on: Call, x: Value, diagonal: int = 0) -> Value:
    return (x.tril if "tril" in str(on.node.target) else x.triu)(diagonal)


# ---- indices ---------------------------------------------------------------------------------------------------------


@row("embedding.default")
def embedding(on: Call, table: Value, indices: Value, padding: Any = -1, *_: Any) -> Value:
    found = on.graph.apply("embedding", table, on.value(indices, "int32"))
    if padding is None or padding < 0 or not on.trained(0):
        return found
    is_padding = indices.equal(on.value(padding, indices.dtype)).unsqueeze(indices.rank)
    return is_padding.where(detach(on, found), found)  # the padding row is not trained


@row("index_select.default")
def index_select(on: Call, x: Value, axis: int, indices: Value) -> Value:
    return x.gather(indices, axis_of(x, axis)) if x.rank else x


@row("gather.default")
def gather(on: Call, x: Value, axis: int, indices: Value, **_: Any) -> Value:
    indices = on.value(indices, "int32")
    return x.gather_elements(indices, axis_of(x, axis)) if x.rank else x.expand(on.shape) if on.shape else x


@row("scatter.src", "scatter.value", "scatter_add.default")
def scatter(on: Call, x: Value, axis: int, indices: Value, source: Any, **_: Any) -> Value:
    if not x.rank:  # a scalar: replace its element, or add to it
        value = source if isinstance(source, Value) else on.value(source, x.dtype)
        return (x.add(value.reshape([])) if "add" in str(on.node.target) else on.value(value, x.dtype).reshape([])) if 0 not in indices.shape else x
    if not isinstance(source, Value):
        source = on.full(source, indices.shape, x.dtype)
    elif source.shape != indices.shape:
        for position, size in enumerate(indices.shape):
            source = sliced(on, source, position, 0, size)
    return x.scatter_elements(indices, source, axis_of(x, axis), "add" if "add" in str(on.node.target) else "replace")


def joint_indices(on: Call, x: Value, indices: Sequence[Optional[Value]]) -> Tuple[int, Value]:
    """The first indexed axis, and the indices (…,K). Indexed axes must be adjacent."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [indices[axis] for axis in axes]
    if any(index.dtype == "bool" for index in given):
        raise on.refuse("elements chosen by a mask have a number that depends on the data: use torch.where")
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise on.refuse("indices of axes that are not adjacent are not covered")
    shape: List[Any] = []
    for index in given:  # broadcast
        both = [index.shape, tuple(shape)] if len(index.shape) >= len(shape) else [tuple(shape), index.shape]
        offset = len(both[0]) - len(both[1])
        shape = [size if i < offset or both[1][i - offset] == 1 else both[1][i - offset] for i, size in enumerate(both[0])]
    whole = []
    for axis, index in zip(axes, given):
        size = x.shape[axis]
        if isinstance(size, int):  # negative indices count from the end
            index = index.less(on.value(0, index.dtype)).where(index.add(on.value(size, index.dtype)), index)
        whole.append((index.expand(shape) if shape else index).unsqueeze(len(shape)))
    return axes[0], ops.concat(whole, len(shape)) if len(whole) > 1 else whole[0]


@row("index.Tensor")
def index(on: Call, x: Value, indices: Sequence[Optional[Value]]) -> Value:
    given = [item for item in indices if item is not None]
    if len(given) == 1 and given[0].dtype != "bool":
        return x.gather(given[0], next(axis for axis, item in enumerate(indices) if item is not None))
    first, places = joint_indices(on, x, indices)
    if first == 0:
        return x.gather_nd(places)
    many, rank = places.rank - 1, x.rank
    moved = x.transpose(list(range(first, first + len(given))) + list(range(first)) + list(range(first + len(given), rank)))
    found = moved.gather_nd(places)  # (…, axes before, axes after)
    return found.transpose(list(range(many, many + first)) + list(range(many)) + list(range(many + first, found.rank)))


@row("index_put.default")
def index_put(on: Call, x: Value, indices: Sequence[Optional[Value]], values: Value, accumulate: bool = False) -> Value:
    if any(item is not None and item.dtype == "bool" for item in indices):
        masks = [item for item in indices if item is not None]
        if len(masks) == 1 and indices[0] is not None and not values.rank and not accumulate:
            mask = masks[0].reshape(list(masks[0].shape) + [1] * (x.rank - masks[0].rank))
            return mask.where(on.value(values, x.dtype), x)
    first, places = joint_indices(on, x, indices)
    if first:
        raise on.refuse("only the first axes are written by indices")
    shape = list(places.shape[:-1]) + list(x.shape[places.shape[-1]:])
    values = on.value(values, x.dtype)
    return x.scatter_nd(places, values.expand(shape) if shape else values, "add" if accumulate else "replace")
