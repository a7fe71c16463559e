"""Calls the functions of operators.h for koine.ops."""
from __future__ import annotations

from typing import Any, Dict, List

from ._arrays import as_array, shape_text, type_number
from ._library import NULL, encoded, ffi, lib, make, number_of
from .errors import error_of

_END = 2**63 - 1  # slice to the end


def text_of(value: Any) -> Any:
    """The text of an argument: axes and shapes may be numbers or sequences."""
    return NULL if value is None else ffi.new("char[]", encoded(shape_text(value)))


def graph_of(arguments: Dict[str, Any], words: Dict[str, Any]) -> Any:
    """The graph of the first value among the arguments."""
    from .graph import Graph, Value
    for value in [*arguments.values(), *words.values()]:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Value):
                return item.graph
            if isinstance(item, Graph):
                return item
    raise TypeError("an operator needs at least one koine.Value among its arguments; numbers and arrays do not belong to a graph")


def lifted(graph: Any, value: Any) -> Any:
    """The pointer of a value; numbers and arrays become constants."""
    from .graph import Value
    if value is None:
        return NULL
    if isinstance(value, Value):
        if value.graph is not graph:
            raise error_of(2, f"the value '{value.name}' belongs to another graph")
        return value._pointer
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return graph.number(value)._pointer
    return graph.constant(as_array(value))._pointer


def initializer(value: Any) -> Any:
    """A kn_initializer from a number, "kaiming-normal", or ("normal", 0.02)."""
    made = ffi.new("kn_initializer *")
    if isinstance(value, (int, float)):
        value = ("fill", value)
    kind, number = (value, None) if isinstance(value, str) else value
    made.kind = number_of("kn_initializer_kind", kind)
    made.value = 1.0 if number is None else number
    return made


def _struct(graph: Any, name: str, words: Dict[str, Any], keep: List[Any]) -> Any:
    """The params struct of an operator."""
    params = make(name, keep)
    kinds = dict(ffi.typeof(name).fields)
    for word, value in words.items():
        if value is None:
            continue
        kind = kinds[word].type.cname
        if kind == "kn_initializer *":
            value = initializer(value)
        elif kind == "kn_value *":
            value = lifted(graph, value)
        elif kind == "kn_value * *":
            value = ffi.new("kn_value *[1]")
        else:
            from ._library import put
            put(params, word, value, keep)
            continue
        keep.append(value)
        setattr(params, word, value)
    return params


def _argument(graph: Any, kind: str, value: Any, keep: List[Any]) -> List[Any]:
    """The C arguments for one parameter; a sequence is passed with its length."""
    if kind == "kn_value *":
        return [lifted(graph, value)]
    if kind == "kn_graph *":
        return [graph._pointer]
    if kind == "kn_value *const *":
        values = list(value)
        return [ffi.new("kn_value *[]", [lifted(graph, item) for item in values]), len(values)]
    if kind == "const char *":
        return [text_of(value)]
    if kind == "kn_dtype":
        return [type_number(value)]
    if kind in ("kn_pad_mode", "kn_scatter_reduction"):
        return [number_of(kind, value)]
    if kind == "int64_t" and value is None:
        return [_END]
    if kind == "int64_t" and isinstance(value, (list, tuple)):
        return [value[0]]
    return [value]


def call(function: str, arguments: Dict[str, Any], words: Dict[str, Any]) -> Any:
    """Adds an operator to the graph of its arguments."""
    from . import ops
    from .graph import Value
    row = ops.CALLS[function]
    graph = graph_of(arguments, words)
    keep: List[Any] = []
    passed: List[Any] = []
    asked = [name for name in row["results"] if words.get(name)]
    with graph._lock:
        params, targets = NULL, {}
        if row["struct"]:
            more = {name: value for name, value in words.items() if name not in row["results"] or value}
            # A window of two numbers is a struct field with the name of an argument.
            more.update({name: value for name, value in arguments.items() if isinstance(value, (list, tuple)) and
                         name in dict(ffi.typeof(row["struct"]).fields)})
            params = _struct(graph, row["struct"], more, keep)
            targets = {name: getattr(params, name) for name in asked}
        if function == "kn_split":
            return _split(graph, arguments)
        for kind, name in row["parameters"]:
            if kind == "kn_value **":
                targets[name] = ffi.new("kn_value *[1]") if name in asked else NULL
                passed.append(targets[name])
            elif name == "params":
                passed.append(params)
            elif kind != "size_t":
                passed += _argument(graph, kind, arguments[name], keep)
        result = graph._made(getattr(lib, function)(*passed))
        return (result, *(Value(graph, targets[name][0]) for name in asked)) if asked else result


def _split(graph: Any, arguments: Dict[str, Any]) -> Any:
    from .graph import Value
    sizes = arguments["sizes"]
    count = sizes if isinstance(sizes, int) else len(sizes)
    parts = ffi.new("kn_value *[]", max(1, count))
    code = lib.kn_split(lifted(graph, arguments["x"]), arguments["axis"],
                        NULL if isinstance(sizes, int) else ffi.new("int64_t[]", list(sizes)), count, parts)
    if code:
        graph._raise(code)
    return [Value(graph, parts[i]) for i in range(count)]
