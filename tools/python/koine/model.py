"""Models: fit, predict, evaluate, save and to_onnx of a network by name, from a text, a file or a graph.

>>> import koine
>>> digits = koine.load_dataset("digits", max_samples=2000)
>>> model = koine.Model("mlp")
>>> history = model.fit(digits, epochs=3)
>>> model.evaluate(digits).accuracy > 0.5
True
>>> images, labels = digits.test.arrays()
>>> model.predict(images).shape
(2000, 10)
>>> model.save("digits.safetensors")
>>> bool((koine.Model("digits.safetensors").predict_classes(images) == model.predict_classes(images)).all())
True
"""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import os
import re
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np

from . import _show, _weighted
from ._bound import Shapes, given_rows, in_rows
from ._arrays import address, as_array, info_of, numpy_type, ready, type_number
from ._handle import Handle
from ._library import NULL, encoded, ffi, lib, make, names_of, read, text, word_of
from ._log import log_into
from ._run import Run
from ._settings import names_in, only, with_settings
from ._samples import (Finite, are_shares, batches_of, by_name, check_numbers, fed, has_several_texts, is_samples, is_torch_dataset,
                       of_arrays, of_torch, sample_shapes, shaped, slices, wanted_of, validation_of, weights_of_samples)
from .callbacks import Callback
from .dataset import Dataset, Field, load_dataset
from .device import Context, context_on
from .errors import KoineError, ShapeError, UnsupportedError, error_of
from .io import safetensors_metadata
from .graph import Graph, Value
from .history import History, Progress
from .lora import Lora, adapter_of
from .optim import Optimizer
from .session import Plan, Session, States
from .train import CHOSEN, Trainer, TrainingSettings, evaluate as _evaluate
from .types import ActivationsName, FitEpoch, FitStep, ModelWeight, OptimizerName, ParameterGroup, PrecisionName, ScheduleName, Score, SessionSettings, TrainerSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

Path = Union[str, "os.PathLike[str]"]
_ONNX = ".onnx"
Method = TypeVar("Method", bound=Callable[..., Any])


def _alone(method: Method) -> Method:
    """A method of Model that one thread runs at a time. Other threads wait."""
    @functools.wraps(method)
    def called(self: "Model", *arguments: Any, **words: Any) -> Any:
        self._pointer  # raises in a forked child, where another thread's lock would stay locked
        with self._guard:
            return method(self, *arguments, **words)
    return called  # type: ignore[return-value]


def pairs_of(pairs: Mapping[str, str]) -> Tuple[Any, int, List[Any]]:
    """kn_model_pairs, their number, and what keeps their memory."""
    rows = ffi.new("kn_model_pair[]", max(1, len(pairs)))
    keep: List[Any] = []
    for row, (key, value) in zip(rows, pairs.items()):
        keep += [ffi.new("char[]", encoded(str(key))), ffi.new("char[]", encoded(str(value)))]
        row.key, row.value = keep[-2:]
    return rows, len(pairs), [rows, *keep]


def list_models() -> Dict[str, str]:
    """Returns the models that have names, with the text of each.

    Example:
        >>> import koine
        >>> "lenet" in koine.list_models()
        True
    """
    return {text(lib.kn_zoo_name_at(i)) or "": text(lib.kn_zoo_text_at(i)) or "" for i in range(lib.kn_zoo_count())}


def grammar() -> str:
    """Returns the reference of the language that models are described in, as Markdown."""
    length = lib.kn_model_grammar(NULL, 0)
    room = ffi.new("char[]", length + 1)
    lib.kn_model_grammar(room, length + 1)
    return text(room) or ""


@dataclasses.dataclass
class Evaluation(Score):
    """What Model.evaluate returns.

    Attributes:
        loss: The mean loss over the samples.
        accuracy: The fraction of correct predictions; NaN where the loss has none.
        samples: The number of samples.
        seconds: The time that it took.
        r2: With a mean squared error, 1 minus the fraction of the variance that is not explained; otherwise NaN.
    """

    r2: float = math.nan


@dataclasses.dataclass
class _Loss:
    """The values of a kn_model_loss."""

    target: Value
    value: Value
    accuracy: Optional[Value]
    eval_loss: Value
    duplicate_activation: Optional[Value]
    ignored: Optional[int]


class _Functions:
    """The callbacks on_step= and on_epoch= of fit()."""

    def __init__(self, on_step: Any, on_epoch: Any) -> None:
        if on_step is not None:
            self.on_step = on_step
        if on_epoch is not None:
            self.on_epoch = on_epoch


