"""Handles: objects of the library, closed once and in the right order, whatever order Python drops them in.

A handle is closed by close(), as a context manager, when nothing refers to it, or at the end of the interpreter. What was made
from another handle keeps that open: its parent is destroyed after it. In a forked child, handles of the parent only raise.
"""
from __future__ import annotations

import atexit
import collections
import contextlib
import os
import threading
import weakref
from typing import Any, Deque, Iterator, List, Optional

from ._library import ffi, lib, text
from .errors import ClosedError, ForkError, error_of

_generation = 0  # of forks: a handle of another one is the parent's
_devices_used = False  # by this process, or by the one that it was forked from
_closing = threading.RLock()
_late: Deque["Core"] = collections.deque()  # to be destroyed when no call of the library is going on in its way
_in_callback = threading.local()


def _forked() -> None:
    global _generation, _closing
    _generation += 1
    _closing = threading.RLock()
    _late.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def generation() -> int:
    """Of this process among forks."""
    return _generation


def use_devices() -> None:
    """Before devices are asked for: OpenCL's drivers do not work in a forked child of a process that has used them."""
    global _devices_used
    if _devices_used and _generation:
        raise ForkError("this process was forked from a process that uses OpenCL, which drivers do not support: start "
                        "processes with multiprocessing's method 'spawn'")
    _devices_used = True


@contextlib.contextmanager
def quiet_callback() -> Iterator[None]:
    """Around a callback in which the library must not be called: nothing is closed until later."""
    _in_callback.depth = getattr(_in_callback, "depth", 0) + 1
    try:
        yield
    finally:
        _in_callback.depth -= 1


@contextlib.contextmanager
def busy(lock: Any) -> Iterator[None]:
    """Around a call with callbacks that may call the library: what shares its lock, such as its states, is closed after it."""
    locks = _in_callback.__dict__.setdefault("busy", [])
    locks.append(lock)
    try:
        yield
    finally:
        locks.pop()


class Core:
    """A pointer of the library, and what must outlive it."""

    __slots__ = ("pointer", "holder", "destroy", "parents", "users", "unwanted", "generation", "lock", "keep")

    def __init__(self, pointer: Any, destroy: Any, parents: tuple, lock: Any) -> None:
        self.pointer, self.destroy, self.parents, self.lock = pointer, destroy, parents, lock
        self.users, self.unwanted, self.generation = 0, False, _generation
        self.keep: List[Any] = []
        # Made here: cffi looks types up under a lock, which a handle that is collected meanwhile would wait for in vain.
        self.holder = ffi.new(ffi.getctype(ffi.typeof(pointer), "*"), pointer)
        with _closing:
            for parent in parents:
                parent.users += 1

    def owned_by(self, owner: "Core") -> None:
        """The library destroys it with another handle, which stays open as long as this one is used."""
        with _closing:
            self.destroy = None
            self.parents += (owner,)
            owner.users += 1

    def close(self) -> None:
        if getattr(_in_callback, "depth", 0):
            # The thread that holds _closing may wait for this callback.
            if not self.unwanted:
                self.unwanted = True
                _late.append(self)
            return
        with _closing:
            if not self.unwanted:
                self.unwanted = True
                self._end()

    def _end(self) -> None:
        """Destroys it if nothing made from it is left."""
        if self.generation != _generation or self.users or self.pointer is None:
            return
        if self.lock in getattr(_in_callback, "busy", ()) or not self.lock.acquire(blocking=False):
            _late.append(self)
            return
        try:
            if self.destroy is not None:
                self.destroy(self.holder)
            self.pointer, self.keep = None, []
        finally:
            self.lock.release()
        for parent in self.parents:
            parent.users -= 1
            if parent.unwanted:
                parent._end()


def close_late() -> None:
    """Closes what could not be closed when nothing referred to it any more."""
    if getattr(_in_callback, "depth", 0):
        return
    with _closing:
        for _ in range(len(_late)):
            _late.popleft()._end()


atexit.register(close_late)


class Handle:
    """The base of all that the library owns."""

    _core: Any
    _error: Optional[str] = None  # the function that returns the last message

    def _open(self, pointer: Any, destroy: Any, *parents: "Handle", lock: Any = None) -> None:
        if not pointer:
            raise error_of(1)
        self._core = Core(pointer, destroy, tuple(parent._core for parent in parents), lock or threading.RLock())
        self._finalizer = weakref.finalize(self, self._core.close)

    def _open_checked(self, pointer: Any, destroy: Any, status: Any, *parents: "Handle", lock: Any = None) -> None:
        """The same for a handle that may carry an error."""
        self._open(pointer, destroy, *parents, lock=lock)
        code = status(pointer)
        if code:
            error = error_of(code, self._message())
            self.close()
            raise error

    @property
    def _pointer(self) -> Any:
        core = self._core
        if core.generation != _generation:
            raise ForkError(f"this {type(self).__name__} belongs to the parent of this forked process: open it again, "
                            "in a process that is started with 'spawn'")
        if core.unwanted or core.pointer is None:
            raise ClosedError(f"this {type(self).__name__} is closed")
        return core.pointer

    @property
    def _lock(self) -> Any:
        """For one call after the other. Not that of a parent process, which another thread may hold forever."""
        self._pointer
        return self._core.lock

    def _message(self) -> str:
        return (text(getattr(lib, self._error)(self._core.pointer)) or "") if self._error else ""

    def _call(self, function: Any, *arguments: Any) -> None:
        """Calls a function that returns a status, with this handle first."""
        with self._lock:
            code = function(self._pointer, *arguments)  # another thread may have closed it meanwhile
            message = self._message() if code else ""
        if _late:
            close_late()
        if code:
            raise error_of(code, message)

    def close(self) -> None:
        """Closes it. What was made from it goes on working; other uses of it raise ClosedError."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        return bool(self._core.unwanted)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
