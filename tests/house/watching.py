"""tools/watch_test.py ends tests that hang, reports the progress of a test, and forwards all other output.

usage: watching.py WATCH_TEST
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from report import run

# The watcher with limits for a test; the first argument is the seconds without progress.
WATCH = f"""import runpy, sys
module = runpy.run_path({sys.argv[1]!r})
module["main"].__globals__.update(STALL_SECONDS=float(sys.argv[1]), LOOK_SECONDS=0.1)
sys.exit(module["main"](sys.argv[2:]))
"""


def watched(program, limit=60, patience="1", stall="60"):
    """A Python program under the watcher: its result, and the times that it recorded."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program]
        tests, progress, times = (os.path.join(folder, name) for name in ("tests.json", "progress", "times"))
        os.mkdir(progress)
        with open(tests, "w", encoding="utf-8") as file:
            json.dump([{"name": "other", "cmd": ["x"], "timeout": 0}, {"name": "room", "cmd": command, "timeout": limit}],
                      file)
        result = subprocess.run([sys.executable, "-c", WATCH, stall, *command], capture_output=True, text=True, env={
            **os.environ, "KOINE_TEST_LIST": tests, "KOINE_TEST_PATIENCE": patience, "KOINE_TEST_PROGRESS": progress,
            "KOINE_TEST_TIMES": times})
        with open(times, encoding="utf-8") as file:
            return result, file.read() + "".join(os.listdir(progress))


def complaints(result, status, pattern):
    found = [] if result.returncode == status else [f"status {result.returncode}, expected {status}: {result.stdout}"]
    if not re.search(pattern, result.stdout):
        found.append(f"no {pattern!r} in {result.stdout!r} {result.stderr!r}")
    return found


def the_end_is_passed_on():
    found = complaints(watched("print('[ RUN      ] a'); print('[       OK ] a')")[0], 0, r"OK \] a\n$")
    found += complaints(watched("import sys; print('bad'); sys.exit(3)")[0], 3, "bad")
    return found + complaints(watched("import os; print('x', flush=True); os.kill(os.getpid(), 11)")[0], -11, "x")


BUSY = "print('[ RUN      ] a\\n[       OK ] a\\n[ RUN      ] b', flush=True)\nwhile True: pass"


def too_much_work_is_a_timeout():
    result, _ = watched(BUSY, limit=1)
    return complaints(result, 124, r"\nTIMEOUT: room: \d+ s of processor time, of 1 s allowed; 1 cases were done, the next was b")


def patience_is_a_factor():
    result, _ = watched("import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass", 1, "60")
    return complaints(result, 0, "")


def no_work_is_a_timeout():
    result, _ = watched("import time; time.sleep(1000)", stall="1.5")
    return complaints(result, 124, "TIMEOUT: room: no processor time used for 1.5 s")


def what_hangs_is_shown():
    """Its child too: the command, and where each thread waits."""
    program = "import time; time.sleep(1001)"
    result, _ = watched(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])", stall="1.5")
    bad = complaints(result, 124, "process \\d+: .*subprocess.run")
    bad += complaints(result, 124, r"process \d+: .*-c import time; time.sleep\(1001\)\n(  thread \d+ \(\S+\) in|.*Thread)")
    return bad


def children_count_and_end():
    """The work of a child is the test's, and the child ends with it."""
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    result, _ = watched(program, limit=2)
    return complaints(result, 124, "TIMEOUT: room: [23] s of processor time")


def progress_is_reported():
    """The program reads what the watcher wrote about it."""
    result, _ = watched("""import os, time
print('[ RUN      ] a\\n[       OK ] a\\n[ RUN      ] b', flush=True)
folder, told = os.environ['KOINE_TEST_PROGRESS'], ''
while 'now b' not in told:
    time.sleep(0.05)
    told = ''.join(open(os.path.join(folder, name)).read() for name in os.listdir(folder))
print(told)""")
    return complaints(result, 0, r"\nroom \(1 cases, now b\)\n")


def times_are_recorded():
    """Also those of a test that is ended; and nothing is left of its progress."""
    bad = []
    for program, least in (("import time; time.sleep(0.3)", 0), (BUSY, 1)):
        _, told = watched(program, limit=1)
        match = re.fullmatch(r"room\t(\d+\.\d\d)\t(\d+\.\d\d)\n", told)
        if not match or float(match.group(1)) < 0.3 or float(match.group(2)) < least:
            bad.append(f"recorded {told!r}")
    return bad


FOLDER = f"""import sys, tempfile, time
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from report import run
def case():
    with tempfile.TemporaryDirectory() as folder:
        print(folder, flush=True)
        time.sleep(1000)
run([("case", case)])
"""


def folders_go_when_a_test_is_told_to_end():
    child = subprocess.Popen([sys.executable, "-u", "-c", FOLDER], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    folder = child.stdout.readline().strip()
    there = os.path.isdir(folder)
    child.terminate()
    child.communicate(timeout=60)
    return [] if there and not os.path.exists(folder) and child.returncode == 143 else [
        f"{folder} was there: {there}, is: {os.path.exists(folder)}; status {child.returncode}"]


run([(function.__name__.replace("_", " "), function) for function in (
    the_end_is_passed_on, too_much_work_is_a_timeout, patience_is_a_factor, no_work_is_a_timeout, what_hangs_is_shown,
    children_count_and_end, progress_is_reported, times_are_recorded,
    folders_go_when_a_test_is_told_to_end)])
