"""Devices, and contexts: opened devices with their compiled kernels.

Functions that need a device take `context`. Without one they use default_context(): the device of set_default_device(), or that of
the environment variable KOINE_DEVICE, or the fastest.
"""
from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import _show
from ._handle import Handle, generation, quiet_callback, use_devices
from ._library import NULL, encoded, ffi, lib, make, number_of, pointer_of, read, text
from ._log import log_into
from ._settings import names_in, with_settings
from .errors import error_of
from .types import Capabilities, ContextCounts, ContextDebug, ContextSettings, DeviceInfo, Limits, TimelineEntry, Transfers, VerifyResult, VerifySettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _params(keep: List[Any], **given: Any) -> Any:
    """kn_context_params, with fields of kn_context_debug among the keywords."""
    switches = {name: given.pop(name) for name in list(given) if name in names_in(ContextDebug)}
    params = make("kn_context_params", keep, **given)
    debug = params.debug = make("kn_context_debug", keep, **switches)
    keep.append(debug)
    return params


class Device(DeviceInfo):
    """What is known about a device without opening it: index, name, type, platform, usable, problem, memory_bytes …"""

    def __repr__(self) -> str:
        return f"<koine.Device {self.index}: {self.name or self.platform} ({self.type}){'' if self.usable else ', unusable'}>"


class DeviceList(List[Device]):
    """A list of devices, shown as a table in notebooks."""

    def _repr_html_(self) -> str:
        return _show.table(((d.index, d.name, d.type, d.platform, d.memory_bytes, d.problem) for d in self),
                           ("", "device", "type", "platform", "memory, bytes", "problem"))


