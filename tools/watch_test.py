#!/usr/bin/env python3
"""Runs one test for `meson test --wrapper`, and ends it when it hangs.

usage: watch_test.py COMMAND [ARGUMENT...]

A busy machine makes every test slow, so the limit that a test declares in its meson.build counts seconds of
processor time, of the test and of all that it starts. A test that uses almost none for STALL_SECONDS hangs, too. Either way
its processes and what they wait for are shown, the test is ended, and its output ends with a line `TIMEOUT: …`, which tools/test_report.py counts.

  KOINE_TEST_LIST      meson's list of tests (meson-info/intro-tests.json), which has their time limits
  KOINE_TEST_PATIENCE  a factor on the limit, for slow devices and sanitizers
  KOINE_TEST_PROGRESS  a folder for a file that says how far the test is, and is removed at its end
  KOINE_TEST_TIMES     a file to which the test's name, seconds and seconds of processor time are added, with tabs
"""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

STALL_SECONDS, LOOK_SECONDS, END_SECONDS, STACK_SECONDS = 300, 2, 3, 30
MIN_BUSY_FRACTION = 0.01  # of one processor over STALL_SECONDS: less is a hang, more may be a busy machine
TIMED_OUT = 124


def name_and_limit(command):
    """The test's name and time limit in meson.build; 0: no limit."""
    path = os.environ.get("KOINE_TEST_LIST")
    if path:
        with open(path, encoding="utf-8") as file:
            for test in json.load(file):
                if test["cmd"] == command:
                    return test["name"], test["timeout"] * float(os.environ.get("KOINE_TEST_PATIENCE", 1))
    return os.path.basename(command[0]), 0


def ticks_below(root):
    """{process: ticks of processor time} of the process and all below it, with those of what they have waited for."""
    ticks, parents = {}, {}
    try:
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            parents[int(entry)] = int(fields[1])
            ticks[int(entry)] = sum(int(field) for field in fields[11:15])
    except OSError:
        return {}
    found = {}
    for process, used in ticks.items():
        above = process
        while above not in (root, 0, None):
            above = parents.get(above)
        if above == root:
            found[process] = used
    return found


def processor_seconds(root):
    """For the process and all its descendants, including those that have ended; None if the system does not report it."""
    ticks = ticks_below(root)
    return sum(ticks.values()) / os.sysconf("SC_CLK_TCK") if root in ticks else None


def first_line(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().replace("\0", " ").strip()
    except OSError:
        return "?"


def show_processes(root):
    """What the processes of a test that hangs wait for: the stacks of their threads where gdb is installed, or else the
    function of the kernel that each sleeps in."""
    for process in sorted(ticks_below(root)):
        print(f"\nprocess {process}: {first_line(f'/proc/{process}/cmdline')}", flush=True)
        if shutil.which("gdb"):
            words = ["gdb", "-p", str(process), "-batch", "-nx", "-ex", "thread apply all bt 20"]
            try:
                subprocess.run(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=STACK_SECONDS, check=True)
                continue
            except (OSError, subprocess.SubprocessError):
                pass
        try:
            threads = sorted(os.listdir(f"/proc/{process}/task"), key=int)
        except OSError:
            continue
        for thread in threads:
            at = f"/proc/{process}/task/{thread}"
            print(f"  thread {thread} ({first_line(at + '/comm')}) in {first_line(at + '/wchan')}", flush=True)


class Output(threading.Thread):
    """Passes on the output of the test, and records its progress."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.done, self.case = stream, 0, ""
        self.start()

    def run(self):
        for line in self.stream:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            found = re.match(rb"\[( RUN      |       OK |  SKIPPED |  FAILED  )\] (.*)", line)
            if found and found.group(1).strip() == b"RUN":
                self.case = found.group(2).decode(errors="replace").strip()
            elif found:
                self.done += 1


def progress_file():
    folder = os.environ.get("KOINE_TEST_PROGRESS")
    return os.path.join(folder, str(os.getpid())) if folder else None


def tell(name, output):
    """Writes how far the test is."""
    path = progress_file()
    try:
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{name} ({output.done} cases" + (f", now {output.case})" if output.case else ")"))
    except OSError:
        pass


def record(name, seconds):
    """Adds the times of the test, which has ended, and removes its progress."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    progress, times = progress_file(), os.environ.get("KOINE_TEST_TIMES")
    try:
        if times:
            with open(times, "a", encoding="utf-8") as file:
                file.write(f"{name}\t{seconds:.2f}\t{used.ru_utime + used.ru_stime:.2f}\n")
        if progress:
            os.remove(progress)
    except OSError:
        pass


def watch(child, name, limit, output):
    """Waits for the end; returns why the test was ended, or None."""
    start = last_work = time.monotonic()
    used = worked = 0.0  # worked: the processor time at last_work
    while True:
        tell(name, output)
        try:
            child.wait(timeout=LOOK_SECONDS)
            return None
        except subprocess.TimeoutExpired:
            pass
        now, seconds = time.monotonic(), processor_seconds(child.pid)
        if seconds is None:
            seconds = now - start
        if seconds - worked > MIN_BUSY_FRACTION * STALL_SECONDS:
            last_work, worked = now, seconds
        used = max(used, seconds)
        if limit and used > limit:
            return f"{used:.0f} s of processor time, of {limit:.0f} s allowed"
        if now - last_work > STALL_SECONDS:
            return f"no processor time used for {STALL_SECONDS} s"


def end(child):
    """Ends the test and its child processes; for a moment it may remove its folders."""
    try:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait(timeout=END_SECONDS)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main(command):
    name, limit = name_and_limit(command)
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    output = Output(child.stdout)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end(child))
    why = watch(child, name, limit, output)
    if why:
        show_processes(child.pid)
        end(child)
        child.wait()
    output.join(timeout=10)
    record(name, time.monotonic() - start)
    if why:
        print(f"\nTIMEOUT: {name}: {why}; {output.done} cases were done" +
              (f", the next was {output.case}" if output.case else ""), flush=True)
        return TIMED_OUT
    if child.returncode < 0:  # end by the same signal, so that meson reports it
        signal.signal(-child.returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -child.returncode)
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
