"""The examples in the docstrings of the package, those of docs/python.md and docs/coming-from.md, and the cells of the notebook do what they say.

usage: documents.py HOUSE_FOLDER SOURCE_ROOT
"""
import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import json
import os
import pathlib
import pkgutil
import sys
import tempfile

from package import Skipped, cases, run

ROOT = pathlib.Path(sys.argv[2]).resolve()

import numpy as np  # noqa: E402

import koine  # noqa: E402


def checked(function):
    def run_case():
        lines, before = [], os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                return [] if function(lines) else "".join(lines).splitlines() or ["it has no examples"]
            finally:
                os.chdir(before)
    return run_case


def module(name):
    """Runs the examples of a module; modules without any are fine."""
    def examples(lines):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
            runner.run(test, out=lines.append)
        return runner.failures == 0
    return examples


for found in pkgutil.iter_modules(koine.__path__):
    if found.name == "torch" and not importlib.util.find_spec("torch"):
        continue  # PyTorch is not installed
    cases.append((f"examples of koine.{found.name}", checked(module(f"koine.{found.name}"))))
cases.append(("examples of koine", checked(module("koine"))))


def page(name, least):
    """Runs the lines of a page, from the first to the last, which are at least so many."""
    def examples(lines):
        text = (ROOT / name).read_text(encoding="utf-8")
        test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, out=lines.append)
        return runner.failures == 0 and runner.tries >= least
    return examples


for name, least in (("docs/python.md", 20), ("docs/coming-from.md", 7)):
    cases.append((name, checked(page(name, least))))


def notebook(lines):
    """Runs the cells as Jupyter does: the value of a last expression is shown, in HTML where it has that."""
    content = json.loads((ROOT / "docs/tutorials/python.ipynb").read_text(encoding="utf-8"))
    names, shown = {}, 0
    for cell in content["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        if not cell["execution_count"] or (last and not cell["outputs"]):
            lines.append(f"the cell {cell['id']} has no outputs in the file: execute the notebook\n")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(tree, cell["id"], "exec"), names)
            if last:
                value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
                html = getattr(value, "_repr_html_", None)
                shown += bool(html() if html else repr(value))
    if np.mean(names["found"] == names["y"][:1000]) < 0.8:
        lines.append("the notebook's model did not learn\n")
    return not lines and shown >= 4


cases.append(("docs/tutorials/python.ipynb", checked(notebook)))


def notebook_in_jupyter(lines):
    """Executed by Jupyter, each cell has outputs of the same kinds as in the file."""
    if not all(importlib.util.find_spec(name) for name in ("nbclient", "nbformat", "ipykernel")):
        raise Skipped("Jupyter's nbclient and ipykernel are not installed")
    import nbclient
    import nbformat

    def kinds(content):
        return {cell.id: sorted({output.get("name", "result") for output in cell.outputs} - {"stderr"})
                for cell in content.cells if cell.cell_type == "code"}

    content = nbformat.read(ROOT / "docs/tutorials/python.ipynb", as_version=4)
    before = kinds(content)
    nbclient.NotebookClient(content, timeout=300, kernel_name="python3").execute()
    lines += [f"{cell}: the file has {before[cell]}, Jupyter made {made}\n" for cell, made in kinds(content).items() if made != before[cell]]
    return not lines


cases.append(("docs/tutorials/python.ipynb in Jupyter", checked(notebook_in_jupyter)))

run()