def devices() -> DeviceList:
    """Returns the OpenCL devices of this machine, including unusable ones with the reason.

    Example:
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
        return DeviceList(read(lib.kn_device_list_at(found[0], i), Device) for i in range(count))
    finally:
        lib.kn_device_list_destroy(found)


def cache_folder() -> Optional[str]:
    """Returns the folder in which compiled kernels are kept between runs: ~/.cache/koine, or a folder in XDG_CACHE_HOME."""
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


class OpenSettings(ContextSettings, ContextDebug, total=False):
    """Keywords of koine.Context: those of opening a device, and those for tests and kernel authors."""


@with_settings(ContextSettings, ContextDebug)
class Context(Handle):
    """An opened device. Threads may share it; each session and trainer on it belongs to one thread at a time.

    Args:
        device: An index ("1"), platform and device ("0:1"), a type ("gpu", "cpu") or a part of a name; without it, the device
            of set_default_device() or of the environment variable KOINE_DEVICE, or the fastest.
        cache_folder: Where compiled kernels are kept between runs; None: koine.cache_folder(); False: nowhere.
        progress: A function of (label, done, total), which is called while kernels are compiled.

    Example:
        >>> import koine
        >>> with koine.Context("cpu") as context:
        ...     context.device.type
        'cpu'
    """

    _error = "kn_context_error"

    def __init__(self, device: Union[str, int, None] = None, *, cache_folder: Union[str, bool, None] = None,
                 progress: Optional[Callable[[str, int, int], None]] = None, **settings: Unpack[OpenSettings]) -> None:
        more: Any = dict(settings)
        use_devices()
        self._given: Any = {"device": device if device is None else str(device), "cache_folder": cache_folder, **more}
        if device is None and not more.get("target"):
            device = _default_device or os.environ.get("KOINE_DEVICE")
            device = None if device == "auto" else device
        if cache_folder is None or cache_folder is True:
            cache_folder = globals()["cache_folder"]()
        keep: List[Any] = []
        more.setdefault("kernel_folder", os.environ.get("KOINE_KERNEL_DIR"))
        params = _params(keep, device=None if device is None else str(device), cache_folder=cache_folder or None, **more)
        log_into(params.log)
        lib.kn_process_enable_amx()  # a processor's matrix unit
        progress_into(params.compile_progress, progress, keep)
        self._open_checked(lib.kn_context_create(params), lib.kn_context_destroy, lib.kn_context_status)
        self._core.keep += keep

    @classmethod
    def from_opencl(cls, context: int, device: int, queue: int, **settings: Unpack[OpenSettings]) -> "Context":
        """Makes a context on the program's own OpenCL objects.

        Args:
            context: The address of a cl_context; pyopencl has it as `int_ptr`.
            device: The address of a cl_device_id.
            queue: The address of a cl_command_queue.
            **settings: Those of Context.
        """
        use_devices()
        keep: List[Any] = []
        params = _params(keep, **settings)
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
        """Makes all work that is queued from now on wait for OpenCL events, given as addresses."""
        self._call(lib.kn_context_wait_for, ffi.new("cl_event[]", [ffi.cast("void *", e) for e in events]), len(events))

    def marker(self) -> int:
        """Returns the address of an OpenCL event, owned by the caller, that completes with all work queued so far."""
        event = ffi.new("cl_event *")
        self._call(lib.kn_context_marker, event)
        return int(ffi.cast("uintptr_t", event[0]))

    def buffer(self, memory: int, offset: int, bytes: int) -> "Buffer":
        """Returns a part of the program's cl_mem, given as an address, to feed from or fetch into without a copy through the host."""
        return Buffer(self, memory, offset, bytes)

    def join(self, name: str, other: "Context") -> None:
        """Adds a second device, which computes the values that are pinned to `name`.

        Args:
            name: The name of the device in this context.
            other: The context of the second device, which this context owns from now on.
        """
        pointer = ffi.new("kn_context **", pointer_of(other, "Context"))
        self._call(lib.kn_context_join, encoded(name), pointer)
        other._core.owned_by(self._core)

    @property
    def devices(self) -> Dict[str, Device]:
        """The devices by name: "main", and those added by join()."""
        found = {}
        for position in range(lib.kn_context_device_count(self._pointer)):
            at = lib.kn_context_device_at(self._pointer, position)
            found[text(lib.kn_context_device_name_at(self._pointer, position)) or ""] = read(lib.kn_context_device(at), Device)
        return found

    @property
    def device(self) -> Device:
        """The device that was opened."""
        return read(lib.kn_context_device(self._pointer), Device)  # type: ignore[no-any-return]

    @property
    def capabilities(self) -> Capabilities:
        """What is known about the opened device, including the results of probes."""
        return read(lib.kn_context_capabilities(self._pointer))

    @property
    def counts(self) -> ContextCounts:
        """Counters since the context was opened: programs, memory, time spent compiling."""
        return self._result(lib.kn_context_get_counts, "kn_context_counts")

    def _result(self, function: Any, struct: str, *arguments: Any) -> Any:
        made = make(struct)
        self._call(function, *arguments, made)
        return read(made)

    def limits(self, again: bool = False) -> Limits:
        """Returns the device's peak performance, which is measured once; again: measure it again."""
        return self._result(lib.kn_context_measure_limits, "kn_limits", again)

    def clear_avoided(self) -> int:
        """Uses the kernels again that the device avoids because a process ended while they were tried; returns how many."""
        return lib.kn_context_clear_avoided(self._pointer)

    def transfers(self) -> Transfers:
        """Measures the cost of transfers and launches."""
        return self._result(lib.kn_context_measure_transfers, "kn_transfers")

    def matrix_unit(self, precision: Union[str, int]) -> str:
        """Returns the matrix unit for products in "float16" or "bfloat16" that computes correctly on this device, or "none"."""
        return text(lib.kn_matrix_unit_name(lib.kn_context_matrix_unit(self._pointer, number_of("kn_precision", precision)))) or ""

    def matrix_unit_of(self, dtype: Union[str, int]) -> str:
        """Returns the matrix unit by the type that it multiplies: "float16", "bfloat16", "float32" (rounded to TF32) or "int8"."""
        return text(lib.kn_matrix_unit_name(lib.kn_context_matrix_unit_for(self._pointer, number_of("kn_dtype", dtype)))) or ""

    @property
    def clock(self) -> float:
        """Seconds since the context was opened, on the timeline's clock."""
        return float(lib.kn_context_clock(self._pointer))

    def timeline(self, clear: bool = False) -> List[TimelineEntry]:
        """Returns what ran when, if the context was opened with timeline=True; clear: start a new timeline."""
        count = ffi.new("size_t *")
        entries = lib.kn_context_timeline(self._pointer, count)
        found = [read(entries[i]) for i in range(count[0])]
        if clear:
            lib.kn_context_timeline_clear(self._pointer)
        return found

    @with_settings(VerifySettings)
    def verify(self, operators: Optional[str] = None, *, report: Optional[Callable[[VerifyResult], None]] = None,
               begin: Optional[Callable[[str], None]] = None, **settings: Unpack[VerifySettings]) -> Tuple[int, int]:
        """Checks operators on this device against their references.

        Args:
            operators: Names, separated by commas; None: all operators.
            report: A function of a VerifyResult, called after each case.
            begin: A function of an operator's name, called before its cases.

        Returns:
            The number of cases that passed, and of those that failed.
        """
        keep: List[Any] = []
        params = make("kn_verify_params", keep, operators=operators, **settings)

        @ffi.callback("void(void *, kn_verify_result *)")
        def called(_user: Any, result: Any) -> None:
            if report is not None:
                report(read(result))
        @ffi.callback("void(void *, char *)")
        def begun(_user: Any, name: Any) -> None:
            if begin is not None:
                begin(text(name) or "")
        if report is not None:
            params.report = called
        if begin is not None:
            params.begin = begun
        passed, failed = ffi.new("int *"), ffi.new("int *")
        with self._lock:
            code = lib.kn_verify(self._pointer, params, passed, failed)
        if code not in (0, 14):
            raise error_of(code)
        return passed[0], failed[0]

    def verify_one(self, position: int, **settings: Unpack[VerifySettings]) -> None:
        """Runs one case of koine.debug.verify_cases(); raises MismatchError if it fails."""
        keep: List[Any] = []
        self._call(lib.kn_verify_case_at, position, make("kn_verify_params", keep, **settings))

    def __repr__(self) -> str:
        return "<koine.Context, closed>" if self.closed else f"<koine.Context on {self.device.name}>"

    def _repr_html_(self) -> str:
        return _show.table(self.device.__dict__.items())


