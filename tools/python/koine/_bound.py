"""ONNX models whose graph depends on the input shapes: caches a model for each of the last few sets of shapes."""
from __future__ import annotations

import collections
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from ._arrays import address, info_of, ready, type_number
from ._handle import Handle
from ._library import encoded, ffi, lib, make, text
from ._samples import fed, slices
from .errors import ArgumentError, ShapeError, UnsupportedError
from .graph import Value
from .session import Session, States

if TYPE_CHECKING:
    from .model import _Opened, Model

KEPT = 4  # number of cached sets of shapes


def given_rows(arrays: Mapping[str, Any], keep: List[Any]) -> Any:
    """kn_model_givens of arrays, or of (dtype, shape) without data, by names in the file."""
    rows = ffi.new("kn_model_given[]", max(1, len(arrays)))
    for row, (name, array) in zip(rows, arrays.items()):
        keep.append(ffi.new("char[]", encoded(name)))
        row.name = keep[-1]
        if isinstance(array, tuple):
            row.info = info_of(array[1], type_number(array[0]))[0]
            continue
        if array.dtype.kind == "U":
            words = [ffi.new("char[]", encoded(str(word))) for word in array.ravel()]
            keep.extend([words, ffi.new("char *[]", [*words, ffi.NULL])])
            row.info, row.texts = info_of(array.shape, type_number("int64"))[0], keep[-1]
            continue
        array = ready(array, type_number(array.dtype), name)
        keep.append(array)
        row.info, row.data = info_of(array.shape, type_number(array.dtype))[0], address(array)
    keep.append(rows)
    return rows


class Bound:
    """A model bound to shapes, its session, and the inputs whose values its graph depends on."""

    def __init__(self, made: "_Opened", session: Session, states: States, folded: Dict[str, bytes]) -> None:
        self.made, self.session, self.states, self.folded = made, session, states, folded

    def run(self, by_file: Dict[str, np.ndarray]) -> List[np.ndarray]:
        """The results for arrays by the file's names."""
        own = dict(zip(self.made.input_names, (value.name for value in self.made.inputs)))
        return self.made.readable(self.session.run({own[name]: array for name, array in by_file.items() if name in own}))


class InParts(Handle):
    """A model whose graph depends on values that it computes: these are computed first in each run."""

    _error = "kn_runner_error"
    folded: Dict[str, bytes] = {}  # the runner builds the graph for other values

    def __init__(self, model: "Model", states: States) -> None:
        self.opened, self.states, self.context, self.settings = model._made, states, model.context, model._arithmetic()
        keep: List[Any] = []
        params = make("kn_session_params", keep, states=states._pointer, **self.settings)
        self._open_checked(lib.kn_runner_create(model._made._pointer, model.context._pointer, params), lib.kn_runner_destroy,
                           lib.kn_runner_status, model._made, model.context, states, lock=model._made._core.lock)
        self.made: Any = None
        self.session: Any = None
        self.builds = 0

    def _prepare(self, rows: Any, count: int) -> None:
        self._call(lib.kn_runner_prepare, rows, count)
        if self.made is not None and self.builds == lib.kn_runner_builds(self._pointer):
            return
        self._drop()
        self.builds = lib.kn_runner_builds(self._pointer)
        self.made = type(self.opened).within(lib.kn_runner_model(self._pointer), self)
        self.session = Session(self.made.outputs, self.context, states=self.states, **self.settings)

    def _drop(self) -> None:
        for handle in (self.session, self.made):
            if handle is not None:
                handle.close()
        self.session = self.made = None

    def run(self, by_file: Dict[str, np.ndarray]) -> List[np.ndarray]:
        """The results for arrays by the file's names."""
        keep: List[Any] = []
        rows = given_rows(by_file, keep)
        with self._lock:
            self._prepare(rows, len(by_file))
            inputs = self.made.inputs
            feeds = ffi.new("kn_feed[]", max(1, len(inputs)))
            self._call(lib.kn_runner_feeds, self.session._pointer, rows, len(by_file), feeds)
            arrays = {text(feed.name): np.frombuffer(ffi.buffer(feed.data, feed.bytes), value.dtype).reshape(value.shape)
                      for feed, value in zip(feeds, inputs)}
            return self.made.readable(self.session.run(arrays))


