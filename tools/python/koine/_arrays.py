"""Converts NumPy arrays and array-like objects to the library's tensors, without a copy where possible."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ._library import ffi, kept_text, lib, number_of, text, word_of
from .errors import error_of

_SHAPE, _DTYPE = 3, 4  # status codes
_DLPACK_CPU = 1  # kDLCPU
_NATIVE = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
# Types that NumPy lacks, by their names in ml_dtypes. If ml_dtypes is not installed, arrays of these types hold the raw bits.
_SMALL = {"bfloat16": "bfloat16", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
          "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu", "float4e2m1": "float4_e2m1fn"}
_types: Dict[int, Any] = {}


def numpy_type(number: int) -> np.dtype:
    """The NumPy type for an element type; unsigned integers (the raw bits) for types that NumPy lacks."""
    if number not in _types:
        name = word_of("kn_dtype", number)
        if name in _NATIVE:
            _types[number] = np.dtype(name)
        else:
            try:
                import ml_dtypes
                _types[number] = np.dtype(getattr(ml_dtypes, _SMALL[name]))
            except (ImportError, AttributeError):
                _types[number] = np.dtype("uint16" if name == "bfloat16" else "uint8")
    return _types[number]


def type_number(dtype: Any) -> int:
    """The element type for "float32", a NumPy type, or a kn_dtype value."""
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return dtype
    if isinstance(dtype, str):
        return number_of("kn_dtype", dtype)
    kind = np.dtype(dtype)
    name = next((own for own, theirs in _SMALL.items() if theirs == kind.name), kind.name)
    return number_of("kn_dtype", name)


def as_array(value: Any) -> np.ndarray:
    """A NumPy array of an array, a PyTorch tensor, a DLPack object, a list or a number; shares memory if possible."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):  # a PyTorch tensor
        value = value.detach().cpu()
        return value.numpy()
    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.generic) and hasattr(np, "from_dlpack"):
        kind = value.__dlpack_device__()[0]
        if kind != _DLPACK_CPU:
            raise error_of(2, f"a {type(value).__name__} is in device memory (DLPack type {int(kind)}); copy it to "
                           "CPU memory first")
        return np.from_dlpack(value)
    return np.asarray(value)


def address(array: np.ndarray) -> Any:
    """A pointer to the first element, also for read-only and empty arrays."""
    try:
        return ffi.from_buffer(array)
    except (TypeError, ValueError, BufferError):  # ml_dtypes types, and non-contiguous arrays
        return ffi.cast("void *", array.__array_interface__["data"][0])


def _fits(array: np.ndarray, kind: np.dtype) -> bool:
    """Whether the integers fit into an integer type."""
    if not array.size:
        return True
    limits = np.iinfo(kind)
    return bool(array.min() >= limits.min and array.max() <= limits.max)


def converted(array: np.ndarray, number: int, name: str) -> np.ndarray:
    """Converts an array to an element type: unchanged, or as a copy if values are preserved. Floats never become integers."""
    kind = numpy_type(number)
    if array.dtype == kind:
        return array
    if kind.name not in _NATIVE and array.dtype.kind == "f":
        raise error_of(_DTYPE, f"'{name}' is {word_of('kn_dtype', number)}, a type that NumPy lacks: give its bits as {kind}, or "
                       "install ml_dtypes")
    if kind.kind in "iu" and array.dtype.kind in "iub":
        if array.dtype.kind != "b" and not _fits(array, kind):
            raise error_of(_DTYPE, f"'{name}' has numbers outside of {kind}: found {array.min()} to {array.max()}")
        return array.astype(kind)
    if (kind.kind == "f" or kind.name in _SMALL.values()) and array.dtype.kind in "fiub":
        return array.astype(kind)
    raise error_of(_DTYPE, f"'{name}' is {array.dtype}, expected {word_of('kn_dtype', number)}")


def ready(value: Any, number: int, name: str) -> np.ndarray:
    """Converts a value to an array that the library can read in place: of the element type, row-major, in native byte order."""
    array = converted(as_array(value), number, name)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # Not ascontiguousarray, which turns 0-d into 1-d arrays.
    return array if array.flags.c_contiguous else array.copy(order="C")


