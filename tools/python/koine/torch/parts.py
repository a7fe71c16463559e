"""Partitions a graph of tensor operators: Koine sessions run the supported parts, PyTorch runs the rest."""
from __future__ import annotations

import logging
import operator
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ..errors import ArgumentError, KoineError, error_of
from ..graph import Value
from ..session import Session
from .exchange import array_of
from .kept import Kept
from .operators import REASONS, ROWS
from .ranges import EXACT_MOVES, NARROW, RANGE, UNCHECKED, WIDE, Ranges, indices_of, range_of, source_of, within
from .saved import Slot, watched
from .trace import TYPES, Nodes, koine_type

logger = logging.getLogger("koine")
# Views and constants: not worth a session by themselves.
_LIGHT = {f"aten.{name}" for name in (
    "view.default", "_unsafe_view.default", "permute.default", "expand.default", "unsqueeze.default", "squeeze.dim", "squeeze.dims",
    "alias.default", "detach.default", "clone.default", "select.int", "slice.Tensor", "full.default", "full_like.default",
    "scalar_tensor.default", "empty.memory_format", "arange.start_step", "_to_copy.default", "split_with_sizes.default")}
_HOST = "koine.host"  # marks nodes that PyTorch computes first
_named: Set[Tuple[str, str]] = set()


def tensors_of(node: Any) -> List[Any]:
    """The tensor results of a node, as fake tensors."""
    found = node.meta.get("val")
    return [item for item in (found if isinstance(found, (tuple, list)) else [found]) if isinstance(item, torch.Tensor)]


# ---- support ---------------------------------------------------------------------------------------------------------


class Trial(Nodes):
    """Builds a single operator, to test whether it is supported."""

    functional, origin = True, "the model"

    def __init__(self, node: Any) -> None:
        super().__init__(ROWS, REASONS)
        for position, argument in enumerate(node.all_input_nodes):
            fake = argument.meta["val"]
            if not isinstance(fake, torch.Tensor):
                raise error_of(5, "an argument is a number that depends on the data")
            self.values[argument] = self.graph.input(f"input{position}", list(fake.shape), koine_type(fake.dtype, "an argument"))
        made = self._call(node)
        fakes = node.meta["val"]
        several = isinstance(fakes, (tuple, list))
        read = {user.args[1] for user in node.users if user.target is operator.getitem} if several else {0}
        for position, fake in enumerate(fakes if several else [fakes]):
            if position in read:
                self._compare(made[position] if several else made, fake, position)

    @staticmethod
    def _compare(value: Any, fake: Any, position: int) -> None:
        if not isinstance(value, Value):
            raise error_of(5, f"result {position} is used, which Koine does not compute")
        wanted = (tuple(fake.shape), koine_type(fake.dtype, "a result"))
        if (tuple(value.shape), value.dtype) != wanted:
            raise error_of(5, f"result {position} is {value.dtype} {value.shape}, expected {wanted[1]} {wanted[0]}")


def why_not(node: Any) -> Optional[str]:
    """Why Koine does not compute an operator here; None if it does."""
    name = str(node.target)
    if node.meta.get(_HOST):
        return "PyTorch draws the random numbers of a compiled model"
    for fake in [*tensors_of(node), *(fake for argument in node.all_input_nodes for fake in tensors_of(argument))]:
        if fake.dtype not in TYPES or fake.dtype == torch.float64:
            return f"{str(fake.dtype)[len('torch.'):]} is computed by PyTorch"
        if fake.layout != torch.strided:
            return f"tensors are {fake.layout}"
    if name not in ROWS:
        return REASONS.get(name, "it is not in Koine's table of operators")
    if not tensors_of(node):
        return "it has no tensor as its result"
    try:
        Trial(node)
    except KoineError as error:
        text, named = str(error), f"{name} of {Trial.place(node)}: "
        return text[len(named):] if text.startswith(named) else text
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:  # argument types that the row does not handle
        return f"{type(error).__name__}: {error}"
    return None


class Support(OperatorSupportBase):
    """Looks operators up in the table, and stores the reasons why some are not supported."""

    def __init__(self, graph: Any) -> None:
        nodes = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
        self.reasons: Dict[Any, Optional[str]] = {node: why_not(node) for node in nodes}
        ranges, narrow = (Ranges(graph, self.reasons, limits) for limits in (WIDE, NARROW))
        if narrow.refused() < ranges.refused():
            ranges = narrow
        ranges.note()
        self.reasons.update(ranges.reasons)

    def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(submodules, node.args[0])
        return self.reasons[node] is None


