"""The declarations of the Python package are those of the headers, and the package reaches every function.

usage: declarations.py HOUSE_FOLDER SOURCE_ROOT COMPILER...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from package import case, expect, expect_equal, run
from report import code_only

ROOT, COMPILER = pathlib.Path(sys.argv[2]), sys.argv[3:]
HEADERS = ROOT / "include"

import koine  # noqa: E402
from koine import _declarations, _library, ops, types  # noqa: E402

sys.path.insert(0, str(ROOT / "tools/python"))
import declare  # noqa: E402

# Functions that no Python program needs, and why.
UNREACHED = {
    "kn_tensor_elements": "numpy counts elements", "kn_tensor_bytes": "numpy counts bytes", "kn_dtype_bytes": "numpy knows",
    "kn_dtype_name": "the tables of the declarations have the names", "kn_dtype_parse": "likewise",
    "kn_precision_name": "likewise", "kn_precision_parse": "likewise", "kn_moments_name": "likewise",
    "kn_status_name": "likewise", "kn_status_message": "likewise",
    "kn_value_dimension": "koine.Value.shape has all dimensions", "kn_model_create_named": "kn_model_open takes names, too",
    "kn_session_states": "each koine.Session is made with koine.States", "kn_trainer_states": "likewise",
    "kn_trainer_params_set": "fields are set by name", "kn_trainer_params_get": "likewise", "kn_trainer_params_use": "kn_optimizer_reads",
    "kn_trainer_params_check": "kn_trainer_create checks", "kn_trainer_setting_word_at": "the tables of the declarations have the words",
    "kn_model_step": "generation calls kn_model_step_last", "kn_model_step_slot": "koine serve calls it", "kn_model_step_texts": "likewise",
    "kn_interrupt_clear": "Python's signal handlers run between calls",
    "kn_model_open_memory": "koine.Model opens files",
    "kn_onnx_tensor_file_open_at": "koine.load_onnx_tensor reads files with one tensor",
    "kn_runner_suits": "a model keeps a runner for each set of shapes", "kn_runner_parts": "koine.Model shows no parts",
    "kn_shard_count": "the default of shards", "kn_largest_batch": "Trainer.fit_memory finds it",
}


def functions():
    for path in sorted(HEADERS.rglob("*.h")):
        for declaration in re.findall(r"^KN_API\b[^;]*;", code_only(path.read_text()), flags=re.M):
            yield re.search(r"\b(kn_\w+)\s*\(", declaration).group(1)


@case
def the_generated_modules_are_those_of_the_headers():
    for module, write in ((_declarations, declare.write_declarations), (ops, declare.write_operators), (types, declare.write_types)):
        text = write(HEADERS, koine.__version__)
        found = pathlib.Path(module.__file__).read_text()
        expect(found == text, f"{module.__file__} differs from what the headers give: build it again")


@case
def a_changed_header_is_noticed():
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "koine"
        copy.mkdir()
        for path in (HEADERS / "koine").glob("*.h"):
            (copy / path.name).write_text(path.read_text().replace("uint64_t epoch, index;", "uint32_t epoch, index;"))
        expect(declare.write_declarations(copy.parent, "") != declare.write_declarations(HEADERS, ""))


@case
def every_function_is_declared_and_in_the_library():
    names = list(functions())
    expect(len(names) > 400, f"the headers declare {len(names)} functions")
    for name in names:
        if name.startswith("kn_mpi_") and not _library.mpi():
            continue  # where no MPI is
        library = (_library.images() if name.startswith("kn_images_") else
                   _library.mpi() if name.startswith("kn_mpi_") else _library.lib)
        expect(library is not None and callable(getattr(library, name)), name)


@case
def structs_and_constants_are_those_of_the_compiler():
    """Sizes, offsets and values by the C compiler and by cffi."""
    lines, wanted = [], []
    for name in re.findall(r"typedef struct (kn_\w+) \{", _declarations.CDEF):
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        wanted.append((name, _library.ffi.sizeof(name)))
        for field, _ in _library.ffi.typeof(name).fields:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            wanted.append((f"{name}.{field}", _library.ffi.offsetof(name, field)))
    for name in re.findall(r"typedef enum (kn_\w+) \{", _declarations.CDEF):
        for word, number in _library.ffi.typeof(name).relements.items():
            lines.append(f'printf("%d\\n", (int){word});')
            wanted.append((word, number))
    expect(len(lines) > 500, f"only {len(lines)} structs, fields and constants were found")
    program = ("#include <koine/koine.h>\n#include <koine/images.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) +
               "\nreturn 0; }\n")
    with tempfile.TemporaryDirectory() as folder:
        target = str(pathlib.Path(folder) / "sizes")
        made = subprocess.run([*COMPILER, "-x", "c", "-", "-o", target, f"-I{HEADERS}"], input=program, capture_output=True, text=True)
        expect(made.returncode == 0, made.stderr)
        printed = subprocess.run([target], capture_output=True, text=True).stdout.split()
    expect_equal([(name, int(number)) for (name, _), number in zip(wanted, printed)], wanted)


@case
def the_package_reaches_every_function():
    sources = "\n".join(path.read_text() for path in (ROOT / "tools/python/koine").glob("*.py"))
    used = set(re.findall(r"\bkn_\w+", sources)) | set(ops.CALLS) | set(_declarations.INITS.values())
    # Those of sessions and trainers are called by the end of their name.
    used |= {f"{kind}_{name}" for kind in ("kn_session", "kn_trainer") for names in
             re.findall(r'_function\("(\w+)"\)|"(plan_\w+)"', sources) for name in names if name}
    # And those of files by their kind.
    used |= {f"{kind}_{name}" for kind in re.findall(r'"(kn_\w+_file)"', sources) for name in re.findall(r"\{kind\}_(\w+)", sources)}
    used |= {f"kn_onnx_file_{side}{more}" for side in ("input", "output") for more in re.findall(r"kn_onnx_file_\{side\}(\w*)", sources)}
    missing = [name for name in functions() if name not in used and name not in UNREACHED]
    expect(not missing, f"not reached: {missing}")
    expect(not set(UNREACHED) & used, f"reached, and an exception nevertheless: {set(UNREACHED) & used}")


@case
def operators_have_signatures_and_hints():
    import inspect
    for name in ops.__all__:
        signature = inspect.signature(getattr(ops, name))
        expect(signature.return_annotation != inspect.Signature.empty and all(
            parameter.annotation != inspect.Parameter.empty for parameter in signature.parameters.values()), name)
        expect("C: kn_" in getattr(ops, name).__doc__, name)
        expect("of operators.h." not in getattr(ops, name).__doc__, f"{name} has no description: add one to tools/python/described.py")
    expect_equal(str(inspect.signature(koine.Value.linear)).split(",")[1], " units: 'int'")


@case
def no_symbol_of_cpython_is_needed():
    """The package is Python and the library: nothing was compiled against a version of Python."""
    files = {path.suffix for path in pathlib.Path(koine.__file__).parent.iterdir() if path.is_file()}
    expect(files <= {".py", ".typed", ".pyc"}, str(files))


run()
