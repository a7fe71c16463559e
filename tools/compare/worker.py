"""Common parts of the workers: a process for one peer and one row, which runs steps on request.

Lines on standard input are seconds; for each comes one JSON object on standard output. Between them the
process waits and takes no time from the others.
"""

import json
import os
import resource
import statistics
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


def serve(stream, step, base, first):
    """Runs `step` for the seconds that each line says, at least three times."""
    tell(stream, ready=True, base_bytes=base, first_s=first)
    for line in sys.stdin:
        seconds, times = float(line), []
        end = time.perf_counter() + seconds
        while (time.perf_counter() < end or len(times) < 3) and len(times) < MAX_STEPS:
            before = time.perf_counter()
            step()
            times.append(time.perf_counter() - before)
        tell(
            stream,
            median_ms=1e3 * statistics.median(times),
            best_ms=1e3 * min(times),
            n=len(times),
            base_bytes=base,
            peak_bytes=memory("VmHWM"),
        )


def warm_up(step):
    """Seconds of the first step; three more follow."""
    before = time.perf_counter()
    step()
    first = time.perf_counter() - before
    for _ in range(3):
        step()
    return first
