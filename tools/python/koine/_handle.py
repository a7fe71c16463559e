"""Handles: library objects that are closed once and in the right order, regardless of the order of garbage collection.

A handle is closed by close(), as a context manager, when it is garbage-collected, or at interpreter exit. A parent is destroyed after
all handles made from it. In a forked child, all uses of the parent process's handles raise errors.
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

_generation = 0  # fork count: handles of another generation belong to the parent process
_devices_used = False  # by this process or the process it was forked from
_closing = threading.RLock()
_late: Deque["Core"] = collections.deque()  # handles to destroy when no running library call blocks it
_in_callback = threading.local()


def _forked() -> None:
    global _generation, _closing
    _generation += 1
    _closing = threading.RLock()
    _late.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def generation() -> int:
    """The fork generation of this process."""
    return _generation


def use_devices() -> None:
    """Call before listing devices: OpenCL drivers do not work in a forked child of a process that has used them."""
    global _devices_used
    if _devices_used and _generation:
        raise ForkError("this process was forked from a process that uses OpenCL, which drivers do not support: start "
                        "processes with multiprocessing's method 'spawn'")
    _devices_used = True


@contextlib.contextmanager
def quiet_callback() -> Iterator[None]:
    """Wraps a callback that must not call the library: defers closing handles."""
    _in_callback.depth = getattr(_in_callback, "depth", 0) + 1
    try:
        yield
    finally:
        _in_callback.depth -= 1


@contextlib.contextmanager
def busy(lock: Any) -> Iterator[None]:
    """Wraps a call whose callbacks may call the library: handles that share its lock, such as its states, are closed after it."""
    locks = _in_callback.__dict__.setdefault("busy", [])
    locks.append(lock)
    try:
        yield
    finally:
        locks.pop()


class Core:
    """A library pointer, and the objects that must outlive it."""

    __slots__ = ("pointer", "holder", "destroy", "parents", "users", "unwanted", "generation", "lock", "keep")

    def __init__(self, pointer: Any, destroy: Any, parents: tuple, lock: Any) -> None:
        self.pointer, self.destroy, self.parents, self.lock = pointer, destroy, parents, lock
        self.users, self.unwanted, self.generation = 0, False, _generation
        self.keep: List[Any] = []
        # Allocate here: cffi looks up types under a lock, so a handle that is collected during a lookup would deadlock.
        self.holder = ffi.new(ffi.getctype(ffi.typeof(pointer), "*"), pointer)
        with _closing:
            for parent in parents:
                parent.users += 1

    def owned_by(self, owner: "Core") -> None:
        """Sets the owner, which destroys this object, and stays open while this one is used."""
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
        """Destroys the object if no object made from it is left."""
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
    """Closes handles that could not be closed when they were garbage-collected."""
    if getattr(_in_callback, "depth", 0):
        return
    with _closing:
        for _ in range(len(_late)):
            _late.popleft()._end()


atexit.register(close_late)


class Handle:
    """The base class of all library objects."""

    _core: Any
    _error: Optional[str] = None  # the function that returns the last error message

    def _open(self, pointer: Any, destroy: Any, *parents: "Handle", lock: Any = None) -> None:
        if not pointer:
            raise error_of(1)
        self._core = Core(pointer, destroy, tuple(parent._core for parent in parents), lock or threading.RLock())
        self._finalizer = weakref.finalize(self, self._core.close)

    def _open_checked(self, pointer: Any, destroy: Any, status: Any, *parents: "Handle", lock: Any = None) -> None:
        """Opens a handle that may carry an error."""
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
        """Serializes calls. Not the lock of a parent process, which may be held forever by one of its threads."""
        self._pointer
        return self._core.lock

    def _message(self) -> str:
        return (text(getattr(lib, self._error)(self._core.pointer)) or "") if self._error else ""

    def _call(self, function: Any, *arguments: Any) -> None:
        """Calls a function that returns a status, with this handle first."""
        with self._lock:
            code = function(self._pointer, *arguments)  # another thread may have closed it in the meantime
            message = self._message() if code else ""
        if _late:
            close_late()
        if code:
            raise error_of(code, message)

    def close(self) -> None:
        """Closes the handle. Objects made from it continue to work; other uses of it raise ClosedError."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        return bool(self._core.unwanted)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
