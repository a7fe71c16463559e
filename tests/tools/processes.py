"""mpirun koine train: processes of MPI on one model.

usage: processes.py KOINE HOUSE_TESTS LIBRARY_FOLDER [LAUNCHER]
LIBRARY_FOLDER has libkoine-mpi; LAUNCHER: mpirun of the MPI that it was built with
"""
import os
import signal
import subprocess
import sys
import time

from koine import (ENVIRONMENT, KOINE, bytes_of, case, children_of, chosen_device, expect, koine, problem, read_safetensors,
                   run_cases, train, wait_for_steps, write)
from launching import MPI_VARIABLES, by_rank, need

FOLDER, (LAUNCHER,) = sys.argv[3], sys.argv[4:] or ("",)
MPI = dict(ENVIRONMENT, LD_LIBRARY_PATH=FOLDER, **MPI_VARIABLES)
DEVICE = str(chosen_device()["index"])
HOW = ("--batch", "32", "--validation", "0.2", "--optimizer", "adam", "--shards", "4")


def start(folder, ranks, words):
    need(LAUNCHER)
    # MPI keeps sockets in TMPDIR, whose paths must be short. The folder of a case is short and removed with the case.
    return subprocess.Popen([LAUNCHER, "-n", str(ranks), *words], cwd=folder, env=dict(MPI, TMPDIR=folder),
                            stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)


def ranks_train(folder, ranks, *more):
    child = start(folder, ranks, [KOINE, "train", *problem(folder), *more])
    out, err = child.communicate(timeout=300)
    return child.returncode, out, err


@case
def one_file_however_many_processes(folder):
    train(folder, *HOW, "--epochs", "2", "--save", "one")
    for ranks in (2, 3):
        status, out, err = ranks_train(folder, ranks, *HOW, "--epochs", "2", "--save", f"{ranks}", "--log", "log",
                                       "--overwrite")
        expect(status == 0 and out.count("done after") == 1, f"status {status}: {out}{err}")
        expect(f"on {ranks} processes, each batch split into 4 shards" in err, f"found {err}")
        expect(bytes_of(os.path.join(folder, "one")) == bytes_of(os.path.join(folder, f"{ranks}")),
               f"{ranks} processes save different bits than one")


@case
def several_devices_in_each_process(folder):
    """The processes of a machine take the devices in turn."""
    train(folder, *HOW, "--epochs", "2", "--save", "one")
    for ranks, devices, more, told in (
            (2, 4, (), "on 2 processes with 4 devices, each batch split into 4 shards"),
            (2, 3, ("--shard-counts", "1,2,1", "--shard-optimizer"), "with 3 devices, each batch split into 4 shards, counts 1,2,1"),
            (3, 2, (), "3 processes of this machine share 2 devices")):
        status, out, err = ranks_train(folder, ranks, *HOW, "--epochs", "2", "--save", "some", "--devices",
                                       ",".join([DEVICE] * devices), *more, "--overwrite")
        expect(status == 0 and out.count("done after") == 1 and told in err, f"status {status}: {out}{err}")
        expect(bytes_of(os.path.join(folder, "one")) == bytes_of(os.path.join(folder, "some")),
               f"{ranks} processes on {devices} devices save different bits than one")
    for more, told in ((("--shard-counts", "2,2"), "--shard-counts has 2 numbers for 4 devices of 2 processes"),
                       (("--shards", "2"), "2 shards, fewer than 4 workers")):
        status, out, err = ranks_train(folder, 2, *HOW, *more, "--devices", ",".join([DEVICE] * 4))
        expect(status != 0 and told in err, f"status {status}: {out}{err}")


@case
def mpi_may_add(folder):
    more = (*HOW, "--steps", "6", "--overwrite", "--shard-optimizer")
    for sums in ("tree", "mpi"):
        status, out, err = ranks_train(folder, 2, *more, "--save", sums, "--all-reduce", sums)
        expect(status == 0 and out.count("done after") == 1, f"status {status}: {out}{err}")
    expect(len(bytes_of(os.path.join(folder, "mpi"))) == len(bytes_of(os.path.join(folder, "tree"))), "files of other sizes")


@case
def processes_make_steps_alone(folder):
    """The bits of two threads; and of a training that was interrupted."""
    more = ("--batch", "32", "--validation", "0.2", "--optimizer", "adam", "--schedule", "constant", "--sync-every", "3")
    train(folder, *more, "--steps", "8", "--devices", f"{DEVICE},{DEVICE}", "--save", "threads")
    status, out, err = ranks_train(folder, 2, *more, "--steps", "8", "--save", "processes")
    expect(status == 0 and out.count("done after 8") == 1, f"status {status}: {out}{err}")
    expect(bytes_of(os.path.join(folder, "threads")) == bytes_of(os.path.join(folder, "processes")),
           "two processes save different bits than two threads")
    for steps, before in (("3", ()), ("8", ("--resume", "part"))):
        status, out, err = ranks_train(folder, 2, *more, "--steps", steps, "--save", "part", *before)
        expect(status == 0, f"status {status}: {out}{err}")
    expect(bytes_of(os.path.join(folder, "part")) == bytes_of(os.path.join(folder, "processes")),
           "the resumed run differs from the uninterrupted run")


