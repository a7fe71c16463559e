"""tools/gpu-lab/borrowed and what it runs, on stand-ins for the driver and for koine; and, with BUILD, on the installed driver.

usage: borrowed.py KOINE HOUSE_TESTS GPU_LAB_FOLDER STUB_CUDA [BUILD]
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile

from koine import ENVIRONMENT, Skipped, case, expect, run_cases, strict, write

LAB, STUB = os.path.abspath(sys.argv[3]), os.path.abspath(sys.argv[4])
BUILD = sys.argv[5:6]
VALUES = {"m": 32, "n": 24, "k": 16}
TYPES = [".u64 .ptr .global .align 2"] * 4 + [".u32"] * 3
PTX = ".visible .entry kn_matmul(\n" + ",\n".join(f"\t.param {kind} kn_matmul_param_{i}" for i, kind in enumerate(TYPES)) + "\n)\n{ mma.sync }\n"


# ---- without OpenCL


def plan(folder, kind="bfloat16"):
    """A plan with a product in kind, and a kernel that is only timed."""
    size = 2 if kind == "bfloat16" else 4
    bytes_of = {"a": size * 32 * 16, "b": size * 24 * 16, "c": 4 * 32 * 24, "partials": 0}
    arguments = [{"name": name, "bytes": count} for name, count in bytes_of.items()]
    arguments += [{"name": name, "value": value} for name, value in VALUES.items()]
    launch = {"label": "matmul c", "kernel": "kn_matmul", "program": "000", "global": [128, 1, 1], "local": [128, 1, 1], "flops": 2 * 32 * 24 * 16,
              "arguments": arguments, "kinds": {"a": kind, "b": kind}, "transposed": [False, True]}
    other = {**launch, "label": "relu", "kernel": "kn_relu", "program": "001", "arguments": arguments[:1]}
    del other["kinds"]
    place = os.path.join(folder, "ptx", "check-" + kind)
    os.makedirs(place)
    write(place, "plan.json", json.dumps([other, launch]))
    write(place, "000.ptx", f"// {kind}\n{PTX}")
    write(place, "001.ptx", ".visible .entry kn_relu(\n\t.param .u64 kn_relu_param_0\n)\n{}\n")
    return os.path.join(folder, "ptx")


def with_stub(folder, way=""):
    os.makedirs(os.path.join(folder, "driver"), exist_ok=True)
    path = os.path.join(folder, "driver", "libcuda.so.1")
    if not os.path.exists(path):
        os.symlink(STUB, path)
    return dict(ENVIRONMENT, LD_LIBRARY_PATH=os.path.dirname(path), STUB_CUDA=way)


def ptx(folder, env):
    done = subprocess.run([sys.executable, os.path.join(LAB, "ptx.py"), folder], env=env, capture_output=True, text=True)
    return done.returncode, [strict(line) for line in done.stdout.splitlines()], done.stderr


@case
def products_are_checked_and_kernels_timed(folder):
    for kind in ("bfloat16", "float32"):
        plans = plan(folder, kind)
    status, found, err = ptx(plans, with_stub(folder))
    expect(status == 0 and not err and found[0] == {"device": "Stub H200"}, f"found {status} {found} {err}")
    expect([(one["plan"], one["label"], one.get("right"), one["mma"]) for one in found[1:]] ==
           [("check-bfloat16", "matmul c", True, True), ("check-bfloat16", "relu", None, False),
            ("check-float32", "matmul c", True, True), ("check-float32", "relu", None, False)], f"found {found}")
    expect(all(one["us"] == 100 for one in found[1:]), f"found {found}")


@case
def wrong_products_and_refused_programs_are_reported(folder):
    plans = plan(folder)
    status, found, _ = ptx(plans, with_stub(folder, "wrong"))
    expect(status == 1 and found[1]["right"] is False, f"found {status} {found}")
    status, found, _ = ptx(plans, with_stub(folder, "refuses"))
    expect(status == 1 and [one["failed"] for one in found[1:]] == ["cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU"] * 2, f"found {status} {found}")
    write(os.path.join(plans, "check-bfloat16"), "000.ptx", PTX.replace("\t.param .u32 kn_matmul_param_6", ""))
    status, found, _ = ptx(plans, with_stub(folder))
    expect(status == 1 and found[1]["failed"] == "the kernel has 6 parameters instead of 7", f"found {status} {found}")
    status, found, err = ptx(plans, dict(ENVIRONMENT, LD_LIBRARY_PATH=""))
    if "cannot be loaded" not in err:
        raise Skipped("this machine has a CUDA driver")
    expect(status == 1 and not found, f"found {status} {found}")


# ---- the script


FAKE = """#!/bin/sh
echo "koine $*" >>"$CALLS"
case "$1 $FAKE_WAY" in
"devices refuses") echo "no OpenCL device" >&2; exit 1 ;;
"devices hangs") sleep 100 ;;
esac
[ "$1" = report ] && [ "$2" != --read ] && echo "koine-report 1" >"$4"
exit 0
"""


def borrowed(folder, way, seconds=0, **environment):
    """Runs the script for a minute of which `seconds` have passed; returns its log, the calls of koine, and its result."""
    for name in ("borrowed", "ptx.py"):
        shutil.copy(os.path.join(LAB, name), folder)
    os.chmod(write(folder, "koine", FAKE), 0o755)
    write(folder, "torch_gpu.py", 'print("{\\"torch\\": 1}")\n')
    driver = os.path.join(folder, "driver", "libnvidia-opencl.so.1")
    os.makedirs(os.path.dirname(driver), exist_ok=True)
    env = dict(ENVIRONMENT, DRIVER=driver, CALLS=os.path.join(folder, "calls"), FAKE_WAY=way, SECONDS=str(seconds), **environment)
    done = subprocess.run([os.path.join(folder, "borrowed"), "1", os.path.join(folder, "results")], cwd=folder, env=env, capture_output=True, text=True)
    calls = []
    if os.path.exists(env["CALLS"]):
        with open(env["CALLS"], encoding="utf-8") as file:
            calls = [line.split() for line in file]
    with open(os.path.join(folder, "results", "log"), encoding="utf-8") as file:
        return file.read(), calls, done


def results(folder):
    """{name: text} of the archive."""
    with tarfile.open(os.path.join(folder, "results.tar.gz")) as archive:
        return {os.path.basename(one.name): archive.extractfile(one).read().decode() for one in archive.getmembers() if one.isfile()}


@case
def a_gpu_with_opencl_is_reported(folder):
    log, calls, done = borrowed(folder, "")
    expect(done.returncode == 0 and [call[1] for call in calls] == ["devices", "report", "report", "report"], f"found {calls} {log}")
    minutes = [float(call[call.index("--minutes") + 1]) for call in calls if "--minutes" in call]
    expect(len(minutes) == 2 and 0 < minutes[0] <= 0.6 and 0 < minutes[1] <= 0.96, f"found {minutes}")
    found = results(folder)
    expect(set(found) == {"log", "driver.icd", "koine-report.txt", "torch.jsonl"} and strict(found["torch.jsonl"]) == {"torch": 1}, f"found {found}")
    expect(found["driver.icd"] == os.path.join(folder, "driver", "libnvidia-opencl.so.1") + "\n", f"found {found}")


@case
def without_opencl_the_plans_run_by_the_cuda_driver(folder):
    plan(folder)
    with_stub(folder)
    log, calls, done = borrowed(folder, "refuses")
    expect(done.returncode == 0 and [call[1] for call in calls] == ["devices"] and "OpenCL is missing" in log, f"found {calls} {log}")
    found = results(folder)
    expect([strict(line).get("right") for line in found["ptx.jsonl"].splitlines()] == [None, True, None], f"found {found}")
    expect("torch.jsonl" in found, f"found {found}")


@case
def a_driver_that_hangs_costs_only_its_stage(folder):
    log, calls, done = borrowed(folder, "hangs", 9)
    expect(done.returncode == 0 and "-- koine devices: status 124" in log and "-- torch: status 0" in log, f"found {calls} {log}")
    expect("torch.jsonl" in results(folder), f"found {log}")


@case
def no_stage_starts_after_the_end(folder):
    log, calls, done = borrowed(folder, "", 59)
    expect(done.returncode == 0 and not calls and "-- koine devices: skipped" in log, f"found {calls} {log}")
    found = subprocess.run([os.path.join(folder, "borrowed"), "soon"], cwd=folder, capture_output=True, text=True)
    expect(found.returncode == 2 and "MINUTES is 'soon'" in found.stderr, f"found {found}")


# ---- the packed folder, for a minute on the installed driver


def driver_at_hand():
    files = os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors"
    for path in sorted(glob.glob(os.path.join(files, "*.icd"))) if os.path.isdir(files) else [files]:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    raise Skipped("no OpenCL driver has an ICD file")


def a_packed_folder_reports_within_a_minute(folder):
    packed = os.path.join(folder, "packed")
    subprocess.run([os.path.join(LAB, "pack"), packed, "--build", BUILD[0], "--no-ptx"], check=True)
    env = dict(ENVIRONMENT, DRIVER=driver_at_hand(), KOINE_DEVICE=os.environ.get("KOINE_DEVICE", "0"))
    done = subprocess.run([os.path.join(packed, "borrowed"), "1", os.path.join(folder, "results")], cwd=folder, env=env, capture_output=True, text=True)
    found = results(folder)
    expect(done.returncode == 0 and "-- koine devices: status 0" in found["log"], f"found {done}")
    expect(found["koine-report.txt"].startswith("koine-report 1\n") and "== devices --measure" in found["koine-report.txt"], f"found {found}")


if BUILD:
    case(a_packed_folder_reports_within_a_minute)
run_cases()