class Shapes:
    """Runs Model.predict: with the model itself if its graph fits the shapes, otherwise with a model bound to them."""

    def __init__(self, model: "Model") -> None:
        self.model = weakref.proxy(model)  # weak: the model owns this object
        self.names: List[str] = []  # result names of the last run
        self.kept: "collections.OrderedDict[Any, Any]" = collections.OrderedDict()
        self.fitting: Dict[Any, bool] = {}

    def clear(self) -> None:
        self.kept.clear()
        self.fitting.clear()

    @property
    def last(self) -> "Optional[_Opened]":
        """The last used bound model."""
        return next(reversed(self.kept.values())).made if self.kept else None

    # ---- which model ----

    def fits(self, arrays: Mapping[str, np.ndarray]) -> bool:
        key = tuple((name, array.shape) for name, array in arrays.items())
        if key not in self.fitting:
            if len(self.fitting) > 64:
                self.fitting.clear()
            keep: List[Any] = []
            rows = given_rows({name: (array.dtype, array.shape) for name, array in arrays.items()}, keep)
            self.fitting[key] = bool(lib.kn_model_fits(self.model._pointer, rows, len(arrays)))
        return self.fitting[key]

    def _find(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """The model bound to these arrays, by the file's names."""
        for key in [key for key, bound in self.kept.items() if bound.states is not self.model._states]:
            del self.kept[key]  # built from weights that training has replaced
        shapes = tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())
        for key, bound in self.kept.items():
            if key[0] == shapes and all(arrays[name].tobytes() == value for name, value in bound.folded.items()):
                self.kept.move_to_end(key)
                return bound
        model = self.model
        states = model._states if model._states is not None else States(model.context, model.seed)
        parts = model._lora is None and not model._pins
        made = None
        if not (parts and model._made.computes_missing):
            try:
                made = model._bind(arrays)
            except ShapeError as error:
                if not (parts and getattr(error, "in_parts", False)):
                    raise
        if made is None:
            bound: Any = InParts(model, states)
        else:
            folded = {name: array.tobytes() for name, array in arrays.items() if name not in made.input_names}
            session = Session(made.outputs, model.context, states=states, **model._arithmetic())
            made.load(None, states, lacking=True)  # existing weights may have been trained
            bound = Bound(made, session, states, folded)
        model._states = states
        self.kept[(shapes, tuple(bound.folded.items()))] = bound
        while len(self.kept) > KEPT:
            self.kept.popitem(last=False)
        return bound

    # ---- running ----

    def at_once(self, arrays: Mapping[str, np.ndarray]) -> List[np.ndarray]:
        """All results for whole arrays, which are given by graph input name."""
        model = self.model
        inputs = {value.name: value for value in model._file.inputs}
        arrays = {name: array.astype(str) if array.dtype.kind in "UO" else ready(array, type_number(inputs[name].dtype), name)
                  for name, array in fed(arrays, model.inputs).items()}
        by_file = {name: arrays[value] for name, value in zip(model._file.input_names, inputs)}
        bound = None
        if not model._made.bound or not self.fits(by_file):
            try:
                bound = self._find(by_file)
            except (ArgumentError, ShapeError, UnsupportedError):
                if not model._made.bound:
                    raise
        if bound is None:  # if nothing fits, the session reports the mismatch
            self.names = [value.name for value in model.outputs]
            return model._made.readable(model._session("outputs").run(arrays))
        results = bound.run(by_file)
        self.names = [value.name for value in bound.made.outputs]
        return results

    def in_parts(self, arrays: Mapping[str, np.ndarray], batch: int) -> Optional[List[np.ndarray]]:
        """Like at_once, in batches of `batch` samples; None if a result does not have one row per sample."""
        found: List[List[np.ndarray]] = []
        for _, part in slices(arrays, batch):
            results = self.at_once(part)
            count = len(next(iter(part.values())))
            if any(not result.shape or len(result) != count for result in results):
                return None
            found.append(results)
        return [np.concatenate(parts) for parts in zip(*found)]


def in_rows(inputs: Sequence[Value], outputs: Sequence[Value], arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether all inputs, and all outputs of known shape, have one row per sample."""
    firsts = {(value._shape_words[:1] or [""])[0] for value in [*inputs, *outputs]}
    counts = {array.shape[:1] for array in arrays.values()}
    return len(counts) == 1 and counts != {()} and len(firsts) == 1 and firsts != {""}
