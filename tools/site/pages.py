"""Pages of the website that are made from the source. Needs no MkDocs.

PAGES has, by its path on the site, a function that returns the page's text; SOURCES the documents outside of docs that the
site has too, in its folder `source`.
"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import reference  # noqa: E402


def koine(*words):
    """The output of the built command."""
    command = os.environ.get("KOINE", ROOT / "build/tools/koine")
    return subprocess.run([command, *words], check=True, capture_output=True, encoding="utf-8").stdout


def version():
    return re.search(r"^ *version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"), re.M).group(1)


def commands():
    """(name, one line about it) of each, as `koine --help` lists them."""
    return re.findall(r"^  ([\w-]+) {2,}(\S.*)$", koine("--help"), re.M)


def command_page():
    parts = ["# The command `koine`\n", "```text", koine("--help").rstrip(), "```"]
    for name, about in commands():
        parts += [f"\n## koine {name}\n", f"{about[0].upper()}{about[1:]}.\n", "```text", koine(name, "--help").rstrip(), "```"]
    return "\n".join(parts) + "\n"


def c_page():
    """The headings become Markdown, so that the table of contents and the search know them."""
    headers = [reference.Header(path) for path in sorted((ROOT / "include/koine").glob("*.h"))]
    body = re.search(r"<body>\n(.*)\n</body>", reference.page(headers, version()), re.S).group(1)
    body = re.sub(r"<h1>.*?</h1>", "# The C interface\n", body)
    body = re.sub(r'<h2 id="(.*?)">(.*?)</h2>', r"\n## \2 {#\1}\n", body)
    body = re.sub(r"<h2>(.*?)</h2>", r"\n## \1\n", body)
    return re.sub(r"<h3>(.*?)</h3>", section, body) + "\n"


def section(match):
    """Long titles are cut at their first colon or full stop; what follows becomes a paragraph."""
    title, _, about = re.match(r"(.*?)(?:([:.]) (.*))?$", html.unescape(match.group(1))).groups()
    return f"\n### {title}\n\n{about[0].upper()}{about[1:]}.\n" if about else f"\n### {title}\n"


def python_page():
    """Modules that `koine/__init__.py` imports from, with what they export."""
    folder = ROOT / "tools/python/koine"
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    parts = ["# The Python package", "`import koine` has the names of these modules, except those of `io`, `debug`, `optim`, `types`, "
             "`ops` and `sklearn`, which are modules for programs too. Operators are functions of `koine.ops` and methods of `Value`."]
    for name in ["model"] + [name for name in names if name != "model"] + ["types", "ops"]:
        parts.append(f"::: koine.{name}")
    parts.append("::: koine.torch")
    return "\n\n".join(parts) + "\n"


def model_page():
    return koine("models", "--grammar")


def data_page():
    """`koine datasets` prints a word per line and indents what it says of it."""
    parts = ["# Data sources\n", "Words for `--data` of `koine train` and `koine eval`, for `kn_dataset_open` in C and for "
             "`koine.Model.fit` in Python. [Data](../data.md) has the options that select and change samples.\n"]
    for word, about in re.findall(r"^  (\S.*)\n((?:      .*\n)+)", koine("datasets"), re.M):
        name = re.match(r"[\w]+", word).group()
        title = name if not any(part == f"## {name}\n" for part in parts) else f"{name} from a file"
        parts += [f"## {title}\n", f"    {word}\n", " ".join(about.split()) + "\n"]
    return "\n".join(parts)


def notebook_page():
    """The cells of the notebook with their outputs; what is shown as HTML or as a picture stays so."""
    parts = []
    for cell in json.loads((ROOT / "docs/tutorials/python.ipynb").read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                parts.append(f'<div class="output">{"".join(data["text/html"])}</div>')
            else:
                parts.append(f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


PAGES = {"tutorials/python.md": notebook_page, "reference/command.md": command_page, "reference/c.md": c_page, "reference/python.md": python_page,
         "reference/model-format.md": model_page, "reference/data-sources.md": data_page}
SOURCES = sorted(path.relative_to(ROOT).as_posix() for pattern in
                 ("[A-Z]*.md", "src/*/README.md", "cl/README.md", "tools/README.md", "tools/*/README.md", "tests/README.md",
                  "tests/*/README.md", "examples/README.md") for path in ROOT.glob(pattern) if path.name != "README.md" or
                 path.parent != ROOT)
