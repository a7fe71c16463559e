"""Operators for scatter with a reduction, embedding bags and as_strided."""
from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ..graph import Value
from .arrays import sliced, without_gradient
from .operators import axis_of, row
from .trace import Absent, Call

_WORDS = {"sum": "add", "add": "add", "prod": "multiply", "multiply": "multiply", "amax": "max", "amin": "min"}
_EMPTY = {"add": 0, "multiply": 1, "max": -math.inf, "min": math.inf, "mean": 0}  # the initial value of each reduction


class Reduction:
    """Reduces updates (elements or whole slices) into x at indices along an axis. trained: x or the updates depend on trained
    parameters."""

    def __init__(self, on: Call, x: Value, axis: int, indices: Value, updates: Value, elements: bool, trained: bool) -> None:
        self.on, self.x, self.axis, self.indices, self.updates, self.elements = on, x, axis, indices, updates, elements
        self.trained = trained

    def into(self, x: Value, updates: Value, reduction: str) -> Value:
        return (x.scatter_elements if self.elements else x.scatter)(self.indices, updates, self.axis, reduction)

    def at(self, x: Value) -> Value:
        """The element of x at each update's index."""
        return (x.gather_elements if self.elements else x.gather)(self.indices, self.axis)

    def number(self, number: Any, like: Value, dtype: str = "float32") -> Value:
        made = self.on.value(number, dtype)
        return made.expand(like.shape) if like.rank else made

    def counts(self, own: float) -> Value:
        """The number of updates per element, plus `own`."""
        return self.into(self.number(own, self.x), self.number(1.0, self.updates), "add")

    def computed(self, word: str, own: bool) -> Value:
        """word: a word of kn_scatter, or "mean". own: include the element of x; otherwise use it only where there is no update."""
        if word == "mean":
            total, kind = self.computed("add", own), self.x.dtype
            counts = self.counts(1.0 if own else 0.0).maximum(self.on.value(1.0))
            return total.div(counts) if kind == "float32" else total.floor_quotient(counts.cast(kind))
        x = self.x
        if not own:
            start = _EMPTY[word]
            if x.dtype != "float32" and math.isinf(start):
                low, high = {"int32": (-2**31, 2**31 - 1), "int8": (-128, 127), "uint8": (0, 255), "bool": (0, 1)}[x.dtype]
                start = low if start < 0 else high
            x = self.into(x, self.number(start, self.updates, x.dtype), "replace")
        if word in ("add", "replace") or x.dtype != "float32":
            return self.into(x, self.updates, word)
        return self._with_gradient(x, word) if self.trained else self.into(x, self.updates, word)

    def _change(self, x: Value) -> Value:
        """0, with the gradient of x."""
        x = x.isinf().where(self.on.value(0.0), x)
        return x.sub(without_gradient(self.on, x))

    def _with_gradient(self, x: Value, word: str) -> Value:
        """Koine's scatter has gradients only for sum and replacement. For other reductions: the result as a constant, plus 0 with
        PyTorch's gradient: ties of a maximum share it equally, a factor of a product has the product of the other factors."""
        fixed_x, fixed = without_gradient(self.on, x), without_gradient(self.on, self.updates)
        result = self.into(fixed_x, fixed, word)
        zero, one = self.on.value(0.0), self.on.value(1.0)
        if word == "multiply":
            is_none = (fixed_x.equal(zero), fixed.equal(zero))
            others = self.into(is_none[0].where(one, fixed_x), is_none[1].where(one, fixed), "multiply")
            zeros = self.into(is_none[0].cast("float32"), is_none[1].cast("float32"), "add")
            factors = [self._others(values, own_none, product, count) for values, own_none, product, count in
                       ((fixed_x, is_none[0], others, zeros), (fixed, is_none[1], self.at(others), self.at(zeros)))]
        else:
            is_most = (fixed_x.equal(result).cast("float32"), fixed.equal(self.at(result)).cast("float32"))
            counts = self.into(is_most[0], is_most[1], "add").maximum(one)
            factors = [is_most[0].div(counts), is_most[1].div(self.at(counts))]
        return self.into(result.add(self._change(x).mul(factors[0])), self._change(self.updates).mul(factors[1]), "add")

    def _others(self, values: Value, is_none: Value, product: Value, zeros: Value) -> Value:
        """The product of the other factors, from the product of all nonzero factors and the number of zeros."""
        zero, one = self.on.value(0.0), self.on.value(1.0)
        return is_none.where(zeros.equal(one).where(product, zero), zeros.equal(zero).where(product.div(is_none.where(one, values)), zero))


