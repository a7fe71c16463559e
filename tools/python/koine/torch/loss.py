"""The loss of a step, which stays on the device until it is read."""
from __future__ import annotations

import weakref
from typing import Any, Callable, List, Optional

import numpy as np
import torch

from ..errors import error_of
from ..session import States
from .trace import KEPT_LOSSES, LOSSES


class Loss:
    """A scalar that is read lazily. It acts like a 0-d tensor: float(loss), loss.item(), arithmetic, torch.stack(losses),
    loss.cpu().numpy(). Arithmetic returns PyTorch tensors."""

    def __init__(self, read: Callable[[], None], number: int) -> None:
        self._read, self.number, self.value = read, number, None  # type: Any, int, Optional[float]

    def item(self) -> float:
        """Waits for the step and returns its loss."""
        if self.value is None:
            self._read()
        self._read = None
        return self.value  # type: ignore[return-value]

    __float__ = item

    def tensor(self) -> torch.Tensor:
        """The loss as a 0-d PyTorch tensor."""
        return torch.tensor(self.item(), dtype=torch.float32)

    def detach(self) -> "Loss":
        return self

    @property
    def data(self) -> "Loss":
        return self

    def backward(self, *_: Any, **__: Any) -> None:
        raise error_of(2, "the step has already computed the gradients and updated the parameters: leave out loss.backward() and "
                       "optimizer.step()")

    def __format__(self, form: str) -> str:
        return format(self.item(), form)

    def __repr__(self) -> str:
        return repr(self.item())

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __round__(self, digits: Optional[int] = None) -> Any:
        return round(self.item(), digits)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.item(), np.float32 if dtype is None else dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_read", "number", "value"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __reduce__(self) -> Any:
        return torch.tensor, (self.item(),)

    def __deepcopy__(self, memo: Any) -> torch.Tensor:
        return self.tensor()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, given: Any = (), keywords: Any = None) -> Any:
        return function(*_plain(tuple(given)), **_plain(dict(keywords or {})))


def _plain(value: Any) -> Any:
    """Replaces losses by tensors."""
    if isinstance(value, Loss):
        return value.tensor()
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    return {key: _plain(item) for key, item in value.items()} if type(value) is dict else value


def _arithmetic(name: str) -> Callable[..., Any]:
    def function(self: Loss, *others: Any) -> Any:
        return getattr(self.tensor(), name)(*(_plain(other) for other in others))
    return function


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "floordiv", "mod", "neg", "abs", "lt", "le", "gt", "ge",
              "eq", "ne"):
    setattr(Loss, f"__{_name}__", _arithmetic(f"__{_name}__"))


class Losses:
    """The latest losses of the steps that share states, stored in a state on the device."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._count = 0
        self._pending: Any = weakref.WeakValueDictionary()  # unread losses, by number

    def next(self) -> Loss:
        """Allocates the next loss's slot in the state. Reads the pending losses first, if the slot holds one of them."""
        if self._count - KEPT_LOSSES in self._pending:
            self.read()
        loss = Loss(self.read, self._count)
        self._pending[self._count] = loss
        self._count += 1
        return loss

    def read(self) -> None:
        pending: List[Any] = list(self._pending.items())
        if pending:
            kept = self._states[LOSSES].reshape(-1)
            for number, loss in pending:
                loss.value = float(kept[number % KEPT_LOSSES])
            self._pending.clear()
