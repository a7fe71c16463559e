"""Makes the generated modules of the Python package from the public headers: declarations for cffi, and operators.

usage: declare.py INCLUDE_FOLDER VERSION WHAT FILE
VERSION: of the release; WHAT: declarations, for koine/_declarations.py; operators, for koine/ops.py; types, for koine/types.py

The headers are read by tools/reference.py. koine/_declarations.py has the C declarations as text and tables of what cffi does
not say: which function sets the defaults of a struct, the texts of types and status codes, what fields mean.
koine/ops.py has a function for each function of operators.h; those that begin with a value are methods of koine.Value, too.
koine/types.py has a TypedDict for the plain fields of each params struct, which methods take as keywords, a dataclass for each
struct of results, and the words of each enum.
"""
import json
import os
import pathlib
import pprint
import re
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
from reference import COMMENT, Header, cleaned  # noqa: E402
from described import ARGUMENTS, DESCRIBED, OPERATORS  # noqa: E402

NOTICE = "# Generated from include/koine by tools/python/declare.py.\n"
# Types of opencl.h, by which a program hands over its own objects: pointers here.
OPENCL = "\n".join(f"typedef void *{name};" for name in ("cl_context", "cl_device_id", "cl_command_queue", "cl_mem", "cl_event")
                   ) + "\ntypedef uint32_t cl_uint;"
# The other headers need what the first declare.
FIRST = ["export.h", "defaults.h", "status.h", "host.h", "version.h", "tensor.h", "device.h", "context.h", "graph.h",
         "session.h", "data.h", "communicator.h", "train.h", "model.h", "fit.h", "custom.h"]

# ---- the headers -----------------------------------------------------------------------------------------------------


def headers(folder):
    found = {path.name: Header(path) for path in sorted((folder / "koine").glob("*.h"))}
    return [found[name] for name in FIRST] + [header for name, header in found.items() if name not in FIRST]


def lists(folder):
    """The rows of X-macros: {"KN_STATUS_LIST": [("KN_OK", "0", "success"), ...]}."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((folder / "koine").glob("*.h")))
    return {name: [tuple(part.strip().strip('"') for part in re.findall(r'"[^"]*"|[^,()]+', row))
                   for row in re.findall(r"\bX(\([^()]*\))", rows)]
            for name, rows in re.findall(r"#define (KN_\w+_LIST)\(X\)((?:[^\n]*\\\n)*[^\n]*)", text)}


def plain(code, rows):
    """A declaration for cffi: without comments, directives and X-macros."""
    code = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", COMMENT.sub(" ", code), flags=re.M).replace("KN_API ", "").replace("KN_NODISCARD ", "")
    code = re.sub(r"\b(KN_\w+_LIST)\(\w+\)", lambda match: ", ".join(f"{row[0]} = {row[1]}" for row in rows[match.group(1)]), code)
    return re.sub(r"\s+", " ", code).strip()


def declarations(folder):
    """(header, declaration, its text for cffi, its comment) of everything but macros."""
    rows = lists(folder)
    for header in headers(folder):
        for _, _, items in header.parts:
            for group, about in items:
                for declaration in group:
                    if not declaration.code.startswith("#"):
                        yield header.name, declaration, plain(declaration.code, rows), about


def split_commas(text):
    """Splits at commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def parameters(text):
    """Of a function for cffi: (type, name) of each parameter; an array is a pointer."""
    inside = text[text.index("(") + 1:text.rindex(")")]
    found = []
    for part in split_commas(inside):
        if part == "void":
            continue
        match = re.match(r"(.*?)(\w+)(\[\w*\])?$", part)
        found.append((match.group(1).strip() + (" *" if match.group(3) else ""), match.group(2)))
    return found


