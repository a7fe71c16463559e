"""PyTorch tensors whose data is on a device: PyTorch functions copy it back before they read or write the tensor.

While the data is on the device, the tensor's class is a subclass with `__torch_function__`, which PyTorch calls before each operation
on it. `__torch_function__` copies the data back if the device's is newer, and restores the tensor's original class; the tensor is then
an ordinary PyTorch tensor. The next step uploads it again, so changes in between take effect.

Some tensors can be accessed without `__torch_function__`: their memory is shared with another tensor, a NumPy array or another process,
or C++ holds a reference to them, such as an autograd graph. Such a tensor keeps its class; it is uploaded before each step and copied
back after it.
"""
from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Type

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

from ..device import Context
from ..errors import error_of
from ..session import States
from .exchange import array_of
from .loss import Losses

_lock = threading.RLock()
_residents: Any = WeakIdKeyDictionary()  # the slot of each tensor whose class is a Resident
_classes: Dict[type, type] = {}

# Functions that do not read data.
_FREE = {getattr(torch.Tensor, name).__get__ for name in (
    "shape", "dtype", "device", "layout", "ndim", "is_leaf", "grad_fn", "grad", "_grad", "requires_grad", "is_cuda", "is_sparse", "is_quantized",
    "is_meta", "is_mps", "is_nested", "names", "itemsize", "nbytes", "_version", "retains_grad", "output_nr", "is_cpu", "is_mkldnn", "is_xpu")
    if hasattr(getattr(torch.Tensor, name, None), "__get__")}
_FREE |= {torch.Tensor.grad.__set__, torch.Tensor.grad.__delete__}
_FREE |= {getattr(torch.Tensor, name) for name in (
    "size", "dim", "numel", "nelement", "ndimension", "stride", "is_floating_point", "is_complex", "is_contiguous", "element_size", "get_device",
    "storage_offset", "__len__", "is_signed", "is_inference")}
_FREE |= {torch.is_floating_point, torch.is_complex, torch.numel}


def _found(given: Any, found: List[Any]) -> List[Any]:
    """The tensors among a function's arguments whose data is on a device."""
    if isinstance(given, Resident):
        found.append(given)
    elif isinstance(given, (list, tuple, set, frozenset)):
        for item in given:
            _found(item, found)
    elif isinstance(given, dict):
        for item in given.values():
            _found(item, found)
    return found


class Resident:
    """The mixin of the classes of such tensors; each class also derives from the tensor's original class."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, given: Any = (), keywords: Any = None) -> Any:
        keywords = keywords or {}
        if function in _FREE:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*given, **keywords)
        found = _found((given, keywords), [])
        if not found:  # in a structure that _found does not search
            release_all()
        for tensor in found:
            release(tensor)
        return function(*given, **keywords)

    def __deepcopy__(self, memo: Any) -> Any:
        release(self)
        return self.__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        release(self)
        return self.__reduce_ex__(protocol)


def _class_for(kind: type) -> type:
    if kind not in _classes:
        _classes[kind] = type(kind)(kind.__name__, (Resident, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
    return _classes[kind]


def release(tensor: Any) -> None:
    """Restores a tensor's class, with up-to-date data."""
    with _lock:
        slot = _residents.get(tensor)
        if slot is not None:
            slot.release()
        elif isinstance(tensor, Resident):
            raise error_of(2, "the data of a tensor was on a device that no longer has it")


def release_all() -> None:
    with _lock:
        for slot in list(_residents.values()):
            slot.release()


def _own_use_count() -> int:
    return torch.zeros(1)._use_count()


def _own_storage_count() -> int:
    storage = torch.zeros(1).untyped_storage()
    tensor = torch.zeros(1)
    storage = tensor.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata)


_ALONE, _ALONE_STORAGE = _own_use_count(), _own_storage_count()
_KINDS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) if hasattr(torch.nn, "Buffer") else (torch.Tensor, torch.nn.Parameter)


_origins: Any = WeakIdKeyDictionary()  # per tensor: its address, and whether a NumPy array may own the memory


def note_origin(tensor: Any) -> bool:
    """Whether a NumPy array may own a tensor's memory. PyTorch marks such memory, and also memory that it has exported as an array, so
    call this before Koine makes an array of the tensor."""
    storage = tensor.untyped_storage()
    place = storage.data_ptr()
    known = _origins.get(tensor)
    if known is None or known[0] != place:
        known = _origins[tensor] = (place, tensor.device.type == "cpu" and tensor.numel() > 0 and not storage.resizable())
    return bool(known[1])


def is_exposed(tensor: Any) -> bool:
    """Whether the data can be accessed other than through this tensor."""
    if type(tensor) not in _KINDS or tensor.layout != torch.strided or tensor._base is not None or tensor.is_inference():
        return True
    storage = tensor.untyped_storage()
    return tensor._use_count() > _ALONE or torch._C._storage_Use_Count(storage._cdata) > _ALONE_STORAGE or tensor.is_shared() or note_origin(tensor)


