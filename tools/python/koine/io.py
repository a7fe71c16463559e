"""Files and texts: arrays in .npy, safetensors and ONNX files, event files for TensorBoard, checkpoints, tokens.

>>> import koine, numpy as np
>>> koine.io.save_safetensors("two.safetensors", a=np.ones(3), b=np.arange(4))
>>> {name: array.shape for name, array in koine.io.load_safetensors("two.safetensors").items()}
{'a': (3,), 'b': (4,)}
"""
from __future__ import annotations

import itertools
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from ._arrays import address, as_array, empty_for, info_of, ready, type_number
from ._handle import Handle
from ._library import NULL, encoded, ffi, lib, make, text
from ._log import log_into
from .errors import error_of

Path = Union[str, "os.PathLike[str]"]
__all__ = ["Checkpoints", "Events", "encode", "load_npy", "load_onnx_tensor", "load_safetensors", "onnx_description", "onnx_signature",
           "safetensors_metadata", "save_npy", "save_onnx_tensor", "save_safetensors"]


def _written(function: Any, *arguments: Any) -> None:
    room = ffi.new("char[]", 1024)
    code = function(*arguments, room, 1024)
    if code:
        raise error_of(code, text(room))


def _given(array: Any, name: str) -> Tuple[np.ndarray, Any]:
    array = as_array(array)
    array = ready(array, type_number(array.dtype), name)
    return array, info_of(array.shape, type_number(array.dtype))


class _File(Handle):
    """A file that is open while it is read."""

    def __init__(self, kind: str, path: Path, opened: Any = None) -> None:
        self._error = f"{kind}_error"
        self._open_checked(getattr(lib, f"{kind}_open")(os.fsencode(path), NULL) if opened is None else opened,
                           getattr(lib, f"{kind}_destroy"), getattr(lib, f"{kind}_status"))


def _npy(kind: str, path: Path) -> np.ndarray:
    with _File(kind, path) as file:
        info = ffi.new("kn_tensor_info *")
        getattr(lib, f"{kind}_info")(file._pointer, info)
        array = empty_for(info)
        file._call(getattr(lib, f"{kind}_copy"), info.dtype, address(array), array.nbytes)
        return array


def load_npy(path: Path) -> np.ndarray:
    """Returns the array in a .npy file."""
    return _npy("kn_npy_file", path)


def save_npy(path: Path, array: Any) -> None:
    """Writes a .npy file, the whole file or nothing."""
    array, info = _given(array, "the array")
    _written(lib.kn_npy_file_save, os.fsencode(path), info, address(array))


def load_onnx_tensor(path: Path) -> Tuple[str, np.ndarray]:
    """Returns the name and the array of a tensor in a separate file (.pb), as in the ONNX test data."""
    with _File("kn_onnx_tensor_file", path) as file:
        name = text(lib.kn_onnx_tensor_file_name(file._pointer)) or ""
        if lib.kn_onnx_tensor_file_text_at(file._pointer, 0) != NULL:
            info = ffi.new("kn_tensor_info *")
            lib.kn_onnx_tensor_file_info(file._pointer, info)
            shape = tuple(info.shape[0:info.rank])
            words = [text(lib.kn_onnx_tensor_file_text_at(file._pointer, i)) for i in range(int(np.prod(shape)))]
            return name, np.array(words, dtype=str).reshape(shape)
    return name, _npy("kn_onnx_tensor_file", path)


def save_onnx_tensor(path: Path, array: Any, name: Optional[str] = None) -> None:
    """Writes an ONNX tensor to a separate file (.pb), the whole file or nothing."""
    array, info = _given(array, "the array")
    _written(lib.kn_onnx_tensor_file_save, os.fsencode(path), encoded(name) if name else NULL, info, address(array))


def load_safetensors(path: Path) -> Dict[str, np.ndarray]:
    """Returns the arrays in a safetensors file, by name."""
    with _File("kn_safetensors_file", path) as file:
        found = {}
        info = ffi.new("kn_tensor_info *")
        for position in range(lib.kn_safetensors_file_count(file._pointer)):
            name = lib.kn_safetensors_file_at(file._pointer, position, NULL)
            lib.kn_safetensors_file_info(file._pointer, name, info)
            array = found[text(name) or ""] = empty_for(info)
            file._call(lib.kn_safetensors_file_copy, name, info.dtype, address(array), array.nbytes)
        return found


