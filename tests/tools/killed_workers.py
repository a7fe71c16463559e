"""koine train by several workers, of which one fails at a launch or a message: a non-zero status within 30 seconds, a message
with rank, host and reason, and a training that goes on to the same bits.

usage: killed_workers.py KOINE HOUSE_TESTS TIMES PRELOADED [LIBRARY_FOLDER LAUNCHER]
TIMES: how often among processes, and how often among devices; PRELOADED: failing_workers; LIBRARY_FOLDER has
libkoine-mpi; LAUNCHER: mpirun of the MPI that it was built with. KOINE_TEST_SEED draws workers and places; from 20 times on, it
is random unless given.
"""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from koine import ENVIRONMENT, KOINE, bytes_of, case, chosen_device, expect, problem, run_cases
from launching import MPI_VARIABLES, by_rank, need

TIMES, PRELOADED = int(sys.argv[3]), os.path.abspath(sys.argv[4])
FOLDER, LAUNCHER = sys.argv[5:] or ("", "")
SEED = int(os.environ.get("KOINE_TEST_SEED") or (random.SystemRandom().randrange(10**6) if TIMES >= 20 else 1))
RANKS, STEPS, MAX_SECONDS = 3, 150, 30
MPI = dict(ENVIRONMENT, LD_LIBRARY_PATH=FOLDER, **MPI_VARIABLES)
DEVICE = str(chosen_device()["index"])
DEVICES = ("--devices", ",".join([DEVICE] * RANKS))
HOW = ("--batch", "16", "--validation", "0.2", "--optimizer", "adam", "--shards", "4", "--schedule", "constant", "--steps",
       str(STEPS), "--checkpoints", "kept", "--checkpoint-every", "4", "--log", "log", "--save", "end", "--resume", "auto",
       "--timeout", "8", "--overwrite")
# Most die at once, some stand still. (Drivers catch others, such as SIGSEGV, and return from them.)
SIGNALS = ("launch-kills", "launch-kills", "launch-stops")


def words_of(folder, *more):
    return [KOINE, "train", *problem(folder), *HOW, *more]


def whole(folder):
    """The bits of a training that nothing has hit, by one worker."""
    path = os.path.join(folder, "whole")
    os.mkdir(path)
    done = subprocess.run(words_of(path), cwd=path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0, f"{done}")
    return bytes_of(os.path.join(path, "end"))


def started(folder, words, environment):
    return subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def ended(child, begin, what):
    """What it said on stderr; complains of a hang, whose processes are ended."""
    try:
        err = child.communicate(timeout=max(0.1, MAX_SECONDS - (time.monotonic() - begin)))[1]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        err = child.communicate()[1]
        expect(False, f"{what}: it still ran after {MAX_SECONDS} s: {err}")
    return err


def goes_on(folder, words, environment, wanted, what):
    """The same command, in peace, ends with the bits of the whole training."""
    done = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)
    expect(done.returncode == 0, f"{what}: going on: status {done.returncode}: {done.stderr}")
    expect(bytes_of(os.path.join(folder, "end")) == wanted, f"{what}: the resumed run differs from the uninterrupted run")


def say(text):
    print(text, flush=True)


# ---- processes


def fault_of(kind, worker, at):
    return ["env", f"LD_PRELOAD={PRELOADED}", f"FAULT={kind}", f"FAULT_WORKER={worker}", f"FAULT_AT={at}"]


def kill_one(folder, moments, wanted, number):
    there = os.path.join(folder, str(number))
    os.mkdir(there)
    rank, kind, at = moments.randrange(RANKS), moments.choice(SIGNALS), moments.randrange(20, 1000)
    stops = kind == "launch-stops"
    what = f"kill {number} with the seed {SEED}: {kind} in rank {rank}, number {at}"
    sockets = tempfile.mkdtemp(prefix="koine-mpi-")  # their paths must be short
    environment = dict(MPI, TMPDIR=sockets)
    words, begin = words_of(there), time.monotonic()
    try:
        child = started(there, [LAUNCHER, "-n", str(RANKS), *by_rank([*fault_of(kind, 0, at), *words], words, rank)], environment)
        err = ended(child, begin, what)
        told = [line for line in err.splitlines() if line.startswith("koine: rank ")]
        silent = [line for line in told if "the other ranks have not answered for 8 s" in line]
        expect(child.returncode != 0, f"{what}: status 0: {err}")
        expect(len(told) - len(silent) <= 1 and bool(silent) == stops and
               all("--resume auto" in line and socket.gethostname() in line for line in told),
               f"{what}: expected a message with rank, host, reason and how to go on, found {told} in {err}")
        if not stops:  # the launcher's message
            # A survivor has the launcher's few seconds to say it, which a busy machine may use up.
            expect(told or TIMES < 20, f"{what}: no survivor says how to go on: {err}")
            expect(re.search(rf"rank {rank} with PID \d+ on node \S+ exited on\s+signal {signal.SIGKILL.value}", err) or
                   f"KILLED BY SIGNAL: {signal.SIGKILL.value}" in err or f"EXIT CODE: {signal.SIGKILL.value}" in err,
                   f"{what}: nothing names rank and signal: {err}")
        say(f"{what}: status {child.returncode} after {time.monotonic() - begin:.1f} s")
        goes_on(there, [LAUNCHER, "-n", str(RANKS), *words], environment, wanted, what)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


