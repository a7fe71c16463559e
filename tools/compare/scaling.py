"""How training scales from one process to two on this machine: Koine by MPI, PyTorch by DistributedDataParallel over gloo.

usage: scaling.py [--koine KOINE] [--mpirun MPIRUN] [--cases mlp,gpt:8,resnet18c] [--processes N] [--rounds N] [--seconds S]
                  [--json FILE]

Each process has one thread on a separate processor, and as many samples a step however many processes there are. The
scaling is the throughput of N processes in parts of N times that of one: 100% is perfect. In each round all four runs go one
after the other, and ratios are made within the round; the table has medians over the rounds, as Markdown on the standard
output.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import cases
import peers

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = ("koine1", "koineN", "ddp1", "ddpN")
PATIENCE = 1800


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--koine", default="")
    parser.add_argument("--mpirun", default="", help="mpirun of libkoine-mpi's MPI (mpirun.openmpi, or mpirun)")
    parser.add_argument("--cases", default="resnet18c,gpt,mlp:128")
    parser.add_argument("--processes", type=int, default=2, help="a power of two (2)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="measuring time per run")
    parser.add_argument("--json", default="", help="file for the measurements")
    return parser.parse_args()


def processors_of(count):
    """One for each process: cores first, where the machine says which processors share one."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < count:
        raise cases.Mistake(f"--processes: {count} need as many processors; this machine gives {len(allowed)}")
    cores = {}
    for one in allowed:
        try:
            path = f"/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list"
            with open(path, encoding="ascii") as file:
                cores.setdefault(file.read(), one)
        except OSError:
            cores[one] = one
    chosen = sorted(cores.values())
    return (chosen + [one for one in allowed if one not in chosen])[:count]


class Runner:
    def __init__(self, options):
        self.options = options
        self.koine = peers.find_koine(options.koine)
        self.mpirun = options.mpirun or shutil.which("mpirun.openmpi") or shutil.which("mpirun")
        if not self.mpirun:
            raise cases.Mistake("--mpirun: there is none; openmpi-bin on Debian and Ubuntu")
        if not (peers.has("torch") and peers.has("numpy")):
            raise cases.Mistake(peers.missing("torch"))
        self.processors = processors_of(options.processes)
        library = os.path.join(os.path.dirname(os.path.dirname(self.koine)), "src", "mpi")
        paths = [path for path in (library, os.environ.get("LD_LIBRARY_PATH")) if path]
        self.environment = dict(
            peers.Limits(1).environment(),
            LD_LIBRARY_PATH=os.pathsep.join(paths),
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_hwloc_base_binding_policy="none",  # the processors are chosen here
            PRTE_MCA_hwloc_default_binding_policy="none",
        )

    def run(self, words, **more):
        done = subprocess.run(
            words,
            env=dict(self.environment, **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=HERE,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            raise peers.Failed(f"{' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}"[:2000])
        return json.loads(lines[-1])

    def bench(self, row, *more):
        return [self.koine, "bench", row.case, "--batch", str(row.batch), "--seconds", f"{self.options.seconds:g}", "--json", *more]

    def koine1(self, row):
        return self.run(["taskset", "-c", str(self.processors[0]), *self.bench(row)])["median_ms"]

    def koineN(self, row):
        """Each process takes the processor of its rank."""
        place = 'set -- "$@"; n=$((${OMPI_COMM_WORLD_LOCAL_RANK:-${PMI_RANK:-0}} + 1)); exec taskset -c "$(echo $PLACES | cut -d" " -f$n)" "$@"'
        places = " ".join(str(one) for one in self.processors)
        with tempfile.TemporaryDirectory(prefix="koine-mpi-") as sockets:  # their paths must be short
            words = [self.mpirun, "-n", str(self.options.processes), "sh", "-c", place, "sh", *self.bench(row, "--scaling")]
            return self.run(words, TMPDIR=sockets, PLACES=places)["measured_ms"]

    def torch(self, row, count):
        places = ",".join(str(one) for one in self.processors)
        words = [sys.executable, os.path.join(HERE, "parallel_worker.py"), row.case, str(row.batch)]
        return self.run([*words, f"{self.options.seconds:g}", str(count), places])["median_ms"]

    def ddp1(self, row):
        return self.torch(row, 1)

    def ddpN(self, row):
        return self.torch(row, self.options.processes)


def table(rows, found, processes):
    """Markdown; found: {row: [{run: milliseconds}]}"""
    lines = [
        f"| network, samples a process | Koine, 1 process | {processes} | scaling | PyTorch, 1 process | {processes}, DDP with gloo | scaling |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        rounds = found[row]
        if not rounds:
            continue
        ms = {run: statistics.median(one[run] for one in rounds) for run in RUNS}
        scaling = {
            peer: statistics.median(one[peer + "1"] / one[peer + "N"] for one in rounds) for peer in ("koine", "ddp")
        }
        lines.append(
            f"| `{row.case}`, {row.batch} | {ms['koine1']:.1f} ms | {ms['koineN']:.1f} ms | {scaling['koine']:.0%} | "
            f"{ms['ddp1']:.1f} ms | {ms['ddpN']:.1f} ms | {scaling['ddp']:.0%} |"
        )
    return "\n".join(lines)


def main():
    options = arguments()
    try:
        if options.processes < 2 or options.processes & (options.processes - 1):
            raise cases.Mistake(f"--processes: found {options.processes}, expected a power of two from 2")
        if options.rounds < 1 or not options.seconds >= 0:
            raise cases.Mistake("--rounds and --seconds: expected at least 1, and at least 0")
        rows = cases.rows(options.cases.split(","), ["train"])
        runner = Runner(options)
    except cases.Mistake as mistake:
        print(f"scaling.py: {mistake}", file=sys.stderr)
        return 2
    found, failed = {row: [] for row in rows}, set()
    for number in range(options.rounds):
        for row in rows:
            if row in failed:
                continue
            try:
                times = {run: getattr(runner, run)(row) for run in RUNS}
            except (peers.Failed, subprocess.TimeoutExpired) as reason:
                print(f"scaling.py: {row.case} is skipped: {reason}", file=sys.stderr)
                failed.add(row)
                continue
            found[row].append(times)
            told = ", ".join(f"{run} {one:.1f} ms" for run, one in times.items())
            print(f"round {number + 1} of {options.rounds}, {row.case}: {told}", file=sys.stderr, flush=True)
    print(table(rows, found, options.processes))
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump([{"case": row.case, "batch": row.batch, "rounds": found[row]} for row in rows], file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