class Slot:
    """A tensor and its state on the device. `ahead`: the device's data is newer. `resident`: the tensor's data is not newer than the
    device's; otherwise PyTorch may have written the tensor."""

    def __init__(self, pool: "Pool", name: str, tensor: Any) -> None:
        self.pool, self.name, self.kind = pool, name, type(tensor)
        self._tensor = weakref.ref(tensor)
        self.resident = self.ahead = False

    @property
    def tensor(self) -> Any:
        return self._tensor()

    def send(self) -> None:
        """Before a step: uploads the tensor if PyTorch may have written it."""
        if self.resident:
            return
        tensor = self.tensor
        release(tensor)  # its data may be on another device
        note_origin(tensor)
        self.push(tensor)

    def hold(self, written: bool) -> None:
        """Marks the tensor as resident, after a step has started."""
        self.ahead = self.ahead or written
        if self.resident:
            return
        tensor = self.tensor
        if is_exposed(tensor):
            if self.ahead:
                self.pull(tensor)
            self.ahead = False
            return
        with _lock:
            self.kind = type(tensor)
            tensor.__class__ = _class_for(self.kind)
            _residents[tensor] = self
            self.resident = True

    def release(self) -> None:
        tensor = self.tensor
        if not self.resident or tensor is None:
            return
        with torch._C.DisableTorchFunctionSubclass(), _disable_current_modes():
            if self.ahead:
                self.pull(tensor)
        tensor.__class__ = self.kind
        self.ahead = self.resident = False
        self.pool.releases += 1
        _residents.pop(tensor, None)

    def push(self, tensor: Any) -> None:
        self.pool.states[self.name] = array_of(tensor, self.name)

    def pull(self, tensor: Any) -> None:
        self.ahead = False
        states = self.pool.states
        with torch.no_grad():
            if tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.int32) and tensor.is_contiguous():
                states.copy_to(self.name, tensor.detach().numpy())
                torch.autograd.graph.increment_version(tensor)
            else:
                tensor.copy_(torch.from_numpy(states[self.name]))


class Count(Slot):
    """The step count that a PyTorch optimizer stores per parameter. Parameters with the same history share a one-element list."""

    def __init__(self, pool: "Pool", tensor: Any, shared: List[int]) -> None:
        super().__init__(pool, "", tensor)
        self.shared = shared

    def push(self, tensor: Any) -> None:
        steps = int(tensor)
        if steps != self.shared[0]:
            self.shared = [steps]

    def pull(self, tensor: Any) -> None:
        self.ahead = False
        with torch.no_grad():
            tensor.fill_(self.shared[0])


class Added(Slot):
    """A buffer that only counts steps, on the host. waiting: the pending increment."""

    waiting = 0

    def push(self, tensor: Any) -> None:
        self.waiting = 0

    def pull(self, tensor: Any) -> None:
        self.ahead = False
        with torch.no_grad():
            tensor.add_(self.waiting)
        self.waiting = 0


class Baked(Slot):
    """A tensor whose data is a constant in a graph."""

    def __init__(self, pool: "Pool", name: str, tensor: Any, array: np.ndarray) -> None:
        super().__init__(pool, name, tensor)
        self.array = array.copy()

    def same(self) -> bool:
        if self.resident:
            return True
        tensor = self.tensor
        if tensor is None:
            return False
        release(tensor)
        found = array_of(tensor, self.name)
        return found.shape == self.array.shape and found.tobytes() == self.array.tobytes()

    def push(self, tensor: Any) -> None:
        pass


def none() -> None:
    """A dead weak reference."""


class Pool:
    """The states of steps that share tensors."""

    def __init__(self, context: Context, seed: int) -> None:
        self.context, self.states = context, States(context, seed)
        self.steps: Any = weakref.WeakSet()
        self.slots: Any = WeakIdKeyDictionary()  # of parameters and buffers
        self.moments: Dict[str, Any] = {}  # by state name: the slot whose data the state has, or None
        self.losses = Losses(self.states)
        # Weak: tensors refer to a pool, which must not refer to them.
        self.last: Callable[[], Any] = none  # the trace that ran last
        self.accumulating: Any = None  # the step that is accumulating gradients, and the states that it trains
        self.counters: Any = WeakIdKeyDictionary()
        self.members: Any = WeakIdKeyDictionary()  # all tensors of its steps
        self.changing: Any = WeakIdKeyDictionary()  # tensors that were constants of a graph and have been written: they are now states
        self.baked: Any = WeakIdKeyDictionary()
        self.releases = 0
        self._names: set = set()
        _pools.add(self)

    def slot(self, tensor: Any, name: str, front: str = "") -> Slot:
        """The slot of a tensor, with a unique name in the pool. front: the prefix of the name."""
        found = self.slots.get(tensor)
        if found is not None and found.name.startswith(front):
            return found
        if found is not None:
            found.release()
        unique = front + name
        while unique in self._names:
            unique += "_"
        self._names.add(unique)
        made = self.slots[tensor] = Slot(self, unique, tensor)
        return made

    def release(self) -> None:
        with _lock:
            for slot in [slot for slot in _residents.values() if slot.pool is self]:
                slot.release()


_pools: Any = weakref.WeakSet()


def pool_for(context: Context, seed: int, tensors: Iterable[Any], step: Any, enter: Callable[[Pool], None]) -> None:
    """Calls `enter` with the pool for a step with these tensors: the pool of other steps that share some of them, or a new pool."""
    with _lock:
        tensors = list(tensors)
        common = [pool for pool in list(_pools) if pool.context is context and not pool.states.closed and
                  any(tensor in pool.members for tensor in tensors)]
        pool = common[0] if common else Pool(context, seed)
        for other in common[1:]:
            other.release()
            for moved in list(other.steps):
                moved._enter(pool)
                pool.steps.add(moved)
            for tensor in list(other.members):
                pool.members[tensor] = None
            _pools.discard(other)
        enter(pool)
        pool.steps.add(step)
        for tensor in tensors:
            pool.members[tensor] = None
