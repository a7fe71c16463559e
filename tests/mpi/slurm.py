"""srun koine train, by a Slurm that runs only on this machine: created in a temporary folder and stopped by the test.

usage: slurm.py HOUSE_TESTS TOOLS_TESTS KOINE LIBRARY_FOLDER

Skipped where Slurm or munge is not installed (slurm-wlm on Debian and Ubuntu), or this is not root.
"""
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HOUSE, TOOLS, PROGRAM, LIBRARIES = (os.path.abspath(word) for word in sys.argv[1:5])
sys.argv[1:] = [PROGRAM, HOUSE]
sys.path.insert(0, TOOLS)

from koine import ENVIRONMENT, KOINE, Skipped, bytes_of, case, expect, problem, run_cases, train  # noqa: E402

DAEMONS = ("munged", "slurmctld", "slurmd")
HOW = ("--batch", "32", "--optimizer", "adam", "--shards", "4", "--overwrite")
CONFIGURATION = """
ClusterName=koine
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={other}
AuthInfo=socket={folder}/socket/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={units} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


class Slurm:
    """The daemons, and the environment in which srun finds them."""

    def __init__(self):
        self.folder, self.daemons = tempfile.mkdtemp(prefix="koine-slurm-"), []

    def port(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    def daemon(self, *words, **more):
        self.daemons.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more))

    def begin(self):
        missing = [name for name in (*DAEMONS, "srun") if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")]
        if missing:
            raise Skipped(f"{missing[0]} is not installed: slurm-wlm and munge on Debian and Ubuntu")
        if os.getuid() != 0:
            raise Skipped("Slurm's daemons want to be started by root")
        try:
            owner = pwd.getpwnam("munge")
        except KeyError:
            raise Skipped("there is no user munge") from None
        os.chmod(self.folder, 0o711)
        for name in ("state", "spool", "socket", "munge"):
            os.mkdir(os.path.join(self.folder, name), 0o755)
        key = os.path.join(self.folder, "munge/key")
        with open(key, "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(key, 0o400)
        os.chmod(os.path.dirname(key), 0o700)
        for path in (key, os.path.dirname(key), os.path.join(self.folder, "socket")):
            os.chown(path, owner.pw_uid, owner.pw_gid)
        path = os.path.join(self.folder, "slurm.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(host=socket.gethostname().split(".")[0], folder=self.folder, port=self.port(),
                                            other=self.port(), units=os.cpu_count()))
        self.environment = dict(ENVIRONMENT, SLURM_CONF=path, LD_LIBRARY_PATH=LIBRARIES, PATH="/usr/sbin:/usr/bin:/sbin:/bin")
        munge = os.path.join(self.folder, "munge")
        self.daemon("munged", "--foreground", f"--socket={self.folder}/socket/munge", f"--key-file={munge}/key",
                    f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed", user=owner.pw_uid,
                    group=owner.pw_gid)
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D")
        end = time.monotonic() + 30
        while self.call("sinfo", "-h", "-o", "%t").stdout.strip() != "idle":
            expect(time.monotonic() < end, f"Slurm is not ready; its logs are in {self.folder}")
            time.sleep(0.2)

    def call(self, *words, folder=None, seconds=300):
        return subprocess.run(words, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds)

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


slurm = Slurm()


def there():
    if not slurm.daemons:
        slurm.begin()
    if "pmix" not in slurm.call("srun", "--mpi=list").stdout + slurm.call("srun", "--mpi=list").stderr:
        raise Skipped("this Slurm knows no PMIx, by which Open MPI's processes find one another")


@case
def tasks_of_srun_are_the_ranks(folder):
    there()
    train(folder, *HOW, "--epochs", "2", "--save", "one")
    done = slurm.call("srun", "-n", "2", KOINE, "train", *problem(folder), *HOW, "--epochs", "2", "--save", "two", folder=folder)
    expect(done.returncode == 0 and done.stdout.count("done after") == 1, f"{done}")
    expect("on 2 processes, each batch cut into 4 shards" in done.stderr, f"{done}")
    expect(bytes_of(os.path.join(folder, "one")) == bytes_of(os.path.join(folder, "two")), "two tasks save different bits than one")


@case
def a_script_of_sbatch_trains_alone(folder):
    """SLURM_NTASKS is set there, too, and means nothing without srun."""
    there()
    path = os.path.join(folder, "job.sh")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\n{KOINE} train {' '.join(problem(folder))} {' '.join(HOW)} --steps 3 --save alone\n")
    done = slurm.call("sbatch", "--wait", "-n", "2", "-o", "job.out", path, folder=folder)
    text = bytes_of(os.path.join(folder, "job.out")).decode()
    expect(done.returncode == 0 and "done after 3 steps" in text and "processes" not in text, f"{done} {text}")


@case
def a_killed_task_ends_the_job(folder):
    there()
    child = subprocess.Popen(["srun", "-n", "2", KOINE, "train", *problem(folder), "--steps", "1000000", "--log", "log"],
                             cwd=folder, env=slurm.environment, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)
    path = os.path.join(folder, "log")
    while not (os.path.exists(path) and bytes_of(path).count(b"\n") > 2) and child.poll() is None:
        time.sleep(0.1)
    found = subprocess.run(["pgrep", "-f", f"^{KOINE} train .*--steps 1000000"], capture_output=True, text=True)
    tasks = [int(word) for word in found.stdout.split()]
    expect(len(tasks) == 2, f"found {tasks}; expected two tasks")
    os.kill(tasks[-1], 9)
    begin = time.monotonic()
    out, err = child.communicate(timeout=60)
    expect(child.returncode != 0 and time.monotonic() - begin < 30, f"status {child.returncode}: {out}{err}")


try:
    run_cases()
finally:
    slurm.end()
