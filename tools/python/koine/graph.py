"""Graphs of values, built without a device.

>>> import koine
>>> graph = koine.Graph()
>>> x = graph.input("x", "batch,4")
>>> y = x.linear(8).relu().linear(3).softmax()
>>> y.shape
('batch', 3)
>>> (y * 2 - 1).dtype
'float32'
"""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import ops
from ._arrays import address, as_array, numpy_type, shape_text, type_number, value_text
from ._build import initializer as _initializer
from ._build import lifted
from ._handle import Handle
from ._library import NULL, encoded, ffi, lib, make, names_of, split_name, text, word_of
from ._settings import with_settings
from .errors import error_of
from .types import KernelSettings, PointwiseSettings, VerifyCase

if TYPE_CHECKING:
    from typing_extensions import Unpack

Shape = Union[str, int, Sequence[Union[int, str]]]
Axes = Union[str, int, Sequence[int]]
DTypeLike = Union[str, int, np.dtype, type]
InitializerLike = Union[str, float, Tuple[str, float]]


class Value(ops.Operators):
    """A value of a graph: an input, a parameter or the result of an operator.

    Operators are methods; koine.ops lists them. + - * / ** @, comparisons and [ ] work as for arrays, but == and != compare Python
    objects: use equal() and not_equal() for elements.
    """

    __slots__ = ("graph", "_own")
    __array_ufunc__ = None  # array + value asks the value

    def __init__(self, graph: "Graph", pointer: Any) -> None:
        self.graph, self._own = graph, pointer

    @property
    def _pointer(self) -> Any:
        self.graph._pointer  # raises if it is closed, or the parent's
        return self._own

    @property
    def name(self) -> str:
        """The name of the value in its graph."""
        return text(lib.kn_value_name(self._pointer)) or ""

    def rename(self, name: str) -> "Value":
        """Names the value, as results, parameters and plans show it; returns the value."""
        return self.graph._made(lib.kn_name(self._pointer, encoded(name)))

    @property
    def dtype(self) -> str:
        """The element type, such as "float32"."""
        return word_of("kn_dtype", int(lib.kn_value_dtype(self._pointer)))

    @property
    def field(self) -> str:
        """The field of a dataset that feeds an input: its name, or "x" for the only input of an ONNX file."""
        return text(lib.kn_value_field(self._pointer)) or ""

    @property
    def shape(self) -> Tuple[Union[int, str], ...]:
        """The dimensions: numbers, or texts for open sizes, such as ("batch", 10)."""
        return tuple(int(word) if word.isdigit() else word for word in self._shape_words)

    @property
    def _shape_words(self) -> List[str]:
        return split_name(value_text(lib.kn_value_shape_text, self._pointer))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return int(lib.kn_value_rank(self._pointer))

    def result(self, index: int) -> "Value":
        """Returns another result of the operator that made this value, by its position."""
        return self.graph._made(lib.kn_result(self._pointer, index))

    def output(self, name: Optional[str] = None) -> "Value":
        """Marks the value as an output of its graph; returns it."""
        return self.graph._made(lib.kn_output(self._pointer, encoded(name) if name else NULL))

    def pin(self, device: Optional[str]) -> "Value":
        """Computes the value on a device that was added by Context.join; None: on the context's own. Returns the value."""
        return self.graph._made(lib.kn_pin(self._pointer, encoded(device) if device is not None else NULL))

    def set_next(self, value: "ValueLike") -> "Value":
        """Sets the value that a statistic has in the next run, after a training run; the current run reads the old value.

        Args:
            value: The new value, of the statistic's shape.

        Returns:
            The statistic.
        """
        return self.graph._made(lib.kn_statistic_set_next(self._pointer, lifted(self.graph, value)))

    def freeze(self) -> "Value":
        """Excludes a parameter from training; returns the parameter."""
        lib.kn_freeze(self._pointer)
        return self

    def set_storage_dtype(self, dtype: DTypeLike) -> "Value":
        """Sets the type in which inference sessions store a float32 parameter: "float16" or "bfloat16"; returns the parameter."""
        lib.kn_store_as(self._pointer, type_number(dtype))
        return self

    def __repr__(self) -> str:
        if self.graph.closed:
            return "<koine.Value, whose graph is closed>"
        return f"<koine.Value {self.name!r} {self.dtype} ({','.join(self._shape_words)})>"

    def __add__(self, other: Any) -> "Value":
        return self.shift(other) if isinstance(other, (int, float)) else self.add(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Value":
        return self.shift(-other) if isinstance(other, (int, float)) else self.sub(other)

    def __rsub__(self, other: Any) -> "Value":
        return self.neg() + other

    def __mul__(self, other: Any) -> "Value":
        return self.scale(other) if isinstance(other, (int, float)) else self.mul(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Value":
        return self.div(other)

    def __rtruediv__(self, other: Any) -> "Value":
        return ops.div(self._lift(other), self)

    def __pow__(self, other: Any) -> "Value":
        return self.pow(other)

    def __rpow__(self, other: Any) -> "Value":
        return ops.pow(self._lift(other), self)

    def __floordiv__(self, other: Any) -> "Value":
        return self.div(other).floor() if self.dtype.startswith(("float", "bfloat")) else self.floor_quotient(other)

    def __mod__(self, other: Any) -> "Value":
        return self.mod(other)

    def __matmul__(self, other: Any) -> "Value":
        return self.matmul(other)

    def __rmatmul__(self, other: Any) -> "Value":
        return ops.matmul(self._lift(other), self)

    def __neg__(self) -> "Value":
        return self.neg()

    def __abs__(self) -> "Value":
        return self.abs()

    def __lt__(self, other: Any) -> "Value":
        return self.less(other)

    def __le__(self, other: Any) -> "Value":
        return self.less_equal(other)

    def __gt__(self, other: Any) -> "Value":
        return self.greater(other)

    def __ge__(self, other: Any) -> "Value":
        return self.greater_equal(other)

    def __bool__(self) -> bool:
        raise TypeError("a koine.Value has no truth value: use where() to choose elements")

    def __iter__(self) -> Any:
        raise TypeError("a koine.Value cannot be iterated over: use split()")

    def __getitem__(self, where: Any) -> "Value":
        """Slices without steps, numbers and ...: x[:, 0], x[..., 2:5]."""
        places = where if isinstance(where, tuple) else (where,)
        if Ellipsis in places:
            at = places.index(Ellipsis)
            places = places[:at] + (slice(None),) * (self.rank - len(places) + 1) + places[at + 1:]
        if len(places) > self.rank:
            raise error_of(3, f"'{self.name}' has {self.rank} axes, but {len(places)} were indexed")
        value, gone = self, []
        for axis, place in enumerate(places):
            if isinstance(place, slice):
                if place.step not in (None, 1):
                    raise error_of(5, "slices of a koine.Value cannot have steps")
                if place.start is not None or place.stop is not None:
                    value = ops.slice(value, axis, place.start or 0, place.stop)
            else:
                value = ops.slice(value, axis, int(place), int(place) + 1 if place != -1 else None)
                gone.append(axis)
        return value.squeeze(gone) if gone else value

    def _lift(self, other: Any) -> "Value":
        return Value(self.graph, lifted(self.graph, other))


ValueLike = Union[Value, float, np.ndarray]


class Graph(Handle, ops.GraphOperators):
    """A graph of inputs, parameters and operators. It belongs to one thread at a time.

    An error while building is raised at once. The graph keeps its first error and cannot be computed any more: build a new graph.

    Example:
        >>> import koine
        >>> graph = koine.Graph()
        >>> graph.input("x", "batch,8").linear(4).relu().output("y")
        <koine.Value 'y' float32 (batch,4)>
    """

    _error = "kn_graph_error"

    def __init__(self) -> None:
        keep: List[Any] = []
        self._open_checked(lib.kn_graph_create(make("kn_graph_params", keep)), lib.kn_graph_destroy, lib.kn_graph_status)

    @classmethod
    def _lent(cls, pointer: Any) -> "Graph":
        """The graph that a callback of the library is given."""
        graph = cls.__new__(cls)
        graph._open(pointer, None)
        return graph

    @classmethod
    def _copied(cls, model: Any) -> "Graph":
        """A copy of the graph of a kn_model, without a loss that was added to it."""
        pointer = ffi.new("kn_graph **")
        code = lib.kn_model_copy_graph(model, pointer)
        if code:
            raise error_of(code, text(lib.kn_model_error(model)))
        graph = cls.__new__(cls)
        graph._open_checked(pointer[0], lib.kn_graph_destroy, lib.kn_graph_status)
        return graph

    @classmethod
    def _of(cls, pointer: Any, owner: Handle) -> "Graph":
        """The graph that another handle owns."""
        graph = cls.__new__(cls)
        graph._open(pointer, None, owner, lock=owner._core.lock)
        return graph

    def _raise(self, code: Optional[int] = None) -> None:
        code = code or lib.kn_graph_status(self._pointer) or 2
        raise error_of(code, self._message())

    def _made(self, pointer: Any) -> Value:
        """A new value, unless it failed."""
        if lib.kn_value_failed(pointer):
            self._raise()
        return Value(self, pointer)

    def input(self, name: str, shape: Shape, dtype: DTypeLike = "float32") -> Value:
        """Adds an input, which is fed in each run.

        Args:
            name: Its name.
            shape: "batch,1,28,28" or ("batch", 1, 28, 28); words are open sizes.
            dtype: Its element type.
        """
        return self._made(lib.kn_input(self._pointer, encoded(name), type_number(dtype), encoded(shape_text(shape))))

    def parameter(self, name: str, shape: Shape, dtype: DTypeLike = "float32", init: Optional[InitializerLike] = None) -> Value:
        """Adds a parameter, which is trained.

        Args:
            name: Its name.
            shape: Its shape, such as (8, 4).
            dtype: Its element type.
            init: The initial elements: a number, a kind such as "kaiming-normal", or a kind and its number, such as ("normal", 0.02).
        """
        return self._made(lib.kn_parameter(self._pointer, encoded(name), type_number(dtype), encoded(shape_text(shape)),
                                           NULL if init is None else _initializer(init)))

    def statistic(self, name: str, shape: Shape, dtype: DTypeLike = "float32", init: Optional[InitializerLike] = None) -> Value:
        """Adds a value that is kept from run to run and is not trained, such as a running mean. Value.set_next changes it.

        Args:
            name: Its name.
            shape: Its shape.
            dtype: Its element type.
            init: The initial elements, as for parameter().
        """
        return self._made(lib.kn_statistic(self._pointer, encoded(name), type_number(dtype), encoded(shape_text(shape)),
                                           NULL if init is None else _initializer(init)))

    def constant(self, value: Any, dtype: Optional[DTypeLike] = None) -> Value:
        """Adds a constant.

        Args:
            value: An array, or what converts to one.
            dtype: Its element type; None: the array's, or float32 for float64.
        """
        array = as_array(value)
        if dtype is None and array.dtype == np.float64:
            dtype = "float32"
        number = type_number(array.dtype if dtype is None else dtype)
        array = array.astype(numpy_type(number), order="C", copy=False)
        return self._made(lib.kn_constant(self._pointer, number, shape_text(array.shape).encode(), address(array), array.nbytes))

    def number(self, number: float) -> Value:
        """Adds a float32 scalar."""
        return self._made(lib.kn_scalar(self._pointer, number))

    def apply(self, operator: Union[str, "Operator"], *inputs: ValueLike, **attributes: Any) -> Value:
        """Adds an operator by name, or a custom operator.

        Args:
            operator: The name of an operator, or a koine.Operator.
            *inputs: Its inputs.
            **attributes: Its attributes.
        """
        values = ffi.new("kn_value *[]", [lifted(self, value) for value in inputs])
        words = " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else shape_text(value)}"
                         for name, value in attributes.items()).encode()
        if isinstance(operator, Operator):
            return self._made(lib.kn_apply_operator(operator._pointer, values, len(inputs), words or NULL))
        return self._made(lib.kn_apply(self._pointer, encoded(operator), values, len(inputs), words or NULL))

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """A context manager: names of parameters and values that are added inside begin with "name."."""
        lib.kn_scope_begin(self._pointer, encoded(name))
        try:
            yield
        finally:
            lib.kn_scope_end(self._pointer)

    @contextlib.contextmanager
    def pinned(self, device: str) -> Iterator[None]:
        """A context manager: values that are added inside are computed on a device that was added by Context.join."""
        lib.kn_pin_begin(self._pointer, encoded(device))
        try:
            yield
        finally:
            lib.kn_pin_end(self._pointer)

    def pin(self, pattern: str, device: Optional[str]) -> int:
        """Computes the values whose names match a pattern on a device that was added by Context.join; returns their number."""
        return int(lib.kn_graph_pin(self._pointer, encoded(pattern), encoded(device) if device is not None else NULL))

    @property
    def pins(self) -> List[str]:
        """The names of the devices that values are pinned to."""
        return names_of(lambda position: lib.kn_graph_pinned_at(self._pointer, position))

    def find(self, name: str) -> Optional[Value]:
        """Returns the value with a name, or None."""
        pointer = lib.kn_graph_find(self._pointer, encoded(name))
        return Value(self, pointer) if pointer else None

    def _all(self, count: Any, at: Any) -> List[Value]:
        return [Value(self, at(self._pointer, position)) for position in range(count(self._pointer))]

    @property
    def inputs(self) -> List[Value]:
        """The inputs."""
        return self._all(lib.kn_graph_input_count, lib.kn_graph_input_at)

    @property
    def outputs(self) -> List[Value]:
        """The values that were marked by Value.output()."""
        return self._all(lib.kn_graph_output_count, lib.kn_graph_output_at)

    @property
    def parameters(self) -> List[Value]:
        """The parameters."""
        return self._all(lib.kn_graph_parameter_count, lib.kn_graph_parameter_at)

    def __repr__(self) -> str:
        if self.closed:
            return "<koine.Graph, closed>"
        return f"<koine.Graph: {len(self.inputs)} inputs, {len(self.parameters)} parameters, {len(self.outputs)} outputs>"


_kept: List[Any] = []


def _build_gradient(build: Callable[..., Any], call: Any) -> None:
    """Calls a function that builds the gradient of a custom operator."""
    node = call.node
    graph = Graph._lent(lib.kn_value_graph(call.inputs[0]))
    inputs = [Value(graph, call.inputs[i]) for i in range(node.input_count)]
    results = [Value(graph, call.results[i]) for i in range(node.result_count)]
    gradients = [Value(graph, call.result_gradients[i]) if call.result_gradients[i] else None for i in range(node.result_count)]
    made = build(inputs, results, gradients)
    for position, value in enumerate(made if isinstance(made, (list, tuple)) else [made]):
        if value is not None and call.needs_gradient[position]:
            call.input_gradients[position] = value._pointer


def _compute_reference(compute: Callable[..., None], call: Any) -> None:
    """Calls a function that computes a custom operator on the host."""
    node = call.node

    def arrays(infos: Any, pointers: Any, count: int) -> List[np.ndarray]:
        shapes = [tuple(infos[i].shape[axis] for axis in range(infos[i].rank)) for i in range(count)]
        return [np.frombuffer(ffi.buffer(pointers[i], 8 * int(np.prod(shape)))).reshape(shape) if np.prod(shape) else np.empty(shape)
                for i, shape in enumerate(shapes)]
    compute(arrays(node.inputs, call.inputs, node.input_count), arrays(node.results, call.results, node.result_count), node.attributes)


class Operator(Handle):
    """A custom operator: an expression for each element, or a kernel in OpenCL C. Graph.apply adds it to a graph.

    Example:
        >>> import koine
        >>> bump = koine.Operator.pointwise("bump", "exp(-x / width)", ["-g * r / width"], attributes="width=0.5")
        >>> graph = koine.Graph()
        >>> graph.apply(bump, graph.input("x", "batch,3"), width=0.2).shape
        ('batch', 3)
    """

    _error = "kn_operator_error"

    def _finish(self, pointer: Any, keep: List[Any]) -> "Operator":
        self._open_checked(pointer, lib.kn_operator_destroy, lib.kn_operator_status)
        self._core.keep += keep
        return self

    @classmethod
    @with_settings(PointwiseSettings)
    def pointwise(cls, name: str, value: str, gradients: Sequence[Optional[str]] = (), **settings: Unpack[PointwiseSettings]) -> "Operator":
        """Makes an operator of an expression for each element.

        Args:
            name: The name of the operator.
            value: The expression, of x, y and z, in OpenCL C.
            gradients: Expressions for the gradients with respect to x, y and z; None: no gradient.

        Returns:
            The operator, for Graph.apply().
        """
        keep: List[Any] = []
        params = make("kn_pointwise_params", keep, name=name, value=value, **settings)
        for position, gradient in enumerate(gradients):
            if gradient is not None:
                keep.append(ffi.new("char[]", encoded(gradient)))
                params.gradients[position] = keep[-1]
        return cls.__new__(cls)._finish(lib.kn_operator_create_pointwise(params), keep)

    @classmethod
    @with_settings(KernelSettings)
    def kernel(cls, name: str, source: str, inputs: str, results: str, launch: str, *, gradient: Any = None,
               reference: Optional[Callable[..., None]] = None, **settings: Unpack[KernelSettings]) -> "Operator":
        """Makes an operator of a kernel in OpenCL C.

        Args:
            name: The name of the operator.
            source: The kernel in OpenCL C.
            inputs: Patterns of the shapes that it reads, separated by semicolons.
            results: Patterns of the shapes that it writes.
            launch: The number of work-items along each axis.
            gradient: Another operator; or a function of (inputs, results, gradients), lists of Values, that returns a Value or None
                for each input.
            reference: A function of (inputs, results, attributes), arrays of float64, that computes the results in place, for
                verify() and for constants.

        Returns:
            The operator, for Graph.apply().
        """
        keep: List[Any] = []
        params = make("kn_kernel_params", keep, name=name, source=source, inputs=inputs, results=results, launch=launch,
                      gradient_operator=gradient if isinstance(gradient, Operator) else None, **settings)
        if gradient is not None and not isinstance(gradient, Operator):
            keep.append(ffi.callback("void(void *, kn_custom_gradient *)", lambda _user, call: _build_gradient(gradient, call)))
            params.gradient = keep[-1]
        if reference is not None:
            keep.append(ffi.callback("void(void *, kn_custom_reference *)", lambda _user, call: _compute_reference(reference, call)))
            params.reference = keep[-1]
        made = cls.__new__(cls)._finish(lib.kn_operator_create_kernel(params), keep)
        _kept.append(keep)  # graphs, sessions and trainers use the callbacks when the operator is closed
        return made

    def verify(self, context: Any, *cases: VerifyCase) -> Tuple[int, int]:
        """Checks results and gradients on a device.

        Args:
            context: The device.
            *cases: Shapes and attributes to check: {"inputs": "3,7", …}, as koine.types.VerifyCase.

        Returns:
            The number of cases that passed, and of those that failed.
        """
        keep: List[Any] = []
        rows = ffi.new("kn_verify_case[]", max(1, len(cases)))
        for position, case in enumerate(cases):
            made = make("kn_verify_case", keep, **case)
            keep.append(made)
            rows[position] = made[0]
        passed, failed = ffi.new("int *"), ffi.new("int *")
        code = lib.kn_verify_operator(context._pointer, self._pointer, rows, len(cases), NULL, passed, failed)
        if code not in (0, 14):
            raise error_of(code)
        return passed[0], failed[0]
