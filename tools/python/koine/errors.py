"""Exceptions: a class for each status code of the library.

>>> import koine
>>> try:
...     koine.Model("lenett")
... except koine.NotFoundError as error:
...     print(error.name, error.code)
KN_ERROR_NOT_FOUND 12
"""
from __future__ import annotations

from typing import Optional

from . import _declarations


class KoineError(Exception):
    """The base class of Koine's exceptions.

    Attributes:
        code: The number of the status.
        name: The name of the status in C, such as "KN_ERROR_SHAPE".
        text: The library's message.
    """

    code: int = 0
    name: str = ""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.text = text


class ClosedError(KoineError, ValueError):
    """An object was used after close()."""


class ForkError(KoineError, RuntimeError):
    """An object was used in a forked process that its parent process had opened."""


# Each class also derives from the built-in exception with the nearest meaning, so that code without knowledge of Koine catches it.
# A test compares the classes with the list in the header.


class HostMemoryError(KoineError, MemoryError):
    """Out of host memory."""

    code, name = 1, "KN_ERROR_MEMORY"


class ArgumentError(KoineError, ValueError):
    """An argument is not valid."""

    code, name = 2, "KN_ERROR_ARGUMENT"


class ShapeError(KoineError, ValueError):
    """Shapes do not fit together."""

    code, name = 3, "KN_ERROR_SHAPE"


class DtypeError(KoineError, TypeError):
    """Element types do not fit together."""

    code, name = 4, "KN_ERROR_DTYPE"


class UnsupportedError(KoineError, NotImplementedError):
    """Not supported here."""

    code, name = 5, "KN_ERROR_UNSUPPORTED"


class NoDeviceError(KoineError, RuntimeError):
    """No usable OpenCL device."""

    code, name = 6, "KN_ERROR_NO_DEVICE"


class DeviceError(KoineError, RuntimeError):
    """An OpenCL call failed."""

    code, name = 7, "KN_ERROR_DEVICE"


class DeviceMemoryError(KoineError, MemoryError):
    """Out of device memory."""

    code, name = 8, "KN_ERROR_DEVICE_MEMORY"


class CompileError(KoineError, RuntimeError):
    """A kernel did not compile."""

    code, name = 9, "KN_ERROR_COMPILE"


class FileError(KoineError, OSError):
    """A file could not be read or written."""

    code, name = 10, "KN_ERROR_FILE"


class FormatError(KoineError, ValueError):
    """A file or text is malformed."""

    code, name = 11, "KN_ERROR_FORMAT"


class NotFoundError(KoineError, LookupError):
    """Nothing has that name."""

    code, name = 12, "KN_ERROR_NOT_FOUND"


class NotFiniteError(KoineError, ArithmeticError):
    """A value is not finite."""

    code, name = 13, "KN_ERROR_NOT_FINITE"


class MismatchError(KoineError, RuntimeError):
    """A result differs from its reference."""

    code, name = 14, "KN_ERROR_MISMATCH"


class CancelledError(KoineError, RuntimeError):
    """Stopped on request."""

    code, name = 15, "KN_ERROR_CANCELLED"


class InternalError(KoineError, RuntimeError):
    """An inconsistency inside Koine; please report it."""

    code, name = 16, "KN_ERROR_INTERNAL"


class CommunicationError(KoineError, RuntimeError):
    """A message between workers failed."""

    code, name = 17, "KN_ERROR_COMMUNICATION"


for _kind in (KoineError, *KoineError.__subclasses__()):
    _kind.__module__ = "koine"  # where programs know them
_by_code = {kind.code: kind for kind in KoineError.__subclasses__() if kind.code}


def error_of(code: int, text: Optional[str] = None) -> KoineError:
    """The exception for a status code; without a text, with what the code means."""
    kind = _by_code.get(int(code), KoineError)
    if not text:
        text = next((message for _, number, message in _declarations.STATUS if number == int(code)), f"status {int(code)}")
    return kind(text)