@case
def rounds_wait_longer_for_slow_processes(folder):
    """A process that stands still for less than --timeout times the steps of a round."""
    child = start(folder, 2, [KOINE, "train", *problem(folder), "--sync-every", "20", "--timeout", "1", "--seconds", "8",
                              "--log", "log"])
    wait_for_steps(folder, child, 3)
    found = children_of(child.pid)
    os.kill(found[1], signal.SIGSTOP)
    time.sleep(5)
    os.kill(found[1], signal.SIGCONT)
    out, err = child.communicate(timeout=60)
    expect(child.returncode == 0 and "done after" in out, f"status {child.returncode}: {out}{err}")


@case
def checkpoints_are_those_of_one(folder):
    more = (*HOW, "--schedule", "constant", "--checkpoints", "kept", "--checkpoint-every", "2")
    status, out, err = ranks_train(folder, 2, *more, "--steps", "4", "--save", "part")
    expect(status == 0, f"status {status}: {out}{err}")
    train(folder, *more, "--steps", "6", "--resume", "auto", "--save", "part", "--overwrite", err="resuming after step 4")
    train(folder, *HOW, "--schedule", "constant", "--checkpoints", "alone", "--steps", "6", "--save", "whole")
    expect(bytes_of(os.path.join(folder, "part")) == bytes_of(os.path.join(folder, "whole")),
           "one process resumes with different bits than two")


@case
def batch_norms_of_all_processes(folder):
    """The bits of two threads, with results in 32 and in 16 bits; the norms of a single process differ."""
    words = problem(folder)
    with open(os.path.join(folder, "tiny.koine"), encoding="utf-8") as file:
        text = file.read()
    write(folder, "tiny.koine", text.replace("linear 16\n", "linear 16\nbatchnorm\n"))
    how = ("train", *words, "--batch", "32", "--steps", "5", "--overwrite", "--save")
    for precision in ("float32", "bfloat16"):
        more = ("--precision", precision)
        koine(*how, "threads", "--sync-batch-norm", "--devices", f"{DEVICE},{DEVICE}", *more, folder=folder).needs(0)
        for name, synced in (("processes", ("--sync-batch-norm",)), ("separate", ())):
            child = start(folder, 2, [KOINE, *how, name, *synced, *more])
            out, err = child.communicate(timeout=300)
            expect(child.returncode == 0 and "done after 5 steps" in out, f"{precision}, {name}: {out}{err}")
        expect(bytes_of(os.path.join(folder, "processes")) == bytes_of(os.path.join(folder, "threads")),
               f"{precision}: two processes save different bits than two threads")
        synced, separate = (read_safetensors(os.path.join(folder, name)) for name in ("processes", "separate"))
        expect(any(name.endswith(".weight") and synced[name] != separate[name] for name in synced),
               f"{precision}: the norms are those of each process")


@case
def all_compute_parts_that_fit_where_memory_is_least(folder):
    words = [KOINE, "train", *problem(folder), "--batch", "90", "--steps", "4", "--optimizer", "sgd", "--overwrite"]
    little = ("--memory", "9kB")
    for name, first, second in (("none", (), ()), ("both", little, little), ("first", little, ()), ("second", (), little)):
        own = [*words, "--save", name]
        child = start(folder, 2, by_rank([*own, *first], [*own, *second]))
        out, err = child.communicate(timeout=300)
        expect(child.returncode == 0 and "done after 4 steps" in out, f"{name}: {out}{err}")
        expect(("the gradients of parts are added, of " in err) == (name != "none"), f"{name}: {err}")
    expect(bytes_of(os.path.join(folder, "none")) != bytes_of(os.path.join(folder, "both")), "9 kB suffice")
    for name in ("first", "second"):
        expect(bytes_of(os.path.join(folder, name)) == bytes_of(os.path.join(folder, "both")), f"{name} has other bits")


@case
def different_trainings_are_refused(folder):
    words = [KOINE, "train", *problem(folder), *HOW, "--steps", "3"]
    for more in (("--lr", "0.2"), ("--shard-optimizer",), ("--gradient-type", "bfloat16"), ("--all-reduce", "mpi"), ("--sync-every", "2")):
        child = start(folder, 2, by_rank(words, [*words, *more]))
        _, err = child.communicate(timeout=300)
        expect(child.returncode != 0 and "rank 1 trains something different from rank 0" in err, f"{more}: found {err}")


@case
def a_killed_process_ends_all(folder):
    child = start(folder, 2, [KOINE, "train", *problem(folder), "--steps", "1000000", "--log", "log"])
    wait_for_steps(folder, child, 3)
    found = children_of(child.pid)
    expect(len(found) == 2, f"the processes of mpirun are {found}")
    begin = time.monotonic()
    os.kill(found[1], signal.SIGKILL)
    out, err = child.communicate(timeout=60)
    expect(child.returncode != 0 and time.monotonic() - begin < 30, f"status {child.returncode}: {out}{err}")


run_cases()
