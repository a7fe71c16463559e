"""Callbacks of a training run.

>>> import koine
>>> class Limit(koine.Callback):
...     def on_epoch(self, epoch):
...         if epoch.loss < 1.5:
...             raise koine.StopTraining
>>> history = koine.Model("mlp").fit("digits", epochs=50, callbacks=[Limit()])
>>> history.stop_reason
'callback'
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .history import History
    from .model import Model
    from .types import FitEpoch, FitStep

__all__ = ["Callback", "StopTraining"]


class StopTraining(Exception):
    """Raised in a callback: ends training after the current step, as returning False does.

    The model keeps its weights, and fit() returns the history, whose stop_reason is "callback".
    """


class Callback:
    """The base class of callbacks: override the methods that you need.

    Attributes:
        model: The model that is trained; set when fit() starts. Its weights are those of the current step, so that evaluate(),
            predict() and save() can be called.
    """

    model: Optional["Model"] = None

    def on_begin(self) -> Any:
        """Called before the first step."""

    def on_step(self, step: "FitStep") -> Any:
        """Called after each step, when its loss is known. Return False or raise StopTraining to stop.

        The next step is queued already: it is completed and reported when training stops.
        """

    def on_epoch(self, epoch: "FitEpoch") -> Any:
        """Called after each epoch, with its validation loss. Return False or raise StopTraining to stop."""

    def on_end(self, history: "History") -> Any:
        """Called when training has ended, but not after an exception."""
