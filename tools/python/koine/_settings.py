"""Adds the keywords of koine.types TypedDicts to signatures and docstrings, with the library's defaults.

A function declares them as `**settings: Unpack[SessionSettings]`, which editors and type checkers understand. For help() and
notebooks, which read the signature at run time, with_settings() lists each keyword.
"""
from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any, Callable, Dict, Iterator, List, Sequence, TypeVar

from . import _declarations
from ._library import ffi, make, text, unknown, word_of
from .types import PYTHON_NAMES, SETTINGS

Made = TypeVar("Made", bound=Callable[..., Any])


def names_in(*kinds: Any) -> List[str]:
    """The keywords of TypedDicts."""
    return [name for kind in kinds for name in kind.__annotations__]


def _default(struct: Any, name: str) -> Any:
    """The library's default of a field; None for NULL."""
    value, kind = getattr(struct, name), dict(ffi.typeof(struct[0]).fields)[name].type
    if kind.kind == "enum":
        return word_of(kind.cname, int(ffi.cast("int", value)))
    return text(value) if kind.kind == "pointer" and kind.item.cname == "char" else None if kind.kind == "pointer" else value


def _rows(kinds: Sequence[Any], chosen: Sequence[str]) -> Iterator[Any]:
    """(name, hint, default, header comment) of each keyword."""
    for kind in kinds:
        struct = SETTINGS[kind.__name__]
        made = make(struct)
        in_c = {python: field for field, python in PYTHON_NAMES.get(struct, {}).items()}
        for name, hint in kind.__annotations__.items():
            field = in_c.get(name, name)
            about = _declarations.ABOUT[struct].get(field, "").replace("NULL", "None")
            yield name, getattr(hint, "__forward_arg__", hint), None if name in chosen else _default(made, field), about


def described(doc: str, lines: Sequence[str]) -> str:
    """A docstring with lines appended to its "Args:" section."""
    found = re.search(r"^( *)Args:\n(?:\1 +.*\n|\n(?=\1 +\S))*", doc + "\n", re.M)
    if not found:
        raise ValueError(f"a docstring without Args: {doc[:60]!r}")
    indent = found.group(1) + "    "
    added = "".join(textwrap.fill(line, 118, initial_indent=indent, subsequent_indent=indent + "    ") + "\n" for line in lines)
    end = found.start() + len(found.group(0).rstrip()) + 1
    return doc[:end - 1] + "\n" + added.rstrip("\n") + doc[end - 1:]


def with_settings(*kinds: Any, without: Sequence[str] = (), chosen: Sequence[str] = ()) -> Callable[[Made], Made]:
    """Adds the keywords of TypedDicts to the signature and the "Args:" section of a function or class.

    without: keywords that are already parameters. chosen: keywords whose defaults depend on others.
    """
    def decorate(made: Made) -> Made:
        function = made.__init__ if inspect.isclass(made) else made  # type: ignore[misc]
        signature = inspect.signature(function)
        rows = {row[0]: row for row in _rows(kinds, chosen) if row[0] not in without and row[0] not in signature.parameters}
        parameters = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
        parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
                       for name, hint, default, _ in rows.values()]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        made.__doc__ = described(made.__doc__ or "", [f"{name}: {about or name.replace('_', ' ')}" for name, _, _, about in rows.values()])
        return made
    return decorate


def only(known: Sequence[str], given: Dict[str, Any], parameters: Sequence[str] = ()) -> None:
    """Refuses an unknown keyword, and suggests a similar one."""
    for name in given:
        if name not in known:
            raise TypeError(unknown("argument", name, [*parameters, *known]))
