"""The loss of a step, which is on the device until its number is asked for."""
from __future__ import annotations

from typing import Any, Callable, Optional

from ..errors import error_of


class Loss:
    """A number that is read when it is needed: by float(loss), loss.item(), in a text, in arithmetic."""

    def __init__(self, read: Callable[[], None], number: int) -> None:
        self._read, self.number, self.value = read, number, None  # type: Any, int, Optional[float]

    def item(self) -> float:
        """Waits for the step, and returns its loss."""
        if self.value is None:
            self._read()
        self._read = None
        return self.value  # type: ignore[return-value]

    __float__ = item

    def detach(self) -> "Loss":
        return self

    def backward(self, *_: Any, **__: Any) -> None:
        raise error_of(2, "the step has computed the gradients and updated the parameters: leave out loss.backward() and "
                       "optimizer.step()")

    def __format__(self, form: str) -> str:
        return format(self.item(), form)

    def __repr__(self) -> str:
        return repr(self.item())

    __hash__ = object.__hash__


def _arithmetic(name: str) -> Callable[..., Any]:
    def function(self: Loss, *others: Any) -> Any:
        return getattr(self.item(), name)(*(other.item() if isinstance(other, Loss) else other for other in others))
    return function


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "abs", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Loss, f"__{_name}__", _arithmetic(f"__{_name}__"))