class _Opened(Handle):
    """A kn_model, and the loss that was added to it."""

    _error = "kn_model_error"

    def __init__(self, source: Any, settings: Mapping[str, int], frozen_statistics: bool, given: Mapping[str, Any]) -> None:
        keep: List[Any] = []
        params = make("kn_model_params", keep, frozen_statistics=frozen_statistics, narrow_integers=True)
        log_into(params.log)
        rows = ffi.new("kn_model_setting[]", max(1, len(settings)))
        for row, (name, value) in zip(rows, settings.items()):
            keep.append(ffi.new("char[]", encoded(name)))
            row.name, row.value = keep[-1], value
        params.settings, params.setting_count = rows, len(settings)
        params.given = given_rows({name: as_array(value) for name, value in given.items()}, keep)
        params.given_count = len(given)
        self.graph: Any = None
        self.loss: Any = None
        self.loss_key: Any = None
        self.loss_given: Any = None
        self.weighted: Any = None  # the value of the loss in which samples have weights
        if isinstance(source, Graph):
            self._take(source, params)
            return
        function = lib.kn_model_parse if "\n" in source else lib.kn_model_open
        self._open_checked(function(encoded(source), params), lib.kn_model_destroy, lib.kn_model_status)
        self.graph = Graph._of(lib.kn_model_graph(self._pointer), self)

    def _take(self, graph: Graph, params: Any) -> None:
        """Takes a graph over. Where another model has it already, this one takes a copy."""
        with graph._lock:
            if graph._core.destroy is None:
                if not graph._core.parents:
                    raise error_of(2, "the graph of a callback cannot be a model: make a koine.Graph")
                graph = Graph._copied(graph._core.parents[-1].pointer)
            pointer = ffi.new("kn_graph **", graph._pointer)
            self._open_checked(lib.kn_model_create_from_graph(pointer, params), lib.kn_model_destroy, lib.kn_model_status,
                               lock=graph._core.lock)
            graph._core.owned_by(self._core)
            self.graph = graph

    @classmethod
    def of(cls, opened: "_Opened", arrays: Mapping[str, Any]) -> "_Opened":
        """The model of an ONNX file bound to these arrays, or to these (dtype, shape)."""
        made, keep = cls._empty(), []  # type: ignore[var-annotated]
        rows = given_rows(arrays, keep)
        with opened._lock:
            made._open_checked(lib.kn_model_bind(opened._pointer, rows, len(arrays)), lib.kn_model_destroy, lib.kn_model_status,
                               opened, lock=opened._core.lock)
        if not made.bound:
            error = error_of(3, made._message())
            error.in_parts = made.computes_missing
            made.close()
            raise error
        made.graph = Graph._of(lib.kn_model_graph(made._pointer), made)
        return made

    @classmethod
    def _empty(cls) -> "_Opened":
        made = cls.__new__(cls)
        made.graph = made.loss = made.loss_key = made.loss_given = None
        return made

    @classmethod
    def within(cls, pointer: Any, owner: Handle) -> "_Opened":
        """A model that belongs to another handle, which destroys it."""
        made = cls._empty()
        made._open(pointer, None, owner, lock=owner._core.lock)
        made.graph = Graph._of(lib.kn_model_graph(made._pointer), made)
        return made

    @property
    def computes_missing(self) -> bool:
        """Whether the graph depends on a value that it computes, such as the result of a loop that ends on a computed condition."""
        missing = text(lib.kn_model_missing_value(self._pointer))
        return missing is not None and missing not in self.input_names

    @property
    def bound(self) -> bool:
        """Whether its graph is built: that of an ONNX file may need the shapes of inputs."""
        return bool(lib.kn_model_bound(self._pointer))

    @property
    def inputs(self) -> List[Value]:
        return self.graph._all(lambda _: lib.kn_model_input_count(self._pointer), lambda _, i: lib.kn_model_input_at(self._pointer, i))

    @property
    def outputs(self) -> List[Value]:
        if not self.bound:
            return []
        return self.graph._all(lambda _: lib.kn_model_output_count(self._pointer), lambda _, i: lib.kn_model_output_at(self._pointer, i))

    def readable(self, results: List[np.ndarray]) -> List[np.ndarray]:
        """The results for all outputs, of which those of strings contain numbers."""
        def strings(numbers: np.ndarray) -> np.ndarray:
            return np.array([text(lib.kn_model_string(self._pointer, int(number))) for number in numbers.ravel()],
                            dtype=str).reshape(numbers.shape)
        return [strings(result) if lib.kn_model_output_has_strings_at(self._pointer, position) else result
                for position, result in enumerate(results)]

    @property
    def input_names(self) -> List[str]:
        return [text(lib.kn_model_input_name_at(self._pointer, i)) or "" for i in range(lib.kn_model_input_count(self._pointer))]

    @property
    def weights(self) -> List[ModelWeight]:
        found = []
        for position in range(lib.kn_model_weight_count(self._pointer)):
            weight = make("kn_model_weight")
            lib.kn_model_weight_at(self._pointer, position, weight)
            found.append(read(weight))
        return found

    @property
    def state_names(self) -> List[str]:
        """The names of the weights that states hold."""
        return [weight.name for weight in self.weights if self.graph.find(weight.name) is not None]

    def close(self) -> None:
        """With its graph."""
        if self.graph is not None:
            self.graph.close()
        super().close()

    def load(self, path: Optional[Path], states: States, **words: bool) -> int:
        """Loads states from a file; None: its own. Returns their number."""
        loaded = ffi.new("int *")
        self._call(lib.kn_model_load, NULL if path is None else os.fsencode(path), states._pointer,
                   make("kn_model_load_params", [], **words) if words else NULL, loaded)
        return int(loaded[0])

    def add_loss(self, name: Optional[str], weights: Optional[np.ndarray], mixed: bool) -> None:
        made = make("kn_model_loss")
        word = encoded(name) if name else NULL
        numbers = NULL if weights is None else ffi.cast("float *", address(weights))
        count = 0 if weights is None else weights.size
        if mixed:
            self._call(lib.kn_model_add_mixed_loss, word, numbers, count, made)
        elif weights is not None:
            self._call(lib.kn_model_add_weighted_loss, word, numbers, count, made)
        else:
            self._call(lib.kn_model_add_loss, word, made)
        parts: Any = {part: Value(self.graph, getattr(made, part)) if getattr(made, part) else None
                      for part in ("target", "value", "accuracy", "eval_loss", "duplicate_activation")}
        self.loss = _Loss(**parts, ignored=int(made.ignore_index) if made.has_ignore_index else None)
        self.loss_given = (name, weights, mixed)
        self.loss_key = (name, None if weights is None else weights.tobytes(), mixed)