@case
def a_process_is_killed(folder):
    need(LAUNCHER)
    moments, wanted = random.Random(SEED), whole(folder)
    for number in range(TIMES):
        kill_one(folder, moments, wanted, number)


# ---- devices of one process


def fail_one(folder, moments, wanted, number):
    there = os.path.join(folder, str(number))
    os.mkdir(there)
    kind, worker = moments.choice(("launch-fails", "launch-hangs", "message-fails", "message-hangs")), moments.randrange(RANKS)
    at = moments.randrange(20, 1000 if kind.startswith("launch") else 300)
    what = f"failure {number} with the seed {SEED}: {kind}, worker {worker}, number {at}"
    words = words_of(there, *DEVICES)
    begin = time.monotonic()
    child = started(there, [*fault_of(kind, worker, at), *words], ENVIRONMENT)
    err = ended(child, begin, what)
    told = [line for line in err.splitlines() if line.startswith("koine: rank ")]
    expect(child.returncode == 1 and len(told) == 1 and "--resume auto" in told[0] and socket.gethostname() in told[0],
           f"{what}: status {child.returncode}: expected one message with rank, host and how to go on, found {told} in {err}")
    expect(told[0].startswith(f"koine: rank {worker} on "), f"{what}: another one is blamed: {told[0]}")
    reason = {"launch-fails": "CL_OUT_OF_RESOURCES", "message-fails": "a planted failure of a message"}.get(
        kind, "has not answered for 8 s")
    expect(reason in told[0], f"{what}: expected '{reason}' in {told[0]}")
    say(f"{what}: {told[0]}")
    goes_on(there, words, ENVIRONMENT, wanted, what)


@case
def a_device_fails(folder):
    moments, wanted = random.Random(SEED), whole(folder)
    for number in range(TIMES):
        fail_one(folder, moments, wanted, number)


# ---- devices of several processes


def fail_among(folder, moments, wanted, number):
    """The second device of the second process."""
    there = os.path.join(folder, str(number))
    os.mkdir(there)
    kind, at = moments.choice(("launch-fails", "launch-hangs")), moments.randrange(20, 1000)
    what = f"failure {number} with the seed {SEED}: {kind} in rank 3, number {at}"
    words = words_of(there, "--devices", ",".join([DEVICE] * 4))
    sockets = tempfile.mkdtemp(prefix="koine-mpi-")
    environment = dict(MPI, TMPDIR=sockets)
    begin = time.monotonic()
    try:
        child = started(there, [LAUNCHER, "-n", "2", *by_rank(words, [*fault_of(kind, 1, at), *words])], environment)
        err = ended(child, begin, what)
        # The other process may say that it waits before the launcher ends it.
        told = [line for line in err.splitlines() if line.startswith("koine: rank ") and "request to end" not in line and
                "the other ranks have not answered" not in line]
        reason = "CL_OUT_OF_RESOURCES" if kind == "launch-fails" else "has not answered for 8 s"
        expect(child.returncode != 0 and len(told) == 1 and "--resume auto" in told[0] and reason in told[0] and
               told[0].startswith(f"koine: rank 3 on {socket.gethostname()}, "),
               f"{what}: status {child.returncode}: expected one message with rank, host, device and reason, found {err}")
        say(f"{what}: {told[0]}")
        goes_on(there, [LAUNCHER, "-n", "2", *words], environment, wanted, what)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


@case
def a_device_of_a_process_fails(folder):
    need(LAUNCHER)
    moments, wanted = random.Random(SEED), whole(folder)
    for number in range(TIMES if TIMES < 20 else 5):
        fail_among(folder, moments, wanted, number)


say(f"the seed is {SEED}")
run_cases()