def stored(value: Any, number: int, name: str) -> np.ndarray:
    """Like ready; unsigned integers of the same size are the bits of a type that NumPy lacks, from a process without ml_dtypes."""
    array, kind = as_array(value), numpy_type(number)
    bits = kind.name not in _NATIVE and array.dtype.kind == "u" and array.dtype.itemsize == kind.itemsize
    return ready(array.view(kind) if bits else array, number, name)


def check_shape(shape: Sequence[int], wanted: Sequence[str], name: str) -> Dict[str, int]:
    """Checks a shape against the declared sizes (strings); returns the values of the symbols."""
    symbols: Dict[str, int] = {}
    good = len(shape) == len(wanted)
    for size, word in zip(shape, wanted):
        if word.lstrip("-").isdigit():
            good = good and size == int(word)
        elif word.isidentifier():
            good = good and symbols.setdefault(word, size) == size
    if not good:
        raise error_of(_SHAPE, f"'{name}' has the shape ({','.join(map(str, shape))}), expected ({','.join(wanted)})")
    return symbols


def info_of(array_shape: Sequence[int], number: int) -> Any:
    """A kn_tensor_info."""
    info = ffi.new("kn_tensor_info *")
    if len(array_shape) > lib.KN_MAX_RANK:
        raise error_of(_SHAPE, f"an array has {len(array_shape)} dimensions; expected at most {lib.KN_MAX_RANK}")
    info.dtype, info.rank = number, len(array_shape)
    for position, size in enumerate(array_shape):
        info.shape[position] = size
    return info


def shape_of(info: Any) -> Tuple[int, ...]:
    return tuple(info.shape[i] for i in range(info.rank))


def empty_for(info: Any) -> np.ndarray:
    return np.empty(shape_of(info), numpy_type(info.dtype))


def shape_text(shape: Any) -> str:
    """A shape as text: "batch,1,28,28" from the text itself, from ("batch", 1, 28, 28), or from a number."""
    if shape is None:
        return ""
    if isinstance(shape, str):
        return shape
    if isinstance(shape, (list, tuple, np.ndarray)):
        return ",".join(str(size) for size in shape)
    return str(shape)


def value_text(function: Any, value: Any) -> str:
    """The text from a C function that writes into a buffer and returns the full length."""
    room = ffi.new("char[]", 512)
    length = function(value, room, 512)
    if length >= 512:
        room = ffi.new("char[]", length + 1)
        function(value, room, length + 1)
    return text(room) or ""


def feeds_of(names: Sequence[str], arrays: Sequence[np.ndarray], keep: List[Any],
             scales: Optional[Sequence[float]] = None) -> Any:
    """An array of kn_feed that points to the arrays' memory."""
    feeds = ffi.new("kn_feed[]", max(1, len(names)))
    for position, (feed, name, array) in enumerate(zip(feeds, names, arrays)):
        word = kept_text(name)
        feed.name, feed.data, feed.bytes = word, address(array), array.nbytes
        keep += [word, array]
        if scales:
            feed.scale = scales[position]
    return feeds


def fetches_of(names: Sequence[str], arrays: Sequence[np.ndarray], keep: List[Any]) -> Any:
    """An array of kn_fetch that points to the arrays' memory."""
    fetches = ffi.new("kn_fetch[]", max(1, len(names)))
    for fetch, name, array in zip(fetches, names, arrays):
        _check_in_place(array, name)
        word = kept_text(name)
        fetch.name, fetch.data, fetch.bytes = word, address(array), array.nbytes
        keep += [word, array]
    return fetches


def _check_in_place(out: Any, name: str) -> None:
    """Raises an error if a result cannot be written to `out`."""
    if not isinstance(out, np.ndarray):
        raise error_of(_DTYPE, f"out of '{name}' is {type(out).__name__}, expected a NumPy array")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise error_of(2, f"out of '{name}' is read-only or not row-major; expected an array that can be written in place")


def target_of(out: Any, info: Any, name: str) -> np.ndarray:
    """An array for a result: a new one, or `out` if it fits; fetches_of checks whether it can be written in place."""
    if out is None:
        return empty_for(info)
    kind = numpy_type(info.dtype)
    if not isinstance(out, np.ndarray) or out.dtype != kind:
        raise error_of(_DTYPE, f"out of '{name}' is {getattr(out, 'dtype', type(out).__name__)}, expected {kind}")
    if out.shape != shape_of(info):
        raise error_of(_SHAPE, f"out of '{name}' has the shape {out.shape}, expected {shape_of(info)}")
    return out
