"""The course of a training run, and its progress on the screen."""
from __future__ import annotations

import math
import sys
from typing import Any, Dict, List, Optional

from . import _show
from .types import FitEpoch, FitResult, FitStep


class History:
    """The course of a training run, which Model.fit returns.

    Attributes:
        losses: The loss of each step, before its update.
        rates: The learning rate of each step.
        epochs: A koine.types.FitEpoch for each epoch, with its loss, accuracy and validation.
        stop_reason: Why training ended: "done" (epochs, steps or seconds), "patience", "callback", or "interrupted" (by Ctrl-C or
            an exception).
        result: More numbers about the end, a koine.types.FitResult; None for data that comes in batches.
    """

    def __init__(self) -> None:
        self.losses: List[float] = []
        self.rates: List[float] = []
        self.epochs: List[FitEpoch] = []
        self.result: Optional[FitResult] = None
        self.stop_reason = "interrupted"

    @property
    def history(self) -> Dict[str, List[float]]:
        """The numbers of the epochs as lists, by Keras' names: loss, accuracy, val_loss and val_accuracy."""
        columns: Dict[str, List[float]] = {"loss": [], "accuracy": [], "val_loss": [], "val_accuracy": []}
        for epoch in self.epochs:
            validation = epoch.validation
            numbers = (epoch.loss, epoch.accuracy, validation.loss if validation.samples else math.nan, validation.accuracy if validation.samples else math.nan)
            for column, number in zip(columns.values(), numbers):
                column.append(number)
        return {name: column for name, column in columns.items() if any(number == number for number in column)}

    def __repr__(self) -> str:
        last = self.epochs[-1] if self.epochs else None
        words = [f"{len(self.losses)} steps", f"{len(self.epochs)} epochs"]
        if last is not None:
            words += describe(last)
        elif self.losses:
            words.append(f"loss {self.losses[-1]:.4f}")
        return f"<koine.History: {', '.join(words)}; {self.stop_reason}>"

    def _repr_html_(self) -> str:
        columns = self.history
        rows = [(position + 1, *(column[position] for column in columns.values())) for position in range(len(self.epochs))]
        return _show.polyline([self.losses], ["loss of each step"]) + _show.table(rows, ("epoch", *columns))


def describe(epoch: FitEpoch) -> List[str]:
    """An epoch in words."""
    words = [f"loss {epoch.loss:.4f}"]
    if epoch.accuracy == epoch.accuracy:
        words.append(f"accuracy {100 * epoch.accuracy:.2f}%")
    if epoch.validation.samples:
        words.append(f"validation loss {epoch.validation.loss:.4f}")
        if epoch.validation.accuracy == epoch.validation.accuracy:
            words.append(f"validation accuracy {100 * epoch.validation.accuracy:.2f}%")
    return words


class Progress:
    """A bar of tqdm, where that is installed, else a line for each epoch. None shows it where a person looks on."""

    def __init__(self, wanted: Optional[bool], total: Optional[int]) -> None:
        self.bar: Any = None
        self.shown = (sys.stderr.isatty() or "ipykernel" in sys.modules) if wanted is None else wanted
        if self.shown:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self.bar = tqdm(total=total or None, unit="step", desc="compiling")

    def step(self, step: FitStep) -> None:
        if self.bar is not None:
            if step.step and self.bar.n == 0:
                self.bar.set_description(None, refresh=False)
            self.bar.update(1)
            self.bar.set_postfix_str(f"epoch {step.epoch}, loss {step.loss:.4f}", refresh=False)

    def validation(self, done: int, count: int) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(f"validating {done:,} of {count:,}", refresh=False)
            self.bar.update(0)

    def epoch(self, epoch: FitEpoch) -> None:
        line = f"epoch {epoch.epoch}: {', '.join(describe(epoch))}"
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        elif self.shown:
            print(line, file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
