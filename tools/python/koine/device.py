"""Devices, and a context: an opened device with its compiled kernels.

Functions that need a device take `context`, and without one use default_context(), which is the device of KOINE_DEVICE or
else the fastest.
"""
from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import _show
from ._handle import Handle, generation, quiet_callback, use_devices
from ._library import NULL, encoded, ffi, fields_of, lib, make, number_of, pointer_of, read, Record, records_of, text, with_fields, word_of
from ._log import log_into
from .errors import error_of


_KINDS: Dict[Any, Any] = {"wide": 1, "many": 2}  # sets of kernels


def _params(keep: List[Any], kind: Union[str, int] = 0, **given: Any) -> Any:
    """kn_context_params; those of kn_context_debug are given the same way."""
    switches = {name: given.pop(name) for name in list(given) if name in fields_of("kn_context_debug")}
    params = make("kn_context_params", keep, **given)
    params.debug = debug = make("kn_context_debug", keep, kernels=_KINDS.get(kind, kind), **switches)
    keep.append(debug)
    return params


class Device(Record):
    """What is known about a device without opening it: index, name, type, platform, usable, problem, memory_bytes …"""

    def __repr__(self) -> str:
        return f"<koine.Device {self.index}: {self.name or self.platform} ({self.type}){'' if self.usable else ', unusable'}>"


class DeviceList(List[Device]):
    def _repr_html_(self) -> str:
        return _show.table(((d.index, d.name, d.type, d.platform, d.memory_bytes, d.problem) for d in self),
                           ("", "device", "type", "platform", "memory, bytes", "problem"))


def devices() -> DeviceList:
    """The OpenCL devices of this machine, with what is unusable and why.

    >>> import koine
    >>> any(device.usable for device in koine.devices())
    True
    """
    use_devices()
    found = ffi.new("kn_device_list **", lib.kn_device_list_create(NULL, NULL))
    if not found[0]:
        raise error_of(1)
    try:
        count = lib.kn_device_list_count(found[0])
        return DeviceList(Device(**read(lib.kn_device_list_at(found[0], i)).__dict__) for i in range(count))
    finally:
        lib.kn_device_list_destroy(found)


def cache_folder() -> Optional[str]:
    """Where compiled kernels are kept between runs, as by the command: ~/.cache/koine or below XDG_CACHE_HOME."""
    room = ffi.new("char[]", 4096)
    given = [os.environ.get(name) for name in ("XDG_CACHE_HOME", "HOME")]
    found = lib.kn_default_cache_folder(*(ffi.new("char[]", os.fsencode(word)) if word else NULL for word in given), room, 4096)
    return text(room) if found else None


def progress_into(progress: Any, report: Optional[Callable[[str, int, int], None]], keep: List[Any]) -> None:
    """Sets a kn_progress to a function of (label, done, total)."""
    if report is None:
        return

    @ffi.callback("void(void *, const char *, uint64_t, uint64_t)")
    def called(_user: Any, label: Any, done: int, total: int) -> None:
        with quiet_callback():
            report(text(label) or "", done, total)
    keep.append(called)
    progress.report = called


