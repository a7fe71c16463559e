"""Converts a PyTorch module to a graph: torch.export traces the operators, a table (operators.py) builds each."""
from __future__ import annotations

import contextlib
import io
import logging
import operator
import os
import re
import traceback
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch.export import Dim, default_decompositions, export
from torch.export.graph_signature import InputKind, OutputKind

from .._arrays import as_array
from ..errors import KoineError, error_of
from ..graph import Graph, Value
from .patched import patched
from .ranges import NARROW, TOO_LARGE, WIDE, Range, Ranges, bits, range_of

UNSUPPORTED = 5
# Folders whose traceback lines are not the user's code.
_INSTALLED = (os.path.dirname(os.path.dirname(torch.__file__)) + os.sep, os.path.dirname(os.__file__) + os.sep,
              os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)

# Floats are computed in float32, integers of more than 8 bits in int32.
TYPES = {torch.float32: "float32", torch.float64: "float32", torch.float16: "float32", torch.bfloat16: "float32",
         torch.int64: "int32", torch.int32: "int32", torch.int16: "int32", torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool"}

# Name endings that are reserved among the symbols of a shape.
LOSSES, SLOT = "koine.losses", "koine.slot"
KEPT_LOSSES = 1024
# Operators that have no gradient.
_WITHOUT_GRADIENT = ("aten.detach.default", "aten.detach_.default", "aten.lift_fresh_copy.default")


def koine_type(dtype: Any, what: str) -> str:
    try:
        return TYPES[dtype]
    except KeyError:
        raise error_of(UNSUPPORTED, f"{what} is {dtype}; expected one of {', '.join(map(str, TYPES))}") from None


class Captured(torch.nn.Module):
    """Tensors that the step's functions refer to, as parameters and buffers of a module, so that the tracer records writes to them."""

    def __init__(self, found: Sequence[Tuple[Any, Any, torch.Tensor]]) -> None:
        super().__init__()
        self._places: List[Tuple[Any, Any, torch.Tensor, str]] = []
        names: Dict[int, str] = {}
        for bag, key, tensor in found:
            name = names.setdefault(id(tensor), f"tensor{len(names)}")
            if name not in self._parameters and name not in self._buffers:
                if isinstance(tensor, torch.nn.Parameter):
                    self.register_parameter(name, tensor)
                else:
                    self.register_buffer(name, tensor)
            self._places.append((bag, key, tensor, name))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Puts the tracer's tensors in place of the user's while the model runs."""
        try:
            for bag, key, _, name in self._places:
                bag.set(key, getattr(self, name))
            yield
        finally:
            for bag, key, tensor, _ in self._places:
                bag.set(key, tensor)


class StepModule(torch.nn.Module):
    """The model and the loss as one module. Its arguments are the leaves of a step's arguments, then tensors for the numbers at the
    locations `lifted`. modules, captured: used by functions of the step. after: called after each run of the model."""

    def __init__(self, model: torch.nn.Module, compute: Callable[..., Any], loss: Any, unflatten: Callable[[Sequence[Any]], Tuple[tuple, dict]],
                 modules: Sequence[torch.nn.Module], captured: Captured, lifted: Sequence[Tuple[Any, Any]],
                 after: Callable[[], None]) -> None:
        super().__init__()
        self.model, self._unflatten, self._compute = model, unflatten, compute
        self.loss = loss if isinstance(loss, torch.nn.Module) else None
        self.modules_of_functions = torch.nn.ModuleList(modules)
        self.captured, self._lifted, self._after = captured, lifted, after
        self.training = model.training

    def forward(self, *leaves: Any) -> Any:
        count = len(leaves) - len(self._lifted)
        arguments, keywords = self._unflatten(leaves[:count])
        kept = [bag.get(key) for bag, key in self._lifted]
        try:
            with self.captured.in_place(), patched(self):
                for (bag, key), number in zip(self._lifted, leaves[count:]):
                    bag.set(key, number)
                return self._compute(self.model, arguments, keywords)
        finally:
            for (bag, key), before in zip(self._lifted, kept):
                bag.set(key, before)
            self._after()


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Silences PyTorch's tracer, which prints the whole graph several times when it fails; the error contains the reason."""
    loggers = [logging.getLogger(name) for name in ("torch.fx.experimental.symbolic_shapes", "torch.export", "torch._export", "torch.fx",
                                                    "torch._dynamo", "torch._functorch", "torch.fx.experimental.recording", "torch")]
    before = [(found, found.level) for found in loggers]
    try:
        for found in loggers:
            found.setLevel(logging.CRITICAL + 1)
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for found, level in before:
            found.setLevel(level)


def reason_of(error: BaseException) -> str:
    """The tracer's error as one line, and the user's line that caused it."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    where = f" at {os.path.basename(own[-1].filename)}:{own[-1].lineno} (`{own[-1].line}`)" if own and own[-1].line else ""
    return f"{type(error).__name__}: {first}{where}"


def is_users(file: str) -> bool:
    return not file.startswith(_INSTALLED) and not file.startswith("<")


def exported(module: StepModule, leaves: Sequence[Any], dynamic: bool, kept: Sequence[Any]) -> Any:
    """The program of a step, decomposed into core ATen except the operators `kept`."""
    shapes = tuple({0: Dim.AUTO} if dynamic and isinstance(leaf, torch.Tensor) and leaf.dim() else None for leaf in leaves)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user cannot act on the tracer's warnings
        made: Optional[KoineError] = None
        try:
            with silent():
                program = export(module, tuple(leaves), dynamic_shapes={"leaves": shapes}, strict=False)
        except Exception as error:
            # Drop the tracer's traceback, which has hundreds of lines.
            made = error_of(UNSUPPORTED, f"torch.export does not trace the step: {reason_of(error)}")
            made.reason = error  # type: ignore[attr-defined]
        if made is not None:
            raise made
        block_gradients(program.graph)
        table = default_decompositions()
        for kept_one in kept:
            table.pop(kept_one, None)
        return program.run_decompositions(table)


def block_gradients(graph: Any) -> None:
    """Detaches the inputs of torch.no_grad regions, because decomposition removes the regions' boundaries."""
    for node in list(graph.nodes):
        if node.target is torch.ops.higher_order.wrap_with_set_grad_enabled and not node.args[0]:
            for position, argument in enumerate(node.args[2:], 2):
                if isinstance(argument, torch.fx.Node) and isinstance(argument.meta.get("val"), torch.Tensor):
                    with graph.inserting_before(node):
                        detached = graph.call_function(torch.ops.aten.detach.default, (argument,))
                    detached.meta = dict(argument.meta)
                    node.update_arg(position, detached)


class Running:
    """Placeholder for the new running statistics, which batch norm updates itself."""

    def __init__(self, statistic: Value) -> None:
        self.statistic = statistic


class Absent:
    """Placeholder for an operator result that Koine does not compute, such as the indices of max pooling."""


class Call:
    """The node that is being built: the first argument of a table function."""

    def __init__(self, build: "Build", node: Any) -> None:
        self.build, self.graph, self.node = build, build.graph, node

    @property
    def fake(self) -> Any:
        """The fake tensor of the result (the first, if there are several)."""
        found = self.node.meta["val"]
        return found[0] if isinstance(found, (tuple, list)) else found

    @property
    def dtype(self) -> str:
        return koine_type(self.fake.dtype, f"the result of {self.node.target}")

    @property
    def shape(self) -> List[Any]:
        return self.build.sizes(self.fake.shape)

    def sizes_of(self, position: int) -> List[Any]:
        """The shape of one of several results."""
        return self.build.sizes(self.node.meta["val"][position].shape)

    def fake_of(self, position: int) -> Any:
        """The fake tensor of an argument; numbers are returned unchanged."""
        argument = self.node.args[position]
        return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument

    def reads(self, position: int) -> bool:
        """Whether one of several results is used."""
        return any(user.args[1] == position for user in self.node.users if user.target is operator.getitem)

    def trained(self, position: int) -> bool:
        """Whether an argument depends on trained parameters."""
        return self.node.args[position] in self.build.trained

    def value(self, x: Any, dtype: Optional[str] = None) -> Value:
        """Converts a value, number or size to a value of a type."""
        if isinstance(x, str):  # symbolic expression: computed by counting
            x = self.graph.number(1).expand(x).sum()
        elif not isinstance(x, Value):
            kind = dtype or ("bool" if isinstance(x, bool) else "int32" if isinstance(x, int) else "float32")
            if kind == "int32" and not -2**31 <= x < 2**31:
                raise self.refuse(f"the number {x} does not fit into the 32 bits in which Koine computes integers")
            return self.graph.constant(x, kind)
        return x if dtype in (None, x.dtype) else x.not_equal(self.value(0, x.dtype)) if dtype == "bool" else x.cast(dtype)

    def pair(self, x: Any, y: Any) -> Tuple[Value, Value]:
        """Both operands in PyTorch's promoted type."""
        kind = koine_type(torch.result_type(self.fake_of(0), self.fake_of(1)), f"{self.node.target}")
        return self.value(x, kind), self.value(y, kind)

    def full(self, number: Any, shape: Optional[Sequence[Any]] = None, dtype: Optional[str] = None) -> Value:
        shape = self.shape if shape is None else list(shape)
        made = self.value(number, dtype or self.dtype)
        return made.expand(shape) if shape else made

    def permuted(self, x: Value, order: Sequence[int]) -> Value:
        """Axis i of the result is axis order[i] of x; nested permutations are merged, or cancel."""
        source, before = self.build.orders.get(x.name, (x, list(range(x.rank))))
        together = [before[axis] for axis in order]
        if together == list(range(x.rank)):
            return source
        made = source.transpose(together)
        self.build.orders[made.name] = (source, together)
        return made

    def refuse(self, why: str) -> KoineError:
        return error_of(UNSUPPORTED, f"{self.node.target} of {self.build.place(self.node)}: {why}")


def path_of(module: str) -> str:
    """The path of a module, from torch.compile's expression: L['self']._modules['conv']."""
    if "L[" not in module:
        return module
    return ".".join(one or other for one, other in re.findall(r"_modules\['([^']+)'\]|\.((?!_modules)\w+)", module))


class Nodes:
    """Builds the operators of a program with the table. Subclasses define the inputs."""

    functional = False  # statistics are arguments and results; no random numbers
    by_batch = False  # a norm uses batch statistics, unlike a session for inference
    origin = "the loss"  # the place of operators outside of any module

    def __init__(self, rows: Mapping[str, Callable[..., Any]], reasons: Mapping[str, str]) -> None:
        self.rows, self.reasons, self.graph = rows, reasons, Graph()
        self.values: Dict[Any, Any] = {}
        self.trained: set = set()
        self.symbols: Dict[str, str] = {}
        self.orders: Dict[str, Tuple[Value, List[int]]] = {}  # per result of permuted(): its source and permutation
        self.zeros: set = set()  # names of all-zero values

    def _placeholder(self, node: Any) -> Any:
        raise NotImplementedError

    # ---- sizes -------------------------------------------------------------------------------------------------------

    def size(self, size: Any) -> Any:
        """An integer, or an expression of the graph's symbols as a string."""
        if isinstance(size, int):
            return size
        text = str(size.node.expr)
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        text = re.sub(r"\b(\w+)//(\w+)\b", r"\1/\2", text.replace(" ", ""))
        if re.search(r"\*\*|[A-Za-z_]\w*\(", text):
            raise error_of(UNSUPPORTED, f"the size {size.node.expr} is not a sum, product or quotient of dynamic sizes")
        return re.sub(r"[A-Za-z_]\w*", lambda match: self.symbols.get(match.group(), match.group()), text)

    def sizes(self, shape: Sequence[Any]) -> List[Any]:
        return [self.size(size) for size in shape]

    def _name_symbols(self, shape: Sequence[Any]) -> None:
        for position, size in enumerate(shape):
            text = "" if isinstance(size, int) else str(size.node.expr)
            if text.isidentifier() and text not in self.symbols:
                free = position == 0 and "batch" not in self.symbols.values()
                self.symbols[text] = "batch" if free else text

    # ---- nodes -------------------------------------------------------------------------------------------------------

    @classmethod
    def place(cls, node: Any) -> str:
        """The module path and source line of a node."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = path_of(stack[-1][0]) if stack else ""
        path = path[len("model."):] if path.startswith("model.") else path if path != "model" else ""
        trace = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()]
        lines = [line for before, line in zip(trace, trace[1:]) if before.startswith("File ") and __file__ not in before]
        return (f"module '{path}'" if path else "the model" if stack and stack[-1][0].startswith("model") else cls.origin) + \
            (f" (`{lines[-1]}`)" if lines else "")

    @contextlib.contextmanager
    def _scope(self, node: Any) -> Iterator[None]:
        """Prefixes the names of new values with the module's path."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = re.sub(r"[^\w./-]", "_", path_of(stack[-1][0]) or "step" if stack else "loss")
        with self.graph.scope("in." + path):
            yield

    def _add(self, node: Any) -> None:
        if node.op == "placeholder":
            self.values[node] = self._placeholder(node)
        elif node.op == "get_attr":
            raise error_of(UNSUPPORTED, f"the program reads {node.target}: torch.cond and other control flow operators are "
                           "not supported: write the model without them")
        elif node.op == "call_function":
            with self._scope(node):
                self.values[node] = self._call(node)
            if any(argument in self.trained for argument in node.all_input_nodes):
                self.trained.add(node)

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            found = self.values[argument]
            if isinstance(found, Absent):
                raise error_of(UNSUPPORTED, f"{argument} of {self.place(argument)} is used, which Koine does not compute")
            return found
        if isinstance(argument, (list, tuple)):
            return [self._argument(item) for item in argument]
        return argument

    def _call(self, node: Any) -> Any:
        found = node.meta.get("val")
        if isinstance(found, (torch.SymInt, int)) and not isinstance(found, bool):
            return self.size(found)
        name = str(node.target)
        if name.startswith("<built-in function getitem"):
            made = self.values[node.args[0]][node.args[1]]
            return made
        row = self.rows.get(name)
        if row is None:
            if found is None:
                return None  # an assertion
            why = self.reasons.get(name, "it is not in Koine's table of operators")
            raise error_of(UNSUPPORTED, f"the operator {name} of {self.place(node)} cannot be trained here: {why}. Replace it in the "
                           "model, or train with PyTorch; docs/torch-operators.md lists the supported operators")
        arguments, keywords = self._argument(node.args), {key: self._argument(item) for key, item in node.kwargs.items()}
        try:
            return row(Call(self, node), *arguments, **keywords)
        except KoineError as error:
            if name in str(error):
                raise
            raise error_of(error.code, f"{name} of {self.place(node)}: {error}") from error


class Names:
    """The interface for naming the tensors of a step's module; step.py implements it."""

    def parameter(self, path: str) -> Tuple[Any, bool]:
        """The slot of a parameter, and whether it is trained."""
        raise NotImplementedError

    def buffer(self, path: str, changed: bool) -> Tuple[Optional[Any], Any]:
        """The slot of a buffer, or None if its data becomes a constant of the graph; and the tensor. changed: the step writes it."""
        raise NotImplementedError


class Build(Nodes):
    """Builds the graph of a program."""

    def __init__(self, program: Any, rows: Mapping[str, Callable[..., Any]], reasons: Mapping[str, str], names: Names,
                 leaves: Sequence[Any]) -> None:
        super().__init__(rows, reasons)
        self.program = program
        self.limits: Dict[int, Range] = {}  # by leaf position: the allowed range of its integers
        self.slots: Dict[str, Any] = {}  # all states of the graph
        self.trained_slots: Dict[str, Any] = {}  # states with a gradient
        self.changed_slots: Dict[str, Any] = {}  # buffers that a step changes
        self.extra: List[Value] = []  # results besides the loss: the new values of changed states
        self.counters: List[Tuple[Any, int]] = []  # unread buffers, and their increment per step
        self.constants: List[Tuple[str, Any, Any]] = []  # tensors that are constants of the graph
        self.inputs: List[Tuple[int, str]] = []  # leaf positions and their input names
        self._names = names
        signature = program.graph_signature
        self._changed = {spec.target: spec.arg.name for spec in signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION}
        self._specs = {spec.arg.name: spec for spec in signature.input_specs}
        self._leaf = 0
        counts = self._find_counters()
        self._limit_integers(counts, leaves)
        for node in program.graph.nodes:
            if node not in counts:
                self._add(node)
        self._finish()
        del self.program  # it refers to the tensors

    # ---- leaves ------------------------------------------------------------------------------------------------------

    def _limit_integers(self, counts: set, leaves: Sequence[Any]) -> None:
        """Refuses int64 arithmetic whose results may exceed the 32 bits in which Koine computes integers. If the results fit only because
        the given integers are small, later integers must stay below the next power of two."""
        given = {node: "counted by the host" for node in counts}
        if not Ranges(self.program.graph, given, WIDE, strict=False).reasons:
            return
        inputs = [node for node in self.program.graph.nodes
                  if node.op == "placeholder" and self._specs[node.name].kind == InputKind.USER_INPUT]
        if any(not isinstance(size, int) for node in inputs for size in getattr(node.meta.get("val"), "shape", ())):
            raise error_of(UNSUPPORTED, "the range of integers depends on the batch size")
        known: Dict[Any, Range] = {}
        for position, (node, leaf) in enumerate(zip(inputs, leaves)):
            if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.int64:
                known[node] = self.limits[position] = bits(range_of(leaf))
        ranges = Ranges(self.program.graph, given, NARROW, known, strict=False)
        for node in ranges.reasons:
            raise error_of(UNSUPPORTED, f"{node.target} of {self.place(node)}: {TOO_LARGE}; compute it before the step, or with floats")

    def _find_counters(self) -> set:
        """The nodes of buffers such as num_batches_tracked, which each step only increments: the host counts them."""
        results = {name: target for target, name in self._changed.items()}
        found: set = set()
        for node in self.program.graph.nodes:
            if node.name not in results or str(node.target) not in ("aten.add.Tensor", "aten.add.Scalar") or len(node.args) != 2:
                continue
            buffer, by = node.args
            spec = self._specs.get(getattr(buffer, "name", ""))
            if spec is None or spec.target != results[node.name] or not isinstance(by, int) or isinstance(by, bool) or \
                    list(buffer.users) != [node] or [user.op for user in node.users] != ["output"]:
                continue
            tensor = self._names.buffer(spec.target, False)[1]
            if not tensor.is_floating_point():
                self.counters.append((tensor, by))
                del self._changed[spec.target]
                found.update((buffer, node))
        return found

    def _placeholder(self, node: Any) -> Any:
        spec = self._specs[node.name]
        if not node.users and spec.kind != InputKind.USER_INPUT:
            return None
        if spec.kind == InputKind.USER_INPUT:
            position, self._leaf = self._leaf, self._leaf + 1
            fake = node.meta.get("val")
            if not isinstance(fake, torch.Tensor):
                return fake
            self._name_symbols(fake.shape)
            name = f"input{position}"
            self.inputs.append((position, name))
            return self.graph.input(name, self.sizes(fake.shape), koine_type(fake.dtype, f"input {position}"))
        if spec.kind == InputKind.PARAMETER:
            slot, trained = self._names.parameter(spec.target)
            if trained:
                self.trained.add(node)
            return self._state(slot, trained)
        if spec.kind == InputKind.BUFFER:
            slot, tensor = self._names.buffer(spec.target, spec.target in self._changed)
            if slot is not None:
                self.slots[slot.name] = slot
                found = self.graph.find(slot.name)
                return found if found is not None else self.graph.statistic(slot.name, list(tensor.shape), koine_type(tensor.dtype, spec.target))
            return self._constant(spec.target, tensor)
        if spec.kind == InputKind.CONSTANT_TENSOR:
            return self._constant(spec.target, self.program.constants[spec.target])
        raise error_of(UNSUPPORTED, f"the program has an input of kind {spec.kind.name}, {spec.target}: only tensors are supported")

    def _constant(self, path: str, tensor: Any) -> Value:
        array = self._numbers(tensor, path)
        self.constants.append((path, tensor, array))
        return self.graph.constant(array, koine_type(tensor.dtype, path))

    @staticmethod
    def _numbers(tensor: Any, name: str) -> Any:
        array = as_array(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
        if array.dtype.kind == "i" and array.size and not -2**31 <= array.min() <= array.max() < 2**31:
            raise error_of(UNSUPPORTED, f"the buffer {name} has integers that do not fit into the 32 bits in which Koine computes")
        return array

    def _state(self, slot: Any, trained: bool) -> Value:
        if slot.name in self.slots:
            return self.graph.find(slot.name)
        tensor = slot.tensor
        if tensor.dtype != torch.float32:
            raise error_of(UNSUPPORTED, f"the parameter {slot.name} is {tensor.dtype}; expected torch.float32: model.float() converts all")
        self.slots[slot.name] = slot
        made = self.graph.parameter(slot.name, list(tensor.shape), init=0.0)
        return made if trained else made.freeze()

    def _reached(self, loss: Any) -> None:
        """The trained parameters that have a gradient."""
        seen, waiting = set(), [loss]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            found = node.meta.get("val")
            if node.op == "call_function" and (str(node.target) in _WITHOUT_GRADIENT or
                                               isinstance(found, torch.Tensor) and not found.is_floating_point()):
                continue
            waiting.extend(node.all_input_nodes)
        for node in seen:
            spec = self._specs.get(node.name) if node.op == "placeholder" else None
            if spec is not None and spec.kind == InputKind.PARAMETER:
                slot, trained = self._names.parameter(spec.target)
                if trained:
                    self.trained_slots[slot.name] = slot

    # ---- results -----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        output = next(node for node in self.program.graph.nodes if node.op == "output")
        results = {node.name: node for node in output.args[0] if isinstance(node, torch.fx.Node)}
        found = [spec.arg.name for spec in self.program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
        loss = self.values[results[found[0]]] if len(found) == 1 and found[0] in results else None
        if loss is not None:
            self._reached(results[found[0]])
        if not isinstance(loss, Value) or results[found[0]].meta["val"].dim():
            shape = tuple(results[found[0]].meta["val"].shape) if isinstance(loss, Value) else f"{len(found)} results"
            raise error_of(3, f"the loss is {shape}; expected one tensor without dimensions, such as a mean")
        self._update_buffers(results)
        self.loss = loss if loss.dtype == "float32" else loss.cast("float32")
        slot = self.graph.input(SLOT, "1", "int32")
        self.losses = self.loss.reshape("1,1,1").kv_cache(slot, KEPT_LOSSES, LOSSES)
        self.extra.append(self.losses)

    def _update_buffers(self, results: Mapping[str, Any]) -> None:
        """Updates the changed buffers, except running statistics, which batch norms update."""
        for target, result in self._changed.items():
            next_value = self.values[results[result]]
            slot = self._names.buffer(target, True)[0]
            assert slot is not None
            self.changed_slots[slot.name] = slot
            if isinstance(next_value, Value):
                statistic = self.graph.find(slot.name)
                if statistic is None:  # written but not read
                    tensor = slot.tensor
                    statistic = self.graph.statistic(slot.name, list(tensor.shape), koine_type(tensor.dtype, target))
                    self.slots[slot.name] = slot
                statistic.set_next(next_value)
                self.extra.append(next_value)
