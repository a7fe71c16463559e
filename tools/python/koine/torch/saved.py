"""What the forward pass of a compiled function saves for its backward pass: it stays on the device.

Autograd keeps tensors. A saved result is a state of the device, and the tensor that autograd gets only stands for it: its memory is not
written, and the graph of the backward pass that is given it reads the state. Where that cannot be, because another run needs the state, or
because hooks are given saved tensors, the state is copied into the tensor.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..session import States


class Slot:
    """A state, and the tensor that stands for what is in it; None: nothing that is needed."""

    def __init__(self, name: str, shape: Any, strides: Any, dtype: Any) -> None:
        self.name, self.shape, self.strides, self.dtype = name, tuple(shape), strides, dtype
        self.owner: Optional[StorageWeakRef] = None

    def stand_in(self) -> Any:
        """A tensor for the next run's result."""
        made = torch.empty(self.shape, dtype=self.dtype) if self.strides is None else \
            torch.empty_strided(self.shape, self.strides, dtype=self.dtype)
        self.owner = StorageWeakRef(made.untyped_storage())
        return made


class Saved:
    """The slots of a model."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._slots: Dict[str, Slot] = {}

    def add(self, shape: Any, strides: Any, dtype: Any) -> Slot:
        slot = Slot(f"saved{len(self._slots)}", shape, strides, dtype)
        self._slots[slot.name] = slot
        return slot

    def names_of(self, tensors: List[Any]) -> List[Optional[str]]:
        """The state of each tensor that stands for one."""
        owners = {slot.owner.cdata: name for name, slot in self._slots.items() if slot.owner is not None}
        return [owners.get(tensor.untyped_storage()._cdata) if isinstance(tensor, torch.Tensor) else None for tensor in tensors]

    def free(self, name: str) -> None:
        """The state is going to be written: a tensor that still stands for it gets the numbers."""
        slot = self._slots[name]
        owner, slot.owner = slot.owner, None
        storage = None if owner is None else torch.UntypedStorage._new_with_weak_ptr(owner.cdata)
        if storage is not None:
            strides = slot.strides or torch.empty(slot.shape, device="meta").stride()
            tensor = torch.empty(0, dtype=slot.dtype).set_(storage, 0, slot.shape, strides)
            tensor.copy_(torch.from_numpy(self._states[name]))

    def hold(self, name: str, tensor: Any, numbers: Any) -> None:
        """Before a run that reads the state for a tensor: sends the tensor's numbers, unless it stands for the state."""
        slot = self._slots[name]
        if slot.owner is not None and slot.owner.cdata == tensor.untyped_storage()._cdata:
            return
        self.free(name)
        self._states[name] = numbers(tensor)

    def fill_in(self, tensors: List[Any]) -> None:
        """Copies the numbers into those tensors that stand for states: PyTorch is going to read them."""
        for name in self.names_of(tensors):
            if name is not None:
                self.free(name)


def watched() -> bool:
    """Whether hooks are given saved tensors: those of torch.autograd.graph.saved_tensors_hooks."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
