"""The table of ATen operators: one function per operator, which builds it. It receives the call (trace.Call) and the arguments:
tensors as values, sizes as integers or strings, and all others unchanged.

The tracer does not decompose operators in the table.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from ..graph import Value

ROWS: Dict[str, Callable[..., Any]] = {}
BACKWARD: Set[str] = set()  # backward operators, which appear in graphs of torch.compile


def row(*names: str, backward: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function in the table, under names without "aten.", or with the name of another library."""
    full = [name if name.count(".") > 1 else f"aten.{name}" for name in names]

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.update({name: function for name in full})
        BACKWARD.update(full if backward else ())
        return function
    return put


def axis_of(x: Value, axis: int) -> int:
    return axis + max(1, x.rank) if axis < 0 else axis


def axes_of(x: Value, axes: Any) -> List[int]:
    """Non-negative axes; if empty or None, all axes."""
    if isinstance(axes, int):
        axes = [axes]
    return [axis_of(x, axis) for axis in axes] if axes else list(range(x.rank))


def several(numbers: Any, count: int, usual: Optional[Sequence[int]] = None) -> List[int]:
    """Expands an integer or a list to one number per axis; `usual` is the default."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers or ())
    return list(usual) if not numbers and usual is not None else numbers * count if len(numbers) == 1 else numbers


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


# Core ATen operators that cannot be trained, and the reasons.
_DATA = "the result's size, or a number on the host, depends on the data"
REASONS = {f"aten.{name}": why for names, why in {
    ("_local_scalar_dense.default", "nonzero.default"): _DATA,
    ("_fft_c2r.default", "_fft_r2c.default"): "values have no complex type",
}.items() for name in names}
# Operators on sizes, which are symbolic expressions.
SIZES = ("aten.sym_size.int", "aten.sym_numel.default", "aten.sym_is_contiguous.default", "aten.sym_stride.int",
         "aten.sym_storage_offset.default")
# In-place operators, and the operators that the tracer replaces them by.
FUNCTIONAL = {"aten.atan2.out": "aten.atan2.default", "aten.resize_.default": "aten.resize.default",
              "aten._native_batch_norm_legit.default": "aten._native_batch_norm_legit_functional.default"}
