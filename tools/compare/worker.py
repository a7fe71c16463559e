"""Common parts of the workers, processes that run steps of one program on request.

For each line on standard input comes one JSON object on standard output. Between them the process waits and
takes no time from the others. The lines for `serve` are seconds, those from `Program` JSON.
"""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time

MAX_STEPS = 100000


def memory(field):
    """Bytes of this process: "VmRSS" now, "VmHWM" the most so far."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def own_output():
    """Reserves standard output for JSON: what libraries print goes to standard error."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def tell(stream, **fields):
    stream.write(json.dumps(fields) + "\n")
    stream.flush()


def measured(run, seconds, fewest):
    """Calls `run` for some seconds, at least `fewest` times. The processor time is that of all threads, per call."""
    times, before = [], resource.getrusage(resource.RUSAGE_SELF)
    end = time.perf_counter() + seconds
    while (time.perf_counter() < end or len(times) < fewest) and len(times) < MAX_STEPS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "median_ms": 1e3 * statistics.median(times),
        "best_ms": 1e3 * min(times),
        "cpu_ms": 1e3 * spent / len(times),
        "n": len(times),
    }


def serve(stream, step, base, first):
    """Runs `step` for the seconds that each line says, at least three times."""
    tell(stream, ready=True, base_bytes=base, first_s=first)
    for line in sys.stdin:
        tell(stream, **measured(step, float(line), 3), base_bytes=base, peak_bytes=memory("VmHWM"))


def warm_up(step):
    """Seconds of the first step; three more follow."""
    before = time.perf_counter()
    step()
    first = time.perf_counter() - before
    for _ in range(3):
        step()
    return first


class Program:
    """The process of a Python script that answers each line of JSON, a measurement, with another."""

    def __init__(self, script, words, threads, **more):
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT")
        environment = {**os.environ, **dict.fromkeys(names, str(threads)), **more}
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(script), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def measure(self, case):
        """The answer, or a problem if there is none."""
        try:
            tell(self.process.stdin, **case)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"problem": "the process ended; its message is above"}

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self.process.stdin.close()
        self.process.wait()
