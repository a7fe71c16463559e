"""Finds and loads the library; helpers for its enums, structs and strings."""
from __future__ import annotations

import difflib
import functools
import os
import pathlib
import re
import sys
from typing import Any, Dict, Iterator, List, Optional

from cffi import FFI
import koine_start

from . import _declarations
from .types import PYTHON_NAMES, RESULTS

ffi = FFI()
ffi.cdef(_declarations.CDEF)
NULL = ffi.NULL

# ---- finding and loading ---------------------------------------------------------------------------------------------


def _file_names(stem: str) -> List[str]:
    major, minor, _ = _declarations.API_VERSION
    number = str(major) if major else f"0.{minor}"  # before 1.0 the ABI changes with each minor version
    if sys.platform == "darwin":
        return [f"lib{stem}.dylib", f"lib{stem}.{number}.dylib"]
    if sys.platform == "win32":
        return [f"{stem}.dll", f"{stem}-{number}.dll"]
    return [f"lib{stem}.so.{number}", f"lib{stem}.so"]


def candidates(stem: str, wanted: Optional[str]) -> Iterator[str]:
    """The possible paths of a library: in the package (wheels), in KOINE_LIBRARY, in the system's search path.
    KOINE_LIBRARY is the library or its folder, or a list of these, as in PATH."""
    package = pathlib.Path(__file__).resolve().parent
    paths = [package, package.parent / ".koine.mesonpy.libs", *(pathlib.Path(word) for word in (wanted or "").split(os.pathsep) if word)]
    for place in paths:
        folder = place if place.is_dir() or place.name.startswith(".") else place.parent
        if place != folder and place.name.startswith(f"lib{stem}."):
            yield str(place)
        for name in _file_names(stem):
            if (folder / name).exists():
                yield str(folder / name)
    yield from _file_names(stem)


def _load(stem: str, wanted: Optional[str], flags: int = 0) -> Any:
    complaints = []
    for path in candidates(stem, wanted):
        try:
            return ffi.dlopen(path, flags), path
        except OSError as error:
            complaints.append(str(error))
    raise ImportError(f"lib{stem} cannot be loaded: {'; '.join(dict.fromkeys(complaints))}. Install Koine, or set "
                      "KOINE_LIBRARY to the library or to the folder that holds it")


