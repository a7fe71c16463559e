"""The examples in the docstrings of the package, and those of docs/python.md, do what they say.

usage: documents.py HOUSE_FOLDER SOURCE_ROOT
"""
import doctest
import importlib
import importlib.util
import os
import pathlib
import pkgutil
import sys
import tempfile

from package import cases, run

ROOT = pathlib.Path(sys.argv[2]).resolve()

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


def page(lines):
    """The lines of docs/python.md, from the first to the last."""
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/python.md", "docs/python.md", 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=lines.append)
    return runner.failures == 0 and runner.tries > 20


cases.append(("docs/python.md", checked(page)))

run()
