#!/usr/bin/env python3
"""The page docs/onnx-operators.md, from the rows of src/exchange/onnx and the operator versions of the onnx package.

usage: operators.py > docs/onnx-operators.md
"""
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src/exchange/onnx"
RUNTIME = "com.microsoft"
# A row of a family's table: by a macro with the type as its first argument, or with its members.
ROW = re.compile(r'(?P<macro>[A-Z_]+)\("(?P<type>\w+)"[^\n]*|\.type = "(?P<named>\w+)"(?P<members>[^}]*)')
MACROS = {"SAME": "", "REDUCE": "", "REDUCE_SIZED": "", "SIZED": "", "KN_OF_MICROSOFT": RUNTIME}
# Rows without a domain that ONNX does not define; ONNX Runtime writes them so.
WITHOUT_DOMAIN = {"SimplifiedLayerNormalization"}


def rows():
    """(domain, type) of each operator that is read; the domain of ONNX itself is empty."""
    found = set()
    for path in sorted(FOLDER.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        domains = {"KN_MICROSOFT": RUNTIME, **dict(re.findall(r'#define (\w+) "([\w.]+)"', text))}
        for match in ROW.finditer(text):
            if match["macro"]:
                if match["macro"] in MACROS:
                    found.add((MACROS[match["macro"]], match["type"]))
                continue
            domain = re.search(r'\.domain = (?:"([\w.]+)"|(\w+))', match["members"])
            found.add(((domain.group(1) or domains[domain.group(2)]) if domain else "", match["named"]))
    return found


def refused():
    """The first opset that is read of an operator whose function refuses earlier ones, by the operator's name."""
    found = {}
    for path in sorted(FOLDER.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"call->opset < (\d+)\) return kn_import_fail", text):
            function = re.findall(r"^static bool (\w+)\(", text[:match.start()], flags=re.M)[-1]
            for name in re.findall(rf'\.type = "(\w+)", \.build = {function}\b', text):
                found[name] = int(match.group(1))
    return found


def constant(name):
    return int(next(found.group(1) for path in sorted(FOLDER.glob("*.[ch]"))
                    if (found := re.search(rf"\b{name} = (\d+)", path.read_text(encoding="utf-8")))))


def listed(names):
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 120, break_on_hyphens=False)


def page():
    import onnx.defs
    newest, read = constant("NEWEST_OPSET"), rows()
    versions = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain or schema.since_version <= newest:
            versions.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    standard = {name for domain, name in versions if not domain}
    here = {name for domain, name in read if not domain} & standard
    parts = ["# ONNX operators\n", textwrap.fill(
        "Made by `tools/onnx/operators.py` from the rows of `src/exchange/onnx`. Koine reads opsets 1 to "
        f"{newest} and writes opset {constant('KN_EXPORT_OPSET')}. Floating-point operators are computed in float32 and can be "
        "trained.", 120) + "\n",
        f"Koine reads {len(here)} of the {len(standard)} operators that ONNX defines up to opset {newest}. The table "
        "lists the opsets\nin which ONNX changed an operator; unless noted, Koine reads each version.\n",
        "| operator | changed in opset |\n|---|---|"]
    for name in sorted(here):
        first = refused().get(name, 0)
        known = ", ".join(str(one) if one >= first else f"({one}: not read)" for one in sorted(versions["", name]))
        parts.append(f"| `{name}` | {known} |")
    parts += ["\n## ONNX operators that are not read\n", listed(standard - here) + ".", "\n## Operators of other ONNX domains\n",
              "| domain | operators |\n|---|---|"]
    parts += [f"| `{domain}` | {', '.join(f'`{name}`' for other, name in sorted(read) if other == domain)} |"
              for domain in sorted({domain for domain, _ in read} - {"", RUNTIME})]
    parts += ["\n## ONNX Runtime's operators\n", f"Domain `{RUNTIME}`; ONNX Runtime writes {listed(WITHOUT_DOMAIN)} without a domain.\n",
              listed(name for domain, name in read if domain == RUNTIME) + "."]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