def check_version(number: int) -> None:
    """Refuses a library that is older than the declarations, and before 1.0 a library of a different minor version."""
    major, minor, _ = _declarations.API_VERSION
    library = (number // 10000, number // 100 % 100)
    if library[0] != major or library[1] < minor or (major == 0 and library[1] != minor):
        raise ImportError(f"libkoine has interface version {library[0]}.{library[1]}, and this package "
                          f"was made for {major}.{minor}: install the package of the library's version")


koine_start.find_drivers()
lib, path = _load("koine", os.environ.get("KOINE_LIBRARY"))
check_version(lib.kn_version_number())
_separate: Dict[str, Any] = {}


def _optional(stem: str, flags: int = 0) -> Any:
    """A separate library; None if it is not installed."""
    if stem not in _separate:
        try:
            _separate[stem], _ = _load(stem, os.environ.get("KOINE_LIBRARY"), flags)
        except ImportError:
            _separate[stem] = None
    return _separate[stem]


def images() -> Any:
    """libkoine-images, which reads images and archives; None if it is not installed."""
    return _optional("koine-images")


def mpi() -> Any:
    """libkoine-mpi, whose workers are processes; None if it is not installed."""
    return _optional("koine-mpi", ffi.RTLD_NOW | ffi.RTLD_GLOBAL)  # plugins of some MPI libraries need its symbols


# ---- texts and words -------------------------------------------------------------------------------------------------

_kept_words: Dict[str, Dict[str, int]] = {}


def encoded(value: Any) -> bytes:
    """Encodes a string for the library."""
    if not isinstance(value, str):
        raise TypeError(f"expected a str, found {type(value).__name__} {value!r}"[:200])
    if "\0" in value:
        raise ValueError(f"the text {value!r} contains a NUL character")
    return value.encode()


@functools.lru_cache(1024)
def kept_text(value: str) -> Any:
    """A string as a cached C array, for strings that each run needs, such as input names."""
    return ffi.new("char[]", encoded(value))


def pointer_of(handle: Any, kind: str) -> Any:
    """The library pointer of a handle; kind: the name of the expected class."""
    if not hasattr(type(handle), "_pointer"):
        raise TypeError(f"expected a koine.{kind}, found {type(handle).__name__} {handle!r}"[:200])
    return handle._pointer


def text(pointer: Any) -> Optional[str]:
    """Decodes a C string; None for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else None


def names_of(at: Any) -> List[str]:
    """The names that at(0), at(1), … return, up to the first NULL."""
    names: List[str] = []
    while (name := text(at(len(names)))) is not None:
        names.append(name)
    return names


def words(enum: str) -> Dict[str, int]:
    """The words for the values of an enum: {"constant": 0, "cosine-restarts": 5, …} of kn_schedule."""
    if enum not in _kept_words:
        known = _declarations.WORDS.get(enum)
        if known is None:
            values = {name: number for number, name in sorted(ffi.typeof(enum).elements.items())}
            start = os.path.commonprefix(list(values)) if len(values) > 1 else "KN_"
            start = start[:start.rindex("_") + 1]
            known = {name[len(start):].lower().replace("_", "-"): number for name, number in values.items()}
        _kept_words[enum] = known
    return _kept_words[enum]


def unknown(what: str, given: object, known: Any) -> str:
    """The error message for an unknown name."""
    near = difflib.get_close_matches(str(given), [str(name) for name in known], 1)
    return f"there is no {what} {given!r}" + (f"; did you mean {near[0]!r}?" if near else f": expected one of {', '.join(known)}")


def number_of(enum: str, word: Any) -> int:
    """The value of an enum for its word or number."""
    if isinstance(word, str):
        known = words(enum)
        found = known.get(word, known.get(word.lower().replace("_", "-")))
        if found is None:
            raise ValueError(unknown(re.sub("^kn_", "", enum).replace("_", " "), word, known))
        return found
    return int(word)


def word_of(enum: str, number: int) -> str:
    for word, value in words(enum).items():
        if value == number:
            return word
    return str(number)


def split_name(name: str) -> List[str]:
    """Splits a shape at the commas outside of parentheses."""
    return [part for part in re.split(r",(?![^()]*\))", name) if part] if name else []


# ---- structs ---------------------------------------------------------------------------------------------------------


def fields_of(struct: str) -> Dict[str, Any]:
    """The fields of a struct, by Python name."""
    names = PYTHON_NAMES.get(struct, {})
    return {names.get(name, name): field for name, field in ffi.typeof(struct).fields}


def _put_array(target: Any, value: Any, item: str, name: str) -> None:
    value = [value] if not hasattr(value, "__len__") else value
    if len(value) > len(target):
        raise ValueError(f"{name} has {len(value)} numbers; at most {len(target)} are expected")
    for position, number in enumerate(value):
        target[position] = number


def put(struct: Any, name: str, value: Any, keep: List[Any]) -> None:
    """Sets a field of a struct. Memory that it points to is appended to `keep`, which must outlive the struct."""
    kind = dict(ffi.typeof(struct[0]).fields)[name].type
    if kind.kind == "enum":
        value = number_of(kind.cname, value)
    elif kind.kind == "pointer" and isinstance(value, (str, bytes, os.PathLike)):
        value = ffi.new("char[]", os.fsencode(value) if not isinstance(value, bytes) else value)
        keep.append(value)
    elif kind.kind == "pointer" and kind.item.kind == "primitive" and not isinstance(value, ffi.CData):
        value = ffi.new(f"{kind.item.cname}[]", [number for number in value])
        keep.append(value)
    elif kind.kind == "pointer" and hasattr(value, "_pointer"):
        keep.append(value)
        value = value._pointer
    elif kind.kind == "array":
        _put_array(getattr(struct, name), value, kind.item.cname, name)
        return
    try:
        setattr(struct, name, value)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"{name}: {error}") from None


def make(name: str, keep: Optional[List[Any]] = None, /, **given: Any) -> Any:
    """A struct with the library's defaults and some fields set; None leaves a default."""
    struct = ffi.new(f"{name} *")
    init = _declarations.INITS.get(name)
    known = fields_of(name)
    in_c = {python: field for field, python in PYTHON_NAMES.get(name, {}).items()}
    if init:
        getattr(lib, init)(struct)
    elif "size" in known:
        struct.size = ffi.sizeof(name)
    keep = [] if keep is None else keep
    for field, value in given.items():
        if field not in known or field == "size":
            raise TypeError(unknown("argument", field, [word for word in known if word != "size"]))
        if value is not None:
            put(struct, in_c.get(field, field), value, keep)
    return struct


def read(struct: Any, into: Any = None) -> Any:
    """Converts a C struct to its dataclass in koine.types: strings as str, enums as words, arrays as tuples."""
    kind = ffi.typeof(struct)
    kind = kind.item if kind.kind == "pointer" else kind
    record = {}
    for name, field in kind.fields:
        value = getattr(struct, name)
        if name in ("size", "user"):
            continue
        if field.type.kind == "enum":
            value = word_of(field.type.cname, int(ffi.cast("int", value)))
        elif field.type.kind == "struct":
            value = read(value)
        elif field.type.kind == "array" and field.type.item.cname == "char":
            value = text(value)
        elif field.type.kind == "array":
            value = tuple(value)
        elif field.type.kind == "pointer" and field.type.item.cname == "char":
            value = text(value)
        record[name] = value
    return (into or RESULTS[kind.cname])(**record)


def records_of(struct: str, at: Any) -> List[Any]:
    """The structs that at(0, made), at(1, made), … fill in, up to the first error."""
    found: List[Any] = []
    while not at(len(found), made := make(struct)):
        found.append(read(made))
    return found
