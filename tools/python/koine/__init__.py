"""Koine trains and runs neural networks on any OpenCL device.

>>> import koine
>>> model = koine.Model("mlp")
>>> history = model.fit("digits", steps=20, batch_size=32)
>>> len(history.losses)
20

Most programs need only Model: made from a name, a file or a Graph, with fit, predict, evaluate, save and to_onnx. Graph, Session
and Trainer are the layers below it. Modules: koine.optim (optimizers), koine.ops (operators), koine.types (keywords and results),
koine.io (files), koine.sklearn (estimators), koine.torch (PyTorch models), koine.debug (tests and bug reports).
"""
import importlib as _importlib
from typing import Any as _Any

from . import _declarations, debug, io, ops, optim, types
from .callbacks import Callback, StopTraining
from .communicator import Communicator, Group, MPIGroup
from .dataset import Batch, Dataset, Field, Loader, data_sources, load_dataset
from .device import (Buffer, Context, Device, cache_folder, default_context, devices, set_default_context, set_default_device)
from .errors import (ArgumentError, CancelledError, ClosedError, CommunicationError, CompileError, DeviceError, DeviceMemoryError,
                     DtypeError, FileError, ForkError, FormatError, HostMemoryError, InternalError, KoineError, MismatchError,
                     NoDeviceError, NotFiniteError, NotFoundError, ShapeError, UnsupportedError)
from .graph import Graph, Operator, Value
from .history import History
from .lora import Lora
from .model import Evaluation, Model, grammar, list_models
from .session import Plan, Session, States
from .train import Trainer, optimizers
from .vocabulary import Vocabulary, draw_token

__version__ = _declarations.VERSION


def __getattr__(name: str) -> _Any:
    """Imports koine.torch and koine.sklearn on first use: koine.torch needs PyTorch."""
    if name in ("sklearn", "torch"):
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'koine' has no attribute '{name}'")


def __dir__() -> _Any:
    return [*__all__, "__version__", "sklearn", "torch"]


__all__ = [
    "ArgumentError", "Batch", "Buffer", "Callback", "CancelledError", "ClosedError", "CommunicationError", "Communicator",
    "CompileError", "Context", "Dataset", "Device", "DeviceError", "DeviceMemoryError", "DtypeError", "Evaluation", "Field", "FileError",
    "ForkError", "FormatError", "Graph", "Group", "History", "HostMemoryError", "InternalError", "KoineError", "Loader", "MPIGroup",
    "Lora", "MismatchError", "Model", "NoDeviceError", "NotFiniteError", "NotFoundError", "Operator", "Plan", "Session", "ShapeError", "States",
    "StopTraining", "Trainer", "UnsupportedError", "Value", "Vocabulary", "cache_folder", "data_sources", "debug", "default_context", "devices", "draw_token",
    "grammar", "io", "list_models", "load_dataset", "ops", "optim", "optimizers", "set_default_context", "set_default_device", "types",
]