def safetensors_metadata(path: Path, key: str) -> Optional[str]:
    """Returns the metadata of a safetensors file for a key, or None."""
    with _File("kn_safetensors_file", path) as file:
        return text(lib.kn_safetensors_file_metadata(file._pointer, encoded(key)))


def save_safetensors(path: Path, arrays: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
    """Writes arrays to a safetensors file, the whole file or nothing.

    Args:
        path: The file.
        arrays: Arrays by name.
        **more: More arrays, whose names are keywords.
    """
    given = {**(arrays or {}), **more}
    rows = ffi.new("kn_named_tensor[]", max(1, len(given)))
    keep: List[Any] = []
    for row, (name, value) in zip(rows, given.items()):
        array, info = _given(value, name)
        keep += [array, ffi.new("char[]", encoded(name))]
        row.name, row.info, row.data = keep[-1], info[0], address(array)
    _written(lib.kn_safetensors_file_save, os.fsencode(path), rows, len(given))


def onnx_signature(path: Path) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Returns the inputs and the outputs that an ONNX file declares, whether or not Koine supports its operators.

    Returns:
        Two dicts of element types by name: of the inputs, and of the outputs.
    """
    with _File("kn_onnx_file", path) as file:
        sides = []
        for side in ("input", "output"):
            kind = ffi.new("const char *[1]")
            found = {}
            for position in range(getattr(lib, f"kn_onnx_file_{side}_count")(file._pointer)):
                name = text(getattr(lib, f"kn_onnx_file_{side}_at")(file._pointer, position, kind))
                found[name or ""] = text(kind[0]) or ""
            sides.append(found)
        return sides[0], sides[1]


def _dimensions(rank: Any, size: Any, file: Any, position: int) -> Optional[Tuple[Union[int, str], ...]]:
    symbol = ffi.new("const char *[1]")
    found: List[Union[int, str]] = []
    count = rank(file, position)
    for axis in range(count):
        number = size(file, position, axis, symbol)
        found.append(number if number >= 0 else text(symbol[0]) or "")
    return None if count < 0 else tuple(found)


def _described(file: Any) -> Dict[str, Any]:
    found: Dict[str, Any] = {"metadata": {}}
    kind, value = ffi.new("const char *[1]"), ffi.new("const char *[1]")
    for side, count, at, inner, rank, size in (
            ("inputs", lib.kn_onnx_file_input_count, lib.kn_onnx_file_input_at, lib.kn_onnx_file_input_inner_at, lib.kn_onnx_file_input_rank_at,
             lib.kn_onnx_file_input_size_at),
            ("outputs", lib.kn_onnx_file_output_count, lib.kn_onnx_file_output_at, lib.kn_onnx_file_output_inner_at,
             lib.kn_onnx_file_output_rank_at, lib.kn_onnx_file_output_size_at)):
        found[side] = {}
        for position in range(count(file)):
            name = text(at(file, position, kind)) or ""
            within = text(inner(file, position))
            words = f"{text(kind[0])} of {within}" if within else text(kind[0]) or ""
            found[side][name] = (words, _dimensions(rank, size, file, position))
    for position in itertools.count():
        key = lib.kn_onnx_file_metadata_at(file, position, value)
        if key == NULL:
            break
        found["metadata"][text(key) or ""] = text(value[0]) or ""
    about = make("kn_onnx_about")
    lib.kn_onnx_file_about(file, about)
    for field in ("producer", "domain", "description", "graph_name", "graph_description"):
        found[field] = text(getattr(about, field)) or ""
    found["version"] = int(about.version)
    return found


def onnx_description(source: Union[Path, bytearray, memoryview], folder: Optional[Path] = None) -> Dict[str, Any]:
    """Returns what an ONNX file declares, whether or not Koine supports its operators.

    Args:
        source: The path of a file, or the content of one as a bytearray or a memoryview.
        folder: The folder of external data, for a content.

    Returns:
        A dict. "inputs" and "outputs" are dicts of (type, shape) by name; the type is "float32" or "a sequence of float32"; an open
        size is its symbol, "" without one, and the shape is None if the file leaves the rank open. "metadata" is a dict of texts.
        "producer", "domain", "description", "graph_name", "graph_description" and "version" are properties of the model.
    """
    if not isinstance(source, (bytearray, memoryview)):
        with _File("kn_onnx_file", source) as file:
            return _described(file._pointer)
    with ffi.from_buffer(source) as content:
        opened = lib.kn_onnx_file_open_memory(content, len(content), os.fsencode(folder) if folder else NULL, NULL)
        with _File("kn_onnx_file", "", opened) as file:
            return _described(file._pointer)


def encode(vocabulary: str, words: str) -> np.ndarray:
    """Returns the tokens of a text as an array of int32.

    Args:
        vocabulary: The tokens, as Dataset.vocabulary has them.
        words: The text.
    """
    source = encoded(words)
    numbers = np.empty(len(source) + 1, np.int32)
    count, used = ffi.new("size_t *"), ffi.new("size_t *")
    code = lib.kn_text_encode(NULL, encoded(vocabulary), source, ffi.cast("int32_t *", address(numbers)), count, used)
    if code:
        raise error_of(code, f"the vocabulary has no token for {source[used[0]:].decode(errors='replace')[:1]!r}")
    return numbers[:count[0]].copy()


class Events(Handle):
    """An event file for TensorBoard: scalars, histograms and images over the steps of a training run.

    Args:
        folder: The folder that TensorBoard reads; a new file is made in it.
    """

    _error = "kn_events_error"

    def __init__(self, folder: Path) -> None:
        self._open_checked(lib.kn_events_open(os.fsencode(folder), NULL), lib.kn_events_destroy, lib.kn_events_status)

    @property
    def path(self) -> str:
        """The path of the event file."""
        return text(lib.kn_events_path(self._pointer)) or ""

    def scalar(self, tag: str, step: int, value: float) -> None:
        """Adds a number."""
        self._call(lib.kn_events_scalar, encoded(tag), step, value)

    def histogram(self, tag: str, step: int, numbers: Any) -> None:
        """Adds the distribution of an array's numbers."""
        array = ready(numbers, type_number("float32"), tag)
        self._call(lib.kn_events_histogram, encoded(tag), step, ffi.cast("float *", address(array)), array.size)

    def image(self, tag: str, step: int, pixels: Any) -> None:
        """Adds an image of bytes: (height,width) or (height,width,channels), with 1 or 3 channels."""
        array = ready(pixels, type_number("uint8"), tag)
        height, width, channels = array.shape if array.ndim == 3 else (*array.shape, 1)
        self._call(lib.kn_events_image, encoded(tag), step, width, height, channels, ffi.cast("uint8_t *", address(array)))


class Checkpoints(Handle):
    """A folder of training states, from which an interrupted training run continues. Model.fit(checkpoints=…) makes one.

    Args:
        folder: The folder, which is created if it is missing.
        keep: How many of the newest checkpoints to keep, besides the best; 0: all; None: 3.
    """

    _error = "kn_checkpoints_error"

    def __init__(self, folder: Path, keep: Optional[int] = None) -> None:
        params = make("kn_checkpoints_params", [], keep=keep)
        log_into(params.log)
        self._open_checked(lib.kn_checkpoints_open(os.fsencode(folder), params), lib.kn_checkpoints_destroy,
                           lib.kn_checkpoints_status)

    def __len__(self) -> int:
        return int(lib.kn_checkpoints_count(self._pointer))

    @property
    def newest(self) -> Optional[str]:
        """The path of the newest intact checkpoint, or None."""
        return text(lib.kn_checkpoints_newest(self._pointer))

    @property
    def best(self) -> Optional[str]:
        """The path of the best one, or None."""
        return text(lib.kn_checkpoints_best(self._pointer))

    def save(self, model: Any, step: int, pairs: Optional[Mapping[str, str]] = None, *, best: bool = False) -> None:
        """Writes the states of a model.

        Args:
            model: The model.
            step: The number of steps that it was trained for.
            pairs: Metadata for the file.
            best: Write them as the best states, not as the newest.
        """
        from .model import pairs_of
        rows, count, keep = pairs_of(pairs or {})
        where = (model._pointer, model.states._pointer)
        with model._lock:
            if best:
                self._call(lib.kn_checkpoints_save_best, *where, rows, count)
            else:
                self._call(lib.kn_checkpoints_save, *where, step, rows, count)