@row("scatter_reduce.two", "scatter.reduce", "scatter.value_reduce")
def scatter_reduce(on: Call, x: Value, axis: int, indices: Value, source: Any, reduce: Optional[str] = None, include_self: bool = True) -> Value:
    word, trained = _WORDS.get(str(reduce), str(reduce)), on.trained(0) or on.trained(3)
    if not isinstance(source, Value):
        source = on.full(source, indices.shape, x.dtype)
    if not x.rank:
        x, indices, source = (value.reshape([1]) for value in (x, indices, source))
    if 0 in indices.shape:
        return x.reshape(on.shape)
    for position, size in enumerate(indices.shape):
        if source.shape[position] != size:
            source = sliced(on, source, position, 0, size)
    made = Reduction(on, x, axis_of(x, axis), on.value(indices, "int32"), on.value(source, x.dtype), True, trained)
    return made.computed(word, include_self).reshape(on.shape)


@row("index_reduce.default")
def index_reduce(on: Call, x: Value, axis: int, indices: Value, source: Value, reduce: str, include_self: bool = True) -> Value:
    word = _WORDS.get(reduce, reduce)
    if not x.rank:
        x, source = x.reshape([1]), source.reshape([1])
    indices = on.value(indices, "int32").reshape(-1)
    made = Reduction(on, x, axis_of(x, axis), indices, on.value(source, x.dtype), False, on.trained(0) or on.trained(3))
    return made.computed(word, include_self).reshape(on.shape)


@row("masked_scatter.default")
def masked_scatter(on: Call, x: Value, mask: Value, source: Value) -> Value:
    """Writes the elements of the source, in order, where the mask is set."""
    if 0 in x.shape or 0 in source.shape:
        return x.expand(on.shape) if on.shape else x
    x, mask = (value.expand(on.shape) if on.shape else value for value in (x, on.value(mask, "bool")))
    order = mask.reshape(-1).cast("int32").cumulative_sum(0).sub(on.value(1, "int32"))
    taken = source.reshape(-1).gather(order.maximum(on.value(0, "int32")), 0)
    return mask.where(taken.reshape(on.shape), x)


# ---- strided views ---------------------------------------------------------------------------------------------------


@row("as_strided.default", "as_strided_copy.default")
def as_strided(on: Call, x: Value, size: Sequence[int], stride: Sequence[int], offset: Optional[int] = None) -> Value:
    return x.reshape(-1).gather(on.graph.constant(elements_of(on, size, stride, offset)), 0).reshape(on.shape)


@row("as_strided_scatter.default")
def as_strided_scatter(on: Call, x: Value, source: Value, size: Sequence[int], stride: Sequence[int], offset: Optional[int] = None) -> Value:
    numbers = elements_of(on, size, stride, offset)
    flat, source = x.reshape(-1), source.reshape(-1)
    return flat.scatter(on.graph.constant(numbers.reshape(-1)), source, 0).reshape(on.shape)


def places_of(size: Sequence[int], stride: Sequence[int], begin: int) -> np.ndarray:
    """The memory offset of each element of a tensor with these strides, in its shape."""
    places = np.full((), begin, np.int64)
    for length, step in zip(size, stride):
        places = places[..., None] + np.arange(length) * step
    return places