def fields(code):
    """Of a struct: {field: comment}; a comment belongs to the fields after it, or to those before it on its line."""
    body = code[code.index("{") + 1:code.rindex("}")]
    found, before, last = {}, "", []
    for comment, lines, field in re.findall(r"/\*(.*?)\*/|(\n\s*)|([^;/\n][^;/]*;)", body, re.S):
        if lines:
            last = [] if "\n" in lines else last
            before = "" if lines.count("\n") > 1 else before
        elif comment:
            text = " ".join(re.sub(r"^\s*\*", "", cleaned(comment), flags=re.M).split())
            if last:
                for name in last:
                    found[name] = text
            else:
                before = text
        else:
            field = " ".join(field.rstrip(";").split())
            pointer = re.search(r"\(\*(\w+)\)", field)
            last = [pointer.group(1)] if pointer else [re.match(r".*?(\w+)(?:\[.*\])?$", part).group(1)
                                                       for part in field.split(",")]
            for name in last:
                found[name] = before
            before = ""
    return found


def about_fields(struct, code):
    """What the fields of a struct mean: {field: text}."""
    found, better = fields(code), DESCRIBED.get(struct, {})
    unknown = [field for field in better if field not in found]
    if unknown:
        raise SystemExit(f"tools/python/described.py describes {', '.join(unknown)} of {struct}, which the headers do not have")
    return {**found, **better}


def write_declarations(folder, release):
    text, inits, about = [OPENCL], {}, {}
    for _, declaration, code, _ in declarations(folder):
        if re.match(r"(?:typedef|struct|enum)\b", code):
            name = re.match(r"typedef (?:struct|enum) (\w+)\s*\{", code)
            if name and code.startswith("typedef struct"):
                about[name.group(1)] = about_fields(name.group(1), declaration.code)
        init = re.match(r"void (kn_\w+_init)\((kn_\w+) \*", code)
        if init:
            inits[init.group(2)] = init.group(1)
        text.append(code)
    # A type may be declared in two headers.
    text = list(dict.fromkeys(text))
    rows = lists(folder)
    tables = {
        "STATUS": [(name, int(number), message) for name, number, message in rows["KN_STATUS_LIST"]],
        "WORDS": {"kn_dtype": {row[2]: int(row[1]) for row in rows["KN_DTYPE_LIST"]},
                  "kn_precision": {row[2]: int(row[1]) for row in rows["KN_PRECISION_LIST"]},
                  "kn_moments": {row[2]: int(row[1]) for row in rows["KN_MOMENTS_LIST"]}},
        "INITS": inits,
        "ABOUT": about,
    }
    version = re.findall(r"#define KN_API_VERSION_\w+ (\d+)", (folder / "koine/version.h").read_text(encoding="utf-8"))
    lines = [NOTICE, f'VERSION = "{release}"', f"API_VERSION = ({', '.join(version)})", 'CDEF = r"""', *text, '"""']
    lines += [f"{name} = {pprint.pformat(table, width=120, sort_dicts=False)}" for name, table in tables.items()]
    return "\n".join(lines) + "\n"


# ---- operators -------------------------------------------------------------------------------------------------------

# Names that Python reserves, or that numpy and PyTorch have for something else.
RENAMED = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor", "not": "logical_not", "min": "minimum",
           "max": "maximum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod"}
# Values that may be NULL.
OPTIONAL = {"conv1d.bias", "conv2d.bias", "conv_transpose1d.bias", "conv_transpose2d.bias", "a_zero", "b_zero", "x_zero",
            "weight_zero", "times_of", "labels_of", "rotary.start"}
