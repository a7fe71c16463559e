"""The machine's peak, probed with every measurement: multiply-adds and reading memory."""

import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Probe:
    """Returns {"gflops", "gbytes"}, or None without a C compiler."""

    def __init__(self, folder, limits):
        compiler = next(
            (found for found in map(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang")) if found), None
        )
        self.program, self.limits = None, limits
        program = os.path.join(folder, "probe")
        command = [
            compiler,
            "-O3",
            "-march=native",
            "-ffp-contract=fast",
            "-pthread",
            os.path.join(HERE, "probe.c"),
            "-o",
            program,
        ]
        if compiler and subprocess.run(command, capture_output=True).returncode == 0:
            self.program = program

    def run(self):
        if not self.program:
            return None
        done = subprocess.run([self.program, str(self.limits.threads)], capture_output=True, text=True)
        words = done.stdout.split()
        return {"gflops": float(words[0]), "gbytes": float(words[1])} if len(words) == 2 else None


def between(before, after):
    """The peak available to a measurement between two probes."""
    known = [probe for probe in (before, after) if probe]
    return {key: sum(probe[key] for probe in known) / len(known) for key in known[0]} if known else None