def is_random(node: Any) -> bool:
    if str(node.target) == "aten._scaled_dot_product_flash_attention_for_cpu.default" and not any(node.args[3:4]):
        return False  # it drops nothing
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def draw_first(graph: Any) -> None:
    """Makes random operators read an empty tensor: they need only the argument's shape, and can then run before the parts."""
    for node in list(graph.nodes):
        if node.op != "call_function" or not is_random(node):
            continue
        node.meta[_HOST] = True
        name = str(node.target)
        if not (name.endswith("_like.default") or name == "aten.bernoulli.p") or not node.all_input_nodes:
            continue
        like, fake = node.args[0], node.args[0].meta["val"]
        with graph.inserting_before(node):
            made = graph.call_function(torch.ops.aten.empty.memory_format, (list(fake.shape),), {"dtype": fake.dtype, "device": fake.device})
        made.meta = {**like.meta, _HOST: True}
        node.update_arg(0, made)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or is_random(node))


# ---- a part ----------------------------------------------------------------------------------------------------------


def kept_type(fake: Any) -> str:
    """The type of a graph's result. Byte images are returned as int32, since 4-byte images can have any layout before."""
    kind = koine_type(fake.dtype, "a result")
    return "int32" if len(fake.shape) == 4 and kind in ("bool", "int8", "uint8") else kind


class PartBuild(Nodes):
    """The graph of a part. names: the state of each parameter argument; saved: the state of each argument that the forward pass left
    on the device."""

    functional, origin = True, "the model"

    def __init__(self, graph: Any, names: Sequence[Optional[str]], saved: Sequence[Optional[str]]) -> None:
        super().__init__(ROWS, REASONS)
        self._states, self._saved, self.fed, self._position = names, saved, {}, 0  # type: Any, Any, Dict[int, str], int
        self._leaving: Dict[str, Value] = {}
        self.checks: List[IndexCheck] = []
        self._places = {node: position for position, node in enumerate(node for node in graph.nodes if node.op == "placeholder")}
        for node in graph.nodes:
            self._add(node)

    def _placeholder(self, node: Any) -> Any:
        position, self._position = self._position, self._position + 1
        fake, name = node.meta["val"], self._states[position]
        if name is not None:
            found = self.graph.find(name)
            return self.graph.parameter(name, list(fake.shape), init=0.0) if found is None else found
        if not node.users:
            return None
        if self._saved[position] is not None:
            made, kind = self.statistic(self._saved[position], fake), koine_type(fake.dtype, "a saved result")
            return made if made.dtype == kind else made.not_equal(self.graph.constant(0, "int32")) if kind == "bool" else made.cast(kind)
        self.fed[position] = f"input{position}"
        return self.graph.input(self.fed[position], list(fake.shape), koine_type(fake.dtype, f"input {position}"))

    def _call(self, node: Any) -> Any:
        for index, size, negative in indices_of(node):
            place = self._places.get(source_of(index))
            if place in self.fed:
                self.checks.append(IndexCheck(place, -size if negative else 0, size - 1, f"{node.target} of {self.place(node)}"))
        made = super()._call(node)
        if node.target is operator.getitem or str(node.target) in EXACT_MOVES:
            return made
        found = node.meta.get("val")
        if isinstance(found, (tuple, list)):
            return [self._rounded(value, fake) for value, fake in zip(made, found)] if isinstance(made, (tuple, list)) else made
        return self._rounded(made, found)

    @staticmethod
    def _rounded(value: Any, fake: Any) -> Any:
        """float16 is computed as float32. Rounds a result as PyTorch does: values that overflow become infinite."""
        if isinstance(value, Value) and isinstance(fake, torch.Tensor) and fake.dtype == torch.float16 and value.dtype == "float32":
            return value.cast("float16").cast("float32")
        return value

    def leaving(self, value: Value, fake: Any) -> Value:
        """Converts a result to the type and shape that the graph returns."""
        if value.dtype == kept_type(fake):
            return value
        if value.name not in self._leaving:
            self._leaving[value.name] = value.cast(kept_type(fake))
        return self._leaving[value.name]

    def statistic(self, name: str, fake: Any) -> Value:
        found = self.graph.find(name)
        return self.graph.statistic(name, list(fake.shape), kept_type(fake)) if found is None else found


class IndexCheck(NamedTuple):
    """An argument that an operator uses as indices from `low` to `high`."""

    position: int
    low: int
    high: int
    what: str


class WrongIndex(ArgumentError, IndexError):
    """An index out of range."""


class Beyond(Exception):
    """Values outside the range in which Koine computes."""