class Model:
    """A model with its weights on a device: train, evaluate, predict, save.

    Args:
        source: A name of koine.list_models(), such as "lenet" or "gpt,layers=2"; the text of a model, or its path; a file that
            save() or the command wrote; an ONNX file; a Caffe net; a language model in a GGUF file or a Hugging Face folder; or a
            koine.Graph with outputs, which the model owns from then on.
        device: An index, a type such as "gpu", or a part of a device's name, as for Context; None: the default device.
        context: An opened device, in place of `device`.
        seed: Seed of the untrained weights, and of the order of samples and dropout in fit().
        fast_math: Use algorithms with a slightly larger error where they are faster; False: the same bits on all devices.
        precision: How results between layers are stored: "float32", "float16" or "bfloat16"; "tf32" stores float32 and rounds what
            matrix units multiply.
        activations: What predictions and generated texts multiply with quantized weights of a GGUF file: "float32", or "int8" for numbers
            rounded to 8 bits, which takes less time on CPUs with AVX512-VNNI.
        frozen_statistics: Batch norms keep their running statistics in training.
        pin: Layers for devices that were joined to the context, by patterns of their names: {"stage2*": "other"}.
        given: Arrays for inputs of an ONNX file, by their names in the file; what determines shapes becomes constant.
        lora: Adapters of linear layers, which fit() trains while all other weights are frozen.
        adapter: Trained adapters: a folder that PEFT or save_adapter() wrote, a GGUF file, or a file of `koine train --lora`.
        **settings: Numbers in lines `set NAME N` of the model's text, such as classes=4, and sizes that an ONNX file leaves open.

    Example:
        >>> import koine
        >>> koine.Model("lenet", classes=4)
        <koine.Model lenet: x (batch,1,28,28) to logits (batch,4), 1,199,108 parameters>
    """

    _adapter: Optional[Path] = None  # whose weights are not in the states yet

    def __init__(self, source: Union[Path, Graph], *, device: Union[str, int, None] = None, context: Optional[Context] = None,
                 seed: int = 1, fast_math: bool = True, precision: PrecisionName = "float32",
                 activations: ActivationsName = "float32", frozen_statistics: bool = False,
                 pin: Optional[Mapping[str, str]] = None, given: Optional[Mapping[str, Any]] = None, lora: Optional[Lora] = None,
                 adapter: Optional[Path] = None, **settings: int) -> None:
        if not isinstance(fast_math, bool):
            raise TypeError(f"fast_math is {fast_math!r}; expected True or False")
        if device is not None and context is not None:
            raise TypeError("device and context are both given: a context has its device")
        if not isinstance(source, (Graph, str, bytes, os.PathLike)):
            raise TypeError(f"the model is a {type(source).__name__}; expected a name, a text, a path or a koine.Graph. koine.torch.train_step trains "
                            "PyTorch modules")
        self.source = source if isinstance(source, Graph) else os.fspath(source)
        self.context = context or context_on(device)
        self.seed, self.precision, self.fast_math = seed, precision, fast_math
        self.activations: ActivationsName = activations
        self._settings, self._pins, self._frozen_statistics = dict(settings), dict(pin or {}), frozen_statistics
        self._asked, self._given = set(settings), dict(given or {})
        self._lora = self._checked_lora(lora)
        if lora is not None and adapter is not None:
            raise TypeError("expected lora or adapter, not both: an adapter has its own rank and layers")
        self._adapter = adapter
        self.history: Optional[History] = None
        self._about: Dict[str, str] = {}  # of the data, for files: vocabulary, columns, names of classes
        self._prepare()
        self._made = self._opened()

    def _prepare(self) -> None:
        """What a model does not have in common with its copies."""
        self._guard = threading.RLock()
        self._finite = Finite()
        self._trainer: Optional[Trainer] = None
        self._states: Optional[States] = None
        self._sessions: Dict[str, Session] = {}
        self._file: _Opened  # as it was opened; `_made` may be bound to shapes
        self._taken: Dict[str, Any] = {}  # the shapes of the data, where an ONNX file's graph needs them
        self._shapes = Shapes(self)
        self._made: Any = None

    def _frozen_names(self) -> List[str]:
        """The parameters that were frozen, which stay so in another graph of the model."""
        return [weight.name for weight in self.weights if weight.reason == "frozen"] if self._made is not None else []

    @staticmethod
    def _freeze(made: _Opened, names: Iterable[str]) -> None:
        for name in names:
            value = made.graph.find(name)
            if value is not None:
                value.freeze()

    def _opened(self) -> _Opened:
        frozen = self._frozen_names()
        made = _Opened(self.source, self._settings, self._frozen_statistics, self._given)
        self._file = made
        if self._taken:
            made = _Opened.of(made, self._taken)
        if not made.bound:
            return made
        self._complete(made)
        self._freeze(made, frozen)
        if isinstance(self.source, Graph):
            self.source = made.graph
        return made

    def _complete(self, made: _Opened) -> None:
        """Adds what its source does not have: adapters and pins."""
        if self._adapter is not None and self._lora is None:
            made._call(lib.kn_model_open_adapter, os.fsencode(self._adapter))
            self._lora = adapter_of(made)
        elif self._lora is not None and not any(name.endswith(".lora_a") for name in made.state_names):  # a graph keeps its adapters
            self._lora._add(made)
        for pattern, device in self._pins.items():
            self._pin(made, pattern, device)

    def _with_window(self, window: int) -> _Opened:
        """The model for another number of positions, with the same states."""
        if window == self.settings.get("window"):
            return self._made
        made = _Opened(self.source, {**self._settings, "window": window}, self._frozen_statistics, self._given)
        self._complete(made)
        return made

    @staticmethod
    def _checked_lora(lora: Any) -> Optional[Lora]:
        if lora is not None and not isinstance(lora, Lora):
            raise TypeError(f"lora is {lora!r}; expected koine.Lora(rank=16, alpha=32)")
        return lora  # type: ignore[no-any-return]

    def _adapt(self, lora: Any) -> None:
        """Adds adapters, unless the model has them."""
        if self._checked_lora(lora) is None or lora == self._lora:
            return
        if self._lora is not None:
            raise error_of(2, f"the model has the adapter {self.lora}: open it again for a different one")
        self._lora = lora
        try:
            self._reopen()
        except BaseException:
            self._lora = None
            raise

    def _reopen(self) -> None:
        """Opens it again without its loss. Its weights stay."""
        self._made = self._opened()
        self._sessions = {}
        self._shapes.clear()

    def _bind(self, arrays: Mapping[str, Any]) -> _Opened:
        """Its ONNX file, bound to arrays or to (dtype, shape)."""
        made = _Opened.of(self._made, arrays)
        if self._lora is not None:
            self._lora._add(made)
        self._freeze(made, self._frozen_names())
        for pattern, device in self._pins.items():
            self._pin(made, pattern, device)
        return made

    def _take_shapes(self, data: Any, batch: int) -> None:
        """Binds the model to the shapes of data, where its graph needs them; the batch stays open if that suffices."""
        if self._made.bound:
            return
        samples = sample_shapes(data, self.inputs)
        types = {name: (value.dtype, samples.get(value.name)) for name, value in zip(self.input_names, self.inputs)}
        if any(shape is None for _, shape in types.values()):
            raise error_of(3, self._made._message() + "; give sizes as keywords of koine.Model: " + ", ".join(self.open_sizes))
        for count in (-1, batch):
            try:
                taken = {name: (dtype, (count, *shape)) for name, (dtype, shape) in types.items()}
                self._made, self._taken, self._sessions = self._bind(taken), taken, {}
                return
            except (ShapeError, UnsupportedError):
                if count == batch:
                    raise

    # ---- copies ----

    @_alone
    def _state(self, source: Any) -> Dict[str, Any]:
        """What a copy is made of: the model itself, its weights, and all that training needs to go on."""
        state = {name: getattr(self, name) for name in ("seed", "precision", "fast_math", "activations", "context", "history", "_settings", "_pins", "_asked",
                                                        "_frozen_statistics", "_given", "_taken", "_lora")}
        known = self._states is not None or (self._made.bound and lib.kn_model_has_weights(self._pointer))
        return {**state, "_about": {**self._about, **self._pairs()}, "name": self.name, "source": source, "loss": self._made.loss_given,
                "frozen": self._frozen_names(), "states": self.states.contents() if known else None}

    def __getstate__(self) -> Dict[str, Any]:
        return self._state(self._portable())

    def _portable(self) -> Any:
        """Its text; of a model without one, the ending and the bytes of a file that it is in."""
        if self.text:
            return self.text
        ending = _ONNX if str(self.source).endswith(_ONNX) else ".safetensors"
        with tempfile.TemporaryDirectory(prefix="koine-") as folder:
            path = os.path.join(folder, f"model{ending}")
            self.save(path)
            if ending != _ONNX and safetensors_metadata(path, "koine.graph") is None:
                raise TypeError("the graph of this model has operators that cannot be written to a file, such as custom ones, so that it cannot be pickled; "
                                "copy.deepcopy() copies it")
            with open(path, "rb") as file:
                return ending, file.read()

    def __setstate__(self, state: Dict[str, Any]) -> None:
        state = dict(state)
        name, loss, frozen, states, taken = (state.pop(key) for key in ("name", "loss", "frozen", "states", "_taken"))
        self.__dict__.update(state)
        self._prepare()
        self._taken = taken
        if isinstance(self.source, tuple):
            ending, content = self.source
            self._folder = tempfile.TemporaryDirectory(prefix="koine-")  # it is read as long as the model is there
            path = os.path.join(self._folder.name, os.path.basename(name or "model") + ending)
            with open(path, "wb") as file:
                file.write(content)
            self.source = path
        self._made = self._opened()
        self._freeze(self._made, frozen)
        if loss is not None:
            self._add_again(loss)
        if states is not None:
            self._states = States(self.context, self.seed)
            self._states.fill(states)

    def __deepcopy__(self, memo: Any) -> "Model":
        made = memo[id(self)] = type(self).__new__(type(self))
        state = self._state(self.graph if isinstance(self.source, Graph) else self._portable())
        made.__setstate__({**state, "history": copy.deepcopy(state["history"], memo)})
        return made

    def __copy__(self) -> "Model":
        return self.__deepcopy__({})

    # ---- properties ----

    @property
    def _pointer(self) -> Any:
        return self._made._pointer

    @property
    def _core(self) -> Any:
        return self._made._core

    @property
    def _lock(self) -> Any:
        return self._made._lock

    @property
    def name(self) -> str:
        """The name of the model."""
        return text(lib.kn_model_name(self._pointer)) or ""

    @property
    def text(self) -> str:
        """The model's text; "" for ONNX files and graphs."""
        return text(lib.kn_model_text(self._pointer)) or ""

    @property
    def task(self) -> str:
        """"classification" or "regression"."""
        return word_of("kn_task", int(lib.kn_model_task(self._pointer)))

    @property
    def loss_name(self) -> str:
        """The loss that fit() uses unless another is given."""
        return text(lib.kn_model_loss_name(self._pointer)) or ""

    @property
    def augmentation(self) -> str:
        """The augmentation in the model's text."""
        return text(lib.kn_model_augmentation(self._pointer)) or ""

    @property
    def graph(self) -> Graph:
        """The graph, which also has the loss after fit() or evaluate()."""
        return self._made.graph

    @property
    def inputs(self) -> List[Value]:
        """The inputs of the graph."""
        return self._made.inputs

    @property
    def outputs(self) -> List[Value]:
        """The outputs of the graph; [] for an ONNX file whose graph is built when predict() or fit() see the shapes of inputs."""
        return self._made.outputs

    @property
    def input_names(self) -> List[str]:
        """The names of the inputs in the file, which may differ from the names of the values."""
        return self._made.input_names

    @property
    def output_names(self) -> List[str]:
        """The names of the outputs in the file."""
        return [text(lib.kn_model_output_name_at(self._pointer, i)) or "" for i in range(lib.kn_model_output_count(self._pointer))]

    @property
    def settings(self) -> Dict[str, int]:
        """The numbers in lines `set NAME N` of its text."""
        found, number = {}, ffi.new("int64_t *")
        for name in names_of(lambda position: lib.kn_model_setting_name_at(self._pointer, position)):
            lib.kn_model_setting_value(self._pointer, encoded(name), number)
            found[name] = int(number[0])
        return found

    @property
    def open_sizes(self) -> List[str]:
        """The names of sizes, other than the batch, that an ONNX file leaves open."""
        return names_of(lambda position: lib.kn_model_open_size_at(self._pointer, position, NULL))

    @property
    def parameters(self) -> int:
        """The number of elements of all parameters, trainable and frozen."""
        return int(lib.kn_model_parameter_elements(self._pointer))

    @property
    def flops(self) -> float:
        """The floating-point operations of inference for one sample."""
        return float(lib.kn_model_flops(self._pointer))

    @property
    def weights(self) -> List[ModelWeight]:
        """The weights: name, type, shape, whether each is trainable, and why not."""
        return self._made.weights

    @property
    def lora(self) -> Optional[Lora]:
        """The adapter of the model, whose targets are the layers that have one; None: it has none."""
        return adapter_of(self._made) or self._lora

    def metadata(self, key: str) -> Optional[str]:
        """Returns the metadata for a key in the file that the model was opened from, or None."""
        return text(lib.kn_model_metadata(self._pointer, encoded(key)))

    @property
    def class_names(self) -> List[str]:
        """The names of the classes of the data that it was trained on; [] if unknown."""
        return (self._about.get("data.classes") or self.metadata("data.classes") or "").splitlines()

    @_alone
    def pin(self, pattern: str, device: Optional[str]) -> None:
        """Computes layers on a device that was added by Context.join.

        Args:
            pattern: A pattern of their names: * matches any characters.
            device: The name of the device; None: the context's own.
        """
        if self._made.bound:
            self._pin(self._made, pattern, device)
        if device is not None:
            self._pins[pattern] = device
        self._sessions = {}
        self._shapes.clear()

    def _pin(self, made: _Opened, pattern: str, device: Optional[str]) -> None:
        if not lib.kn_model_pin(made._pointer, encoded(pattern), encoded(device) if device is not None else NULL):
            raise error_of(12, made._message() or f"no layer of the model has a name like {pattern!r}")

    def _fill(self, states: States) -> bool:
        """Loads the weights of its file and of its adapter. False: the file has none."""
        found = bool(lib.kn_model_has_weights(self._pointer))
        if found:
            self._made.load(None, states)
        if self._adapter is not None:
            self._made._call(lib.kn_model_load_adapter, os.fsencode(self._adapter), states._pointer)
        return found

    @property
    @_alone
    def states(self) -> States:
        """The weights on the device, by name, as arrays."""
        if self._states is None and not self._made.bound:
            raise error_of(3, self._made._message())
        if self._states is None:
            states = self._states = States(self.context, self.seed)
            try:
                session = self._session("outputs")  # gives the states their types
                if not self._fill(states):
                    self._compile(session)
            except BaseException:  # the next use asks again, and does not find other weights
                self._states, self._sessions = None, {}
                raise
        return self._states

    @_alone
    def load(self, path: Path, *, incomplete: bool = False) -> int:
        """Loads weights from a safetensors file.

        Args:
            path: The file.
            incomplete: Load the weights whose names and shapes match; False: a missing weight is an error.

        Returns:
            The number of weights that were loaded.
        """
        return self._made.load(path, self.states, incomplete=incomplete)

    # ---- sessions ----

    def _arithmetic(self) -> Dict[str, Any]:
        return {"fast_math": self.fast_math, "precision": self.precision, "activations": self.activations}

    @contextlib.contextmanager
    def _several_texts(self, packed: bool) -> Iterator[None]:
        """If `packed`, what is made inside has several texts in each row."""
        if packed:
            self._made._call(lib.kn_model_pack, True)
        try:
            yield
        finally:
            if packed:
                self._made._call(lib.kn_model_pack, False)

    def _session(self, what: str, packed: bool = False) -> Session:
        """Of the outputs, or for an evaluation; packed: for rows of several texts."""
        key = f"packed {what}" if packed else what
        if key not in self._sessions:
            states = self._states if self._states is not None else self.states
            if key in self._sessions:  # the states made it
                return self._sessions[key]
            loss = self._made.loss
            values = self.outputs if what == "outputs" else [loss.eval_loss, *([loss.accuracy] if loss.accuracy is not None else [])]
            with self._several_texts(packed):
                self._sessions[key] = Session(values, self.context, states=states, **self._arithmetic())
        return self._sessions[key]

    def _zeros(self, batch: int, values: Sequence[Value]) -> Optional[Dict[str, np.ndarray]]:
        """Arrays in the shapes of inputs; None if a size besides the batch is open."""
        arrays = {}
        for value in values:
            shape = [batch if word == "batch" else int(word) if word.isdigit() else -1 for word in value._shape_words]
            if -1 in shape:
                return None
            arrays[value.name] = np.zeros(shape, value.dtype)
        return arrays

    def _compile(self, session: Session) -> None:
        """So that the states are there, where the sizes are known."""
        arrays = self._zeros(1, self.inputs)
        if arrays is not None:
            session.compile(arrays)

    @_alone
    @with_settings(TrainerSettings, SessionSettings, without=("fast_math", "precision", "activations"), chosen=CHOSEN)
    def plan(self, batch_size: int = 64, *, training: bool = True, optimizer: Union[OptimizerName, Optimizer] = "adam",
             **settings: Unpack[TrainingSettings]) -> Plan:
        """Returns what a step computes for a batch: kernels, work and memory. Nothing runs.

        Args:
            batch_size: Samples per batch.
            training: Plan a training step; False: plan inference.
            optimizer: The optimizer of the training step.

        Returns:
            The plan, which print() shows as `koine plan` does.
        """
        if not training:
            arrays = self._zeros(batch_size, self.inputs)
            if arrays is None:
                raise error_of(3, f"the model has open sizes; set them as keywords of koine.Model: {', '.join(self.open_sizes)}")
            session = self._session("outputs")
            session.compile(arrays)
            return session.plan()
        loss = self._need_loss(None)
        words: Any = {**self._arithmetic(), **settings}
        trainer = Trainer(loss.value, self.context, optimizer=optimizer, **words)
        trainer.compile(batch_size, self._zeros(batch_size, [*self.inputs, loss.target]))
        return trainer.plan()

    # ---- data ----

    def _need_loss(self, name: Optional[str], weights: Optional[np.ndarray] = None, mixed: bool = False, exactly: bool = False) -> _Loss:
        """The values of a loss. Without a name it is the one before; `exactly`: without its class weights and mixing."""
        made = self._made
        name = made.loss_key[0] if name is None and made.loss is not None else name
        key = (name, None if weights is None else weights.tobytes(), mixed)
        if made.loss is not None and made.loss_key != key and (exactly or name != made.loss_key[0]):
            self._reopen()
        if self._made.loss is None:
            self._made.add_loss(name, weights, mixed)
        return self._made.loss

    def _weighted_loss(self, x: np.ndarray) -> Value:
        """The loss of samples with weights; x: some samples."""
        made = self._made
        if made.weighted is None:
            found = self.predict(x)
            shares = are_shares(next(iter(found.values())) if isinstance(found, dict) else found)
            made.weighted = _weighted.weighted_loss(self, made.loss, made.loss_key[0] or self.loss_name, made.loss_given[1], shares)
        return made.weighted

    def _restore_loss(self, given: Any) -> None:
        """Restores the loss `given` after data that did not match a new loss."""
        if self._made.loss_given is given:
            return
        self._reopen()
        if given is not None:
            self._add_again(given)

    @property
    def _answers(self) -> Optional[int]:
        """The number of classes of the first output."""
        size = self.outputs[0]._shape_words[-1:]
        return int(size[0]) if size and size[0].isdigit() else None

    def _tokenizer(self) -> Optional[str]:
        """The file or folder with the vocabulary of a language model."""
        path = self.source if isinstance(self.source, str) and "\n" not in self.source else ""
        return path if path.endswith(".gguf") or (path and os.path.isdir(path)) else None

    def _reading(self) -> Dict[str, Any]:
        """How data is read as that which the weights were trained on."""
        def known(key: str) -> Optional[str]:
            return self._about.get(key) or self.metadata(key)
        rate = known("data.rate")
        return {"tokenizer": self._tokenizer(), "vocabulary": known("data.vocabulary"), "columns": known("data.columns"), "sample_rate": int(rate) if rate else None}

    def _dataset(self, given: Any, *, training: bool, sample_weight: Any = None, **options: Any) -> Dataset:
        """The samples that fit() and evaluate() were given, as the model reads them."""
        if isinstance(given, (str, os.PathLike)):
            given = load_dataset(given)
        if isinstance(given, Dataset) and sample_weight is not None:
            raise error_of(2, "sample_weight needs arrays: give (x, y)")
        if isinstance(given, Dataset):
            if given.spec is None:
                return given
            loss = self._made.loss
            value = self.inputs[0]
            made = given.adapted(expected=wanted_of(value), tokens=value.dtype == "int32", labels=loss.target.dtype == "int32",
                                 classes=None if training else self.metadata("data.classes"), **self._reading(), **options)
            if training and made.columns:
                self._take_sizes(made.fields["x"].shape[0], made.classes)
            return self._checked(self._answers_itself(made), given.spec)
        if is_torch_dataset(given):
            given = of_torch(given)
        if training:
            self._take_sizes_of_arrays(given)
        target = self._made.loss.target
        arrays = by_name(given, self.inputs, target)
        arrays[target.name] = self._as_target(arrays[target.name], target)
        if sample_weight is not None:
            arrays[_weighted.NAME] = weights_of_samples(sample_weight, len(arrays[target.name]))
        return of_arrays(arrays, self.inputs, target, self._answers)

    def _as_target(self, array: np.ndarray, target: Value) -> np.ndarray:
        return array.astype(np.int32) if target.dtype == "int32" and array.dtype.kind == "b" else array

    def _answers_itself(self, made: Dataset) -> Dataset:
        """Where the model reconstructs its input, "x" is the target, too."""
        fields, target = made.fields, self._made.loss.target
        sample = tuple(word for word in target._shape_words[1:])

        def fits(field: Field) -> bool:
            return field.dtype == target.dtype and tuple(map(str, field.shape)) == sample
        if target.dtype == "float32" and "x" in fields and "y" in fields and fits(fields["x"]) and not fits(fields["y"]):
            return made.adapted(target_is_input=True)
        return made

    def _take_sizes_of_arrays(self, given: Any) -> None:
        """The same for arrays (x, y) and {"x": …, "y": …}."""
        if isinstance(given, Mapping):
            given = (given.get(self.inputs[0].name), given.get(self._made.loss.target.name))
        if not isinstance(given, (tuple, list)) or len(given) != 2 or len(self.inputs) != 1 or any(part is None for part in given):
            return
        x, y = as_array(given[0]), as_array(given[1])
        if x.dtype.kind not in "fiub" or not x.ndim or not y.ndim or len(x) != len(y):
            return
        classes = int(y.max()) + 1 if y.dtype.kind in "iu" and y.size else 2 if y.dtype.kind == "b" else 0
        if "inputs" in self.settings and x.ndim == 2:
            self._take_sizes(x.shape[1], classes)
        elif {"channels", "size"} <= set(self.settings) and x.ndim in (2, 3, 4) and not self._fits(x):
            self._take_shape(x.shape[1:], classes)

    def _fits(self, x: np.ndarray) -> bool:
        try:
            shaped(x, self.inputs[0])
        except ValueError:
            return False
        return True

    @property
    def _untrained(self) -> bool:
        return self._states is None and not lib.kn_model_has_weights(self._pointer)

    def _take_sizes(self, inputs: int, classes: int) -> None:
        """An untrained model with the settings `inputs` and `classes` takes those of a table, where none were given."""
        known = self.settings
        if not self._untrained or "inputs" not in known:
            return
        sizes = {"inputs": inputs, "classes": classes}
        sizes = {name: size for name, size in sizes.items() if size and name in known and name not in self._asked and known[name] != size}
        if sizes:
            given = self._made.loss_given
            self._settings.update(sizes)
            self._reopen()
            self._add_again(given)

    def _take_shape(self, shape: Sequence[int], classes: int) -> None:
        """An untrained model of images takes the shape of arrays, where neither was given: (height,width) is one channel, and
        (features) are as many channels of one pixel. A model whose layers need larger images stays unchanged."""
        if not self._untrained or self._asked & {"channels", "size"} or not all(shape):
            return
        if len(shape) == 1 and "conv" in self.text or len(shape) == 3 and shape[2] <= 4 < shape[0]:
            return  # a table is not an image, and channels come first
        channels, height, width = (shape[0], 1, 1) if len(shape) == 1 else (1, *shape) if len(shape) == 2 else shape
        sizes = {"classes": classes} if classes and "classes" in self.settings and "classes" not in self._asked else {}
        before = self.source, self._settings, self._made, self._sessions
        given = self._made.loss_given
        try:
            self._settings = {**self._settings, **sizes, "channels": channels}
            if height == width:
                self._settings["size"] = height
            else:
                self.source, found = re.subn(r"^input x channels,size,size$", f"input x channels,{height},{width}", self.text, flags=re.M)
                if not found:
                    return
            self._reopen()
            self._add_again(given)
            before = self.source, self._settings, self._made, self._sessions
        except KoineError:
            pass
        finally:
            self.source, self._settings, self._made, self._sessions = before

    def _add_again(self, given: Any) -> None:
        name, weights, mixed = given
        self._need_loss(name, weights, mixed, exactly=True)

    def _checked(self, made: Dataset, spec: str) -> Dataset:
        """Compares the fields of a source with what the model reads."""
        fields = made.fields
        for value in [*self.inputs, self._made.loss.target]:
            field, wanted = fields.get(value.field), value._shape_words
            if field is None:
                raise error_of(12, f"the model '{self.name}' reads '{value.field}', but the data '{spec}' has only {', '.join(fields)}")
            same = len(field.shape) == len(wanted) - 1 and all(str(size) == word or not word.isdigit() for size, word in zip(field.shape, wanted[1:]))
            if not same or field.dtype != value.dtype:
                found = ",".join(["batch", *map(str, field.shape)])
                raise error_of(4 if same else 3, f"the data '{spec}' does not match the model '{self.name}': '{value.name}' is {field.dtype} "
                               f"({found}) in the data, and the model expects {value.dtype} ({','.join(wanted)})")
        if self._made.loss.target.dtype == "int32" and self._answers is not None and made.classes > self._answers:
            raise error_of(2, f"the data '{spec}' has {made.classes} classes, but the model has {self._answers} outputs" +
                           (f": koine.Model({self.source!r}, classes={made.classes})" if "classes" in self.settings else ""))
        return made

    def _keep_about(self, dataset: Dataset) -> None:
        """What files need to read such data again."""
        about = {"data.vocabulary": dataset.vocabulary, "data.columns": dataset.columns, "data.rate": str(dataset.rate or "")}
        if dataset.classes and dataset.fields.get("y") is not None and dataset.fields["y"].shape == ():
            names = dataset.class_names + [str(i) for i in range(dataset.classes, self._answers or 0)]
            if not any("\n" in name for name in names):
                about["data.classes"] = "\n".join(names)
        self._about = {key: value for key, value in about.items() if value}

    # ---- training ----

    @with_settings(TrainerSettings, chosen=CHOSEN)
    def fit(self, data: Any, y: Any = None, *, epochs: Optional[int] = None, steps: Optional[int] = None,
            seconds: Optional[float] = None, batch_size: int = 64, validation_split: Optional[float] = None, validation_data: Any = None,
            validate_samples: Optional[int] = None, optimizer: Union[OptimizerName, Optimizer] = "adam",
            learning_rate: Optional[float] = None, schedule: Optional[ScheduleName] = None, loss: Optional[str] = None,
            patience: int = 0, augment: Optional[str] = None, class_weights: Any = None, sample_weight: Any = None,
            oversample: bool = False, shuffle: bool = True, drop_last: bool = False, in_sequence: bool = False, threads: int = 0,
            seed: Optional[int] = None, init: Optional[Path] = None, checkpoints: Optional[Path] = None, resume: bool = False,
            callbacks: Sequence[Any] = (), on_step: Optional[Callable[[FitStep], Any]] = None,
            on_epoch: Optional[Callable[[FitEpoch], Any]] = None, progress: Optional[bool] = None, skip_bad: bool = False,
            cache_bytes: int = 0, groups: Sequence[ParameterGroup] = (), milestones: Sequence[int] = (), lora: Optional[Lora] = None,
            loss_on: str = "answers", **settings: Unpack[TrainerSettings]) -> History:
        """Trains the model, beginning with the weights that it has.

        Ctrl-C stops after the step, keeps the weights and what `model.history` has so far, and raises KeyboardInterrupt. The defaults
        are those of `koine train`.

        Args:
            data: A source such as "digits" or "images:FOLDER"; a Dataset; arrays, as (x, y) or as two arguments; {name: array}; a
                PyTorch dataset; or batches (x, y): a DataLoader, a generator, or a function that returns one for each epoch.
            y: The targets, if `data` is the array x: class indices, or numbers.
            epochs: Passes over the data; 10 without steps and seconds.
            steps: Stop after this many steps.
            seconds: Stop after this time.
            batch_size: Samples per step.
            validation_split: The fraction of the samples to set aside for validation; None: the test part of the data, if it has
                one; 0: no validation.
            validation_data: Samples or batches for validation, in any form that `data` may have.
            validate_samples: Validate with at most this many samples, drawn evenly from all classes.
            optimizer: A name of koine.optimizers(), or an optimizer of koine.optim with its settings.
            learning_rate: The rate that the schedule starts from; None: the optimizer's default.
            schedule: The learning rate over the updates; None: "cosine" if the number of steps is known, otherwise, and for ONNX
                files, "constant".
            loss: "cross-entropy", "mse", "huber" …; None: the loss of the last fit(), at first the model's own.
            patience: Stop after this many epochs without a lower validation loss, and return to the best weights; 0: never.
            augment: Random changes of the samples, such as "flip,crop=4"; "none" ignores those of the model's text.
            class_weights: "balanced", or an array with a weight for each class.
            sample_weight: An array with a weight for each sample, which multiplies its loss.
            oversample: Draw all classes equally often.
            shuffle: Draw the samples in a new order in each epoch.
            drop_last: Leave out the last batch of an epoch if it is incomplete.
            in_sequence: Batches continue one another, for layers that keep their state.
            threads: Threads that prepare batches, at most 16; 0: as many as are useful.
            seed: Seed of the order of samples, dropout and, for an untrained model, the weights; None: the model's.
            init: A file to start from: weights with matching names and shapes are loaded.
            checkpoints: A folder for the newest and the best states.
            resume: Continue from the newest checkpoint in that folder, if there is one.
            callbacks: Objects with methods on_step(step) and on_epoch(epoch), such as koine.Callback. Training stops if one returns
                False or raises koine.StopTraining.
            on_step: A function of a koine.types.FitStep, called after each step; a callback, too.
            on_epoch: A function of a koine.types.FitEpoch, called after each epoch; a callback, too.
            progress: Show a bar of tqdm, or a line per epoch without it; None: on terminals and in notebooks.
            skip_bad: Leave out files that cannot be decoded.
            cache_bytes: Bytes of decoded images and sounds to keep in memory; 0: all.
            groups: Settings for some parameters, by patterns of their names: [{"pattern": "*.bias", "weight_decay": 0}, …].
            milestones: For the schedule "multi-step": the updates after which the rate falls.
            lora: Add adapters of linear layers and train only them.
            loss_on: "answers", or "all": the tokens of chat:FILE and jsonl:FILE that the loss covers. With chat:FILE,pack a sample has several
                texts, which do not see each other.

        Returns:
            The losses of steps and epochs.

        Example:
            >>> import koine, numpy as np
            >>> x = np.random.default_rng(1).normal(size=(256, 28, 28))
            >>> history = koine.Model("mlp").fit(x, x.mean((1, 2)) > 0, epochs=2, optimizer=koine.optim.AdamW(learning_rate=1e-3))
            >>> len(history.losses), history.stop_reason
            (8, 'done')
        """
        only(names_in(TrainerSettings), settings, [name for name in Model.fit.__kwdefaults__ or {}])
        limits: Any = {"epochs": epochs, "steps": steps, "seconds": seconds}
        check_numbers(whole=("epochs", "steps", "batch_size", "validate_samples"), batch_size=batch_size, validate_samples=validate_samples,
                      **limits)
        if patience < 0:
            raise ValueError(f"patience is {patience}; expected a number of epochs, or 0 to train to the end")
        if not any(limits.values()):
            epochs = 10
        run = Run(self, data if y is None else (data, y), batch_size, validation_of(validation_split, validation_data))
        run.words = {"epochs": epochs or 0, "steps": steps or 0, "seconds": seconds or 0, "patience": patience}
        run.loader = {"no_shuffle": not shuffle, "drop_last": drop_last or in_sequence, "in_sequence": in_sequence, "oversample": oversample,
                      "threads": threads, "seed": self.seed if seed is None else seed}
        if loss_on not in ("answers", "all"):
            raise ValueError(f"loss_on is {loss_on!r}; expected 'answers' or 'all'")
        run.options = {"all_tokens": loss_on == "all" or None, "skip_bad": skip_bad or None, "cache_bytes": cache_bytes or None}
        run.callbacks = [*callbacks, *([_Functions(on_step, on_epoch)] if on_step or on_epoch else [])]
        run.sample_weight, run.validate_samples = sample_weight, validate_samples
        rule = {"optimizer": optimizer, "learning_rate": learning_rate, "schedule": schedule, "groups": groups, "milestones": milestones,
                **settings}
        self._pointer  # raises in a forked child
        with self._guard:
            self._adapt(lora)
            self._open_run(run, loss, augment, class_weights, rule, init, checkpoints, resume)
            run.bar = Progress(progress, run.end())
            if run.train is not None:
                return run.go()
        return run.go()  # what gives the batches may wait for other threads that use the model

    def _open_run(self, run: Run, loss: Optional[str], augment: Optional[str], class_weights: Any, rule: Dict[str, Any],
                  init: Optional[Path], checkpoints: Optional[Path], resume: bool) -> None:
        before = self._made.loss_given
        try:
            run.open(loss, augment, class_weights)
        except Exception:
            self._restore_loss(before)
            raise
        end = run.end()
        if rule["schedule"] is None:
            rule["schedule"] = "constant" if str(self.source).endswith(_ONNX) or not end else "cosine"
        accumulate = rule.get("accumulate") or 1
        run.start({"total_steps": (end + accumulate - 1) // accumulate, **rule}, init, checkpoints, resume)

    @_alone
    def evaluate(self, data: Any, y: Any = None, *, batch_size: int = 64, loss: Optional[str] = None) -> Evaluation:
        """Returns the mean loss and the accuracy over samples.

        Args:
            data: The samples, in any form that fit() takes; of a source with a test part, that part.
            y: The targets, if `data` is the array x.
            batch_size: Samples per run. Results differ by rounding only.
            loss: "cross-entropy", "mse" …; None: the loss of the last fit(), at first the model's own.

        Example:
            >>> import koine
            >>> koine.Model("mlp").evaluate("digits").samples
            10000
        """
        check_numbers(whole=("batch_size",), batch_size=batch_size)
        data = data if y is None else (data, y)
        self._take_shapes(data, batch_size)
        self._need_loss(loss)
        if not is_samples(data):
            return self._evaluate_batches(data)
        dataset = self._dataset(data, training=False)
        if isinstance(data, (str, os.PathLike)) or (isinstance(data, Dataset) and data.spec is not None):
            dataset = dataset.test or dataset
        return self._evaluate_dataset(dataset, batch_size)

    def _evaluate_dataset(self, dataset: Dataset, batch_size: int) -> Evaluation:
        parts = self._made.loss
        self.states
        accuracy = parts.accuracy.name if parts.accuracy is not None else None
        score = Evaluation(**vars(_evaluate(self._session("evaluation", has_several_texts(dataset)), dataset, parts.eval_loss.name, accuracy, batch_size)))
        if (self._made.loss_key[0] or self.loss_name) == "mse":
            variance = dataset.variance(parts.target.name)
            score.r2 = 1 - score.loss / variance if variance > 0 else math.nan
        return score

    def _evaluate_batches(self, batches: Any) -> Evaluation:
        begun, losses, accuracies, counts, samples = time.monotonic(), [], [], [], 0
        parts = self._made.loss
        self.states
        for given in batches_of(batches):
            arrays = fed(by_name(given, self.inputs, parts.target), self.inputs)
            found, target = self._session("evaluation").run(arrays), arrays[parts.target.name]
            self._finite.check(arrays, samples)
            samples += len(target)
            counted = len(target) if parts.ignored is None else np.count_nonzero(target != parts.ignored)
            if counted:
                losses.append(float(found[0]))
                accuracies.append(float(found[1]) if len(found) > 1 else math.nan)
                counts.append(counted)
        return Evaluation(loss=float(np.average(losses, weights=counts)) if counts else math.nan,
                          accuracy=float(np.average(accuracies, weights=counts)) if counts else math.nan, samples=samples,
                          seconds=time.monotonic() - begun)

    # ---- inference ----

    @_alone
    def predict(self, x: Any, *, batch_size: int = 64) -> Any:
        """Computes the outputs for samples.

        A classifier's outputs are mostly logits: predict_proba() returns probabilities, predict_classes() classes.

        Args:
            x: An array (samples, …); a dict or tuple of arrays where the model has several inputs; a Dataset; or a source such as
                "images:FOLDER". Samples with several texts each, as of "chat:FILE,pack", have a row of logits for each token.
            batch_size: Samples per run. Results differ by rounding only.

        Returns:
            An array (samples, …), or a dict of arrays by name where the model has several outputs.

        Example:
            >>> import koine, numpy as np
            >>> koine.Model("mlp").predict(np.zeros((5, 1, 28, 28))).shape
            (5, 10)
        """
        check_numbers(whole=("batch_size",), batch_size=batch_size)
        if isinstance(x, (str, os.PathLike)):
            x = load_dataset(x, inputs_only=True)
        if isinstance(x, Dataset):
            value = self.inputs[0]
            x = x.adapted(expected=wanted_of(value), tokens=value.dtype == "int32", **self._reading()) if x.spec is not None else x
            if has_several_texts(x):
                return self._outputs_of_rows({self.inputs[0].name: x.read(self.inputs[0].field), "first": x.read("first")}, batch_size)
            x = {value.name: x.read(value.field) for value in self.inputs}
        inputs = self._file.inputs
        if isinstance(x, Mapping):
            names = dict(zip(self._file.input_names, (value.name for value in inputs)))
            x = {names.get(name, name): array for name, array in x.items()}
        results = self._results(by_name(x, inputs, None), batch_size)
        return results[0] if len(results) == 1 else dict(zip(self._shapes.names, results))

    def _results(self, arrays: Dict[str, np.ndarray], batch: int) -> List[np.ndarray]:
        """The outputs for samples, a batch at a time where all inputs and outputs have a row for each."""
        shapes = self._shapes
        if len(arrays) != len(self.inputs) or not in_rows(self.inputs, self.outputs, arrays):
            return shapes.at_once(arrays)
        fixed = self.inputs[0]._shape_words[:1]
        batch = int(fixed[0]) if fixed and fixed[0].isdigit() else batch  # as the file says
        total = len(next(iter(arrays.values())))
        first = {name: arrays[value.name][:batch] for name, value in zip(self.input_names, self.inputs)}
        if total and (not self._made.bound or not shapes.fits(first)):
            results = shapes.in_parts(arrays, batch)
            return results if results is not None else shapes.at_once(arrays)
        session, outputs = self._session("outputs"), self.outputs
        shapes.names = [value.name for value in outputs]
        results = None
        for place, part in slices(arrays, batch):
            part = fed(part, self.inputs)
            self._finite.check(part, place.start)
            if results is None:
                session.compile(part)
                results = self._whole(session, outputs, min(batch, total), total)
            session.run(part, out=[result[place] for result in results])
        return self._made.readable(results if results is not None else session.run(fed(arrays, self.inputs)))

    def _outputs_of_rows(self, arrays: Dict[str, np.ndarray], batch: int) -> np.ndarray:
        """The output for rows of several texts."""
        self.states
        session = self._session("outputs", packed=True)
        return np.concatenate([session.run(part)[0] for _, part in slices(arrays, batch)])

    def _whole(self, session: Session, outputs: Sequence[Value], count: int, total: int) -> List[np.ndarray]:
        """Arrays for all results, whose slices batches are written to."""
        results = []
        for value in outputs:
            dtype, shape = session.info(value.name)
            if not shape or shape[0] != count:
                raise error_of(3, f"the output '{value.name}' has no row for each sample: run koine.Session(model.outputs, "
                               "states=model.states)")
            results.append(np.empty((total, *shape[1:]), numpy_type(type_number(dtype))))
        return results

    def predict_proba(self, x: Any, *, batch_size: int = 64) -> np.ndarray:
        """Computes the probability of each class, with a classifier.

        Args:
            x: Samples, as for predict().
            batch_size: Samples per run.

        Returns:
            An array (samples, classes): the softmax of the first output, or that output if it is probabilities already.
        """
        found = self.predict(x, batch_size=batch_size)
        logits = np.asarray(next(iter(found.values())) if isinstance(found, dict) else found, np.float32)
        if are_shares(logits):
            return logits
        powers = np.exp(logits - logits.max(-1, keepdims=True)) if logits.size else logits
        return powers / powers.sum(-1, keepdims=True) if logits.size else powers

    def predict_classes(self, x: Any, *, batch_size: int = 64) -> np.ndarray:
        """Computes the most likely class of each sample, with a classifier.

        Args:
            x: Samples, as for predict().
            batch_size: Samples per run.

        Returns:
            An array (samples) of class indices; class_names has their names.
        """
        return np.argmax(self.predict_proba(x, batch_size=batch_size), -1)

    @_alone
    def generate(self, prompt: str = "", *, length: int = 300, temperature: float = 0.8, top_k: Optional[int] = None,
                 top_p: Optional[float] = None, seed: int = 1) -> str:
        """Continues a text, with a language model, which may end it early, or with a model that was trained on text.

        Args:
            prompt: How the text begins; "": with a random token.
            length: The number of tokens to generate.
            temperature: Below 1, likely tokens become more likely; 0: always the most likely token.
            top_k: Draw from this many of the most likely tokens only.
            top_p: Draw from the most likely tokens that have this probability together.
            seed: Seed of the random numbers.

        Returns:
            The new text, without the prompt.
        """
        from ._generate import generate
        return generate(self, prompt, length, temperature, top_k, top_p, seed)

    @_alone
    def embed(self, texts: Union[str, Sequence[str]], *, batch_size: int = 32) -> np.ndarray:
        """Computes a vector for each text, with an encoder in a folder as saved by sentence-transformers.

        A text with more tokens than the model's window is cut. Special tokens that are spelled out in a text are recognized.

        Args:
            texts: The texts, or one text.
            batch_size: Texts per run, at most.

        Returns:
            An array (texts, columns), or (columns) for one text.
        """
        check_numbers(whole=("batch_size",), batch_size=batch_size)
        from ._embed import embed
        return embed(self, [texts], batch_size)[0] if isinstance(texts, str) else embed(self, list(texts), batch_size)

    # ---- files ----

    def save(self, path: Path, *, training: bool = True, weights: str = "float32", blocks: Optional[str] = None,
             metadata: Optional[Mapping[str, str]] = None) -> None:
        """Writes the model to a safetensors file, which koine.Model and the command open.

        Args:
            path: The file; if it ends in .onnx, an ONNX file is written; if it ends in .gguf, a GGUF file, for language models; if it
                ends in /, a Hugging Face folder, for a model from one or from a GGUF file.
            training: Also write optimizer moments and counters, with which `koine train --resume` continues.
            weights: The type of the weights in the file, or of matrices in a folder from a GGUF file: "float32", "float16" or "bfloat16".
            blocks: The type of matrices in a GGUF file: F32, F16, BF16, Q8_0, Q5_0, Q4_0, Q4_K or Q6_K; default: as in the model's file.
            metadata: More metadata.
        """
        path = os.fspath(path)
        if blocks is not None and not path.endswith(".gguf"):
            raise ValueError(f"blocks is for files that end in .gguf, not {path!r}")
        if path.endswith((".gguf", "/")):
            if metadata:
                raise ValueError(f"metadata is for other files than {path!r}")
            if path.endswith("/"):
                self._write(lib.kn_model_save_folder, path, None, weights=type_number(weights))
                return
            if weights != "float32":
                raise ValueError(f"weights is for other files than {path!r}; the type of a GGUF file is given by blocks")
            self._write(lib.kn_model_save_gguf, path, None, blocks=blocks)
            return
        self._write(lib.kn_model_save_onnx if path.endswith(_ONNX) else lib.kn_model_save, path, metadata, training=training,
                    weights=type_number(weights))

    @_alone
    def save_adapter(self, path: Path) -> None:
        """Saves the adapter of a model with lora= or adapter=.

        Args:
            path: A folder, which is created if missing, for PEFT and adapter=; or a file that ends in .gguf, for llama.cpp.
        """
        self._made._call(lib.kn_model_save_adapter, os.fsencode(path), self.states._pointer)

    @_alone
    def merge_adapter(self, path: Path) -> None:
        """Adds a trained adapter to the weights of a model without one.

        Args:
            path: A folder that PEFT or save_adapter() wrote, a GGUF file, or a file of `koine train --lora`.
        """
        self._made._call(lib.kn_model_merge_adapter, os.fsencode(path), self.states._pointer)

    def to_onnx(self, path: Path, *, metadata: Optional[Mapping[str, str]] = None) -> None:
        """Writes the model to an ONNX file.

        Args:
            path: The file.
            metadata: More metadata.
        """
        self._write(lib.kn_model_save_onnx, os.fspath(path), metadata)

    def _pairs(self) -> Dict[str, str]:
        known = {key: self._about.get(key) or self.metadata(key) for key in ("data.vocabulary", "data.columns", "data.classes", "data.rate")}
        return {key: value for key, value in known.items() if value}

    @_alone
    def _write(self, function: Any, path: str, metadata: Optional[Mapping[str, str]], **words: Any) -> None:
        texts: List[Any] = []
        params = make("kn_model_save_params", texts, **words)
        params.pairs, params.pair_count, keep = pairs_of({**self._pairs(), **(metadata or {})})
        made, states = self._made, self._states
        if not made.bound:  # what was computed last knows the states
            made = self._shapes.last or made
            if states is not None and not set(states) <= set(made.state_names):
                raise error_of(2, "the weights belong to graphs for several input shapes, of which only one can be saved: open the "
                               "model with given= and save it")
        elif states is None:
            states = self.states
        made._call(function, os.fsencode(path), NULL if states is None else states._pointer, params)
        del keep, texts

    def close(self) -> None:
        """Releases the device's memory. The model cannot be used any more."""
        for session in self._sessions.values():
            session.close()
        self._shapes.clear()
        if self._trainer is not None:
            self._trainer.close()
        if self._states is not None:
            self._states.close()
        self._made.close()
        self._file.close()

    def summary(self) -> str:
        """Returns a table of the weights, as text."""
        rows = [(weight.name, f"({weight.shape})", f"{weight.elements:,}", "" if weight.trained else weight.reason) for weight in self.weights]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        lines = [f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {count:>{widths[2]}}  {why}".rstrip() for name, shape, count, why in rows]
        return "\n".join([repr(self), *lines])

    def __repr__(self) -> str:
        if self._made.closed or self.graph.closed:
            return "<koine.Model, closed>"

        def shapes(values: List[Value]) -> str:
            return ", ".join(f"{value.name} ({','.join(value._shape_words)})" for value in values)
        if not self._made.bound:
            return f"<koine.Model {self.name}: {shapes(self.inputs)} to {', '.join(self.output_names)}, built for each shape>"
        return f"<koine.Model {self.name}: {shapes(self.inputs)} to {shapes(self.outputs)}, {self.parameters:,} parameters>"

    def _repr_html_(self) -> str:
        rows = ((weight.name, weight.shape, weight.elements, "yes" if weight.trained else weight.reason) for weight in self.weights)
        return f"<p>{_show.cell(repr(self)[1:-1])}</p>" + _show.table(rows, ("weight", "shape", "elements", "trained"))
