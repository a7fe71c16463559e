"""The table of ATen operators: a function for each, which builds it. It is given the call (trace.Call) and the arguments, with
tensors as values, sizes as numbers or texts, and all else as it is in the program.

What is in the table is not decomposed further by the tracer.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from ..graph import Value

ROWS: Dict[str, Callable[..., Any]] = {}
BACKWARD: Set[str] = set()  # those of backward passes, which torch.compile has in its graphs


def row(*names: str, backward: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function into the table under names without "aten."."""
    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.update({f"aten.{name}": function for name in names})
        BACKWARD.update(f"aten.{name}" for name in names if backward)
        return function
    return put


def axis_of(x: Value, axis: int) -> int:
    return axis + max(1, x.rank) if axis < 0 else axis


def axes_of(x: Value, axes: Any) -> List[int]:
    """Axes as numbers from 0; none given: all."""
    if isinstance(axes, int):
        axes = [axes]
    return [axis_of(x, axis) for axis in axes] if axes else list(range(x.rank))


def several(numbers: Any, count: int, usual: Optional[Sequence[int]] = None) -> List[int]:
    """A number for each axis of what may be one number, or none."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers or ())
    return list(usual) if not numbers and usual is not None else numbers * count if len(numbers) == 1 else numbers


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


# Operators of core ATen that cannot be trained here, and why.
_DATA = "the result's size, or a number on the host, depends on the data"
REASONS = {f"aten.{name}": why for names, why in {
    ("_local_scalar_dense.default", "nonzero.default"): _DATA,
    ("_fft_c2r.default", "_fft_r2c.default"): "values have no complex type",
}.items() for name in names}
# Sizes, which are expressions of symbols.
SIZES = ("aten.sym_size.int", "aten.sym_numel.default", "aten.sym_is_contiguous.default", "aten.sym_stride.int",
         "aten.sym_storage_offset.default")
# What writes in place, and the row that stands for it once the tracer has made it functional.
FUNCTIONAL = {"aten.atan2.out": "aten.atan2.default", "aten.resize_.default": "aten.resize.default",
              "aten._native_batch_norm_legit.default": "aten._native_batch_norm_legit_functional.default"}
