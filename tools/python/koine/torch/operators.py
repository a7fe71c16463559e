"""The table of ATen operators: a function for each, which builds it. It is given the call (trace.Call) and the arguments, with
tensors as values, sizes as numbers or texts, and all else as it is in the program.

What is in the table is not decomposed further by the tracer.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List

from ..graph import Value

ROWS: Dict[str, Callable[..., Any]] = {}


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function into the table under names without "aten."."""
    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.update({f"aten.{name}": function for name in names})
        return function
    return put


def axis_of(x: Value, axis: int) -> int:
    return axis + max(1, x.rank) if axis < 0 else axis


def axes_of(x: Value, axes: Any) -> List[int]:
    """Axes as numbers from 0; none given: all."""
    if isinstance(axes, int):
        axes = [axes]
    return [axis_of(x, axis) for axis in axes] if axes else list(range(x.rank))


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


# Operators of core ATen that cannot be trained here, and why.
_BACKWARD = "gradients are built by Koine: a program of a forward pass has none"
_DATA = "the result's size, or a number on the host, depends on the data"
_STRIDES = "values have no strides"
_DRAWN = "random numbers other than dropout's are not drawn: feed them as an input"
_KERNEL = "Koine has no kernel for it"
REASONS = {f"aten.{name}": why for names, why in {
    ("native_group_norm_backward.default",): _BACKWARD,
    ("_local_scalar_dense.default", "nonzero.default", "masked_scatter.default"): _DATA,
    ("as_strided.default", "sym_storage_offset.default", "sym_stride.int"): _STRIDES,
    ("rand.default", "randn.default", "randperm.default"): _DRAWN,
    ("_adaptive_avg_pool3d.default", "avg_pool3d.default", "max_pool3d_with_indices.default", "_cdist_forward.default",
     "_pdist_forward.default", "_embedding_bag.default", "_fft_c2r.default", "_fft_r2c.default", "col2im.default",
     "grid_sampler_2d.default", "scatter_reduce.two"): _KERNEL,
    ("atan2.out", "resize_.default", "_native_batch_norm_legit.default"): "it writes in place, which the tracer makes functional",
}.items() for name in names}
# Sizes, which are expressions of symbols.
SIZES = ("aten.sym_size.int", "aten.sym_numel.default", "aten.sym_is_contiguous.default")