class Context(Handle):
    """An opened device. Threads may share it; what is made from it each belongs to one thread at a time.

    >>> import koine
    >>> with koine.Context("cpu") as context:
    ...     context.device.type
    'cpu'
    """

    _error = "kn_context_error"

    def __init__(self, device: Optional[str] = None, *, cache_folder: Union[str, bool, None] = None,
                 progress: Optional[Callable[[str, int, int], None]] = None, kind: Union[str, int] = 0, **more: Any) -> None:
        """device: an index, platform:device, "gpu", "cpu" or a part of a name; without one that of the environment's
        KOINE_DEVICE, or else the fastest. cache_folder: False keeps nothing between runs. progress: a function of
        (label, done, total), called while kernels are compiled. kind: "wide" or "many" forces a set of kernels."""
        use_devices()
        self._given: Any = {"device": device, "cache_folder": cache_folder, "kind": kind, **more}
        if device is None and not more.get("target"):
            device = os.environ.get("KOINE_DEVICE")
            device = None if device == "auto" else device
        if cache_folder is None or cache_folder is True:
            cache_folder = globals()["cache_folder"]()
        keep: List[Any] = []
        more.setdefault("kernel_folder", os.environ.get("KOINE_KERNEL_DIR"))
        params = _params(keep, device=None if device is None else str(device), cache_folder=cache_folder or None, kind=kind, **more)
        log_into(params.log)
        lib.kn_process_enable_amx()  # a processor's matrix unit
        progress_into(params.compile_progress, progress, keep)
        self._open_checked(lib.kn_context_create(params), lib.kn_context_destroy, lib.kn_context_status)
        self._core.keep += keep

    @classmethod
    def from_opencl(cls, context: int, device: int, queue: int, **more: Any) -> "Context":
        """On the program's own OpenCL objects, given as addresses: pyopencl has them as int_ptr."""
        use_devices()
        keep: List[Any] = []
        params = _params(keep, **more)
        log_into(params.log)
        made = cls.__new__(cls)
        made._given = None
        pointers = [ffi.cast("void *", number) for number in (context, device, queue)]
        made._open_checked(lib.kn_context_create_opencl(params, *pointers), lib.kn_context_destroy, lib.kn_context_status)
        return made

    def __reduce__(self) -> Any:
        """A pickled context is opened again in the process that reads it; that of default_context() is the default there."""
        if self is _default:
            return default_context, ()
        if self._given is None:
            raise TypeError("a context on the program's own OpenCL objects cannot be pickled")
        return _opened_again, (self._given,)

    def __copy__(self) -> "Context":
        return self

    def __deepcopy__(self, memo: Any) -> "Context":
        return self

    def wait_for(self, events: List[int]) -> None:
        """What is enqueued from now on starts after these events of OpenCL, given as addresses."""
        self._call(lib.kn_context_wait_for, ffi.new("cl_event[]", [ffi.cast("void *", e) for e in events]), len(events))

    def marker(self) -> int:
        """The address of an event, owned by the caller, that completes with all work enqueued so far."""
        event = ffi.new("cl_event *")
        self._call(lib.kn_context_marker, event)
        return int(ffi.cast("uintptr_t", event[0]))

    def buffer(self, memory: int, offset: int, bytes: int) -> "Buffer":
        """A buffer of the program, to feed or to fetch into without a copy through the host."""
        return Buffer(self, memory, offset, bytes)

    def join(self, name: str, other: "Context") -> None:
        """Joins another device, which values that are pinned to `name` are computed on. This context owns it from now on."""
        pointer = ffi.new("kn_context **", pointer_of(other, "Context"))
        self._call(lib.kn_context_join, encoded(name), pointer)
        other._core.owned_by(self._core)

    @property
    def devices(self) -> Dict[str, Device]:
        """The devices by name: "main", and those that were joined."""
        found = {}
        for position in range(lib.kn_context_device_count(self._pointer)):
            at = lib.kn_context_device_at(self._pointer, position)
            found[text(lib.kn_context_device_name_at(self._pointer, position)) or ""] = Device(**read(lib.kn_context_device(at)).__dict__)
        return found

    @property
    def device(self) -> Device:
        return Device(**read(lib.kn_context_device(self._pointer)).__dict__)

    @property
    def capabilities(self) -> Record:
        """What is known about the opened device, including probe results."""
        return read(lib.kn_context_capabilities(self._pointer))

    @property
    def counts(self) -> Record:
        """Counters since the context was opened: programs, memory, time spent compiling."""
        return self._result(lib.kn_context_get_counts, "kn_context_counts")

    def _result(self, function: Any, struct: str, *arguments: Any) -> Record:
        made = make(struct)
        self._call(function, *arguments, made)
        return read(made)

    def limits(self, again: bool = False) -> Record:
        """The device's peak performance: gflops and gbytes per second; measured where it is not known."""
        return self._result(lib.kn_context_measure_limits, "kn_limits", again)

    def transfers(self) -> Record:
        """The least cost of transfers and launches, measured by the call."""
        return self._result(lib.kn_context_measure_transfers, "kn_transfers")

    def matrix_unit(self, precision: Union[str, int]) -> str:
        """The unit for products in "float16" or "bfloat16" that computes right here; "none" without one."""
        return text(lib.kn_matrix_unit_name(lib.kn_context_matrix_unit(self._pointer, number_of("kn_precision", precision)))) or ""

    def matrix_unit_of(self, dtype: Union[str, int]) -> str:
        """The same by the numbers that it multiplies: "float16", "bfloat16", "float32" (rounded to TF32) or "int8"."""
        return text(lib.kn_matrix_unit_name(lib.kn_context_matrix_unit_for(self._pointer, number_of("kn_dtype", dtype)))) or ""

    @property
    def clock(self) -> float:
        """Seconds since the context was opened, on the timeline's clock."""
        return float(lib.kn_context_clock(self._pointer))

    def timeline(self, clear: bool = False) -> List[Record]:
        """What ran when, if the context was opened with timeline=True."""
        count = ffi.new("size_t *")
        entries = lib.kn_context_timeline(self._pointer, count)
        found = [read(entries[i]) for i in range(count[0])]
        if clear:
            lib.kn_context_timeline_clear(self._pointer)
        return found

    def verify(self, operators: Optional[str] = None, *, report: Optional[Callable[[Record], None]] = None, **more: Any) -> Tuple[int, int]:
        """Checks operators on this device against their references; returns how many cases passed and failed."""
        keep: List[Any] = []
        params = make("kn_verify_params", keep, operators=operators, **more)

        @ffi.callback("void(void *, kn_verify_result *)")
        def called(_user: Any, result: Any) -> None:
            if report is not None:
                report(read(result))
        if report is not None:
            params.report = called
        passed, failed = ffi.new("int *"), ffi.new("int *")
        with self._lock:
            code = lib.kn_verify(self._pointer, params, passed, failed)
        if code not in (0, 14):
            raise error_of(code)
        return passed[0], failed[0]

    def verify_one(self, position: int, **more: Any) -> None:
        """Runs one of verify_cases(); raises if it fails."""
        keep: List[Any] = []
        self._call(lib.kn_verify_case_at, position, make("kn_verify_params", keep, **more))

    def __repr__(self) -> str:
        return "<koine.Context, closed>" if self.closed else f"<koine.Context on {self.device.name}>"

    def _repr_html_(self) -> str:
        return _show.table(self.device.__dict__.items())


