"""Sessions run graphs on a device; states hold what stays between runs.

>>> import koine, numpy as np
>>> graph = koine.Graph()
>>> x = graph.input("x", "batch,3")
>>> session = koine.Session(x * 2 + 1)
>>> session.run(x=np.float32([[1, 2, 3]])).tolist()
[[3.0, 5.0, 7.0]]
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _show
from ._arrays import address, check_shape, empty_for, feeds_of, fetches_of, info_of, ready, shape_of, stored, target_of, type_number
from ._handle import Handle
from ._library import NULL, encoded, ffi, lib, make, pointer_of, read, records_of, text, unknown, word_of
from ._settings import with_settings
from .device import Buffer, Context, default_context, progress_into
from .errors import error_of
from .graph import Graph, Value
from .types import PlanInfo, PlanPass, PlanStep, SessionSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

_NOT_FOUND = 12


class States(Handle, Mapping[str, np.ndarray]):
    """Parameters, running statistics and optimizer moments by name, on a device.

    states["conv1.weight"] copies an array from the device, states["conv1.weight"] = array sets it. A session adds the states that
    it needs when it is compiled or first run, initialized from the seed and their names.

    Args:
        context: The device; without it, default_context().
        seed: Seed of the initial values.
    """

    _error = "kn_states_error"
    _places: Dict[str, int] = {}  # of each name, as it was last seen

    def __init__(self, context: Optional[Context] = None, seed: int = 1) -> None:
        context = context or default_context()
        self._open(lib.kn_states_create(pointer_of(context, "Context"), seed), lib.kn_states_destroy, context)

    @classmethod
    def on_host(cls) -> "States":
        """Returns states without a device, to load files into and to save from."""
        made = cls.__new__(cls)
        made._open(lib.kn_states_create_host(NULL), lib.kn_states_destroy)
        return made

    def _infos(self) -> Dict[str, Any]:
        found = {}
        for position in range(lib.kn_states_count(self._pointer)):
            info = ffi.new("kn_tensor_info *")
            name = text(lib.kn_states_at(self._pointer, position, info))
            if name is not None:
                found[name] = info
        return found

    def _find(self, name: str) -> Any:
        """Element type and shape of a state, or None. Where it was found it is looked for first: there may be thousands."""
        info = ffi.new("kn_tensor_info *")
        place = self._places.get(name, 0)
        if text(lib.kn_states_at(self._pointer, place, info)) == name:
            return info
        self._places = {found: position for position, found in enumerate(self)}
        return self._infos().get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos())

    def __len__(self) -> int:
        return int(lib.kn_states_count(self._pointer))

    def shape(self, name: str) -> Tuple[int, ...]:
        """Returns the shape of a state."""
        return shape_of(self._info(name))

    def _info(self, name: str) -> Any:
        info = self._find(name)
        if info is None:
            raise KeyError(name)
        return info

    def __getitem__(self, name: str) -> np.ndarray:
        array = empty_for(self._info(name))
        self._call(lib.kn_states_get, encoded(name), address(array), array.nbytes)
        return array

    def copy_to(self, name: str, array: np.ndarray) -> None:
        """Copies a state into a contiguous array of its type and shape."""
        info = self._info(name)
        target_of(array, info, name)
        self._call(lib.kn_states_get, encoded(name), address(array), array.nbytes)

    def __setitem__(self, name: str, value: Any) -> None:
        array, number = self._ready(name, value)
        self._call(lib.kn_states_set, encoded(name), info_of(array.shape, number), address(array), array.nbytes)

    def refresh(self, name: str, value: Any) -> bool:
        """Sets a state from memory that may have changed since the last call; copies nothing if it has not.

        Returns:
            Whether the memory has changed.
        """
        array, number = self._ready(name, value)
        changed = ffi.new("bool *")
        self._call(lib.kn_states_refresh, encoded(name), info_of(array.shape, number), address(array), array.nbytes, changed)
        return bool(changed[0])

    def _ready(self, name: str, value: Any) -> Tuple[np.ndarray, int]:
        """An array for a state, and the state's element type."""
        known = self._find(name)
        if known is None:  # kept for a session that has not been compiled yet; numpy's own type for numbers is rarely meant
            array = np.asarray(value)
            number = type_number("float32" if array.dtype == np.float64 else array.dtype)
        else:
            number = known.dtype
        array = ready(value, number, name)
        if known is not None:
            check_shape(array.shape, [str(size) for size in shape_of(known)], name)
        return array, number

    def contents(self) -> Dict[str, Tuple[str, np.ndarray]]:
        """Returns the element types and arrays of all states by name."""
        return {name: (word_of("kn_dtype", info.dtype), self[name]) for name, info in self._infos().items()}

    def fill(self, contents: Mapping[str, Tuple[str, np.ndarray]]) -> None:
        """Sets states from what contents() returned; sessions that are compiled later find them."""
        if not isinstance(contents, Mapping):
            raise error_of(2, f"fill takes what contents() returned, not {type(contents).__name__}")
        for name, item in contents.items():
            if not isinstance(item, tuple) or len(item) != 2:
                raise error_of(2, f"the contents of state '{name}' are {type(item).__name__}; expected a type and an array")
            number = type_number(item[0])
            array = stored(item[1], number, name)
            self._call(lib.kn_states_set, encoded(name), info_of(array.shape, number), address(array), array.nbytes)

    def __repr__(self) -> str:
        return "<koine.States, closed>" if self.closed else f"<koine.States: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        return _show.table(((name, word_of("kn_dtype", info.dtype), ",".join(map(str, shape_of(info))))
                            for name, info in self._infos().items()), ("state", "type", "shape"))


