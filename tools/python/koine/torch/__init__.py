"""Train PyTorch models with Koine.

    step = koine.torch.train_step(model, torch.nn.CrossEntropyLoss(), torch.optim.AdamW(model.parameters()))
    for x, y in loader:
        loss = step(x, y)

Only this module needs PyTorch, and it is imported on first use.
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError("koine.torch needs PyTorch, which is not installed: pip install torch") from _error

from ..device import Context, context_on
from ..types import PrecisionName, RecomputeName
from .loss import Loss
from .step import TrainStep

__all__ = ["Loss", "TrainStep", "backend", "train_step"]


def backend(module: Any, given: Any, **options: Any) -> Any:
    """The backend for torch.compile: torch.compile(model, backend="koine"), or backend=koine.torch.backend.

    Args:
        module: The graph traced by PyTorch.
        given: Its example inputs.
        **options: The options of torch.compile. `fallback`: if False, unsupported operators are errors. `context`: the device.
            `precision`, `memory_bytes`, `recompute`, `fast_math`, `switches` and `progress`: see koine.Session.

    Returns:
        The compiled function.
    """
    from .compile import backend as compiled
    return compiled(module, given, **options)


def train_step(model: _torch.nn.Module, loss: Optional[Callable[..., Any]], optimizer: _torch.optim.Optimizer, *,
               device: Union[str, int, None] = None, context: Optional[Context] = None, seed: int = 1, accumulate: int = 1,
               clip_norm: float = 0.0, clip_value: float = 0.0, skip_not_finite: bool = False, precision: PrecisionName = "float32",
               memory_bytes: int = 0, recompute: RecomputeName = "needed", fast_math: bool = True, switches: Optional[str] = None,
               progress: Optional[Callable[[str, int, int], None]] = None) -> TrainStep:
    """Returns a function step(x, y) that runs a whole training step in Koine: forward, loss, backward, update.

    Parameters, buffers and moments stay on the device. Each is copied back when PyTorch reads or writes it; step.sync() copies all of
    them. The loss is read lazily: by float(), by item(), or when it is formatted.

    Args:
        model: The model.
        loss: A function of (output, target), such as torch.nn.CrossEntropyLoss(); a function of the output only; or None, if the
            model returns its loss.
        optimizer: The optimizer. Its learning rates are read before each step, so schedulers work.
        device: An index, a type such as "gpu", or a part of a device's name; None: the default device.
        context: An opened koine.Context, in place of `device`.
        seed: The seed of dropout.
        accumulate: The number of steps whose mean gradient makes one update.
        clip_norm: The maximum global norm of the gradients; 0: off.
        clip_value: Clip each element of a gradient to ±clip_value; 0: off.
        skip_not_finite: Skip updates whose gradients are not finite.
        precision: How results between layers are stored: "float32", "float16" or "bfloat16"; or "tf32".
        memory_bytes: The limit of a step's device memory; 0: the memory of the device.
        recompute: Whether activations are computed again to save memory: "needed", "always" or "never".
        fast_math: Use algorithms with a slightly larger error where they are faster.
        switches: Words for tests and tuning, as for koine.Session.
        progress: A function of (label, done, total), called while kernels are compiled.

    Returns:
        The step; step(x, y) returns the loss before the update.
    """
    if device is not None and context is not None:
        raise TypeError("device and context are both given: a context has its device")
    more = {"accumulate": accumulate, "clip_norm": clip_norm, "clip_value": clip_value, "skip_not_finite": skip_not_finite,
            "precision": precision, "memory_bytes": memory_bytes, "recompute": recompute, "fast_math": fast_math, "switches": switches,
            "progress": progress}
    given = {name: value for name, value in more.items() if value is not None}
    return TrainStep(model, loss, optimizer, context or context_on(device), seed, given)
