"""Parameters of compiled models on a device: each is uploaded when its memory has changed.

PyTorch's version counters are not enough: writes through parameter.data and by fused optimizers do not increment them.
"""
from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, Iterable, Optional, Tuple

import torch

from ..device import Context
from ..session import States
from .exchange import array_of
from .saved import Saved

_living: Any = weakref.WeakSet()
_finding = threading.Lock()


class Kept:
    """The states shared by all graphs of a model. A parameter is identified by its address and shape."""

    def __init__(self, context: Context) -> None:
        self.context, self.states = context, States(context)
        self.saved = Saved(self.states)
        self._names: Dict[Tuple[Any, ...], str] = {}

    @staticmethod
    def _key(tensor: Any) -> Tuple[Any, ...]:
        return (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())

    def add(self, tensor: Any) -> None:
        if tensor.dtype == torch.float32 and tensor.numel():
            self._names.setdefault(self._key(tensor), f"parameter{len(self._names)}")

    def name_of(self, tensor: Any) -> Optional[str]:
        return self._names.get(self._key(tensor)) if tensor.dtype == torch.float32 else None

    def send(self, name: str, tensor: Any) -> None:
        """Uploads the tensor, unless the device already has its values."""
        self.states.refresh(name, array_of(tensor))


def kept_for(context: Context, parameters: Iterable[Any]) -> Kept:
    """The states for these parameters: reuses the states of a graph of the same model that was compiled before."""
    with _finding:
        parameters = list(parameters)
        for kept in _living:
            if kept.context is context and any(kept.name_of(tensor) for tensor in parameters):
                break
        else:
            kept = Kept(context)
            _living.add(kept)
        for tensor in parameters:
            kept.add(tensor)
        return kept
