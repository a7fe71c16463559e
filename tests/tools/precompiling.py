"""Precompiling: a second process that compiles from the end of the list; its only effect is the cache.

usage: precompiling.py KOINE HOUSE_TESTS [FAULTY_DRIVER]
"""
import collections
import os
import signal
import subprocess
import sys
import time

from koine import ENVIRONMENT, KOINE, TINY, Skipped, case, expect, koine, problem, run_cases, train, write

FAULTY = [os.path.abspath(path) for path in sys.argv[3:4]]

TOLD = "other process compiles the same kernels"
FAILED = "a process that compiled kernels failed"


def many_processors():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("this machine has one processor")


@case
def a_training_writes_nothing(folder):
    problem(folder)
    before = sorted(os.listdir(folder))
    koine("precompile", "train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--steps", "2", "--save", "saved.safetensors",
          "--log", "log.jsonl", "--checkpoints", "kept", "--trace", "trace.json",
          "--report", "page.html", "--tensorboard", "events", folder=folder).needs(0, out="")
    expect(sorted(os.listdir(folder)) == before, f"found {os.listdir(folder)}")


@case
def a_benchmark_measures_nothing(folder):
    write(folder, "tiny.koine", TINY)
    for mode in ("train", "infer"):
        koine("precompile", "bench", "tiny.koine", "--mode", mode, "--batch", "8", "--dump", "dump.safetensors",
              "--trace", "trace.json",
              folder=folder).needs(0, out="", err="")
    expect(os.listdir(folder) == ["tiny.koine"], f"found {os.listdir(folder)}")


@case
def what_must_be_compiled_begins_one(folder):
    many_processors()
    write(folder, "tiny.koine", TINY)
    bench = ("bench", "tiny.koine", "--mode", "train", "--batch", "8", "--seconds", "0", "--verbose")
    kept = ("--kernel-cache", os.path.join(folder, "cache"))
    first = koine(*bench, *kept, folder=folder).needs(0, err=TOLD)
    expect(FAILED not in first.err, f"{first}")
    again = koine(*bench, *kept, folder=folder).needs(0)
    expect(TOLD not in again.err, f"all is known, and yet: {again}")
    apart = koine(*bench, "--no-cache", folder=folder).needs(0)
    expect(TOLD not in apart.err, f"nothing is kept, and yet: {apart}")


@case
def a_training_is_the_same_beside_one(folder):
    many_processors()
    losses = []
    for _ in range(2):
        done = train(folder, "--steps", "3", "--verbose", "--kernel-cache", os.path.join(folder, "cache"), "--log",
                     "log.jsonl")
        expect((TOLD in done.err) == (not losses), f"the run {len(losses)}: {done}")
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
            losses.append([line.split('"loss"')[1].split(",")[0] for line in file if '"loss"' in line])
    expect(losses[0] and losses[0] == losses[1], f"found {losses}")


def slow_gpu(folder, seconds):
    """The environment of a GPU with a slow compiler, and a benchmark that compiles for it."""
    if not FAULTY:
        raise Skipped("the preloaded driver is not built here")
    write(folder, "tiny.koine", TINY)
    environment = {"LD_PRELOAD": FAULTY[0], "SLOW_COMPILER": str(seconds), "SLOW_COMPILER_LOG": os.path.join(folder, "log")}
    return environment, ("bench", "tiny.koine", "--kernels", "gpu", "--mode", "train", "--batch", "8", "--seconds", "0",
                         "--kernel-cache", os.path.join(folder, "cache"))


def compilations(folder):
    with open(os.path.join(folder, "log"), encoding="utf-8") as log:
        return [line.split() for line in log]


@case
def processes_share_the_kernels_of_a_gpu(folder):
    many_processors()
    environment, bench = slow_gpu(folder, 0.3)
    koine(*bench, "--verbose", folder=folder, environment=environment).needs(0, err="3 other processes compile the same kernels")
    twice = [text for text, count in collections.Counter(text for _, text in compilations(folder)).items() if count > 1]
    expect(not twice, f"{len(twice)} of {len(compilations(folder))} programs were compiled twice")
    expect(len({process for process, _ in compilations(folder)}) > 1, "one process compiled all")
    before = len(compilations(folder))
    koine(*bench, folder=folder, environment=environment).needs(0)
    expect(len(compilations(folder)) == before, f"{len(compilations(folder)) - before} programs were compiled again")


@case
def a_killed_start_is_not_lost(folder):
    environment, bench = slow_gpu(folder, 0.1)
    programs = os.path.join(folder, "cache", "programs")
    start = subprocess.Popen([KOINE, *bench], env={**ENVIRONMENT, **environment}, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, cwd=folder)

    def stored():
        return len([name for name in os.listdir(programs) if name.endswith(".bin")]) if os.path.exists(programs) else 0

    while start.poll() is None and stored() < 8:
        time.sleep(0.01)
    start.send_signal(signal.SIGKILL)
    start.wait()
    expect(stored() >= 8, f"{stored()} programs are stored")


@case
def one_that_goes_on_by_itself(folder):
    """Which checkpoint it will be is not its business: the plan is the same."""
    problem(folder)
    koine("precompile", "train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--steps", "2", "--checkpoints", "kept",
          "--resume", "auto", folder=folder).needs(0, out="")
    expect(not os.path.exists(os.path.join(folder, "kept")), "a folder was made")


@case
def memory_is_kept_to(folder):
    problem(folder)
    koine("precompile", "train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--steps", "2", "--memory", "100",
          folder=folder).needs(1)


@case
def other_commands_have_none(folder):
    koine("precompile", "convert", "a", "b", folder=folder).needs(2, err="train and bench can be precompiled")
    koine("precompile", "bench", "mlp", "lenet", folder=folder).needs(2, err="one model at a time")
    koine("precompile", "bench", "mlp", "lenet", folder=folder).needs(2, err="one model at a time")


run_cases()
