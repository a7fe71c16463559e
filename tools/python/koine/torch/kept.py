"""Parameters of compiled models on a device: each is sent once, and again when it was written."""
from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, Iterable, Optional, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..device import Context
from ..session import States
from .exchange import array_of
from .saved import Saved

_living: Any = weakref.WeakSet()
_finding = threading.Lock()


class Kept:
    """The states that all graphs of a model share. A parameter is known by its address and its shape."""

    def __init__(self, context: Context) -> None:
        self.context, self.states = context, States(context)
        self.saved = Saved(self.states)
        self._names: Dict[Tuple[Any, ...], str] = {}
        self._sent: Dict[str, Tuple[Any, int]] = {}

    @staticmethod
    def _key(tensor: Any) -> Tuple[Any, ...]:
        return (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())

    def add(self, tensor: Any) -> None:
        if tensor.dtype == torch.float32 and tensor.numel():
            self._names.setdefault(self._key(tensor), f"parameter{len(self._names)}")

    def name_of(self, tensor: Any) -> Optional[str]:
        return self._names.get(self._key(tensor)) if tensor.dtype == torch.float32 else None

    def forget(self, tensor: Any) -> None:
        """What the device has is not what the tensor has."""
        self._sent.pop(self.name_of(tensor) or "", None)

    def send(self, name: str, tensor: Any) -> None:
        """To the device, unless it has what is in this memory at this version. The memory is held, so that no other tensor can
        be at its address."""
        memory, version = tensor.untyped_storage(), tensor._version
        sent = self._sent.get(name)
        if sent is None or sent[1] != version or sent[0]._cdata != memory._cdata:
            self.states[name] = array_of(tensor)
            self._sent[name] = (memory, version)


def forget_fused(optimizer: Any, *_: Any) -> None:
    """After a step of any optimizer: fused ones write parameters without counting versions."""
    for group in optimizer.param_groups:
        if group.get("fused"):
            for kept in list(_living):
                for tensor in group["params"]:
                    kept.forget(tensor)


register_optimizer_step_post_hook(forget_fused)


def kept_for(context: Context, parameters: Iterable[Any]) -> Kept:
    """What the graphs of the same parameters share: another one of the same model may have been compiled before."""
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
