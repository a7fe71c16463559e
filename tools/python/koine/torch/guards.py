"""Values that a trace reads besides its arguments: module attributes, captured variables, values in containers.

A trace is valid for the values it has read. `Guards` collects them before a trace and compares them before each step. It visits modules,
functions in the user's own files (captured and global variables, default arguments), the objects they refer to, and lists, tuples, sets
and dictionaries. It does not visit functions of installed packages, but does visit the attributes of their objects.
"""
from __future__ import annotations

import dis
import functools
import os
import sys
import types
from operator import is_
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

_MISSING = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, torch.memory_format, torch.layout, range, slice)
_MOST = 50000  # objects visited
_MOST_BYTES = 1 << 16  # of a NumPy array that is compared
_INSTALLED = tuple({os.path.realpath(folder) + os.sep for folder in (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)),
                                                                     os.path.dirname(os.path.dirname(os.path.abspath(__file__))))})
# Packages whose objects' attributes are not visited.
_CLOSED = {"torch", "numpy", "koine", "builtins", "functools", "collections", "typing", "logging", "threading", "weakref", "re", "types", "enum",
           "abc", "os", "sys", "io", "pathlib", "random", "dis", "inspect", "warnings", "unittest", "ctypes", "_thread", "queue"} | set(sys.stdlib_module_names)
_OF_MODULES = set(torch.nn.Module().__dict__) - {"training"}


@functools.lru_cache(maxsize=None)
def _is_own(file: Optional[str]) -> bool:
    """Whether a file is the user's, not an installed package's."""
    return not (file and (os.path.realpath(file).startswith(_INSTALLED) or "site-packages" in file or "dist-packages" in file))


@functools.lru_cache(maxsize=None)
def _globals_of(code: types.CodeType) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """The global variables that the code reads, and all of its names."""
    found = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner, more = _globals_of(constant)
            found.update(inner)
            names.update(more)
    return tuple(sorted(found)), tuple(sorted(names))


