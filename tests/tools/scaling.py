"""koine bench MODEL --scaling: what it measures and predicts.

usage: scaling.py KOINE HOUSE_TESTS [DELAYED [LIBRARY_FOLDER LAUNCHER]]
With DELAYED, delayed_workers, over slow links too, whose predictions and measurements are printed;
with the mpirun of libkoine-mpi by processes in a network namespace with a slow interface.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from koine import ENVIRONMENT, KOINE, Skipped, case, expect, koine, run_cases
from launching import MPI_VARIABLES

DELAYED, FOLDER, LAUNCHER = (sys.argv[3:] + ["", "", ""])[:3]
KEYS = ("case", "mode", "batch", "ranks", "compute_ms", "gradient_bytes", "latency_us", "message_us", "bandwidth_gb_s",
        "add_gb_s", "transfer_ms", "predicted_ms", "measured_ms", "extrapolated")
DELAYED = DELAYED and os.path.abspath(DELAYED)
PARAMETERS = 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10  # of mlp
MPI = dict(ENVIRONMENT, LD_LIBRARY_PATH=FOLDER, **MPI_VARIABLES, OMPI_MCA_btl="tcp,self")


def check(found, ranks):
    expect(list(found) == list(KEYS), f"found {list(found)}")
    expect(found["case"] == "mlp" and found["ranks"] == ranks, f"found {found}")
    expect(found["gradient_bytes"] == 4 * PARAMETERS, f"found {found}")
    for key in ("compute_ms", "latency_us", "bandwidth_gb_s", "add_gb_s", "measured_ms"):
        expect(found[key] > 0, f"{key} is {found[key]}")
    rows = found["extrapolated"]
    expect([row["ranks"] for row in rows] == [2**n for n in range(1, 11)], f"found {rows}")
    for row in rows:
        expect(all(row[way] >= found["compute_ms"] for way in ("slices_ms", "ring_ms", "tree_ms")), f"found {row}")
    own = [row["slices_ms"] for row in rows]
    expect(own == sorted(own), f"more workers are predicted to be faster: {own}")
    expect(ranks != 2 or abs(found["predicted_ms"] - own[0]) <= 1e-4 * own[0], f"found {found}")


@case
def what_it_prints(_):
    found, = koine("bench", "mlp", "--scaling", "--batch", "8", "--seconds", "0.1", "--json").needs(0).objects()
    check(found, 2)
    text = koine("bench", "mlp", "--scaling", "--batch", "8", "--seconds", "0.1", "--workers", "4").needs(0).out
    for part in ("8 for each of 4 workers", "latency", "bandwidth", "predicted", "slices (Koine)", "\n   1024 "):
        expect(part in text, f"expected '{part}' in {text}")


@case
def mistakes(_):
    for words, complaint in (
            (("mlp", "--workers", "2"), "--workers applies to --scaling"),
            (("mlp", "lenet", "--scaling"), "one model at a time"),
            (("mlp", "--scaling", "--mode", "infer"), "--scaling and --mode infer exclude"),
            (("mlp", "--scaling", "--profile"), "--scaling and --profile exclude"),
            (("mlp", "--scaling", "--workers", "3"), "expected a power of two from 2 to 64")):
        koine("bench", *words).needs(2, out="", err=complaint)


def tell(what, found):
    apart = found["measured_ms"] / found["predicted_ms"] - 1
    print(f"{what}: {found['predicted_ms']:.3f} ms predicted, {found['measured_ms']:.3f} ms measured ({apart:+.1%}); alone "
          f"{found['compute_ms']:.3f} ms; {found['latency_us']:.0f} us, {found['bandwidth_gb_s']:.3f} GB/s", flush=True)


@case
def over_a_slow_link(_):
    """Delays are least times, which a busy machine only adds to."""
    if not DELAYED:
        raise Skipped("nightly, for it takes the whole machine")
    for seconds, rate in ((1e-3, 125e6), (1e-3, 1.25e9), (1e-4, 125e6)):
        found, = koine("bench", "mlp", "--scaling", "--json", "--seconds", "2", environment={
            "LD_PRELOAD": DELAYED, "DELAY_SECONDS": str(seconds), "DELAY_RATE": str(rate)}).needs(0).objects()
        check(found, 2)
        tell(f"threads, {1e6 * seconds:g} us, {1e-9 * rate:g} GB/s", found)
        expect(found["latency_us"] >= 1e6 * seconds, f"a latency below what was planted: {found}")
        expect(found["bandwidth_gb_s"] <= 1.01e-9 * rate * (1 + 4e6 * seconds), f"more than the planted rate: {found}")
        expect(found["measured_ms"] >= 1e3 * 2 * (seconds + 2 * PARAMETERS / rate), f"faster than the link: {found}")


@case
def in_a_network_namespace(_):
    """Processes whose only way to one another is a shaped interface; netem adds the latency, where the kernel has it."""
    if not LAUNCHER or "openmpi" not in os.path.realpath(LAUNCHER) + LAUNCHER:
        raise Skipped("nightly with Open MPI, whose messages can be led over TCP")
    ip, tc = shutil.which("ip"), shutil.which("tc")
    name = f"koine-{os.getpid()}"
    if not ip or not tc or subprocess.run([ip, "netns", "add", name], capture_output=True, check=False).returncode:
        raise Skipped("network namespaces are not allowed here")
    inside, sockets = [ip, "netns", "exec", name], tempfile.mkdtemp(prefix="koine-mpi-")
    try:
        subprocess.run([*inside, ip, "link", "set", "lo", "up"], check=True)
        shapes = (["netem", "delay", "1ms", "rate", "1gbit"], ["tbf", "rate", "1gbit", "burst", "128k", "latency", "400ms"])
        shape = next((one for one in shapes if not subprocess.run(
            [*inside, tc, "qdisc", "add", "dev", "lo", "root", *one], capture_output=True, check=False).returncode), None)
        if not shape:
            raise Skipped("this kernel has neither netem nor tbf")
        done = subprocess.run([*inside, LAUNCHER, "-n", "2", KOINE, "bench", "mlp", "--scaling", "--json", "--seconds", "2"],
                              env=dict(MPI, TMPDIR=sockets), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=200)
        expect(done.returncode == 0, f"status {done.returncode}: {done.stdout}{done.stderr}")
        found = json.loads(done.stdout)
        check(found, 2)
        tell(f"processes, {' '.join(shape)}", found)
    finally:
        subprocess.run([ip, "netns", "del", name], check=False)
        shutil.rmtree(sockets, ignore_errors=True)


run_cases()
