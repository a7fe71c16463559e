"""The golden trajectories by two and by four processes of MPI: the same bits as one.

usage: golden_ranks.py HOUSE_FOLDER LAUNCHER TEST_GOLDEN_RANKS GOLDEN_FOLDER NAME...
LAUNCHER: mpirun of the MPI that the program was built with; "" if it is not there
"""
import functools
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
from launching import MPI_VARIABLES, need  # noqa: E402
from report import Skipped, run  # noqa: E402

LAUNCHER, PROGRAM, FOLDER = sys.argv[2:5]
ENVIRONMENT = {**os.environ, **MPI_VARIABLES}


def trajectory(ranks, name):
    need(LAUNCHER)
    with tempfile.TemporaryDirectory(prefix="koine-mpi-") as folder:  # Open MPI keeps sockets there, whose paths are short
        done = subprocess.run([LAUNCHER, "-n", str(ranks), PROGRAM, FOLDER, name], env=dict(ENVIRONMENT, TMPDIR=folder),
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=280)
    if done.returncode == 77:
        raise Skipped("there is no device")
    good = done.returncode == 0 and f"{ranks} ranks find the same bits" in done.stdout
    return [] if good else [f"status {done.returncode}", *done.stdout.splitlines()[:20]]


run([(f"{name}, {ranks} ranks", functools.partial(trajectory, ranks, name)) for name in sys.argv[5:] for ranks in (2, 4)])