# What is mostly meant; in C every argument is given. A name without an operator applies to every operator; REQUIRED lists exceptions.
REQUIRED = ""
USUAL = {"width": "0", "axis": "-1", "axes": "None", "keep": "False", "transpose_a": "False", "transpose_b": "False",
         "smallest": "False", "exclusive": "False", "reverse": "False", "channels_first": "False", "mode": '"reflect"',
         "reduction": '"replace"', "pad.value": "0.0", "leaky_relu.slope": "0.01", "elu.alpha": "1.0",
         "celu.alpha": "1.0", "hard_shrink.width": "0.5", "soft_shrink.width": "0.5", "huber.delta": "1.0",
         "smooth_l1.beta": "1.0", "one_hot.on": "1.0", "one_hot.off": "0.0", "hinge.margin": "1.0",
         "margin_ranking.margin": "0.0", "cosine_embedding.margin": "0.0", "triplet_margin.margin": "1.0", "dropout.rate": "0.5",
         "slice.axis": REQUIRED, "slice.begin": "0", "slice.end": "None", "gather.axis": "0", "concat.axis": "0", "stack.axis": "0", "split.axis": REQUIRED, "repeat.axis": REQUIRED, "unsqueeze.axes": REQUIRED, "scatter.axis": "0", "tril.diagonal": "0",
         "triu.diagonal": "0", "range.step": "1.0"}
HINTS = {"int": "int", "int64_t": "int", "bool": "bool", "double": "float", "kn_value *": "ValueLike",
         "kn_value *const *": "Sequence[ValueLike]", "kn_graph *": "Graph", "kn_dtype": "DTypeLike"}
TEXTS = {"axes": "Axes", "permutation": "Axes", "shape": "Shape", "amounts": "Axes", "times": "Axes", "equation": "str"}
ARGUMENT = {"int64_t": "int", "int": "int", "bool": "bool", "double": "float", "const char *": "str",
            "const kn_initializer *": "InitializerLike", "kn_value *": "ValueLike"}


def argument_hint(kind, name, array):
    """The hint of a keyword argument, a field of a params struct."""
    if array:
        return {"int": "Ints", "float": "Floats"}[ARGUMENT[kind]]
    return ARGUMENT.get(kind, "str")


def struct_fields(code):
    """(type, name, whether it is an array) of each field but the size and functions."""
    body = code[code.index("{") + 1:code.rindex("}")]
    for field in filter(None, (part.strip() for part in body.split(";") if "(" not in part)):
        match = re.match(r"(.*?)(\*?\*?\w+(?:\[\w+\])?(?:, *\*?\*?\w+(?:\[\w+\])?)*)$", field)
        for name in match.group(2).split(","):
            name = name.strip()
            stars = len(name) - len(name.lstrip("*"))
            kind = match.group(1).strip() + (" " + "*" * stars if stars else "")
            base = re.match(r"\**(\w+)", name).group(1)
            if base != "size":
                yield kind, base, "[" in name


