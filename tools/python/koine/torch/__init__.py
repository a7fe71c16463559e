"""Models of PyTorch, trained by Koine.

step = koine.torch.train_step(model, torch.nn.CrossEntropyLoss(), torch.optim.AdamW(model.parameters()))
for x, y in loader:
    loss = step(x, y)

PyTorch is needed for this module alone, which is imported when it is first used.
"""
from __future__ import annotations

from typing import Any, Callable, Optional

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError("koine.torch trains models of PyTorch, which is not here: pip install torch") from _error

from ..device import Context
from .loss import Loss
from .step import TrainStep

__all__ = ["Loss", "TrainStep", "backend", "train_step"]


def backend(module: Any, given: Any, **more: Any) -> Any:
    """The backend of torch.compile: torch.compile(model, backend="koine"), or backend=koine.torch.backend.

    options={…}: context; fallback=False makes an error of what Koine cannot compute; precision, memory_bytes, recompute, fast_math,
    switches and progress are those of koine.Session.
    """
    from .compile import backend as compiled
    return compiled(module, given, **more)


def train_step(model: _torch.nn.Module, loss: Optional[Callable[..., Any]], optimizer: _torch.optim.Optimizer, *,
               context: Optional[Context] = None, seed: int = 1, **more: Any) -> TrainStep:
    """A function step(x, y) that computes a whole training step in Koine: forward, loss, backward, update.

    loss: a function of (output, target), such as torch.nn.CrossEntropyLoss(); a function of the output alone; or None, if the model
    returns its loss. optimizer: its rates are read at each step, so that schedulers work. Parameters, buffers and moments stay on the
    device; PyTorch gets each back when it reads or writes it, and step.sync() brings all back. The number of a loss is read when it is
    asked for, by float(), item(), or in a text.

    seed: of dropout. accumulate: the number of steps whose mean gradient makes an update. Other keywords: clip_norm, clip_value,
    skip_not_finite, precision, memory_bytes, recompute, fast_math, switches and progress, as those of koine.Trainer; fast_math is on,
    as in koine.Model, and fast_math=False turns it off.
    """
    return TrainStep(model, loss, optimizer, context, seed, more)