def _same(one: Any, other: Any) -> bool:
    """Whether two different objects have the same value."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and one != one:
        return other != other
    if isinstance(one, _PLAIN):
        return bool(one == other)
    if isinstance(one, types.MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return False


class Bag:
    """Named values: the contents of a dictionary, a list, or the closure of a function."""

    def __init__(self, what: str, holder: Any, names: Optional[Sequence[Any]] = None) -> None:
        self.what, self.holder, self.names = what, holder, names
        self.is_registered = False  # the parameters, buffers, modules or hooks of a module
        self.free: set = set()  # names of floats that may change
        self.kept = self.values()
        self.kept_keys = self.keys()

    def values(self) -> Tuple[Any, ...]:
        if self.names is None:
            return tuple(self.holder.values()) if hasattr(self.holder, "values") else tuple(self.holder)
        if isinstance(self.holder, tuple):  # closure cells
            return tuple(_content(cell) for cell in self.holder)
        return tuple(self.holder.get(name, _MISSING) for name in self.names)

    def keys(self) -> List[Any]:
        if self.names is not None:
            return list(self.names)
        return list(self.holder) if hasattr(self.holder, "values") else list(range(len(self.holder)))

    def set(self, key: Any, value: Any) -> None:
        if isinstance(self.holder, tuple):
            self.holder[list(self.names or ()).index(key)].cell_contents = value
        elif value is _MISSING:
            self.holder.pop(key, None)
        else:
            self.holder[key] = value

    @property
    def can_set(self) -> bool:
        return isinstance(self.holder, (dict, list)) or (isinstance(self.holder, tuple) and self.names is not None)

    def holds(self) -> bool:
        """Whether all values are unchanged."""
        found = self.values()
        if len(found) == len(self.kept) and all(map(is_, found, self.kept)):
            return True
        return len(found) == len(self.kept) and self.keys() == self.kept_keys and all(
            _same(one, other) or key in self.free and type(other) is float for key, one, other in zip(self.kept_keys, self.kept, found))

    def get(self, key: Any) -> Any:
        return dict(zip(self.keys(), self.values()))[key]

    def name_of(self, key: Any) -> str:
        return f"{self.what}[{key!r}]" if isinstance(self.holder, list) or not isinstance(key, str) else f"{self.what}.{key}" if self.what else key


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


class Guards:
    """roots: modules and functions, by the names used for them in messages."""

    def __init__(self, roots: Dict[str, Any]) -> None:
        self.bags: List[Bag] = []
        self.tensors: List[Tuple[Bag, Any, torch.Tensor]] = []  # that are not parameters or buffers of modules
        self.modules: List[torch.nn.Module] = []  # that are not roots or their submodules
        self._arrays: List[Tuple[Any, Any]] = []
        self._seen: Dict[int, Any] = {}
        self._known = {id(module) for root in roots.values() if isinstance(root, torch.nn.Module) for module in root.modules()}
        for name, root in roots.items():
            self._visit(name, root)
        del self._seen

    def holds(self) -> bool:
        """Whether all values are unchanged."""
        return all(bag.holds() for bag in self.bags) and all(array.tobytes() == kept for array, kept in self._arrays)

    def changed(self) -> Iterator[Tuple[Bag, Any, Any, Any]]:
        """For each changed value: its bag, its name, the old value and the new value."""
        for bag in self.bags:
            if bag.holds():
                continue
            before, now = dict(zip(bag.kept_keys, bag.kept)), dict(zip(bag.keys(), bag.values()))
            for key in {**before, **now}:
                one, other = before.get(key, _MISSING), now.get(key, _MISSING)
                if not _same(one, other):
                    yield bag, key, one, other

    # ---- finding -----------------------------------------------------------------------------------------------------

    def _bag(self, what: str, holder: Any, names: Optional[Sequence[Any]] = None) -> Bag:
        made = Bag(what, holder, names)
        self.bags.append(made)
        return made

    def _into(self, bag: Bag, skip: Any = ()) -> None:
        for key, value in zip(bag.keys(), bag.kept):
            if key in skip if isinstance(key, str) else False:
                continue
            if isinstance(value, torch.Tensor):
                if bag.can_set:
                    self.tensors.append((bag, key, value))
            elif not isinstance(value, _PLAIN):
                self._visit(bag.name_of(key), value)

    def _visit(self, what: str, value: Any) -> None:
        if isinstance(value, _PLAIN) or value is _MISSING or id(value) in self._seen or len(self._seen) > _MOST:
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.nn.Module):
            self._module(what, value)
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            self._function(what, value)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._visit(what, part)
        elif isinstance(value, (list, tuple, dict)):
            self._into(self._bag(what, value))
        elif isinstance(value, np.ndarray):
            if value.nbytes <= _MOST_BYTES:
                self._arrays.append((value, value.tobytes()))
        elif isinstance(value, type):
            self._class(what, value)
        else:
            self._object(what, value)

    def _module(self, what: str, module: torch.nn.Module) -> None:
        if id(module) not in self._known:
            self.modules.append(module)
            self._known.update(id(inner) for inner in module.modules())
        for path, inner in module.named_modules():
            self._seen[id(inner)] = inner
            name = ".".join(part for part in (what, path) if part)
            self._into(self._bag(name, inner.__dict__), _OF_MODULES)
            for kind in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks"):
                self._bag(f"{name}.{kind}", inner.__dict__[kind]).is_registered = True
            for hook in [*inner._forward_hooks.values(), *inner._forward_pre_hooks.values()]:
                self._visit(f"a hook of {name}", hook)
            self._class(name, type(inner))

    def _function(self, what: str, function: Any) -> None:
        if isinstance(function, types.MethodType):
            self._visit(what, function.__self__)
            function = function.__func__
            if not isinstance(function, types.FunctionType):
                return self._visit(what, function)
            self._seen[id(function)] = function
        if function.__closure__:
            self._into(self._bag("", function.__closure__, function.__code__.co_freevars))
        if not _is_own(function.__code__.co_filename):
            return
        for defaults in (function.__defaults__, function.__kwdefaults__):
            if defaults:
                self._visit(f"the defaults of {function.__name__}", defaults)
        found, names = _globals_of(function.__code__)
        read = [name for name in found if name in function.__globals__]
        if read:
            bag = self._bag("", function.__globals__, read)
            self._into(bag)
            for name, value in zip(read, bag.kept):
                if isinstance(value, types.ModuleType) and _is_own(getattr(value, "__file__", None)) and value.__name__ not in sys.builtin_module_names:
                    inner = [other for other in names if other in value.__dict__]
                    if inner:
                        self._into(self._bag(name, value.__dict__, inner))

    def _class(self, what: str, kind: type) -> None:
        """Visits the attributes and methods of classes in the user's own files."""
        for one in kind.__mro__:
            module = sys.modules.get(one.__module__)
            if one.__module__.partition(".")[0] in _CLOSED or id(one) in self._seen and one is not kind or \
                    not _is_own(getattr(module, "__file__", None)):
                continue
            self._seen[id(one)] = one
            for name, value in list(one.__dict__.items()):
                inner = value.fget if isinstance(value, property) else value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
                if isinstance(inner, types.FunctionType):
                    self._visit(f"{one.__name__}.{name}", inner)
            plain = [name for name, value in one.__dict__.items() if isinstance(value, (*_PLAIN, list, tuple, dict)) and not name.startswith("__")]
            if plain:
                self._into(self._bag(one.__name__, one.__dict__, plain))

    def _object(self, what: str, value: Any) -> None:
        if type(value).__module__.partition(".")[0] in _CLOSED or isinstance(value, types.ModuleType):
            return
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            self._into(self._bag(what, own))
        self._class(type(value).__name__, type(value))