class Result:
    """Allocates the tensor that a result is written into, and converts it to the tensor that PyTorch expects."""

    def __init__(self, fake: Any) -> None:
        self.shape, self.dtype, self.device = tuple(fake.shape), fake.dtype, fake.device
        strides = tuple(fake.stride())
        overlaps = any(stride == 0 and size > 1 for stride, size in zip(strides, self.shape))
        self.strides = None if overlaps or fake.is_contiguous() else strides
        whole = {"float32": torch.float32, "int32": torch.int32}
        self.own = whole[kept_type(fake)] if kept_type(fake) in whole else fake.dtype

    def empty(self) -> Any:
        return torch.empty(self.shape, dtype=self.own)

    def finish(self, tensor: Any) -> Any:
        if self.own != self.dtype or self.device.type != "cpu":
            tensor = tensor.to(device=self.device, dtype=self.dtype)
        if self.strides is None:
            return tensor
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device).copy_(tensor)


class Part(torch.nn.Module):
    """A part that a Koine session runs. It is built at the first call, since parameters are identified by address. strict: a failure is
    an error; otherwise PyTorch runs the part."""

    def __init__(self, module: Any, kept: Kept, training: bool, strict: bool, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self._module, self._kept = [module], kept  # in a list: not a submodule
        self._training, self._settings = training, settings
        self._session: Optional[Session] = None
        self._failed, self._strict = False, strict
        self.stays: Set[int] = set()  # results that only the backward pass reads, which stay on the device

    def _build(self, tensors: Sequence[Any]) -> None:
        graph = self._module[0].graph
        saved = self._kept.saved.names_of(list(tensors))
        # A placeholder of a saved result may reuse the address of a freed parameter.
        names = [None if other else self._kept.name_of(tensor) for tensor, other in zip(tensors, saved)]
        build = PartBuild(graph, names, saved)
        output = next(node for node in graph.nodes if node.op == "output").args[0]
        self._single = not isinstance(output, (tuple, list))
        nodes = [output] if self._single else list(output)
        self._states = [(position, name) for position, name in enumerate(names) if name is not None]
        self._held = [(position, name) for position, name in enumerate(saved) if name is not None]
        self._fed = list(build.fed.items())
        holders = [node for node in graph.nodes if node.op == "placeholder"]
        self._limits = {position: holders[position].meta.get(RANGE) or WIDE for position in build.fed
                        if holders[position].meta["val"].dtype == torch.int64}
        self._checks: Dict[int, List[IndexCheck]] = {}
        for check in build.checks:
            self._checks.setdefault(check.position, []).append(check)
        values: List[Value] = []
        places: Dict[str, int] = {}
        self._results: List[Tuple[int, Any]] = []  # value position, and its Result or its Slot on the device
        for position, node in enumerate(nodes):
            value, result = build.leaving(build.values[node], node.meta["val"]), Result(node.meta["val"])
            is_new = value.name not in places
            if is_new:
                places[value.name] = len(values)
                values.append(value)
            made_here = node.op == "call_function" and result.device.type == "cpu" and 0 not in result.shape
            # Another graph assumes these values are within limits, and the host cannot check them.
            known = result.dtype != torch.int64 or within(node.meta.get(RANGE) or WIDE, NARROW)
            if position in self.stays and is_new and made_here and known and sum(other is node for other in nodes) == 1:
                result = self._kept.saved.add(result.shape, result.strides, result.dtype)
                # Add a node (the plan removes it): a value that no node computes, such as a constant, would not be written.
                values[-1] = build.graph.apply("cast", value, dtype=value.dtype)
                build.statistic(result.name, node.meta["val"]).set_next(values[-1])
            self._results.append((places[value.name], result))
        self._owners = [next((result for place, result in self._results if place == position and isinstance(result, Result)), None)
                        for position in range(len(values))]
        self._session = Session(values, self._kept.context, states=self._kept.states, training=self._training or build.by_batch,
                                **self._settings)

    def forward(self, *tensors: Any) -> Any:
        if not self._failed:
            try:
                return self._run(tensors)
            except Beyond as reason:
                if self._strict:
                    raise error_of(4, str(reason)) from None
                name_once_beyond(str(reason))
                self._kept.saved.fill_in(list(tensors))
                return self._module[0](*tensors)
            except KoineError as error:
                if self._strict or isinstance(error, IndexError):
                    raise
                self._failed = True
                logger.warning("torch.compile: PyTorch computes a part of the model that Koine could not: %s", error)
        self._kept.saved.fill_in(list(tensors))
        return self._module[0](*tensors)

    def _run(self, tensors: Sequence[Any]) -> Any:
        if self._session is None:
            self._build(tensors)
        self._check_integers(tensors)
        saved, slots = self._kept.saved, [result for _, result in self._results if isinstance(result, Slot)]
        saved.fill_in([tensors[position] for position, _ in self._fed + self._states])
        for position, name in self._states:
            self._kept.send(name, tensors[position])
        for position, name in self._held:
            saved.hold(name, tensors[position], array_of)
        for slot in slots:
            saved.free(slot.name)
        made = [owner and owner.empty() for owner in self._owners]
        self._session.run({name: array_of(tensors[position]) for position, name in self._fed},
                          out=[False if tensor is None else tensor.numpy() for tensor in made])
        taken: Set[int] = set()
        results = []
        for place, result in self._results:
            if isinstance(result, Slot):
                results.append(result.stand_in())
                continue
            results.append(result.finish(made[place].clone() if place in taken else made[place]))
            taken.add(place)
        if slots and watched():
            for slot in slots:
                saved.free(slot.name)
        return results[0] if self._single else tuple(results)


    def _check_integers(self, tensors: Sequence[Any]) -> None:
        for position in {**self._limits, **self._checks}:
            tensor = tensors[position]
            if not tensor.numel():
                continue
            low, high = range_of(tensor)
            for check in self._checks.get(position, ()):
                if low < check.low or high > check.high:
                    raise WrongIndex(f"{check.what}: the index {low if low < check.low else high} is out of range; expected "
                                   f"{check.low} to {check.high}")
            limits = self._limits.get(position, WIDE)
            if low < limits[0] or high > limits[1]:
                raise Beyond(f"an input of shape {tuple(tensor.shape)} has integers from {low} to {high}: "
                             "Koine computes integers in 32 bits")


# ---- the graph -------------------------------------------------------------------------------------------------------


def name_once(reasons: Mapping[Any, Optional[str]]) -> None:
    """Logs the operators that PyTorch computes, once per operator and reason."""
    for node, why in reasons.items():
        if why is None or (str(node.target), why) in _named:
            continue
        _named.add((str(node.target), why))
        where = Trial.place(node)
        log = logger.info if node.meta.get(_HOST) or why == UNCHECKED else logger.warning
        log("torch.compile: PyTorch computes %s of %s: %s", node.target, where, why)


def name_once_beyond(why: str) -> None:
    if ("", why) not in _named:
        _named.add(("", why))
        logger.info("torch.compile: PyTorch computes a call: %s", why)


def only_saved(graph: Any, first: Optional[int]) -> Set[Any]:
    """The nodes whose results are only saved for the backward pass. Saved results are the graph's results from `first` on."""
    output = next(node for node in graph.nodes if node.op == "output")
    results = output.args[0] if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
    if first is None:
        return set()
    seen = {node for node in results[:first] if isinstance(node, torch.fx.Node)}
    return {node for node in results[first:] if isinstance(node, torch.fx.Node) and node not in seen and list(node.users) == [output]}


def read_by_pytorch(graph: Any) -> List[int]:
    """The positions of arguments with a reader that is not a part."""
    holders = [node for node in graph.nodes if node.op == "placeholder"]
    return [position for position, node in enumerate(holders)
            if any(user.op != "call_module" or not str(user.target).startswith("fused_") for user in node.users)]


def split(module: Any, kept: Kept, training: bool, settings: Mapping[str, Any], saved_from: Optional[int] = None) -> Any:
    """Replaces the supported parts of the module by sessions. fallback=False: unsupported operators are errors. saved_from: the position
    of the first result saved for the backward pass."""
    settings = dict(settings)
    fallback = settings.pop("fallback", True)
    draw_first(module.graph)
    support = Support(module.graph)
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True, non_compute_ops=sorted(_LIGHT))
    parts = [part for part in partitioner.propose_partitions()
             if any(node.target is not operator.getitem and str(node.target) not in _LIGHT for node in part.nodes)]
    if not fallback:
        refused = next(((node, why) for node, why in support.reasons.items() if why not in (None, UNCHECKED) and not node.meta.get(_HOST)), None)
        if refused:
            raise error_of(5, f"torch.compile: {refused[0].target} of {Trial.place(refused[0])}: {refused[1]}")
    name_once(support.reasons)
    made = partitioner.fuse_partitions(parts)
    for name, child in list(made.named_children()):
        if name.startswith("fused_"):
            setattr(made, name, Part(child, kept, training, not fallback, settings))
    for node in only_saved(made.graph, saved_from):
        source = node.args[0] if node.target is operator.getitem else node
        if source.op == "call_module" and isinstance(getattr(made, str(source.target), None), Part):
            getattr(made, str(source.target)).stays.add(node.args[1] if node.target is operator.getitem else 0)
    made.recompile()
    positions = read_by_pytorch(made.graph)

    def run(*tensors: Any) -> Any:
        kept.saved.fill_in([tensors[position] for position in positions])
        return made(*tensors)
    return run if positions else made
