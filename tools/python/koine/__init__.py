"""Koine trains and runs neural networks on any OpenCL device.

>>> import koine
>>> model = koine.Model("mlp")
>>> history = model.fit("digits", steps=20, batch=32)
>>> len(history.losses)
20

Model is what most programs need: a name, a file or a Graph, with fit, predict, evaluate, save and to_onnx. Below it are
Graph, Session and Trainer, and all else that the C library has; docs/python.md describes them.
"""
import importlib as _importlib
from typing import Any as _Any

from . import _declarations, ops  # noqa: F401
from ._library import lib as _lib
from ._library import path as library_path  # noqa: F401
from ._library import Record, text as _text
from .communicator import Communicator, Group, MPIGroup
from .device import (Buffer, Context, Device, Tuner, cache_folder, default_context, devices, set_default_context,  # noqa: F401
                     verify_cases)
from .dataset import Dataset, Loader, augmentation, data, data_sources, encode, keeps_bytes  # noqa: F401
from .errors import (ArgumentError, CancelledError, ClosedError, CommunicationError, CompileError, DeviceError, DeviceMemoryError, DtypeError,  # noqa: F401
                     FileError, ForkError, FormatError, HostMemoryError, InternalError, KoineError, MismatchError, NoDeviceError,
                     NotFiniteError, NotFoundError, ShapeError, UnsupportedError)
from .files import (Checkpoints, Events, load_npy, load_onnx_tensor, load_safetensors, onnx_signature, safetensors_metadata,  # noqa: F401
                    save_npy, save_onnx_tensor, save_safetensors)
from .graph import Graph, Operator, Value
from .history import History
from .model import Model, grammar, zoo
from .session import Plan, Session, States
from .train import Trainer, optimizers

__version__ = _declarations.VERSION


def __getattr__(name: str) -> _Any:
    """koine.torch, imported when it is first used: it needs PyTorch."""
    if name == "torch":
        return _importlib.import_module(".torch", __name__)
    raise AttributeError(f"module 'koine' has no attribute '{name}'")



def library_version() -> str:
    """The version of the loaded library's interface."""
    return _text(_lib.kn_version_text()) or ""


__all__ = [
    "ArgumentError", "Buffer", "CancelledError", "Checkpoints", "ClosedError", "CommunicationError", "Communicator", "CompileError", "Context", "Dataset",
    "Device", "DeviceError", "DeviceMemoryError", "DtypeError", "Events", "FileError", "ForkError", "FormatError",
    "Graph", "Group", "History", "HostMemoryError", "InternalError", "KoineError", "Loader", "MPIGroup", "MismatchError", "Model",
    "NoDeviceError", "NotFiniteError", "NotFoundError", "Operator", "Plan", "Record", "Session", "ShapeError",
    "States", "Trainer", "Tuner", "UnsupportedError", "Value", "cache_folder", "data", "data_sources",
    "default_context", "devices", "encode", "grammar", "library_path", "library_version", "load_npy",
    "load_onnx_tensor", "load_safetensors", "onnx_signature", "ops", "optimizers", "safetensors_metadata", "save_npy",
    "save_onnx_tensor", "save_safetensors", "set_default_context", "verify_cases", "zoo",
]
