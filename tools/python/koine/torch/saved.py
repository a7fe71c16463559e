"""Results that the forward pass of a compiled function saves for its backward pass, which stay on the device.

Autograd saves tensors. A saved result is a state on the device, and autograd receives a placeholder tensor: its memory is not written,
and the backward graph reads the state in its place. The state is copied into the tensor if another run needs the state, or if hooks
receive saved tensors.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..session import States


class Slot:
    """A state and the placeholder tensor for its data; None: the data is not needed."""

    def __init__(self, name: str, shape: Any, strides: Any, dtype: Any) -> None:
        self.name, self.shape, self.strides, self.dtype = name, tuple(shape), strides, dtype
        self.owner: Optional[StorageWeakRef] = None

    def stand_in(self) -> Any:
        """A placeholder tensor for the next run's result."""
        made = torch.empty(self.shape, dtype=self.dtype) if self.strides is None else \
            torch.empty_strided(self.shape, self.strides, dtype=self.dtype)
        self.owner = StorageWeakRef(made.untyped_storage())
        return made


class Saved:
    """The slots of a model's saved results."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._slots: Dict[str, Slot] = {}

    def add(self, shape: Any, strides: Any, dtype: Any) -> Slot:
        slot = Slot(f"saved{len(self._slots)}", shape, strides, dtype)
        self._slots[slot.name] = slot
        return slot

    def names_of(self, tensors: List[Any]) -> List[Optional[str]]:
        """The state of each placeholder tensor; None for other tensors."""
        owners = {slot.owner.cdata: name for name, slot in self._slots.items() if slot.owner is not None}
        return [owners.get(tensor.untyped_storage()._cdata) if isinstance(tensor, torch.Tensor) else None for tensor in tensors]

    def free(self, name: str) -> None:
        """Before a state is written: copies its data into its placeholder tensor, if that is still referenced."""
        slot = self._slots[name]
        owner, slot.owner = slot.owner, None
        storage = None if owner is None else torch.UntypedStorage._new_with_weak_ptr(owner.cdata)
        if storage is not None:
            strides = slot.strides or torch.empty(slot.shape, device="meta").stride()
            tensor = torch.empty(0, dtype=slot.dtype).set_(storage, 0, slot.shape, strides)
            tensor.copy_(torch.from_numpy(self._states[name]))

    def hold(self, name: str, tensor: Any, numbers: Any) -> None:
        """Before a run that reads the state for a tensor: uploads the tensor's data, unless the tensor is the state's placeholder."""
        slot = self._slots[name]
        if slot.owner is not None and slot.owner.cdata == tensor.untyped_storage()._cdata:
            return
        self.free(name)
        self._states[name] = numbers(tensor)

    def fill_in(self, tensors: List[Any]) -> None:
        """Copies the states into their placeholder tensors, before PyTorch reads them."""
        for name in self.names_of(tensors):
            if name is not None:
                self.free(name)


def watched() -> bool:
    """Whether torch.autograd.graph.saved_tensors_hooks are active."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
