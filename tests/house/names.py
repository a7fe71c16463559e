"""Names in the public headers follow the rules of docs/c-api.md.

usage: names.py INCLUDE_FOLDER
"""
import pathlib
import re
import sys

from report import code_only, run

FOLDER = pathlib.Path(sys.argv[1])
HEADERS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.rglob("*.h"))}
CODE = {name: code_only(text) for name, text in HEADERS.items()}
# Used on almost every line, and prefixed by what they are.
EXCEPTIONS = {"kn_status": r"KN_OK|KN_ERROR_\w+", "kn_dtype": r"KN_B?FLOAT\d\w*|KN_U?INT\d+|KN_BOOL"}


def enums(texts):
    """(header, enum, enumerators); an enumerator may be in a list macro."""
    lists = {name: re.findall(r"\bX\((KN_\w+)", rows) for text in texts.values()
             for name, rows in re.findall(r"#define (KN_\w+_LIST)\(X\)((?:[^\n]*\\\n)*[^\n]*)", text)}
    for header, text in texts.items():
        for name, body in re.findall(r"\benum (kn_\w+) \{(.*?)\}", text, re.S):
            body = re.sub(r"^\s*#.*$", "", body, flags=re.M)
            listed = [one for macro in re.findall(r"KN_\w+_LIST", body) for one in lists[macro]]
            yield header, name, listed or re.findall(r"(?:^|,)\s*(KN_\w+)", body)


def prefixes(texts):
    """kn_pad_mode has KN_PAD_…, kn_stop_reason KN_STOP_…, kn_task KN_TASK_…"""
    for header, name, enumerators in enums(texts):
        subject = re.sub(r"_(kind|level|mode|reason|reduction|type)$", "", name).upper()
        for one in enumerators:
            if not re.fullmatch(EXCEPTIONS.get(name, subject + r"_\w+"), one):
                yield f"{header}: {one} of {name} does not begin with {subject}_"


def enumerators():
    found = list(enums(CODE))
    problems = [] if sum(len(names) for _, _, names in found) > 100 else [f"only {found} were found"]
    wrong = {"a.h": "typedef enum kn_shade {\n    KN_SHADE_DARK = 0,\n    KN_LIGHT,\n} kn_shade;"}
    return problems + list(prefixes(CODE)) + ([] if len(list(prefixes(wrong))) == 1 else ["KN_LIGHT of kn_shade was not found"])


# Made by the library, for reading.
MADE = {"kn_capabilities", "kn_device_info", "kn_verify_result", "kn_fit_step", "kn_fit_epoch", "kn_timeline_entry",
        "kn_custom_node", "kn_custom_gradient", "kn_custom_reference"}


def macro_of(struct):
    return "KN_" + re.sub("^kn_|_params$", "", struct).upper() + "_DEFAULTS"


def defaults(texts):
    """A struct with a size has its KN_…_DEFAULTS, and parameters also kn_…_init; kn_…_params have a size."""
    for header, text in texts.items():
        for body, name in re.findall(r"typedef struct \w+ \{((?:[^{}]|\{[^{}]*\})*)\} (kn_\w+);", text):
            sized, params = re.match(r"\s*size_t size;", body), name.endswith("_params")
            if params and not sized:
                yield f"{header}: {name} does not begin with its size"
            if sized and name not in MADE and not re.search(rf"#define {macro_of(name)}\s*\\?\s*KN_DEFAULTS(_ZERO)?\({name}\b", text):
                yield f"{header}: {name} has no {macro_of(name)}"
            if params and not re.search(rf"KN_API void {name}_init\({name} \*params\);", text):
                yield f"{header}: {name} has no {name}_init"


def structs():
    wrong = {"a.h": "typedef struct kn_a_params {\n    int b;\n} kn_a_params;\ntypedef struct kn_b {\n    size_t size;\n} kn_b;"}
    found = len(re.findall(r"\{\s*size_t size;", "".join(CODE.values())))
    return list(defaults(CODE)) + ([] if len(list(defaults(wrong))) == 3 and found > 40 else [f"{found} structs were found"])


# They act on the shape at a position, and return nothing of it.
ACTIONS = {"kn_tuner_run", "kn_tuner_forget"}


def spellings(texts):
    """Objects are destroyed, never closed; what is at a position has a name that ends in _at; errors go to message, size."""
    for header, text in texts.items():
        for declaration in re.findall(r"^KN_API\b[^;]*;", text, flags=re.M):
            name = re.search(r"\b(kn_\w+)\s*\(", declaration).group(1)
            if name.endswith(("_close", "_free", "_delete")):
                yield f"{header}: {name} should end in _destroy"
            if re.search(r"\bposition\b", declaration) and not name.endswith("_at") and name not in ACTIONS:
                yield f"{header}: {name} has a position, and should end in _at"
            if re.search(r"char \*(error|message)\b(?!,\s+size_t size\b)", declaration):
                yield f"{header}: {name} should write its error to char *message, size_t size"


def functions():
    names = set(re.findall(r"\b(kn_\w+)\s*\(", "".join(CODE.values())))
    kept = {name for name in names if re.search(r"_(open|create)$", name) and re.sub("_(open|create)$", "_destroy", name) not in names}
    wrong = {"a.h": "KN_API void kn_a_close(int position);\nKN_API int kn_b(char *error, size_t bytes);\n"}
    return (list(spellings(CODE)) + [f"nothing destroys what {name} makes" for name in sorted(kept)]
            + ([] if len(list(spellings(wrong))) == 3 and len(names) > 300 else [f"{len(names)} functions were found"]))


run([("enumerators", enumerators), ("structs", structs), ("functions", functions)])