Context.__init__.__doc__ = with_fields("kn_context_params", "device", "cache_folder", "compile_progress", "log", "kind")(
    Context.__init__).__doc__


def _opened_again(given: Mapping[str, Any]) -> Context:
    """The context of a pickled one, opened once in each process."""
    key = repr(sorted(given.items()))
    with _choosing:
        found = _again.get(key)
        if found is None or found.closed or found._core.generation != generation():
            found = _again[key] = Context(**given)
        return found


def verify_cases() -> List[str]:
    """The names of the cases that Context.verify runs."""
    return [text(lib.kn_verify_case_name_at(i)) or "" for i in range(lib.kn_verify_case_count())]


class Buffer(Handle):
    """Memory of the program's own OpenCL context (Context.buffer)."""

    def __init__(self, context: Context, memory: int, offset: int, bytes: int) -> None:
        pointer = lib.kn_buffer_from_opencl(pointer_of(context, "Context"), ffi.cast("void *", memory), offset, bytes)
        if not pointer:
            raise error_of(2, "the buffer cannot be used: expected a memory object of the context, and a range within it")
        self._open(pointer, lib.kn_buffer_destroy, context)


# ---- the default device ----------------------------------------------------------------------------------------------

_default: Optional[Context] = None
_again: "weakref.WeakValueDictionary[str, Context]" = weakref.WeakValueDictionary()  # those of pickles
_choosing = threading.Lock()


def default_context() -> Context:
    """The context that is used where none is given; opened when it is first needed."""
    global _default
    with _choosing:
        if _default is None or _default.closed:
            _default = Context()
        _default._pointer  # raises in a forked child
        return _default


def set_default_context(context: Optional[Context]) -> None:
    """Uses another one from now on; None opens one anew when it is needed."""
    global _default
    _default = context


# ---- the tuner -------------------------------------------------------------------------------------------------------


class Tuner(Handle):
    """Measures which kernels are the fastest for the shapes of a model; plans use what was measured from then on.

    Compile sessions or trainers with switches="tuning=noted", then run() each of shapes(). A kernel may crash the process
    that tries it: `koine tune` tries them in another one.
    """

    _error = "kn_tuner_error"

    def __init__(self, context: Optional[Context] = None) -> None:
        context = context or default_context()
        pointer = lib.kn_tuner_create(pointer_of(context, "Context"))
        if not pointer:
            raise error_of(2, "no tuner could be made: a context can have one at a time")
        self._open(pointer, lib.kn_tuner_destroy, context)

    def _each(self, function: Any, struct: str) -> List[Record]:
        return records_of(struct, lambda position, made: function(self._pointer, position, made))

    def shapes(self) -> List[Record]:
        """The operators, with their shapes, that several kernels can compute; those that take the longest first."""
        return [shape for shape, _ in zip(self._each(lib.kn_tuner_shape_at, "kn_tuner_shape"), range(lib.kn_tuner_shape_count(self._pointer)))]

    def run(self, position: int, seconds: float = 0, report: Optional[Callable[[str, str, str], None]] = None) -> None:
        """Times the kernels for a shape and keeps the fastest; report is called with (event, kernel, message)."""
        params = make("kn_tuner_params", seconds=seconds)

        @ffi.callback("void(void *, kn_tuner_event, const char *, const char *)")
        def called(_user: Any, event: int, kernel: Any, message: Any) -> None:
            if report is not None:
                report(word_of("kn_tuner_event", int(event)), text(kernel) or "", text(message) or "")
        if report is not None:
            params.report = called
        self._call(lib.kn_tuner_run, position, params)

    def refuse(self, key: str, kernel: str, why: str = "failed") -> None:
        """Notes that a kernel must not be tried again for a shape."""
        self._call(lib.kn_tuner_exclude, encoded(key), encoded(kernel), number_of("kn_tuner_event", why))

    def forget(self, position: int) -> None:
        """Forgets what is known of a shape, so that it is tuned again."""
        self._call(lib.kn_tuner_forget, position)

    def entries(self) -> List[Record]:
        """All that is kept for the device."""
        return self._each(lib.kn_tuner_entry_at, "kn_tuner_entry")

    def export(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self._call(lib.kn_tuner_export, os.fsencode(path))

    def load(self, path: Union[str, "os.PathLike[str]"]) -> Record:
        """Adds the entries of a file that export() wrote; returns what became of them."""
        counts = make("kn_tuner_counts")
        self._call(lib.kn_tuner_import, os.fsencode(path), counts)
        return read(counts)