def _opened_again(given: Mapping[str, Any]) -> Context:
    """The context of a pickled one, opened once in each process."""
    key = repr(sorted(given.items()))
    with _choosing:
        found = _again.get(key)
        if found is None or found.closed or found._core.generation != generation():
            found = _again[key] = Context(**given)
        return found


class Buffer(Handle):
    """Memory of the program's own OpenCL context; Context.buffer makes one."""

    def __init__(self, context: Context, memory: int, offset: int, bytes: int) -> None:
        pointer = lib.kn_buffer_from_opencl(pointer_of(context, "Context"), ffi.cast("void *", memory), offset, bytes)
        if not pointer:
            raise error_of(2, "the buffer cannot be used: expected a cl_mem of the context and a range within it")
        self._open(pointer, lib.kn_buffer_destroy, context)


# ---- the default device ----------------------------------------------------------------------------------------------

_default: Optional[Context] = None
_default_device: Optional[str] = None
_by_device: Dict[str, Context] = {}
_again: "weakref.WeakValueDictionary[str, Context]" = weakref.WeakValueDictionary()  # contexts of pickles
_choosing = threading.Lock()


def default_context() -> Context:
    """Returns the context that is used where none is given; opens it when it is first needed."""
    global _default
    with _choosing:
        if _default is None or _default.closed:
            _default = Context()
        _default._pointer  # raises in a forked child
        return _default


def set_default_context(context: Optional[Context]) -> None:
    """Sets the context that is used where none is given.

    Args:
        context: The context; None: one on the default device, opened when it is needed.
    """
    global _default
    _default = context


def set_default_device(device: Union[str, int, None]) -> None:
    """Sets the device that is used where none is given. Models and sessions that exist stay on theirs.

    Args:
        device: An index, a type such as "gpu", or a part of a name, as for Context; None: the device of the environment variable
            KOINE_DEVICE, or the fastest.

    Example:
        >>> import koine
        >>> koine.set_default_device("cpu")
        >>> koine.default_context().device.type
        'cpu'
        >>> koine.set_default_device(None)
    """
    global _default, _default_device
    with _choosing:
        _default, _default_device = None, None if device is None else str(device)


def context_on(device: Union[str, int, None]) -> Context:
    """The context on a device that is given by name, opened once in each process; None: the default one."""
    if device is None:
        return default_context()
    with _choosing:
        found = _by_device.get(str(device))
        if found is None or found.closed or found._core.generation != generation():
            found = _by_device[str(device)] = Context(device)
        return found
