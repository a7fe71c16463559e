"""Communicators, by which several workers exchange arrays.

>>> import koine, numpy as np
>>> from concurrent.futures import ThreadPoolExecutor
>>> with koine.Group(3) as group, ThreadPoolExecutor(3) as threads:
...     list(threads.map(lambda rank: float(group[rank].all_reduce([rank + 1.0])[0]), range(3)))
[6.0, 6.0, 6.0]
"""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ._arrays import address, as_array, ready, type_number
from ._handle import Handle
from ._library import encoded, ffi, lib, make, mpi, number_of, text
from .errors import error_of


class Communicator(Handle):
    """One rank's end of a group of workers.

    Every rank calls the same methods in the same order, with arrays of the same shape. If a call raises, the other ranks wait until
    abort() ends the group.
    """

    def __init__(self, pointer: Any, *parents: Handle) -> None:
        self._open(pointer, None, *parents)

    @classmethod
    def mpi(cls) -> "Communicator":
        """Returns the communicator of the processes that mpirun started. Each process opens it, and closes it after its last call."""
        library = mpi()
        if library is None:
            raise error_of(5, "libkoine-mpi is not installed: build Koine with -Dmpi=enabled")
        made, room = make("kn_communicator"), ffi.new("char[]", 1024)
        code = library.kn_mpi_create(made, room, 1024)
        if code:
            raise error_of(code, text(room))
        opened = cls.__new__(cls)
        opened._open(made, lambda holder: library.kn_mpi_destroy(holder[0]))
        return opened

    @property
    def rank(self) -> int:
        """The number of this worker, from 0."""
        return int(self._pointer.rank)

    @property
    def ranks(self) -> int:
        """The number of workers."""
        return int(self._pointer.ranks)

    def _message(self) -> str:
        pointer = self._core.pointer
        return (text(pointer.error(pointer.user)) or "") if pointer.error else ""

    def all_reduce(self, x: Any) -> np.ndarray:
        """Returns the sum of all ranks' arrays, as float32: added as a binary tree over the ranks, with the same bits each time."""
        sums = ready(x, number_of("kn_dtype", "float32"), "x").copy()
        self._call(lib.kn_all_reduce, ffi.cast("float *", address(sums)), sums.size)
        return sums

    def reduce_scatter(self, x: Any) -> np.ndarray:
        """Returns this rank's part of the sum of all ranks' arrays: x[rank], where the first dimension of x is the rank."""
        x = ready(x, number_of("kn_dtype", "float32"), "x")
        if x.ndim < 1 or x.shape[0] != self.ranks:
            raise error_of(3, f"'x' has the shape {x.shape}, expected {self.ranks} parts, one for each rank")
        sums = np.empty(x.shape[1:], np.float32)
        self._call(lib.kn_reduce_scatter, ffi.cast("float *", address(x)), ffi.cast("float *", address(sums)), sums.size)
        return sums

    def all_gather(self, x: Any) -> np.ndarray:
        """Returns the arrays of all ranks, in a new first dimension."""
        x = as_array(x)
        x = ready(x, type_number(x.dtype), "x")
        all_of_them = np.empty((self.ranks, *x.shape), x.dtype)
        self._call(lib.kn_all_gather, address(x), address(all_of_them), x.nbytes)
        return all_of_them

    def broadcast(self, x: Any, source: int = 0) -> np.ndarray:
        """Returns the array of the rank `source`; the other ranks give an array of the same shape and type."""
        x = as_array(x)
        copy = ready(x, type_number(x.dtype), "x").copy()
        self._call(lib.kn_broadcast_from, source, address(copy), copy.nbytes)
        return copy

    def barrier(self) -> None:
        """Waits until all ranks have called it."""
        self._call(lib.kn_barrier)

    def abort(self, reason: str) -> None:
        """Ends the group, from any thread: calls of all ranks raise CancelledError with this reason."""
        pointer = self._pointer
        pointer.abort(pointer.user, encoded(reason))


class Group(Handle):
    """Threads of this process as workers: group[rank] is the Communicator of a thread.

    Args:
        ranks: The number of workers.
    """

    def __init__(self, ranks: int) -> None:
        made = ffi.new("kn_group **")
        code = lib.kn_group_create(ranks, ffi.NULL, made)
        if code:
            raise error_of(code, f"a group of {ranks} ranks; expected 1 or more" if ranks < 1 else None)
        self._ranks = ranks
        self._open(made[0], lib.kn_group_destroy)

    def __len__(self) -> int:
        return self._ranks

    def __getitem__(self, rank: int) -> Communicator:
        pointer: Optional[Any] = lib.kn_group_communicator(self._pointer, rank)
        if not pointer:
            raise IndexError(f"there is no rank {rank} among {self._ranks}")
        return Communicator(pointer, self)


class MPIGroup(Handle):
    """Threads of several processes that mpirun started, as workers: workers[i] is the Communicator of thread i of this process.

    Each process opens it and closes it. A communicator's rank counts the workers of all processes.

    Args:
        group: The threads of this process.
    """

    def __init__(self, group: Group) -> None:
        library = mpi()
        if library is None:
            raise error_of(5, "libkoine-mpi is not installed: build Koine with -Dmpi=enabled")
        self._here = len(group)
        within = ffi.new("kn_communicator *[]", [group[i]._pointer for i in range(self._here)])
        made, room = ffi.new("kn_mpi_workers **"), ffi.new("char[]", 1024)
        code = library.kn_mpi_workers_create(within, self._here, made, room, 1024)
        if code:
            raise error_of(code, text(room))
        self._library = library
        self._open(made[0], library.kn_mpi_workers_destroy, group)

    def __len__(self) -> int:
        return self._here

    def __getitem__(self, number: int) -> Communicator:
        pointer: Optional[Any] = self._library.kn_mpi_workers_communicator(self._pointer, number)
        if not pointer:
            raise IndexError(f"there is no worker {number} among the {self._here} of this process")
        return Communicator(pointer, self)