class Operator:
    """One function of operators.h, and the function of Python that calls it."""

    def __init__(self, name, code, about, structs):
        self.c_name, self.about = name, about
        short = name[len("kn_"):]
        self.name = RENAMED.get(short, short)
        self.given = parameters(code)
        self.status = code.startswith("kn_status")
        self.struct, self.words, self.results = None, [], []
        self.field_names = set()  # of the struct, of the arrays in it
        places = []
        position = 0
        while position < len(self.given):
            kind, argument = self.given[position]
            if kind.startswith("const kn_") and kind.endswith("_params *"):
                self.struct = kind[len("const "):-len(" *")]
                self.field_names = {name for _, name, array in structs[self.struct] if array}
                # An argument of that name comes before it; a sequence there sets the field.
                self.words = [word for word in structs[self.struct] if word[1] not in {name for _, name in self.given}]
            elif kind == "kn_value **":
                self.results.append(argument)
            elif kind == "size_t":
                pass  # the number of elements of the sequence before
            else:
                places.append((argument, self.hint(kind, argument), self.usual(short, argument)))
            position += 1
        self.results += [word for kind, word, _ in self.words if kind.strip() == "kn_value **"]
        self.places = places
        self.owner = {"kn_value *": "Operators", "kn_graph *": "GraphOperators"}.get(self.given[0][0])

    def usual(self, short, argument):
        for key in (f"{short}.{argument}", argument):
            if key in OPTIONAL:
                return "None"
            if key in USUAL:
                return USUAL[key] or None
        return None

    def hint(self, kind, argument):
        if kind == "const char *":
            return TEXTS.get(argument, "str")
        if kind == "const int64_t *":
            return "Ints"
        return HINTS.get(kind, "str")

    def source(self):
        words = []
        for name, hint, usual in self.places:
            hint = f"Optional[{hint}]" if usual == "None" else hint
            hint = "Ints" if name in self.field_names else hint
            words.append(f"{name}: {hint}" + (f" = {usual}" if usual is not None else ""))
        keywords = []
        for kind, name, array in self.words:
            if kind.strip() == "kn_value **":
                continue
            keywords.append(f"{name}: bool = False" if kind == "bool" else
                            f"{name}: Optional[{argument_hint(kind.strip(), name, array)}] = None")
        if self.results and not self.status:
            keywords += [f"{name}: bool = False" for name in self.results]
        if keywords:
            words += ["*", *keywords]
        result = "List[Value]" if self.status else "Any" if self.results else "Value"
        doc = self.doc()
        passed = ", ".join(f'"{name}": {name}' for name, _, _ in self.places)
        listed = ", ".join(f'"{word.split(":")[0]}": {word.split(":")[0]}' for word in keywords)
        lines = [f"def {self.name}({', '.join(words)}) -> {result}:", f'    r"""{doc}', '    """',
                 f'    return _call("{self.c_name}", {{{passed}}}, {{{listed}}})']
        signature = lines[0]
        if len(signature) > 120:  # cut after the comma of an argument only
            whole = signature.replace(", ", ",\n").replace(" ", "\0").replace("\n", " ")
            lines[0] = "\n".join(textwrap.wrap(whole, 118, subsequent_indent=" " * 8, break_long_words=False)).replace("\0", " ")
        return "\n".join(lines)

    def doc(self):
        about = " ".join(self.about.split()) if not re.search(r"^ {4}|^  \S", self.about, re.M) else self.about
        about = about or OPERATORS.get(self.name, f"{self.c_name} of operators.h.")
        text = textwrap.fill(about, 110, subsequent_indent="    ") if "\n" not in about else textwrap.indent(about, "    ").strip()
        fields = dict(self.field_texts)
        told = [(name, (fields.get(name) or ARGUMENTS.get(name, "")).replace("NULL", "None")) for name in
                [name for name, _, _ in self.places] + [name for _, name, _ in self.words]]
        lines = [textwrap.fill(f"{name}: {what}", 110, initial_indent="        ", subsequent_indent="            ") for name, what in told if what]
        if lines:
            text += "\n\n    Args:\n" + "\n".join(lines)
        return text.replace("NULL", "None") + f"\n\n    C: {self.c_name}"


def operators(folder):
    structs, texts = {}, {}
    found = []
    for header, declaration, code, about in declarations(folder):
        struct = re.match(r"typedef struct (kn_\w+_params)\s*\{", code)
        if struct and header == "operators.h":
            structs[struct.group(1)] = list(struct_fields(code))
            texts[struct.group(1)] = fields(declaration.code)
        elif header == "operators.h" and declaration.function and not declaration.name.endswith("_init"):
            operator = Operator(declaration.name, code, about, structs)
            operator.field_texts = [(name, texts[operator.struct].get(name, "")) for _, name, _ in operator.words] \
                if operator.struct else []
            found.append(operator)
    return found


OPERATORS_HEAD = '''"""The operators: functions that add to the graph of their values.

Made from include/koine/operators.h. Those that begin with a value are methods of koine.Value, too: ``ops.relu(x)`` is
``x.relu()``. Where a value is expected, a number or an array becomes a constant.
"""
from __future__ import annotations

import typing
from typing import Any, Dict, List, Optional, Sequence, Union

from ._build import call as _call

Ints = Union[int, Sequence[int]]
Floats = Union[float, Sequence[float]]
if typing.TYPE_CHECKING:
    from .graph import Axes, DTypeLike, Graph, InitializerLike, Shape, Value, ValueLike

'''


