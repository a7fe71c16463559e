"""Workers that are processes of MPI, started by its mpirun.

usage: mpi.py HOUSE_FOLDER LAUNCHER TEST_MPI TEST_MPI_WORKERS [TEST_RANKS LIBRARY_FOLDER]
LAUNCHER: mpirun of the MPI that the programs were built with; "" if it is not there
"""
import functools
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
from launching import MPI_VARIABLES, need  # noqa: E402
from report import Skipped, run  # noqa: E402

LAUNCHER, PROGRAM, WORKERS, (TEST_RANKS, FOLDER) = *sys.argv[2:5], sys.argv[5:] or ("", "")
ENVIRONMENT = {**os.environ, **MPI_VARIABLES}


def start(ranks, *words, **more):
    need(LAUNCHER)
    with tempfile.TemporaryDirectory(prefix="koine-mpi-") as folder:  # Open MPI keeps sockets there, whose paths are short
        return subprocess.run([LAUNCHER, "-n", str(ranks), *words], env=dict(ENVIRONMENT, TMPDIR=folder, **more), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)


def good(ranks, what):
    done = start(ranks, PROGRAM, what)
    return [] if done.returncode == 0 else [f"status {done.returncode}", *done.stdout.splitlines()[:20]]


def counted(ranks):
    """All are ranks of one group. mpirun may print warnings first."""
    done = start(ranks, PROGRAM, "")
    return [] if f"{ranks} ranks" in done.stdout.splitlines() else done.stdout.splitlines()[:20]


def said(ranks, what):
    """The processes end without finalizing MPI, which mpirun may report as a failure."""
    done = start(ranks, PROGRAM, what)
    return [] if "it said so" in done.stdout and ", line" not in done.stdout else done.stdout.splitlines()[:20]


def workers_counted(ranks, level):
    """Process p has 1 + p % 3 workers."""
    done = start(ranks, WORKERS, level)
    workers = sum(1 + process % 3 for process in range(ranks))
    return [] if done.returncode == 0 and f"{workers} workers" in done.stdout else [f"status {done.returncode}",
                                                                                    *done.stdout.splitlines()[:20]]


def workers_refused():
    done = start(2, WORKERS, "funneled")
    return [] if done.returncode != 0 and "start one process per worker" in done.stdout else done.stdout.splitlines()[:20]


def all_end(program):
    done = start(4, program, "end")
    return [] if done.returncode != 0 and "still here" not in done.stdout else [f"status {done.returncode}: {done.stdout}"]


def command_opens():
    done = start(3, TEST_RANKS, "open", LD_LIBRARY_PATH=FOLDER)
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
    return [] if lines == [f"rank {rank} of 3: 6" for rank in range(3)] else done.stdout.splitlines()[:20]


def command_says(path, part, **more):
    """Without mpirun."""
    done = subprocess.run([TEST_RANKS, "open"], env=dict(ENVIRONMENT, LD_LIBRARY_PATH=path, **more), capture_output=True,
                          text=True, timeout=100)
    return [] if done.returncode == 1 and part in done.stdout else [f"{done!r}"]


CASES = [(f"{word}, {ranks} ranks", functools.partial(work, ranks, *what))
         for ranks in (1, 2, 3, 4) for word, work, *what in (
             ("all are there", counted), ("sums and gathers", good, "collect"), ("messages", good, "exchange"))]
CASES += [("opened and closed", functools.partial(good, 2, "life")),
          ("opened in a program that uses MPI", functools.partial(good, 2, "life-within")),
          ("more bytes than expected", functools.partial(said, 2, "more")),
          ("fewer bytes than expected", functools.partial(said, 2, "fewer")),
          ("a message to a rank that is not there", functools.partial(said, 2, "missing")),
          ("one rank ends all", functools.partial(all_end, PROGRAM)),
          ("one worker ends all", functools.partial(all_end, WORKERS)),
          ("a group of only first threads is refused", workers_refused),
          ("a message to a worker that is not there", functools.partial(workers_counted, 1, "missing"))]
CASES += [(f"several workers a process, {ranks} processes, {level}", functools.partial(workers_counted, ranks, level))
          for ranks in (1, 2, 3) for level in ("multiple", "serialized")]
if TEST_RANKS:
    CASES += [("the command opens it", command_opens),
              ("the command says what is missing", functools.partial(command_says, "", "-Dmpi=enabled")),
              ("another mpirun is noticed", functools.partial(
                  command_says, FOLDER, "PMI_SIZE is 5 and MPI counts 1 processes", PMI_SIZE="5"))]
run(CASES)
