"""Range analysis of the integers in a graph: Koine computes integers in 32 bits, PyTorch mostly in 64.

PyTorch computes operators whose results may not fit into 32 bits. Inputs are assumed to be within limits, which each call checks.
PyTorch also computes indices that may be out of range, together with the operators they depend on, so that they come from the host,
where they are checked.
"""
from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

Range = Tuple[int, int]
RANGE = "koine.range"  # in a node's meta: the range of its result, or a list of them
WIDE: Range = (-2**31, 2**31 - 1)
# Indices and labels are rarely larger, and this leaves room for arithmetic.
NARROW: Range = (-2**23, 2**23)
EXACT = 2**24  # float32 represents all integers up to this exactly
_OWN: Dict[Any, Range] = {torch.bool: (0, 1), torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int16: (-2**15, 2**15 - 1),
                          torch.int32: WIDE, torch.int64: WIDE}
# Types that wrap around as in PyTorch. int16 has 32 bits in Koine.
_WRAPS = (torch.bool, torch.uint8, torch.int8, torch.int32)

TOO_LARGE = "its integers may exceed the 32 bits in which Koine computes them"
OF_FLOATS = "floats become integers of 64 bits, which may exceed the 32 bits in which Koine computes them"
UNCHECKED = "its results are indices, which the host checks"