def write_operators(folder, _release):
    found = operators(folder)
    gone = set(OPERATORS) - {operator.name for operator in found}
    if gone:
        raise SystemExit(f"tools/python/described.py describes {', '.join(sorted(gone))}, which operators.h does not have")
    parts = [NOTICE + OPERATORS_HEAD, *(operator.source() + "\n\n" for operator in found)]
    for owner in ("Operators", "GraphOperators"):
        parts.append(f'class {owner}:\n    """The operators as methods."""\n' +
                     "".join(f"    {operator.name} = {operator.name}\n" for operator in found if operator.owner == owner) + "\n")
    table = {operator.c_name: {"parameters": operator.given, "struct": operator.struct, "results": operator.results}
             for operator in found}
    parts.append(f"\nCALLS: Dict[str, Any] = {pprint.pformat(table, width=120, sort_dicts=False)}\n")
    names = sorted(operator.name for operator in found)
    parts.append("\n__all__ = [\n" + textwrap.fill(", ".join(f'"{name}"' for name in names), 118, initial_indent="    ",
                                                 subsequent_indent="    ") + ",\n]\n")
    return "\n".join(parts)


# ---- keywords and results --------------------------------------------------------------------------------------------

# Fields with names of their own in Python, where the C name would be short for a keyword or means something else there.
PYTHON_NAMES = {"kn_loader_params": {"batch": "batch_size", "balanced": "oversample", "workers": "threads"},
                "kn_trainer_params": {"average": "ema"}}
# Fields that are parameters of their own, with hints and defaults that the header does not have.
NAMED = {"kn_context_params": ("device", "cache_folder"), "kn_loader_params": ("batch_size",),
         "kn_trainer_params": ("optimizer", "learning_rate", "schedule", "milestones", "shard_counts"), "kn_fit_params": ("loss", "accuracy"),
         "kn_verify_params": ("operators",), "kn_kernel_params": ("name", "source", "inputs", "results", "launch"),
         "kn_pointwise_params": ("name", "value", "gradients"), "kn_session_params": ("training",)}
# Structs that are neither keywords nor results.
OTHERS = ("kn_batch", "kn_dataset_field", "kn_tensor_info", "kn_feed", "kn_fetch", "kn_logger", "kn_initializer", "kn_augmentation", "kn_graph_params", "kn_model_setting",
          "kn_model_pair")
KEYWORDS = ("kn_context_debug", "kn_parameter_group", "kn_verify_case")  # besides those that end in _params
TYPES_HEAD = '''"""The types of keywords and results.

Settings are TypedDicts: the keywords that a function takes besides its named parameters, such as `momentum` of koine.Trainer.
Results are dataclasses, such as FitEpoch, which `History.epochs` has. Names are the words of settings, such as "cosine".

Made from the C headers in include/koine.
"""
from __future__ import annotations

import dataclasses
from typing import Dict, Literal, Optional, Sequence, Tuple, TypedDict

from ._show import Result

'''
RESULT_HINTS = {"bool": "bool", "double": "float", "float": "float", "const char *": "Optional[str]", "char": "Optional[str]"}
SETTING_HINTS = {"bool": "bool", "double": "float", "float": "float", "const char *": "str", "const uint64_t *": "Sequence[int]",
                 "const int *": "Sequence[int]"}


def type_name(struct):
    """"kn_trainer_params" -> "TrainerSettings", "kn_fit_epoch" -> "FitEpoch"."""
    stem = re.sub("_params$", "", struct)[len("kn_"):]
    return "".join(part.capitalize() for part in stem.split("_")) + ("Settings" if struct.endswith("_params") else "")


def is_settings(struct):
    return struct.endswith("_params") or struct in KEYWORDS


