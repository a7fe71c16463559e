"""The functions of tools/common.sh: progress of slow commands, and a link to the command.

usage: scripts.py TOOLS
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from report import Skipped, run

TOOLS = sys.argv[1]


def script(text, folder, **environment):
    """A script that has read common.sh, in a folder."""
    if not shutil.which("bash"):
        raise Skipped("bash is not here")
    return subprocess.run(["bash", "-c", f"set -euo pipefail; . {TOOLS}/common.sh; {text}", "test"], cwd=folder,
                          env={**os.environ, **environment}, capture_output=True, text=True)


def what_takes_long_is_told():
    """The progress ends with the command."""
    with tempfile.TemporaryDirectory() as folder:
        done = script("""news_seconds=0.1
            work() { echo '[1/2] Compiling'; echo '[2/2] Linking'; until grep -q Linking news; do sleep 0.05; done; return 3; }
            with_news log 'building' work >news || echo "status $?"; cat news""", folder)
        told = re.search(r"^test: building for 0 min: \[2/2\] Linking$", done.stdout, re.M)
        right = told and done.stdout.startswith("status 3\n") and not done.stderr
        return [] if right and done.returncode == 0 else [f"found {done}"]


def the_end_of_a_script_stays_its_own():
    """The cleanup of a script, and the report of a failed command."""
    with tempfile.TemporaryDirectory() as folder:
        done = script("""trap 'echo the end' EXIT
            broken() { fail 'there is no sudo'; }
            with_news log building broken || echo "status $?"; cat log; exit 4""", folder)
        right = (done.stdout, done.stderr, done.returncode) == ("status 1\ntest: there is no sudo\nthe end\n", "", 4)
        return [] if right else [f"found {done}"]


def what_is_short_is_not():
    with tempfile.TemporaryDirectory() as folder:
        done = script("with_news log building echo done; cat log", folder)
        return [] if (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0) else [f"found {done}"]


def a_link_replaces_nothing_else():
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, ".local/bin/koine")
        for turn in range(2):
            done = script("link_command /somewhere/koine", folder, HOME=folder)
            if done.returncode or "is not on the PATH: export PATH=" not in done.stdout or os.readlink(link) != "/somewhere/koine":
                complaints.append(f"turn {turn}: {done}")
        done = script("link_command /elsewhere/koine", folder, HOME=folder)
        if not done.returncode or "is left as it is" not in done.stderr or os.readlink(link) != "/somewhere/koine":
            complaints.append(f"the link of another was replaced: {done}")
        done = script("link_command /somewhere/koine", folder, HOME=folder, PATH=os.path.dirname(link) + ":" + os.environ["PATH"])
        if done.returncode or "not on the PATH" in done.stdout:
            complaints.append(f"the PATH has it: {done}")
    return complaints


def start_refuses_what_it_does_not_know():
    complaints = []
    for word, status, where, text in (("--lnk", 2, "stderr", "there is no '--lnk'"), ("--help", 0, "stdout", "tools/start --link")):
        if not shutil.which("bash"):
            raise Skipped("bash is not here")
        done = subprocess.run([os.path.join(TOOLS, "start"), word], capture_output=True, text=True)
        if done.returncode != status or text not in getattr(done, where) or "#" in done.stdout:
            complaints.append(f"{word}: {done}")
    return complaints


run((function.__name__.replace("_", " "), function)
    for function in (what_takes_long_is_told, the_end_of_a_script_stays_its_own, what_is_short_is_not, a_link_replaces_nothing_else,
                     start_refuses_what_it_does_not_know))
