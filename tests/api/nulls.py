"""Writes test_nulls.c: every public function with NULL for each pointer in turn.

usage: nulls.py INCLUDE_FOLDER TOOLS_PYTHON_FOLDER > test_nulls.c

What a call gives is checked by its type (nulls.h): a status is an error, a value or an object has failed, counts are 0. Where the
first value or the graph was given, the graph has the error. OPTIONAL are the parameters that the headers allow to be NULL, besides
axes and those of type const kn_..._params *: there the call must not crash.
"""
import pathlib
import re
import sys

HEADERS = pathlib.Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
sys.argv[1:] = []
from declare import declarations, parameters  # noqa: E402

OPTIONAL = {line.split(":")[0]: line.split(":")[1].split() for line in """
kn_graph_find: name
kn_tensor_elements: elements
kn_tensor_bytes: bytes
kn_value_failed: value
kn_value_dimension: value
kn_value_shape_text: text
kn_output: name
kn_npy_file_save: message
kn_onnx_tensor_file_save: name message
kn_onnx_file_input_inner_at: file
kn_onnx_file_input_rank_at: file
kn_onnx_file_output_inner_at: file
kn_onnx_file_output_rank_at: file
kn_onnx_file_input_size_at: file symbol
kn_onnx_file_output_size_at: file symbol
kn_safetensors_file_save: message
kn_safetensors_file_info: info
kn_dataset_find_field: index
kn_augmentation_keeps_bytes: augmentation
kn_model_add_loss: name
kn_model_grammar: text
kn_tile: times
kn_transpose: permutation
kn_unsqueeze: axes
kn_context_wait_for: events
kn_trainer_params_check: message
kn_trainer_step_late: loss
kn_shard_seconds: message
kn_vocabulary_decode: state
kn_vocabulary_token: length
kn_vocabulary_chat: message
""".strip().splitlines()}
# Calls that would run all cases on the device.
SKIPPED = {"kn_verify": ["params", "passed", "failed"]}
# Objects of the fixture, by type.
OBJECTS = ("graph value model dataset loader trainer session runner context states tuner device_list events checkpoints npy_file onnx_file"
           " onnx_tensor_file safetensors_file group communicator operator vocabulary").split()
TEXTS = {"path": "on->path", "folder": "on->folder"}
# By default NULL, the usual ones.
DEFAULTS = re.compile(r"const kn_(\w+_params|allocator|logger|initializer) \*$")
# No stand-in: they need a device.
DEVICE = re.compile(r"(struct )?kn_buffer \*$")
CHECKS = {"kn_status": "assert_true(got != KN_OK);", "bool": "assert_false(got);", "double": "assert_false(got > 0 || got < 0);",
          "const char *": "assert_true(!got || strlen(got) < 100000);",
          **{kind: "assert_true(got == 0);" for kind in ("size_t", "int", "uint64_t", "int64_t")}}
LISTS = ("feed", "fetch", "tensor_info", "named_tensor", "dataset_array")


def argument(kind, name, structs):
    """What stands for a parameter that is not the NULL one."""
    base = re.sub(r"^const |^struct |[ *]+$|const \*$", "", kind).strip().removeprefix("kn_")
    if not kind.endswith("*"):
        return "2" if base in ("int64_t", "int", "double", "uint64_t") else "1" if base == "size_t" else f"({kind})0"
    if kind == "const char *":
        return TEXTS.get(name, '"x"')
    if DEFAULTS.match(kind) or DEVICE.match(kind):
        return "NULL"
    if kind == "kn_value *const *":
        return "on->values"
    if kind.count("*") == 1 and base in OBJECTS:
        return f"on->{base}"
    if kind.startswith("const kn_") and base in LISTS:
        return f"&on->{base}"
    size = "8" if base in ("void", "char") else f"sizeof({kind[:-1].strip()})"
    return f"some(on, {size}, {str('kn_' + base in structs).lower()})"


def checked(gives, call, owned, optional, inside, statuses):
    """The statements of a call."""
    base = gives.removeprefix("const ").removeprefix("kn_").rstrip(" *")
    if gives == "void":
        return f"{call};"
    check = "(void)got;"
    if not optional and gives == "kn_value *":
        check = f"value_failed(on, got, {str(inside).lower()});"
    elif not optional and gives.endswith("*") and base in statuses:
        check = f"assert_true(!got || kn_{base}_status(got) != KN_OK);"
    elif not optional:
        # An object is NULL for lack of memory, which its status says.
        check = ("assert_int_equal(got, KN_ERROR_MEMORY);" if re.match(r"kn_(?!graph|operator)\w+_status\(NULL\)", call) else
                 "assert_non_null(got);" if re.match(r"kn_\w+_error\(NULL\)", call) else CHECKS.get(gives, check))
    return f"{gives} got = {call}; {check}" + (f" kn_{base}_destroy(&got);" if owned and base in OBJECTS else "")


def functions():
    for header, declaration, code, _ in declarations(HEADERS):
        match = re.match(r"(?!typedef)(.+?)\b(kn_\w+)\(", code)
        if "KN_API" in declaration.code and match and header != "mpi.h":  # tests/mpi
            yield match.group(1).strip(), match.group(2), parameters(code), "KN_NODISCARD" in declaration.code


def main():
    every = list(functions())
    source = "".join(path.read_text(encoding="utf-8") for path in HEADERS.rglob("*.h"))
    structs = set(re.findall(r"typedef struct (kn_\w+) \{\s*size_t size;", source))
    statuses = {name[3:-7] for _, name, *_ in every if name.endswith("_status")}
    calls = []
    print('/* Made from the headers by nulls.py. */\n#include "nulls.h"\n')
    for gives, name, wanted, owned in every:
        for i, (kind, parameter) in enumerate(wanted):
            if not kind.endswith("*") and not re.match(r"cl_(?!uint)", kind) or parameter in SKIPPED.get(name, []):
                continue
            arguments = ["NULL" if i == j else argument(*other, structs) for j, other in enumerate(wanted)]
            given = [word for word in arguments if word in ("NULL", "on->value", "on->graph", "on->values")]
            # Objects that the call makes; values belong to their graph.
            made = {j: match.group(1) for j, other in enumerate(wanted)
                    if j != i and (match := re.match(r"kn_(?!value)(\w+) \*\*$", other[0])) and match.group(1) in OBJECTS}
            for j in made:
                arguments[j] = f"&made{j}"
            inside = given[:1] != ["NULL"]
            optional = parameter in OPTIONAL.get(name, []) or parameter == "axes" or DEFAULTS.match(kind)
            body = checked(gives, f"{name}({', '.join(arguments)})", owned, optional, inside, statuses)
            before = "".join(f"kn_{base} *made{j} = NULL; " for j, base in made.items())
            after = "".join(f" kn_{base}_destroy(&made{j});" for j, base in made.items())
            print(f"static void call{len(calls)}(fixture *on) {{ {before}{body}{after} }}")
            calls.append(f"{name}, {parameter}")
    print("\nconst null_call null_calls[] = {")
    for number, call in enumerate(calls):
        print(f'    {{"{call}", call{number}}},')
    print("};\nconst size_t null_call_count = sizeof null_calls / sizeof *null_calls;")


main()
