"""Helpers of the tests of the Python package, which are skipped where cffi or numpy is missing.

Each test is run as: NAME.py HOUSE_FOLDER, with PYTHONPATH and KOINE_LIBRARY set to what was built.
"""
import importlib.util
import os
import subprocess
import sys
import traceback

sys.path.insert(0, sys.argv[1])
import report  # noqa: E402

Skipped = report.Skipped
for _name in ("KOINE_DEVICE", "KOINE_KERNEL_DIR"):
    os.environ.pop(_name, None)
cases = []


class Complaint(Exception):
    """A failed check."""


def expect(right, complaint=""):
    if not right:
        raise Complaint(complaint or "".join(traceback.format_stack(limit=2)[:1]).strip())


def expect_equal(found, wanted):
    expect(found == wanted, f"found {found!r}, expected {wanted!r}")


class raises:
    """with raises(KIND, PART…): the body raises it, and its text has each part."""

    def __init__(self, kind, *parts):
        self.kind, self.parts, self.error = kind, parts, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        expect(error is not None, f"nothing was raised; expected {self.kind.__name__}")
        if not isinstance(error, self.kind):
            return False
        self.error = error
        missing = [part for part in self.parts if part not in str(error)]
        expect(not missing, f"'{error}' lacks {missing}")
        return True


def case(function):
    """Makes a test of a function without parameters; its name is the function's, in words."""
    def run_case():
        try:
            function()
            return []
        except Skipped:
            raise
        except Exception as error:  # a crash of the test is a failure of the case
            if "this Koine was built without" in str(error):
                raise Skipped(str(error)) from None
            return [str(error)] if isinstance(error, Complaint) else traceback.format_exc().splitlines()
    cases.append((function.__name__.replace("_", " "), run_case))
    return function


def script(text, *words, seconds=50, **more):
    """Runs a program in another interpreter; returns its output, after checking that it ended well."""
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", text, *words], capture_output=True, text=True, timeout=seconds, **more)
    expect(done.returncode == 0 and not done.stderr, f"status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def run():
    report.run(cases)


def end_without(module, name):
    """Runs the cases so far and ends the test, where a package that the others need is missing."""
    if importlib.util.find_spec(module) is None:
        def missing():
            raise Skipped(f"{name} is not installed")
        cases.append((f"with {name}", missing))
        run()


def _skipped():
    raise Skipped(f"this Python lacks {' and '.join(_missing)}: python3-cffi and python3-numpy, or pip install cffi numpy")


_missing = [name for name in ("cffi", "numpy") if importlib.util.find_spec(name) is None]
if _missing:
    report.run([("the Python package", _skipped)])