def elements_of(on: Call, size: Sequence[int], stride: Sequence[int], offset: Optional[int]) -> np.ndarray:
    """The row-major index in the argument of each element, from the memory layout that the tracer reports."""
    fake = on.fake_of(0)
    shape, strides = list(fake.shape), list(fake.stride())
    numbers = [*shape, *strides, *size, *stride, offset or 0]
    if not all(isinstance(number, int) for number in numbers):
        raise on.refuse("open sizes and strides are not covered")
    begin = fake.storage_offset() if offset is None else offset
    places = places_of(size, stride, begin)
    if fake.is_contiguous() and not fake.storage_offset():
        found, count = places, math.prod(shape)
    else:  # map memory offsets to elements of the argument
        own, count = places_of(shape, strides, fake.storage_offset()).reshape(-1), math.prod(shape)
        lookup = np.full(max(int(own.max(initial=0)), int(places.max(initial=0))) + 1, -1, np.int64)
        lookup[own] = np.arange(own.size)
        found = lookup[places]
    if found.size and not 0 <= found.min() <= found.max() < count:
        raise on.refuse("it reads memory that is not the argument's")
    return found.astype(np.int32)


@row("resize.default")
def resize(on: Call, x: Value, size: Sequence[int], **_: Any) -> Value:
    """Keeps the first elements, and pads with zeros."""
    have, want = math.prod(x.shape), math.prod(on.shape)
    flat = x.reshape(-1)
    return (flat.slice(0, 0, want) if want <= have else flat.pad([0, want - have])).reshape(on.shape)


# ---- embedding bags --------------------------------------------------------------------------------------------------


@row("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(on: Call, table: Value, indices: Value, offsets: Value, by_frequency: bool = False, mode: int = 0, sparse: bool = False,
                  weights: Optional[Value] = None, last_offset: bool = False, padding: int = -1) -> Tuple[Any, ...]:
    """mode 0: sum, 1: mean, 2: maximum. Results: the rows (B,D); the bag of each index; the size of each bag; the indices of
    maxima."""
    count, bags, size = indices.shape[0], on.shape[0], table.shape[1]
    if by_frequency and on.trained(0):
        raise on.refuse("scale_grad_by_freq is not covered")
    if not all(isinstance(number, int) for number in (count, bags, size)):
        raise on.refuse("an open number of indices or bags is not covered")
    indices, offsets = on.value(indices, "int32"), on.value(offsets, "int32")
    if not count or not bags:
        return on.full(0.0), *_bag_results(on, None, None, mode)
    starts = offsets.slice(0, 0, bags) if last_offset else offsets
    begun = on.full(0, [count + 1], "int32").scatter(starts, on.full(1, [bags], "int32"), 0, "add")
    bag = begun.cumulative_sum(0).slice(0, 0, count).sub(on.value(1, "int32"))
    taken = on.full(1.0, [count])
    if padding >= 0:
        taken = indices.not_equal(on.value(padding, "int32")).cast("float32")
    rows = table.gather(indices, 0)
    counts = on.full(0.0, [bags]).scatter(bag, taken, 0, "add")
    if mode == 2:
        own = bag if padding < 0 else taken.equal(on.value(0.0)).where(on.value(bags, "int32"), bag)  # an extra bag collects the padding
        made = Reduction(on, on.full(0.0, [bags + 1, size]), 0, own, rows, False, on.trained(0)).computed("max", False).slice(0, 0, bags)
    else:
        factors = taken if weights is None else taken.mul(weights)
        made = on.full(0.0, [bags, size]).scatter(bag, rows.mul(factors.unsqueeze(1)), 0, "add")
        made = made.div(counts.maximum(on.value(1.0)).unsqueeze(1)) if mode == 1 else made
    return made, *_bag_results(on, bag, counts.cast("int32"), mode)


def _bag_results(on: Call, bag: Optional[Value], counts: Optional[Value], mode: int) -> List[Any]:
    """The bags and counts, where their sizes match PyTorch's results (PyTorch leaves unused results empty). The indices of maxima are
    used only in mode 2."""
    found: List[Any] = [bag, counts, None]
    for i, value in enumerate(found):
        wanted = on.build.sizes(on.node.meta["val"][i + 1].shape)
        if (i == 2 and mode != 2) or wanted == [0]:
            found[i] = on.full(0, wanted, "int32")
        else:
            found[i] = value if value is not None and list(value.shape) == wanted else Absent()
    return found