def join(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def range_of(tensor: torch.Tensor) -> Range:
    """The minimum and maximum of an integer tensor."""
    if not tensor.numel():
        return 0, 0
    low, high = torch.aminmax(tensor)
    return int(low), int(high)


def product(x: Range, y: Range) -> Range:
    found = [a * b for a in x for b in y]
    return min(found), max(found)


def bits(*ranges: Range) -> Range:
    """The range of all integers with the same number of bits."""
    count = max(max(-low - 1 if low < 0 else low, high).bit_length() for low, high in ranges)
    return (-2**count if any(low < 0 for low, _ in ranges) else 0), 2**count - 1


def size_of(found: Any, default: Any = None) -> Any:
    """A size; a dynamic size has the value of the traced tensors. The default if `found` is not a size."""
    return found.node.hint if isinstance(found, torch.SymInt) else found if type(found) is int else default


class Unknown(Exception):
    """An operator without a range rule."""


class Use:
    """An operator and the ranges of its arguments."""

    def __init__(self, ranges: "Ranges", node: Any) -> None:
        self.node, self._ranges = node, ranges
        self.arguments = torch.fx.node.map_arg(node.args, lambda argument: size_of(argument.meta.get("val"), argument))
        found = node.meta["val"]
        self.fake = found[0] if isinstance(found, (tuple, list)) else found

    def range(self, argument: Any) -> Range:
        if isinstance(argument, bool):
            return int(argument), int(argument)
        if isinstance(argument, int):
            return argument, argument
        if isinstance(argument, torch.fx.Node):
            found = self._ranges.of(argument)
            if found is not None:
                return found
        raise Unknown

    def at(self, position: int, usual: Any = None) -> Any:
        if position < len(self.arguments):
            return self.arguments[position]
        return usual

    def all(self) -> List[Range]:
        """The ranges of all integer arguments, tensors and numbers."""
        found: List[Range] = []

        def look(argument: Any) -> None:
            if isinstance(argument, (list, tuple)):
                for item in argument:
                    look(item)
            elif isinstance(argument, torch.fx.Node) and isinstance(argument.meta.get("val"), torch.Tensor):
                found.append(self.range(argument))
        look(self.arguments)
        return found

    def shape(self, position: int) -> Sequence[int]:
        """The shape of an argument."""
        return [size_of(size) for size in self.arguments[position].meta["val"].shape]

    def count(self, axes: Any, position: int = 0) -> int:
        """The number of elements along axes; None or empty: along all axes."""
        shape = self.shape(position)
        axes = [axes] if isinstance(axes, int) else list(axes or range(len(shape)))
        return math.prod(shape[axis] for axis in axes) if shape else 1


_RULES: Dict[str, Callable[[Use], Any]] = {}


def rule(*names: str) -> Callable[[Callable[[Use], Any]], Callable[[Use], Any]]:
    def put(function: Callable[[Use], Any]) -> Callable[[Use], Any]:
        _RULES.update({f"aten.{name}": function for name in names})
        return function
    return put


# Operators that only move elements of their first argument.
_MOVES = ("view.default", "_unsafe_view.default", "permute.default", "expand.default", "unsqueeze.default", "squeeze.dim", "squeeze.dims",
          "alias.default", "detach.default", "clone.default", "lift_fresh_copy.default", "repeat.default", "flip.default", "view_copy.default",
          "permute_copy.default")
_PARTS = ("select.int", "slice.Tensor", "diagonal.default", "split_with_sizes.default", "narrow_copy.default", "unbind_copy.int",
          "index_select.default", "gather.default", "unfold.default", "unfold_copy.default", "as_strided.default",
          "as_strided_copy.default", "index.Tensor", "embedding.default", "amax.default", "amin.default", "max.default", "min.default",
          "median.default", "ceil.default", "floor.default", "round.default", "trunc.default", "reflection_pad1d.default",
          "reflection_pad2d.default", "reflection_pad3d.default", "replication_pad1d.default", "replication_pad2d.default",
          "replication_pad3d.default")


@rule(*_MOVES, *_PARTS)
def _moved(use: Use) -> Range:
    return use.range(use.at(0))


@rule("_to_copy.default")
def _converted(use: Use) -> Range:
    """Values that do not fit wrap around, if the type wraps in Koine too."""
    found, own = use.range(use.at(0)), _OWN[use.fake.dtype]
    return found if use.fake.dtype == torch.int64 or within(found, own) else own if use.fake.dtype in _WRAPS else found


@rule("cat.default", "where.self", "maximum.default", "minimum.default", "fmax.default", "fmin.default", "slice_scatter.default",
      "select_scatter.default", "diagonal_scatter.default", "as_strided_scatter.default", "masked_scatter.default")
def _joined(use: Use) -> Range:
    return join(use.all())


@rule("scatter.src", "scatter.value")
def _scattered(use: Use) -> Range:
    return join([use.range(use.at(0)), use.range(use.at(3))])


@rule("index_put.default", "scatter_add.default")
def _put(use: Use) -> Range:
    own, adds = use.range(use.at(0)), "scatter_add" in str(use.node.target)
    new = use.range(use.at(3 if adds else 2))
    if not adds and not use.at(3, False):
        return join([own, new])
    shapes = [use.shape(2)] if adds else [list(index.meta["val"].shape) for index in use.at(1) if index is not None]
    times = math.prod(math.prod(shape) for shape in shapes)
    return own[0] + min(0, new[0] * times), own[1] + max(0, new[1] * times)


@rule("constant_pad_nd.default")
def _padded(use: Use) -> Range:
    value = use.at(2, 0)
    return join([use.range(use.at(0)), (math.floor(value), math.ceil(value))])


@rule("resize.default", "tril.default", "triu.default")
def _with_zeros(use: Use) -> Range:
    return join([use.range(use.at(0)), (0, 0)])


@rule("copy.default")
def _copied(use: Use) -> Range:
    return use.range(use.at(1))


@rule("full.default", "full_like.default", "fill.Scalar")
def _filled(use: Use) -> Range:
    return use.range(use.at(1))


@rule("scalar_tensor.default")
def _number(use: Use) -> Range:
    return use.range(use.at(0))


@rule("empty.memory_format", "empty_strided.default", "empty_permuted.default")
def _empty(_: Use) -> Range:
    return 0, 0


@rule("arange.start_step")
def _counted(use: Use) -> Range:
    start, end, _ = (use.at(position, 1) for position in range(3))
    return math.floor(min(start, end)), math.ceil(max(start, end))


@rule("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _sum_of_two(use: Use) -> Range:
    x, y = use.range(use.at(0)), use.range(use.at(1))
    alpha = use.node.kwargs.get("alpha", use.at(2, 1))
    y = product(y, use.range(-alpha if "sub" in str(use.node.target) else alpha))
    return x[0] + y[0], x[1] + y[1]


@rule("mul.Tensor", "mul.Scalar")
def _product_of_two(use: Use) -> Range:
    return product(use.range(use.at(0)), use.range(use.at(1)))


@rule("pow.Tensor_Scalar")
def _power(use: Use) -> Range:
    x, exponent = use.range(use.at(0)), use.at(1)
    if exponent not in (1, 2):
        raise Unknown
    return x if exponent == 1 else product(x, x)


@rule("neg.default")
def _negative(use: Use) -> Range:
    low, high = use.range(use.at(0))
    return -high, -low


@rule("abs.default")
def _size(use: Use) -> Range:
    low, high = use.range(use.at(0))
    return max(0, low, -high), max(-low, high, 0)


@rule("sign.default")
def _sign(_: Use) -> Range:
    return -1, 1


@rule("relu.default")
def _positive(use: Use) -> Range:
    low, high = use.range(use.at(0))
    return max(0, low), max(0, high)


@rule("clamp.default", "hardtanh.default")
def _clamped(use: Use) -> Range:
    low, high = use.range(use.at(0))
    least, most = use.at(1), use.at(2)
    if least is not None:
        low, high = max(low, math.floor(least)), max(high, math.ceil(least))
    if most is not None:
        low, high = min(low, math.floor(most)), min(high, math.ceil(most))
    return low, high


@rule("clamp.Tensor")
def _clamped_by(use: Use) -> Range:
    return join(use.all())


@rule("remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar")
def _rest(use: Use) -> Range:
    x, (low, high) = use.range(use.at(0)), use.range(use.at(1))
    if low <= 0 <= high:
        raise Unknown  # PyTorch raises an error for division by 0
    most = max(abs(low), abs(high)) - 1
    if "fmod" in str(use.node.target):
        return (-most if x[0] < 0 else 0), (most if x[1] > 0 else 0)
    return (-most if low < 0 else 0), (most if high > 0 else 0)


@rule("div.Tensor_mode", "div.Scalar_mode")
def _quotient(use: Use) -> Range:
    """Koine divides floats, which represent integers exactly up to EXACT."""
    x, y = use.range(use.at(0)), use.range(use.at(1))
    largest = max(map(abs, x)), max(map(abs, y))
    if y[0] <= 0 <= y[1] or sum(largest) > EXACT or use.node.kwargs.get("rounding_mode") not in ("floor", "trunc"):
        raise Unknown
    return -largest[0] - 1, largest[0] + 1


@rule(*(f"bitwise_{name}.{kind}" for name in ("and", "or", "xor") for kind in ("Tensor", "Scalar")), "bitwise_not.default")
def _bits(use: Use) -> Range:
    found = use.all() + ([use.range(use.at(1))] if isinstance(use.at(1), int) else [])
    if "not" in str(use.node.target):
        found.append((-1, 0))
    return bits(*found)


@rule("sum.dim_IntList")
def _total(use: Use) -> Range:
    count, (low, high) = use.count(use.at(1)), use.range(use.at(0))
    return (low * count, high * count) if count else (0, 0)


@rule("cumsum.default")
def _sums(use: Use) -> Range:
    count, (low, high) = use.count(use.at(1)), use.range(use.at(0))
    return min(low, low * count), max(high, high * count)


@rule("prod.default", "prod.dim_int")
def _product(use: Use) -> Range:
    count, largest = use.count(use.at(1)), max(map(abs, use.range(use.at(0))))
    if largest > 1 and count > 64:
        raise Unknown
    most = max(1, largest ** count)
    return -most, most


def _places_first(use: Use) -> int:
    """The size of the axis, or of the flattened tensor: indices are less than it."""
    axis = use.at(1)
    return use.count(axis if isinstance(axis, int) else None)


@rule("argmax.default", "argmin.default")
def _place(use: Use) -> Range:
    return 0, max(0, _places_first(use) - 1)


def _values_and_places(axis: Callable[[Use], int]) -> Callable[[Use], List[Any]]:
    def found(use: Use) -> List[Any]:
        values: Any = None
        try:
            values = use.range(use.at(0))
        except Unknown:
            pass  # float arguments
        return [values, (0, max(0, use.count(axis(use)) - 1))]
    return found


rule("max.dim", "min.dim", "median.dim")(_values_and_places(lambda use: use.at(1)))
rule("sort.default")(_values_and_places(lambda use: use.at(1, -1)))
rule("topk.default", "kthvalue.default")(_values_and_places(lambda use: use.at(2, -1)))


@rule("max_pool2d_with_indices.default", "max_pool3d_with_indices.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def _places_of_pool(use: Use) -> List[Any]:
    return [None, (0, max(0, use.count(None) - 1))]


@rule("searchsorted.Tensor", "bucketize.Tensor")
def _search(use: Use) -> Range:
    """Koine searches with floats."""
    ints = [found for found in (use._ranges.of(argument) for argument in use.node.all_input_nodes[:2]) if found is not None]
    if any(not within(found, (-EXACT, EXACT)) for found in ints):
        raise Unknown
    return 0, use.count(-1, 0 if "searchsorted" in str(use.node.target) else 1)


@rule("_embedding_bag.default", "_embedding_bag_forward_only.default")
def _bags(use: Use) -> List[Any]:
    count = max(use.count(None, 1), use.count(None, 2))
    return [None, (-1, count), (0, count), (-1, use.count(None))]


# ---- indices ---------------------------------------------------------------------------------------------------------


def indices_of(node: Any) -> List[Tuple[Any, int, bool]]:
    """The index arguments of an operator, the size of each indexed axis, and whether an index may be negative (counted from the end)."""
    name, args = str(node.target)[len("aten."):], node.args

    def size(position: int, axis: int) -> int:
        shape = args[position].meta["val"].shape
        return int(shape[axis]) if len(shape) else 1
    if name in ("embedding.default", "_embedding_bag.default", "_embedding_bag_forward_only.default"):
        return [(args[1], size(0, 0), False)]
    if name == "index_select.default":
        return [(args[2], size(0, args[1]), False)]
    if name in ("gather.default", "scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two", "scatter.reduce",
                "scatter.value_reduce", "index_reduce.default"):
        return [(args[2], size(0, args[1]), False)]
    if name in ("index.Tensor", "index_put.default"):
        return [(index, size(0, axis), True) for axis, index in enumerate(args[1])
                if index is not None and index.meta["val"].dtype not in (torch.bool, torch.uint8)]
    return []


_KEEPS = {f"aten.{name}" for name in _MOVES} | {"aten._to_copy.default"}  # all elements of the argument, and no others


def source_of(index: Any) -> Any:
    """The node that computes an index, before operators that only move its elements."""
    while index.op == "call_function" and str(index.target) in _KEEPS:
        index = index.args[0]
    return index


# Operators whose results are as exact as their arguments.
EXACT_MOVES = {f"aten.{name}" for name in (
    *_MOVES, *_PARTS, "cat.default", "where.self", "maximum.default", "minimum.default", "fmax.default", "fmin.default", "relu.default",
    "neg.default", "abs.default", "sign.default", "max.dim", "min.dim", "sort.default", "topk.default", "tril.default", "triu.default",
    "slice_scatter.default", "select_scatter.default", "diagonal_scatter.default", "masked_scatter.default", "copy.default")}


class Ranges:
    """The ranges of a graph's integers, and the reasons why PyTorch computes some operators. given: reasons for other operators. known:
    the ranges of some inputs. If not strict, only operators with a range rule are refused: results of other operators are assumed to be
    within the limits, and indices are not checked."""

    def __init__(self, graph: Any, given: Mapping[Any, Optional[str]], limits: Range, known: Optional[Mapping[Any, Range]] = None,
                 strict: bool = True) -> None:
        self._limits, self._found, self._strict = limits, {}, strict  # type: Range, Dict[Any, Any], bool
        self.reasons: Dict[Any, str] = {}
        self._given = given
        for node in graph.nodes:
            if node.op == "call_function":
                self._add(node)
            elif node.op == "placeholder":
                self._found[node] = (known or {}).get(node) or self._unknown(node)
        for node in graph.nodes:
            if strict and node.op == "call_function" and given.get(node) is None and node not in self.reasons:
                self._check_indices(node)

    def refused(self) -> int:
        """The number of operators that PyTorch computes because of their ranges."""
        return sum(why != UNCHECKED for why in self.reasons.values())

    def note(self) -> None:
        """Stores the ranges in the nodes' meta."""
        for node, found in self._found.items():
            node.meta[RANGE] = found

    def of(self, node: Any) -> Optional[Range]:
        """The range of a node; None: not integers."""
        found = self._found.get(node)
        return found if isinstance(found, tuple) else None

    def _of_type(self, fake: Any) -> Optional[Range]:
        if not isinstance(fake, torch.Tensor) or fake.dtype not in _OWN:
            return None
        return self._limits if fake.dtype == torch.int64 else _OWN[fake.dtype]

    def _unknown(self, node: Any) -> Any:
        """The range of a node that PyTorch computes, or of an input."""
        found = node.meta.get("val")
        return [self._of_type(item) for item in found] if isinstance(found, (tuple, list)) else self._of_type(found)

    def _add(self, node: Any) -> None:
        if node.target is operator.getitem:
            several = self._found.get(node.args[0])
            self._found[node] = several[node.args[1]] if isinstance(several, list) and node.args[1] < len(several) else self._unknown(node)
            return
        self._found[node] = self._unknown(node)
        fakes = node.meta.get("val")
        fakes = list(fakes) if isinstance(fakes, (tuple, list)) else [fakes]
        if not any(isinstance(fake, torch.Tensor) and fake.dtype in _OWN and fake.dtype != torch.bool for fake in fakes):
            return
        if self._given.get(node) is not None:
            return
        why = self._apply(node, fakes)
        if why is not None:
            self.reasons[node] = why

    def _apply(self, node: Any, fakes: List[Any]) -> Optional[str]:
        try:
            if str(node.target) not in _RULES:
                raise Unknown
            found = _RULES[str(node.target)](Use(self, node))
        except Unknown:
            if not self._strict:
                return None
            strict = any(isinstance(fake, torch.Tensor) and fake.dtype in (torch.int64, torch.int16) for fake in fakes)
            of_floats = str(node.target) == "aten._to_copy.default"
            return (OF_FLOATS if of_floats else TOO_LARGE) if strict or of_floats else None
        several = isinstance(node.meta["val"], (tuple, list))
        found = found if isinstance(found, list) else [found] * len(fakes)
        for position, (fake, one) in enumerate(zip(fakes, found)):
            if not isinstance(fake, torch.Tensor) or fake.dtype not in _OWN or one is None:
                continue
            if not within(one, _OWN[fake.dtype]):
                if fake.dtype not in _WRAPS:
                    return TOO_LARGE
                found[position] = _OWN[fake.dtype]
        self._found[node] = found if several else found[0]
        return None

    # ---- indices -----------------------------------------------------------------------------------------------------

    def _check_indices(self, node: Any) -> None:
        for index, size, negative in indices_of(node):
            if self._is_right(index, (-size if negative else 0, size - 1)):
                continue
            self._leave(index)

    def _is_right(self, index: Any, wanted: Range) -> bool:
        found = self.of(index)
        return found is not None and within(found, wanted)

    def _leave(self, index: Any) -> None:
        """Leaves the node that computes an index to PyTorch, so that the host can check it. Koine may run operators that only move it."""
        index = source_of(index)
        if index.op == "call_function" and index.target is operator.getitem:
            index = index.args[0]
        if index.op == "call_function" and self._given.get(index) is None:
            self.reasons.setdefault(index, UNCHECKED)