def enum_words(name, code, rows):
    """The words of an enum, as koine._library.words has them."""
    for key, listed in rows.items():
        if key == f"{name.upper()}_LIST" and name != "kn_status":
            return [row[2] for row in listed]
    names = re.findall(r"\b(KN_\w+)", code[code.index("{"):])
    start = os.path.commonprefix(names) if len(names) > 1 else "KN_"
    start = start[:start.rindex("_") + 1]
    return list(dict.fromkeys(word[len(start):].lower().replace("_", "-") for word in names))


def plain_hint(kind, array, hints, enums, structs):
    """The hint of a field with a value that Python has a type for; None: a pointer to something else."""
    if kind in hints:
        hint = hints[kind]
    elif re.fullmatch(r"u?int(\d+_t)?|size_t", kind):
        hint = "int"
    elif kind in enums:
        hint = f"{type_name(kind)}Name"
    elif kind in structs:
        hint = type_name(kind)
    else:
        return None
    if array and kind != "char":
        hint = f"Sequence[{hint}]" if hints is SETTING_HINTS else f"Tuple[{hint}, ...]"
    return hint


def attribute(name, hint, about):
    """A field, with what the header says as its docstring."""
    lines = [f"    {name}: {hint}"]
    if about:
        about = textwrap.fill(about.replace("\\", "\\\\").replace("NULL", "None"), 110, subsequent_indent="    ")
        lines += [f'    """{about}{" " if about.endswith(chr(34)) else ""}"""']
    return "\n".join(lines)


def write_types(folder, _release):
    rows, enums, structs = lists(folder), {}, {}
    for header, declaration, code, _ in declarations(folder):
        found = re.match(r"typedef (struct|enum) (kn_\w+)\s*\{", code)
        if found and found.group(1) == "enum":
            enums[found.group(2)] = enum_words(found.group(2), code, rows)
        elif found and header != "operators.h" and found.group(2) not in OTHERS:
            structs[found.group(2)] = (list(struct_fields(code)), about_fields(found.group(2), declaration.code))
    parts = [NOTICE + TYPES_HEAD]
    parts += [f"{type_name(name)}Name = Literal[{', '.join(json.dumps(word) for word in words)}]" for name, words in enums.items()]
    settings, results = {}, {}
    for name, (members, about) in structs.items():
        if is_settings(name):
            python = PYTHON_NAMES.get(name, {})
            hinted = [(python.get(field, field), plain_hint(kind, array, SETTING_HINTS, enums, {}), about.get(field, ""))
                      for kind, field, array in members if not field.endswith("_count")]
            settings[type_name(name)] = name
            body = "\n".join(attribute(field, hint, text) for field, hint, text in hinted if hint and field not in NAMED.get(name, ()))
            parts.append(f'\n\nclass {type_name(name)}(TypedDict, total=False):\n    """Keywords of {name}."""\n{body}')
        else:
            hinted = [(field, plain_hint(kind, array, RESULT_HINTS, enums, results.values()), about.get(field, ""))
                      for kind, field, array in members if field not in ("size", "user")]
            if hinted and all(hint for _, hint, _ in hinted):
                results[type_name(name)] = name
                body = "\n".join(attribute(field, hint, text) for field, hint, text in hinted)
                parts.append(f'\n\n@dataclasses.dataclass\nclass {type_name(name)}(Result):\n    """{name}."""\n{body}')
    parts.append("\n\nSETTINGS: Dict[str, str] = " + pprint.pformat(settings, width=120, sort_dicts=False))
    parts.append("RESULTS: Dict[str, type] = {" + ",\n    ".join(f'"{name}": {python}' for python, name in results.items()) + "}")
    parts.append(f"PYTHON_NAMES: Dict[str, Dict[str, str]] = {PYTHON_NAMES!r}\n")
    return "\n".join(parts)


def main():
    folder, release, what, target = sys.argv[1:]
    text = {"declarations": write_declarations, "operators": write_operators, "types": write_types}[what](pathlib.Path(folder), release)
    pathlib.Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
