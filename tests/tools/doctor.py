"""koine doctor: each thing that may be wrong with an OpenCL installation, staged below a made-up root or with a made-up
folder of vendors.

usage: doctor.py KOINE HOUSE_TESTS KOINE_DOCTOR STUB_DRIVER
"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

from koine import ENVIRONMENT, Result, Skipped, case, expect, koine, run_cases, strict, write

KOINE, DOCTOR, STUB = (os.path.abspath(path) for path in (sys.argv[1], *sys.argv[3:5]))
UNPRIVILEGED = 65534


def place(root, path, text=""):
    """A file below a root, with its folders."""
    whole = os.path.join(root, path)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    return write(os.path.dirname(whole), os.path.basename(whole), text)


def healthy(root):
    place(root, "usr/lib/x86_64-linux-gnu/libOpenCL.so.1")
    place(root, "usr/lib/x86_64-linux-gnu/libpocl.so.2")
    place(root, "etc/OpenCL/vendors/pocl.icd", "libpocl.so.2\n")
    return root


def findings_of(result):
    found = [strict(line) for line in result.out.splitlines()]
    expect(all(list(one) == ["kind", "check", "what", "fix"] for one in found), f"found {result}")
    expect(result.status == any(one["kind"] == "problem" for one in found), f"the status does not fit: {result}")
    return found


def below(root):
    """What both programs say of a root, and that they say the same."""
    found = koine("doctor", "--json", "--root", root)
    done = subprocess.run([DOCTOR, "--json", "--root", root], env=ENVIRONMENT, capture_output=True, text=True)
    expect((done.stdout, done.returncode) == (found.out, found.status), f"koine-doctor says {done.stdout}, not {found}")
    return findings_of(found)


def only(findings, kind, check, *words, fix):
    """That there is one finding of that kind, about that, with these words and this cure."""
    others = [one for one in findings if one["kind"] != "ok"]
    expect(len(others) == 1, f"expected one finding: {others}")
    needs(others, kind, check, *words, fix=fix)


def needs(findings, kind, check, *words, fix=None):
    for one in findings:
        if one["kind"] == kind and one["check"] == check and all(word in one["what"] for word in words):
            expect(fix is None or fix in (one["fix"] or ""), f"expected to fix it with {fix}: {one}")
            return
    expect(False, f"no {kind} about {check} with {words}: {findings}")


@case
def all_is_well(folder):
    found = below(healthy(folder))
    expect({one["kind"] for one in found} == {"ok"}, f"found {found}")
    koine("doctor", "--root", folder).needs(0, err="", out=("ok       loader: ", "ok       icd: ", "all is well"))


@case
def no_loader(folder):
    healthy(folder)
    os.remove(os.path.join(folder, "usr/lib/x86_64-linux-gnu/libOpenCL.so.1"))
    only(below(folder), "problem", "loader", "libOpenCL.so.1", fix="sudo apt-get install ocl-icd-libopencl1")
    koine("doctor", "--root", folder).needs(1, err="", out=("problem  loader: ", "           fix: sudo", "there are "))


@case
def the_program_for_no_loader_needs_none(folder):
    if not shutil.which("readelf"):
        raise Skipped("readelf is not installed")
    needed = subprocess.run(["readelf", "-d", DOCTOR], capture_output=True, text=True).stdout
    expect("NEEDED" in needed and "OpenCL" not in needed and "koine" not in needed, needed)


@case
def two_loaders(folder):
    place(healthy(folder), "usr/local/lib/libOpenCL.so.1")
    only(below(folder), "hint", "loader", "2 OpenCL loaders", "/usr/local/lib/libOpenCL.so.1", fix="")
    os.remove(os.path.join(folder, "usr/local/lib/libOpenCL.so.1"))
    os.symlink("../../lib/x86_64-linux-gnu/libOpenCL.so.1", os.path.join(folder, "usr/local/lib/libOpenCL.so.1"))
    expect({one["kind"] for one in below(folder)} == {"ok"}, "a link is taken for a second loader")


@case
def no_drivers(folder):
    place(folder, "usr/lib/libOpenCL.so.1")
    only(below(folder), "problem", "vendors", "cannot be read", fix="sudo apt-get install pocl-opencl-icd")
    place(folder, "etc/OpenCL/vendors/readme.txt", "libpocl.so.2\n")
    only(below(folder), "problem", "vendors", "holds no file *.icd", fix="sudo apt-get install pocl-opencl-icd")


@case
def a_missing_library(folder):
    place(healthy(folder), "etc/OpenCL/vendors/intel.icd", "/usr/lib/x86_64-linux-gnu/intel-opencl/libigdrcl.so\n")
    only(below(folder), "problem", "icd", "intel.icd", "libigdrcl.so", "missing",
         fix="sudo apt-get install --reinstall intel-opencl-icd")
    place(folder, "etc/OpenCL/vendors/intel.icd", "libunheardof.so\n")
    only(below(folder), "problem", "icd", "libunheardof.so", fix="intel.icd.off")
    place(folder, "etc/OpenCL/vendors/intel.icd", "\n")
    only(below(folder), "problem", "icd", "is empty", fix="intel.icd.off")


@case
def a_driver_without_its_icd_file(folder):
    place(healthy(folder), "opt/rocm-6.1/lib/libamdocl64.so")
    only(below(folder), "hint", "driver", "ROCm", "no ICD file lists it",
         fix="echo /opt/rocm-6.1/lib/libamdocl64.so | sudo tee /etc/OpenCL/vendors/amdocl64.icd")


@case
def two_copies_of_a_driver(folder):
    place(healthy(folder), "usr/local/lib/libpocl.so.2.11.0")
    place(folder, "etc/OpenCL/vendors/pocl-own.icd", "/usr/local/lib/libpocl.so.2.11.0\n")
    only(below(folder), "problem", "copies", "/usr/local/lib/libpocl.so.2.11.0", "libpocl.so.2", fix="sudo mv ")
    place(folder, "etc/OpenCL/vendors/pocl-own.icd", "libpocl.so.2\n")
    only(below(folder), "hint", "copies", "name the same driver", fix="sudo mv ")


@case
def rusticl_without_its_variable(folder):
    place(healthy(folder), "usr/lib/x86_64-linux-gnu/libRusticlOpenCL.so.1")
    place(folder, "etc/OpenCL/vendors/rusticl.icd", "libRusticlOpenCL.so.1\n")
    for value, kinds in (("", {"ok", "hint"}), ("llvmpipe", {"ok"})):
        found = findings_of(koine("doctor", "--json", "--root", folder, environment={"RUSTICL_ENABLE": value}))
        expect({one["kind"] for one in found} == kinds, f"with '{value}' found {found}")
        if not value:
            only(found, "hint", "rusticl", "RUSTICL_ENABLE", fix="export RUSTICL_ENABLE=llvmpipe")


@case
def the_kernel_part_is_not_loaded(folder):
    place(healthy(folder), "usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1")
    place(folder, "etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n")
    only(below(folder), "hint", "node", "/dev/nvidiactl", fix="sudo modprobe nvidia")


@case
def a_node_that_may_not_be_opened(folder):
    node = place(healthy(folder), "dev/dri/renderD128")
    needs(below(folder), "ok", "node", "renderD128")
    os.chmod(node, 0)
    as_user = {}
    if os.getuid() == 0:  # may open everything
        os.chmod(folder, 0o755)
        as_user = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
    try:
        done = subprocess.run([DOCTOR, "--json", "--root", folder], env=ENVIRONMENT, capture_output=True, text=True,
                              **as_user)
    except OSError as error:
        raise Skipped(f"another user cannot be used here: {error}") from error
    found = findings_of(Result([DOCTOR], done.returncode, done.stdout, done.stderr))
    only(found, "problem", "node", "may not open", "renderD128", fix="sudo chmod a+rw ")
    if as_user:
        os.chown(node, 0, 44)
        os.chmod(node, 0o660)
        done = subprocess.run([DOCTOR, "--root", folder], env=ENVIRONMENT, capture_output=True, text=True, **as_user)
        try:
            import grp
            name = grp.getgrgid(44).gr_name
        except KeyError as error:
            raise Skipped("there is no group 44 here") from error
        expect(f"sudo usermod -aG {name}" in done.stdout and "for the group" in done.stdout, done.stdout)


# ---- with the loader of this machine, and drivers named by the environment


def with_vendors(folder, *more, status, options=()):
    result = koine("doctor", "--json", *options, environment={"OCL_ICD_VENDORS": folder, "OPENCL_VENDOR_PATH": folder, **dict(more)})
    expect(result.status == status, f"expected status {status}: {result}")
    return findings_of(result)


@case
def a_folder_that_the_environment_names(folder):
    needs(with_vendors(folder, status=1), "problem", "vendors", "OCL_ICD_VENDORS is set", fix="unset OCL_ICD_VENDORS")


@case
def drivers_that_the_environment_hides(folder):
    system = sorted(glob.glob("/etc/OpenCL/vendors/*.icd"))
    if not system:
        raise Skipped("/etc/OpenCL/vendors names no driver")
    write(folder, "stub.icd", STUB + "\n")
    needs(with_vendors(folder, status=1), "hint", "vendors", "OCL_ICD_VENDORS hides drivers", os.path.basename(system[0]), fix="unset OCL_ICD_VENDORS")
    for path in system:
        shutil.copy(path, folder)
    found = with_vendors(folder, status=1)
    expect(not any("hides" in one["what"] for one in found), f"it hides none: {found}")


@case
def a_library_that_is_no_driver(folder):
    broken = write(folder, "libbroken.so", "no library at all\n")
    write(folder, "broken.icd", broken + "\n")
    found = with_vendors(folder, status=1)
    needs(found, "problem", "icd", broken, "cannot be loaded")
    needs(found, "problem", "platform", "no OpenCL platform", fix="sudo apt-get install pocl-opencl-icd")


@case
def a_sick_driver(folder):
    write(folder, "stub.icd", STUB + "\n")
    found = with_vendors(folder, status=1)
    needs(found, "ok", "vendors", f"OCL_ICD_VENDORS is {folder}")
    needs(found, "ok", "icd", STUB)
    needs(found, "hint", "platform", "rusticl", "shows no device", "RUSTICL_ENABLE")
    needs(found, "hint", "device", "Stub Mute", "no compiler")
    needs(found, "problem", "compiler", "Stub Small", "unknown type name", "koine verify")
    needs(found, "hint", "local-memory", "Stub Small has 1024 bytes")


@case
def a_driver_that_ends_its_program(folder):
    path = write(folder, "stub.icd", STUB + "\n")
    for variable, how in (("STUB_ABORT", "by signal 6 ("), ("STUB_EXIT", "with status 3")):
        # At the first call: then OpenCL cannot be used at all.
        for call in ("platforms", "devices"):
            found = with_vendors(folder, (variable, call), status=1)
            needs(found, "problem", "icd", path, STUB, f"asked for its devices: it ended the program {how}", fix="sudo mv " + path)
            needs(found, "hint", "device", "no device is tried")
            done = subprocess.run([DOCTOR, "--json"], env={**ENVIRONMENT, "OCL_ICD_VENDORS": folder, variable: call},
                                  capture_output=True, text=True)
            needs(findings_of(Result([DOCTOR], done.returncode, done.stdout, done.stderr)), "problem", "icd", STUB, how)
        needs(with_vendors(folder, (variable, "info"), status=1), "problem", "platform", "devices are listed", how)
        # While it compiles: the devices after this one are tried.
        found = with_vendors(folder, (variable, "build"), status=1)
        needs(found, "problem", "device", "Stub Frail (Stub Sick) fails", how, "--device")
        needs(found, "hint", "device", "Stub Mute", "no compiler")
        needs(found, "problem", "compiler", "Stub Small", "unknown type name")
        tried = [one["what"] for one in found if one["check"] in ("device", "compiler", "platform", "local-memory")]
        expect(len(set(tried)) == len(tried), f"told twice: {tried}")
    # The option that ended a process is not used in the next start.
    with_vendors(folder, ("XDG_CACHE_HOME", folder), ("STUB_ABORT", "build"), status=1)
    found = with_vendors(folder, ("XDG_CACHE_HOME", folder), status=1)
    needs(found, "hint", "device", "Stub Frail: short_header is not used for another 1 hour:", "a program ended", "compiled",
          fix="koine doctor --retry-avoided")
    found = with_vendors(folder, ("XDG_CACHE_HOME", folder), status=1, options=("--retry-avoided",))
    needs(found, "ok", "device", "Stub Frail uses the kernels again")
    found = with_vendors(folder, ("XDG_CACHE_HOME", folder), status=1)
    expect(not any("is not used" in one["what"] for one in found), f"found {found}")


@case
def training_on_a_cpu_beside_a_gpu_without_a_driver(folder):
    system = [path for path in glob.glob("/etc/OpenCL/vendors/*.icd") if "pocl" in path]
    if not system:
        raise Skipped("PoCL is not installed")
    write(folder, "stub.icd", STUB + "\n")
    shutil.copy(system[0], folder)
    environment = {"OCL_ICD_VENDORS": folder, "OPENCL_VENDOR_PATH": folder}
    check = ("train", "mlp", "--data", "digits", "--check")
    found = koine(*check, environment={**environment, "KOINE_DEVICE": ""})
    expect("training on the CPU; Stub Mute is not used" in found.err and "koine doctor" in found.err, f"found {found}")
    found = koine(*check, "--device", "cpu", environment=environment)
    expect("Stub Mute" not in found.err, f"found {found}")


@case
def a_user_who_does_not_wait_for_a_kernel(folder):
    write(folder, "stub.icd", STUB + "\n")
    environment = {**ENVIRONMENT, "OCL_ICD_VENDORS": folder, "OPENCL_VENDOR_PATH": folder, "XDG_CACHE_HOME": folder}
    for number, avoided in ((signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGKILL, True)):
        waits = subprocess.Popen([KOINE, "bench", "mlp", "--device", "Stub Frail"], env={**environment, "STUB_HANG": "build"},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while waits.poll() is None and not any(open(path, "rb").read() for path in glob.glob(folder + "/koine/devices/*.trying")):
            time.sleep(0.02)
        waits.send_signal(number)
        expect(waits.wait() == -number, f"ended with {waits.returncode}")
        found = with_vendors(folder, ("XDG_CACHE_HOME", folder), status=1)
        expect(any("is not used" in one["what"] for one in found) == avoided, f"after signal {number}: {found}")


@case
def a_driver_that_never_answers(folder):
    write(folder, "stub.icd", STUB + "\n")
    environment = {"OCL_ICD_VENDORS": folder, "OPENCL_VENDOR_PATH": folder}
    for call, kind, check, words in (("build", "problem", "device", "Stub Frail (Stub Sick) fails"),
                                     ("platforms", "problem", "icd", STUB)):
        found = koine("doctor", "--json", "--timeout", "3", environment={"STUB_HANG": call, **environment})
        needs(findings_of(found), kind, check, words, "it did not answer within 3 s")


@case
def a_home_that_cannot_be_written(folder):
    file = write(folder, "file", "")
    found = koine("doctor", "--json", environment={"HOME": file, "XDG_CACHE_HOME": "", "POCL_CACHE_DIR": folder})
    needs(findings_of(found), "hint", "cache", f"{file}/.cache/koine", "--kernel-cache", fix="export XDG_CACHE_HOME=")
    for environment in ({"HOME": folder}, {"HOME": file, "XDG_CACHE_HOME": folder}):
        found = findings_of(koine("doctor", "--json", environment={"XDG_CACHE_HOME": "", "POCL_CACHE_DIR": folder, **environment}))
        needs(found, "ok", "cache", folder)
    if not any("Portable" in device["platform"] for device in koine("devices", "--json").objects()):
        raise Skipped("PoCL is not installed")
    for name in ("HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR"):
        others = {"XDG_CACHE_HOME": "", "POCL_CACHE_DIR": None}
        found = findings_of(koine("doctor", "--json", environment={**others, name: file + "/x"}))
        needs(found, "problem", "cache", "PoCL", file, "POCL_CACHE_DIR", fix="export POCL_CACHE_DIR=")
        shown = [one["fix"] for one in found if one["check"] == "platform" and "PoCL shows none" in one["what"]]
        expect(shown == [None], f"found {found}")


@case
def kernels_that_were_refused(folder):
    write(folder, "stub.icd", STUB + "\n")
    version = koine("--version").out.split()[1]
    place(folder, "koine/devices/0123456789abcdef.txt", "\n".join([
        "koine verdicts 1", "Vendor | OpenCL 3.0 platform | Some GPU | driver 7", "matmul_gflops 19.3",
        f"refused/matmul/tiled/plain/{version}/4/00ff/0001 0", f"refused/matmul/tiled/plain/{version}/4/00ff/0002 0",
        f"refused/softmax/tree/plain/{version}/4/00ff/0003 812.25", f"refused/conv2d/implicit/plain/{version}/4/00ff/0004 1",
        f"refused/conv2d/depthwise/implicit/{version}/4/00ff/0005 0",
        "refused/attention/tiled/plain/0.0.0/4/00ff/0006 0", "refused/cut off", ""]))
    found = with_vendors(folder, ("XDG_CACHE_HOME", folder), status=1)
    told = [one["what"] for one in found if one["check"] == "kernel"]
    expect(len(told) == 3, f"found {told}")
    needs(found, "hint", "kernel", "matmul takes its kernel 'plain' on Some GPU", "slow", "'tiled' gave a wrong result there")
    needs(found, "hint", "kernel", "softmax takes its kernel 'plain' on Some GPU", "'tree' did not build or run")
    needs(found, "hint", "kernel", "conv2d takes its kernel 'implicit' on Some GPU: 'depthwise' gave a wrong result")


@case
def this_machine(folder):
    found = findings_of(koine("doctor", "--json"))
    needs(found, "ok", "loader", "libOpenCL")
    devices = koine("devices", "--json").objects()
    tried = [one for one in found if one["check"] in ("device", "compiler") and "compile" in one["what"]]
    expect(len(tried) >= sum(device["usable"] for device in devices), f"of {devices} tried {tried}")


@case
def mistakes(folder):
    koine("doctor", "now").needs(2, out="", err="unexpected argument")
    koine("doctor", "--device", "0").needs(2, out="", err="doctor has no option --device")


run_cases()
