"""Exceptions: one for each status code of the library, with its code and text.

>>> import koine
>>> try:
...     koine.Model("lenett")
... except koine.NotFoundError as error:
...     print(error.name, error.code)
KN_ERROR_NOT_FOUND 12
"""
from __future__ import annotations

import re
from typing import Dict, Optional, Type

from . import _declarations


class KoineError(Exception):
    """What the library refused or could not do.

    code: the number of the status; name: its name in C, such as "KN_ERROR_SHAPE"; text: the library's message.
    """

    code = 0
    name = ""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.text = text


class ClosedError(KoineError, ValueError):
    """Something was used after it had been closed."""


class ForkError(KoineError, RuntimeError):
    """Something was used in a forked process that its parent had opened."""


# Exceptions of Python that say nearly the same, so that code which knows nothing of Koine catches them.
_BASES: Dict[str, Type[Exception]] = {
    "KN_ERROR_MEMORY": MemoryError, "KN_ERROR_ARGUMENT": ValueError, "KN_ERROR_SHAPE": ValueError, "KN_ERROR_DTYPE": TypeError,
    "KN_ERROR_UNSUPPORTED": NotImplementedError, "KN_ERROR_DEVICE_MEMORY": MemoryError, "KN_ERROR_FILE": OSError,
    "KN_ERROR_FORMAT": ValueError, "KN_ERROR_NOT_FOUND": LookupError, "KN_ERROR_NOT_FINITE": ArithmeticError,
}
# The names that would hide an exception of Python.
_RENAMED = {"MemoryError": "HostMemoryError"}

_by_code: Dict[int, Type[KoineError]] = {}
__all__ = ["KoineError", "ClosedError", "ForkError", "error_of"]
for _name, _code, _message in _declarations.STATUS:
    if _code:
        _class = re.sub(r"_?([A-Z])([A-Z]*)", lambda match: match.group(1) + match.group(2).lower(),
                        _name[len("KN_ERROR_"):]) + "Error"
        _class = _RENAMED.get(_class, _class)
        _by_code[_code] = type(_class, (KoineError, _BASES.get(_name, RuntimeError)), {
            "__doc__": _message[:1].upper() + _message[1:] + ".", "__module__": "koine", "code": _code, "name": _name})
        globals()[_class] = _by_code[_code]
        __all__.append(_class)


def error_of(code: int, text: Optional[str] = None) -> KoineError:
    """The exception for a status code; without a text, with what the code means."""
    kind = _by_code.get(int(code), KoineError)
    if not text:
        text = next((message for _, number, message in _declarations.STATUS if number == int(code)), f"status {int(code)}")
    return kind(text)
