"""PyTorch tensors as arrays of Koine's types."""
from __future__ import annotations

import numpy as np
import torch

from .._arrays import as_array
from ..errors import error_of
from .trace import TYPES

_NUMPY_TYPES = {theirs: np.dtype(ours) for theirs, ours in TYPES.items()}


def array_of(tensor: torch.Tensor, what: str = "a tensor") -> np.ndarray:
    """A tensor from any device as an array of Koine's type. Integers must fit into 32 bits."""
    if tensor.dtype == torch.int64 and tensor.numel():
        low, high = map(int, torch.aminmax(tensor))
        if not -2**31 <= low <= high < 2**31:
            raise error_of(4, f"{what} (shape {tuple(tensor.shape)}) has values from {low} to {high}; Koine computes integers in 32 bits: "
                           "use smaller values, or compute this part in PyTorch")
    array = as_array(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
    return array.astype(_NUMPY_TYPES[tensor.dtype], copy=False) if tensor.dtype in TYPES else array
