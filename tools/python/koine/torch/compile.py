"""torch.compile(model, backend="koine"): AOTAutograd's forward and backward graphs, computed by Koine."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from .._library import unknown
from ..device import Context, default_context
from .kept import Kept, kept_for
from .parts import split
from .table import operators_kept

# The keywords of koine.Session that are valid options.
TAKEN = ("context", "fallback", "precision", "memory_bytes", "recompute", "fast_math", "switches", "progress")
# Operators that PyTorch can decompose into core ATen, but leaves out of its default table.
MORE = [torch.ops.aten.addmv]
# The number of sizes whose graphs are cached; the least recently used graph is evicted.
KEPT_SIZES = 64


def drop(x: torch.Tensor, rate: float, train: Optional[bool]) -> Any:
    """Dropout with PyTorch's random numbers; returns the mask too, for the backward pass."""
    if train is False or rate == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if rate == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = torch.ops.aten.bernoulli.p(torch.empty_like(x, dtype=torch.bool), 1 - rate)
    return x * mask * (1 / (1 - rate)), mask


def encoder_layer(x: Any, size: int, heads: int, weight: Any, bias: Any, out_weight: Any, out_bias: Any, use_gelu: bool, norm_first: bool,
                  epsilon: float, *more: Any) -> Any:
    """A PyTorch encoder layer in inference, decomposed into operators of the table. x is (N,T,size)."""
    norms, (first, first_bias, second, second_bias), masks = (more[0:2], more[2:4]), more[4:8], more[8:]
    if any(mask is not None for mask in masks) or x.is_nested:
        return NotImplemented

    def attention(y: Any) -> Any:
        q, k, v = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in torch.nn.functional.linear(y, weight, bias).split(size, 2))
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return torch.nn.functional.linear(made, out_weight, out_bias)

    def wide(y: Any) -> Any:
        y = torch.nn.functional.linear(y, first, first_bias)
        return torch.nn.functional.linear(torch.nn.functional.gelu(y) if use_gelu else y.relu(), second, second_bias)
    for part, norm in zip((attention, wide), norms):
        x = x + part(torch.nn.functional.layer_norm(x, (size,), *norm, epsilon)) if norm_first else \
            torch.nn.functional.layer_norm(x + part(x), (size,), *norm, epsilon)
    return x


@functools.lru_cache(maxsize=1)
def decompositions() -> Dict[Any, Callable[..., Any]]:
    """Decompositions into core ATen, without the operators in the table. Cached: collecting them takes a third of a small compilation."""
    table = {**core_aten_decompositions(), **get_decompositions(MORE)}
    for operator in operators_kept():
        table.pop(operator, None)
    table[torch.ops.aten.native_dropout.default] = drop
    table[torch.ops.aten._transformer_encoder_layer_fwd.default] = encoder_layer
    return table


class Shared:
    """State shared by the forward and backward graphs of a compiled function."""

    def __init__(self, context: Context, settings: Mapping[str, Any]) -> None:
        self.context, self.settings = context, settings
        self.kept: Optional[Kept] = None

    def kept_of(self, tensors: Sequence[Any]) -> Kept:
        parameters = [tensor for tensor in tensors if isinstance(tensor, torch.nn.Parameter)]
        if self.kept is None or parameters:
            self.kept = kept_for(self.context, parameters)
        return self.kept


class Compiled:
    """A forward or backward graph: a function of a list of tensors, and of integers for dynamic sizes. Each combination of sizes has
    separate sessions, which share the parameters."""

    def __init__(self, module: Any, shared: Shared, kind: str, saved_from: Optional[int] = None) -> None:
        self._boxed_call = True  # AOTAutograd passes the arguments in a list and clears it
        self._module, self._shared, self._training, self._saved_from = module, shared, kind != "inference", saved_from
        self._made: Dict[Any, Any] = {}
        holders = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        self._open = any(isinstance(found, torch.SymInt) or isinstance(found, torch.Tensor) and
                         any(isinstance(size, torch.SymInt) for size in found.shape) for found in holders)

    def __call__(self, given: List[Any]) -> Any:
        tensors = list(given)
        given.clear()
        key = tuple(tuple(item.shape) if isinstance(item, torch.Tensor) else item for item in tensors) if self._open else ()
        made = self._made.pop(key, None)
        if made is None:
            made = self._make(tensors)
            if len(self._made) >= KEPT_SIZES:
                self._made.pop(next(iter(self._made)))
        self._made[key] = made  # most recently used last
        return made(*tensors)

    def _make(self, tensors: Sequence[Any]) -> Any:
        kept = self._shared.kept_of([tensor for tensor in tensors if isinstance(tensor, torch.Tensor)])
        if self._open:  # saved results would use device memory for each size
            return split(with_numbers(self._module, tensors), kept, self._training, self._shared.settings)
        return split(copied(self._module), kept, self._training, self._shared.settings, self._saved_from)


def first_saved() -> Optional[int]:
    """The position of the first result saved for the backward pass, while AOTAutograd compiles a forward graph."""
    tracing = torch._guards.TracingContext.try_get()
    return getattr(tracing.fw_metadata, "num_forward", None) if tracing is not None and tracing.fw_metadata is not None else None


def copied(module: Any) -> Any:
    """The module with a copy of its graph: split() modifies the graph, and other sizes and threads need the original."""
    graph, copies = torch.fx.Graph(), {}  # type: Any, Dict[Any, Any]
    for node in module.graph.nodes:
        copies[node] = graph.node_copy(node, lambda argument: copies[argument])
    return torch.fx.GraphModule(module, graph)


def with_numbers(module: Any, given: Sequence[Any]) -> Any:
    """The module specialized to the given sizes: replaces dynamic sizes, and expressions of them, by integers."""
    made = copied(module)
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    FakeTensorProp(made, mode).propagate(*given)
    numbers = {node: node.meta["val"] for node in made.graph.nodes
               if isinstance(node.meta.get("val"), (int, float)) and not isinstance(node.meta["val"], bool)}
    for node in list(made.graph.nodes):
        node.args = torch.fx.node.map_arg(node.args, lambda argument: numbers.get(argument, argument))
        node.kwargs = torch.fx.node.map_arg(node.kwargs, lambda argument: numbers.get(argument, argument))
    made.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or torch.Tag.nondeterministic_seeded in
                                   getattr(node.target, "tags", ()))
    made.recompile()
    return made


def backend(module: Any, given: Sequence[Any], *, options: Optional[Mapping[str, Any]] = None, mode: Optional[str] = None) -> Any:
    """See koine.torch.backend."""
    options = dict(options or {})
    for name in options:
        if name not in TAKEN:
            raise TypeError(unknown("option", name, TAKEN))
    context = options.pop("context", None) or default_context()
    shared = Shared(context, options)

    def compiler(kind: str) -> Callable[[Any, Sequence[Any]], Any]:
        return lambda graph, _: Compiled(graph, shared, kind, first_saved() if kind == "forward" else None)
    make = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"),
                        decompositions=dict(decompositions()), partition_fn=min_cut_rematerialization_partition)
    return make(module, given)
