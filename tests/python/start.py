"""Drivers of OpenCL that pip installed, and the command of a wheel: tools/python/koine_start.py.

usage: start.py HOUSE_FOLDER KOINE
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from package import case, expect, expect_equal, run, script

KOINE = os.path.abspath(sys.argv[2])
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="koine-start-"))
START = pathlib.Path(os.environ["PYTHONPATH"].split(os.pathsep)[0], "koine_start.py")


def package(name, *files):
    """An installed package with these files; returns the folder for PYTHONPATH."""
    place = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    about = place / f"{name.replace('-', '_')}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text("")
    return place


def found(*packages, system=None, **environment):
    """What a program finds in OCL_ICD_VENDORS, {file: driver}, or its text if it is not a folder."""
    system_folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    for name, content in (system or {}).items():
        (system_folder / name).write_text(content)
    whole = {**os.environ, "XDG_CACHE_HOME": str(FOLDER / "cache"), "PYTHONPATH": os.pathsep.join(map(str, [START.parent, *packages])),
             **environment}
    whole.pop("OCL_ICD_VENDORS", None)
    whole.update(environment)
    text = script("import koine_start, os, pathlib, sys\n"
                  "koine_start.SYSTEM_FOLDER = pathlib.Path(sys.argv[1])\n"
                  "koine_start.find_drivers()\n"
                  "print(os.environ.get('OCL_ICD_VENDORS', ''), end='')", str(system_folder), env=whole)
    if not os.path.isdir(text):
        return text
    return {file.name: file.read_text().strip() for file in pathlib.Path(text).iterdir()}


POCL = package("pocl-binary-distribution", "pyopencl/.libs/libpocl-21062cec.so", "pyopencl/.libs/pocl.icd")
INTEL = package("intel-opencl-rt", "libintelocl.so", "libintelocl.so.2026.22.10.0", "libintelocl.so-gdb.py")
POCL_FILE, INTEL_FILE = POCL / "pyopencl/.libs/libpocl-21062cec.so", INTEL / "libintelocl.so"


@case
def a_driver_is_found_without_any_of_the_system():
    expect_equal(found(POCL), {"python-libpocl.icd": str(POCL_FILE)})
    expect_equal(found(INTEL), {"python-libintelocl.icd": str(INTEL_FILE)})
    expect_equal(found(POCL, INTEL), {"python-libpocl.icd": str(POCL_FILE), "python-libintelocl.icd": str(INTEL_FILE)})


@case
def drivers_of_the_system_stay():
    system = {"nvidia.icd": "libnvidia-opencl.so.1\n"}
    expect_equal(found(POCL, system=system), {"nvidia.icd": "libnvidia-opencl.so.1", "python-libpocl.icd": str(POCL_FILE)})
    expect_equal(found(system=system), "")


@case
def a_driver_that_the_system_has_is_not_added():
    for content in ("/usr/lib/x86_64-linux-gnu/libpocl.so.2.9.0\n", "libpocl.so.2"):
        expect_equal(found(POCL, system={"pocl.icd": content}), "")


@case
def a_driver_that_would_end_the_program_is_left_out():
    empty = FOLDER / "empty"
    empty.mkdir()
    text = script("import koine_start, os, sys\n"
                  "koine_start.SYSTEM_FOLDER = koine_start.pathlib.Path('/nothing')\n"
                  "os.environ['PATH'] = sys.argv[1]\n"
                  "sys.stderr = sys.stdout\n"
                  "koine_start.find_drivers()\n"
                  "print(os.environ.get('OCL_ICD_VENDORS'))", str(empty),
                  env={**os.environ, "OCL_ICD_VENDORS": "", "PYTHONPATH": os.pathsep.join(map(str, [START.parent, POCL]))})
    expect("pocl-binary-distribution is left out: it needs the program ld" in text and "koine[intel]" in text, text)


@case
def what_the_user_set_stays():
    expect_equal(found(POCL, OCL_ICD_VENDORS="/of/the/user"), "/of/the/user")
    expect_equal(found(POCL, OCL_ICD_FILENAMES="libother.so"), "")


@case
def a_cache_that_cannot_be_written():
    blocked = FOLDER / "file"
    blocked.write_text("")
    expect_equal(found(POCL, XDG_CACHE_HOME=str(blocked), TMPDIR=str(FOLDER)), {"python-libpocl.icd": str(POCL_FILE)})


@case
def the_command_of_a_wheel():
    place = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    shutil.copy(START, place)
    words = [sys.executable, "-c", "import koine_start; koine_start.main()"]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run([*words, "--version"], env=environment, capture_output=True, text=True)
    expect(done.returncode == 1 and "koine/bin/koine is missing; expected the command" in done.stderr, f"{done}")
    (place / "koine/bin").mkdir(parents=True)
    (place / "koine/bin/koine").symlink_to(KOINE)
    for arguments in (["--version"], ["models", "--json"], ["nothing"]):
        direct = subprocess.run([KOINE, *arguments], capture_output=True, text=True)
        done = subprocess.run([*words, *arguments], env=environment, capture_output=True, text=True)
        expect_equal((done.returncode, done.stdout, done.stderr), (direct.returncode, direct.stdout, direct.stderr))


try:
    run()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
