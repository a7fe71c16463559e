"""The wheel of tools/wheel, in a virtual environment with a driver from PyPI and nothing of the system's.

usage: wheel.py HOUSE_FOLDER PROJECT; skipped where PyPI does not give what it needs.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, sys.argv[1])
import report  # noqa: E402
from report import Skipped  # noqa: E402

PROJECT = pathlib.Path(sys.argv[2]).resolve()
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="koine-wheel-"))
BIN = FOLDER / "venv/bin"
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not re.match("PYTHON|KOINE|OCL|POCL_|LD_", name)}
ENVIRONMENT.update(HOME=str(FOLDER), XDG_CACHE_HOME=str(FOLDER / "cache"), PATH=f"{BIN}:/usr/bin:/bin")

FIVE_LINES = """
import koine
model = koine.Model("lenet")
history = model.fit("digits", steps=300, batch_size=32, optimizer="adamw")
x, y = koine.load_dataset("digits").test.arrays()
found = model.evaluate((x[:2000], y[:2000]))
model.save("a.safetensors"); model.to_onnx("a.onnx")
print(found.accuracy, koine.debug.library_path)
"""


def call(*words, status=0, seconds=600):
    done = subprocess.run([str(word) for word in words], env=ENVIRONMENT, cwd=FOLDER, capture_output=True, text=True,
                          timeout=seconds)
    return done.stdout if done.returncode == status else fail(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")


def fail(text):
    raise AssertionError(text)


def expect(right, text):
    return right or fail(text)


def make():
    done = subprocess.run([PROJECT / "tools/wheel", "--python", "/usr/bin/python3"], capture_output=True, text=True, timeout=900)
    if "PyPI did not give" in done.stderr:
        raise Skipped("PyPI did not give the tools that make a wheel")
    expect(done.returncode == 0, done.stdout + done.stderr)


def wheel():
    found = list((PROJECT / "dist").glob("koine-*.whl"))
    expect(len(found) == 1, f"found {found}; expected one wheel")
    return found[0]


def one_for_all_pythons():
    expect(re.fullmatch(r"koine-[0-9.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel().name), wheel().name)
    with zipfile.ZipFile(wheel()) as packed:
        names = packed.namelist()
        packed.extractall(FOLDER / "unpacked")
    for wanted in ("koine/bin/koine", ".koine.mesonpy.libs/libkoine.so", "koine_start.py", "koine/torch/step.py"):
        expect(wanted in names, f"no {wanted} in {names}")
    expect(any(re.fullmatch(r"koine\.libs/libOpenCL-[0-9a-f]+\.so.*", name) for name in names), f"no ICD loader in {names}")
    for name in names:
        if ".so" in name:
            symbols = call("nm", "-D", "--undefined-only", FOLDER / "unpacked" / name)
            expect(not re.search(r" _?Py", symbols), f"{name} wants symbols of Python: {symbols}")


def installed():
    call("/usr/bin/python3", "-m", "venv", FOLDER / "venv")
    pip = [BIN / "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, f"{wheel()}[pocl]"], env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    if done.returncode and re.search("No matching distribution|Retrying|ConnectionError", done.stderr):
        raise Skipped("PyPI did not give the driver")
    expect(done.returncode == 0, done.stderr)


def has_venv():
    if not (BIN / "koine").exists():
        raise Skipped("the wheel was not installed")


def five_lines():
    has_venv()
    accuracy, library = call(BIN / "python", "-c", FIVE_LINES).split()
    expect(float(accuracy) > 0.9, f"accuracy {accuracy}")
    expect(library.startswith(str(FOLDER)), f"the library is {library}")


def command():
    has_venv()
    expect("selected by default" in call(BIN / "koine", "devices"), "no device is selected")
    expect("accuracy 9" in call(BIN / "koine", "eval", "a.safetensors", "--data", "digits:test"), "another accuracy")
    call(BIN / "koine", "nothing", status=2)


def complaints_of(function):
    """What a case complains about, as a list."""
    try:
        function()
    except AssertionError as complaint:
        return str(complaint).splitlines()
    return []


try:
    report.run([(function.__name__.replace("_", " "), lambda function=function: complaints_of(function))
                for function in (make, one_for_all_pythons, installed, five_lines, command)])
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
