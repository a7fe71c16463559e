"""Functions for tests, bug reports and kernel authors.

>>> import koine
>>> len(koine.debug.verify_cases()) > 100
True
"""
from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Union

from ._handle import Handle
from ._library import NULL, encoded, ffi, lib, make, number_of, path, pointer_of, read, records_of, text, word_of
from .dataset import augmentation
from .device import Context, default_context
from .errors import error_of
from .types import TunerCounts, TunerEntry, TunerShape

__all__ = ["Tuner", "keeps_bytes", "library_path", "library_version", "verify_cases"]

library_path: str = path  # of the library that was loaded


def library_version() -> str:
    """Returns the version of the interface of the library that was loaded."""
    return text(lib.kn_version_text()) or ""


def verify_cases() -> List[str]:
    """Returns the names of the cases that Context.verify runs; Context.verify_one runs one by its position."""
    return [text(lib.kn_verify_case_name_at(i)) or "" for i in range(lib.kn_verify_case_count())]


def keeps_bytes(augment: Any) -> bool:
    """Returns whether an augmentation only moves elements or sets them to 0, so that samples can stay bytes.

    Args:
        augment: A text such as "flip,crop=4"; None: no augmentation.
    """
    return bool(lib.kn_augmentation_keeps_bytes(augmentation(augment) if isinstance(augment, str) else augment or NULL))


class Tuner(Handle):
    """Measures which kernels are the fastest for the shapes of a model. Plans that are made later use the results.

    Compile sessions or trainers with switches="tuning=noted", then call run() for each of shapes(). A kernel may crash the process
    that tries it: `koine tune` tries kernels in a process of their own.

    Args:
        context: The device; without it, default_context(). A context has one tuner at a time.
    """

    _error = "kn_tuner_error"

    def __init__(self, context: Optional[Context] = None) -> None:
        context = context or default_context()
        pointer = lib.kn_tuner_create(pointer_of(context, "Context"))
        if not pointer:
            raise error_of(2, "the context has a tuner already; close it first")
        self._open(pointer, lib.kn_tuner_destroy, context)

    def _each(self, function: Any, struct: str) -> List[Any]:
        return records_of(struct, lambda position, made: function(self._pointer, position, made))

    def shapes(self) -> List[TunerShape]:
        """Returns the operators and shapes that several kernels can compute, those that take the most time first."""
        return [shape for shape, _ in zip(self._each(lib.kn_tuner_shape_at, "kn_tuner_shape"), range(lib.kn_tuner_shape_count(self._pointer)))]

    def run(self, position: int, seconds: float = 0, report: Optional[Callable[[str, str, str], None]] = None) -> None:
        """Times the kernels for a shape and keeps the fastest.

        Args:
            position: The position of the shape in shapes().
            seconds: No kernel is tried after this time; 0: no limit.
            report: A function of (event, kernel, message).
        """
        params = make("kn_tuner_params", seconds=seconds)

        @ffi.callback("void(void *, kn_tuner_event, const char *, const char *)")
        def called(_user: Any, event: int, kernel: Any, message: Any) -> None:
            if report is not None:
                report(word_of("kn_tuner_event", int(event)), text(kernel) or "", text(message) or "")
        if report is not None:
            params.report = called
        self._call(lib.kn_tuner_run, position, params)

    def refuse(self, key: str, kernel: str, why: str = "failed") -> None:
        """Excludes a kernel from being tried for a shape again."""
        self._call(lib.kn_tuner_exclude, encoded(key), encoded(kernel), number_of("kn_tuner_event", why))

    def forget(self, position: int) -> None:
        """Removes the result for a shape, so that it is measured again."""
        self._call(lib.kn_tuner_forget, position)

    def entries(self) -> List[TunerEntry]:
        """Returns all results for the device."""
        return self._each(lib.kn_tuner_entry_at, "kn_tuner_entry")

    def export(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the results for the device to a file."""
        self._call(lib.kn_tuner_export, os.fsencode(path))

    def load(self, path: Union[str, "os.PathLike[str]"]) -> TunerCounts:
        """Adds the results in a file that export() wrote; returns how many were new, known or unusable."""
        counts = make("kn_tuner_counts")
        self._call(lib.kn_tuner_import, os.fsencode(path), counts)
        return read(counts)