class Plan:
    """What a session or a trainer computes in a run.

    Attributes:
        info: Memory and work, as a koine.types.PlanInfo.
        text: The text of `koine plan`, which str() returns.
        steps: The steps, each a koine.types.PlanStep.
        passes: The passes of the planner, each a koine.types.PlanPass.
    """

    def __init__(self, info: PlanInfo, text: str, steps: List[PlanStep], passes: List[PlanPass]) -> None:
        self.info, self.text, self.steps, self.passes = info, text, steps, passes

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<koine.Plan: {self.info.steps} steps, {self.info.peak_bytes} bytes of the device>"

    def _repr_html_(self) -> str:
        return _show.table(self.info.__dict__.items()) + _show.pre(self.text)


def inputs_of(graph: Graph) -> Dict[str, Tuple[int, List[str]]]:
    """Element type and shape of each input, as declared, by both of its names."""
    return {name: (int(lib.kn_value_dtype(value._pointer)), value._shape_words) for value in graph.inputs
            for name in {value.name, value.field}}


class Runs(Handle):
    """What sessions and trainers have in common: inputs by name, and plans."""

    _kind = ""  # "kn_session"
    _inputs: Dict[str, Tuple[int, List[str]]]
    _seen: Tuple[Dict[str, Tuple[int, ...]], Dict[str, int]] = ({}, {})  # shapes of the last inputs, and the numbers of symbols

    def _function(self, name: str) -> Any:
        return getattr(lib, f"{self._kind}_{name}")

    def _input(self, name: str) -> Tuple[int, List[str]]:
        """Element type and shape of an input, as declared."""
        try:
            return self._inputs[name]
        except KeyError:
            raise error_of(_NOT_FOUND, unknown("input", name, self._inputs)) from None

    def _feeds(self, given: Mapping[str, Any], keep: List[Any]) -> Tuple[Any, int, Dict[str, int]]:
        """kn_feeds in the memory of the arrays, their number, and the numbers that their shapes give to symbols."""
        arrays = {name: ready(array, self._input(name)[0], name) for name, array in given.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != self._seen[0]:
            self._seen = shapes, self._symbols_of(shapes)
        return feeds_of(list(arrays), list(arrays.values()), keep), len(arrays), self._seen[1]

    def _symbols_of(self, shapes: Mapping[str, Tuple[int, ...]]) -> Dict[str, int]:
        """Checks the shapes; returns the numbers that they give to symbols."""
        symbols: Dict[str, int] = {}
        for name, shape in shapes.items():
            for symbol, size in check_shape(shape, self._input(name)[1], name).items():
                if symbols.setdefault(symbol, size) != size:
                    raise error_of(3, f"'{name}' has {size} for '{symbol}', but an earlier input has {symbols[symbol]}")
        return symbols

    def plan(self) -> Plan:
        """Returns the plan of the last run or compilation."""
        info = make("kn_plan_info")
        self._call(self._function("plan"), info)
        steps, passes = (records_of(f"kn_{name[:-3]}", lambda position, made: self._function(name)(self._pointer, position, made))
                         for name in ("plan_step_at", "plan_pass_at"))
        for step in steps:
            step.inputs = step.inputs[:step.input_count]
        return Plan(read(info), self.plan_text(), steps, passes)

    def plan_text(self) -> str:
        """Returns the plan as text."""
        pointer = self._function("plan_text")(self._pointer)
        if not pointer:
            message = self._message()
            raise error_of(2 if message else 1, message)
        try:
            return text(pointer) or ""
        finally:
            self._function("free_text")(self._pointer, pointer)

    def write_programs(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the programs of the plan, as OpenCL C, and its launches to a folder."""
        self._call(self._function("write_programs"), os.fsencode(folder))

    def wait(self) -> None:
        """Waits until all runs are complete."""
        self._call(self._function("wait"))


@with_settings(SessionSettings)
class Session(Runs):
    """Computes values of a graph on a device.

    Args:
        values: A value, a list, or a dict of values; run() returns an array, a list or a dict of arrays.
        context: The device; without it, default_context().
        states: The parameters, shared with other sessions; without it, new ones.
        training: Dropout is active, and batch norms use and update their statistics.
        progress: A function of (label, done, total), which is called while kernels are compiled.

    Example:
        >>> import koine, numpy as np
        >>> x = koine.Graph().input("x", "batch,3")
        >>> koine.Session(x * 2 + 1).run(x=np.ones((2, 3)))
        array([[3., 3., 3.],
               [3., 3., 3.]], dtype=float32)
    """

    _error, _kind = "kn_session_error", "kn_session"
    _made: Tuple[Any, List[Any]] = (None, [])  # of _seen, the shapes for which the session was compiled, and kn_tensor_infos of the results

    def __init__(self, values: Union[Value, Sequence[Value], Mapping[str, Value]], context: Optional[Context] = None, *,
                 states: Optional[States] = None, training: bool = False, progress: Optional[Callable[[str, int, int], None]] = None,
                 **settings: Unpack[SessionSettings]) -> None:
        context = context or default_context()
        if isinstance(values, Mapping):
            self._keys: Any = list(values)
            listed = list(values.values())
        else:
            self._keys = None if isinstance(values, Value) else int
            listed = [values] if isinstance(values, Value) else list(values)
        if not listed:
            raise error_of(2, "a session needs at least one value to compute")
        pointers = [pointer_of(value, "Value") for value in listed]
        graph = listed[0].graph
        self._inputs = inputs_of(graph)
        self._bound: Dict[str, int] = {}
        self.context = context
        keep: List[Any] = []
        params = make("kn_session_params", keep, states=states, training=training, **settings)
        progress_into(params.progress, progress, keep)
        self.states = states if states is not None else States(context, params.seed)
        params.states = pointer_of(self.states, "States")
        with graph._lock:
            made = lib.kn_session_create(pointer_of(context, "Context"), ffi.new("kn_value *[]", pointers), len(listed), params)
            self._open_checked(made, lib.kn_session_destroy, lib.kn_session_status, context, self.states, lock=self.states._core.lock)
        self._core.keep += keep
        self._names = [value.name for value in listed]

    def bind(self, **symbols: int) -> None:
        """Sets sizes with names, such as batch=8, that the shapes of the inputs do not determine."""
        for symbol, number in symbols.items():
            self._call(lib.kn_session_bind, encoded(symbol), number)
            self._bound[symbol] = number
        self._made = None, []

    def _bind_shapes(self, symbols: Dict[str, int]) -> None:
        for symbol, number in symbols.items():
            if self._bound.get(symbol) != number:
                code = lib.kn_session_bind(self._pointer, encoded(symbol), number)
                if code not in (0, _NOT_FOUND):  # a symbol that no value depends on
                    raise error_of(code, self._message())
                self._bound[symbol] = number

    def compile(self, feeds: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        """Compiles for inputs of these shapes, without running.

        Args:
            feeds: Arrays by the names of the inputs.
            **more: More arrays, whose names are keywords.
        """
        keep: List[Any] = []
        with self._lock:
            made, count, symbols = self._feeds({**(feeds or {}), **more}, keep)
            self._bind_shapes(symbols)
            self._call(lib.kn_session_compile, made, count)

    def run(self, feeds: Optional[Mapping[str, Any]] = None, *, out: Any = None, **more: Any) -> Any:
        """Computes the values once.

        Args:
            feeds: Arrays by the names of the inputs.
            out: Arrays to write the results to: an array, a list or a dict, as the values were given; False in place of an array: the
                result is not copied from the device. If no result is, the call returns when the work is queued.
            **more: More arrays, whose names are keywords.

        Returns:
            An array, a list or a dict of arrays, as the values were given.
        """
        keep: List[Any] = []
        with self._lock:
            made, count, symbols = self._feeds({**(feeds or {}), **more}, keep)
            self._bind_shapes(symbols)
            if self._made[0] is not self._seen[0]:
                self._call(lib.kn_session_compile, made, count)
                self._made = self._seen[0], [self._info_of(name) for name in self._names]
            results = self._targets(out)
            brought = [(name, result) for name, result in zip(self._names, results) if result is not False]
            fetches = fetches_of([name for name, _ in brought], [result for _, result in brought], keep) if brought else NULL
            self._call(lib.kn_session_run, made, count, fetches, len(brought))
        return results[0] if self._keys is None else dict(zip(self._keys, results)) if self._keys is not int else results

    __call__ = run

    def start(self, feeds: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        """Runs without results, to change states; returns when the work is queued.

        Args:
            feeds: Arrays by the names of the inputs.
            **more: More arrays, whose names are keywords.
        """
        keep: List[Any] = []
        with self._lock:
            made, count, symbols = self._feeds({**(feeds or {}), **more}, keep)
            self._bind_shapes(symbols)
            self._call(lib.kn_session_run, made, count, NULL, 0)

    def _targets(self, out: Any) -> List[Any]:
        if out is None:
            given: List[Any] = [None] * len(self._names)
        else:
            given = [out] if self._keys is None else list(out) if self._keys is int else [out.get(key) for key in self._keys]
        return [array if array is False else target_of(array, info, name) for name, info, array in zip(self._names, self._made[1], given)]

    def _info_of(self, name: str) -> Any:
        info = ffi.new("kn_tensor_info *")
        self._call(lib.kn_session_info, encoded(name), info)
        return info

    def info(self, name: str) -> Tuple[str, Tuple[int, ...]]:
        """Returns the element type and the shape of a result, as of the last run."""
        info = self._info_of(name)
        return word_of("kn_dtype", info.dtype), shape_of(info)

    def feed_buffer(self, name: str, buffer: Buffer) -> None:
        """Feeds an input from a buffer of the program's OpenCL context in the next run."""
        self._call(lib.kn_session_feed_buffer, encoded(name), pointer_of(buffer, "Buffer"))
        self._made = None, []

    def fetch_buffer(self, name: str, buffer: Buffer) -> None:
        """Writes a result to a buffer of the program's OpenCL context in the next run."""
        self._call(lib.kn_session_fetch_buffer, encoded(name), pointer_of(buffer, "Buffer"))

    def __repr__(self) -> str:
        return "<koine.Session, closed>" if self.closed else f"<koine.Session of {', '.join(self._names)}>"
