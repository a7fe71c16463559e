"""The functions of tools/common.sh: progress of slow commands, packages, building, links to the command, and the cache of the
tests; and the tests that tools/affected.py selects for changes.

usage: scripts.py TOOLS
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from report import Skipped, run

TOOLS = sys.argv[1]


def script(text, folder, **environment):
    """A script that has read common.sh, in a folder."""
    if not shutil.which("bash"):
        raise Skipped("bash is not installed")
    return subprocess.run(["bash", "-c", f"set -euo pipefail; . {TOOLS}/common.sh; {text}", "test"], cwd=folder,
                          env={**os.environ, **environment}, capture_output=True, text=True)


def progress_of_slow_commands_is_printed():
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


def fake_commands(folder, **commands):
    """A folder with these commands, which print what they were called with and run the given text, and a few real ones."""
    os.makedirs(folder)
    for name in ("awk", "bash", "cat", "cut", "dirname", "env", "getconf", "grep", "head", "ln", "mkdir", "mktemp", "mv", "nproc", "rm", "sed",
                 "sleep", "sort", "tail", "timeout", "touch", "tr", "uname"):
        if shutil.which(name):
            os.symlink(shutil.which(name), os.path.join(folder, name))
    for name, text in commands.items():
        path = os.path.join(folder, name.replace("_", "-"))
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\necho "{name.replace("_", "-")} $*" >>"$CALLS"\n{text}\n')
        os.chmod(path, 0o755)
    return folder


def called(folder):
    path = os.path.join(folder, "calls")
    with open(path) as file:
        calls = file.read().splitlines()
    os.remove(path)
    return calls


def packages_installed_later_are_used():
    """A build folder that was configured before packages were installed is configured once more, and only once."""
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        commands = fake_commands(os.path.join(folder, "bin"), meson='[ "$1" != setup ] || touch build/build.ninja', ninja=":")
        environment = {"PATH": commands, "CALLS": os.path.join(folder, "calls")}
        setup, clear, build = "meson setup build", "meson configure --clearcache build", "ninja -C build all"
        again = "meson setup --reconfigure build"
        for age, options, expected in ((100, "", [setup, build]), (100, "", [build]), (-100, "", [clear, again, build]),
                                       (100, "-Da=b", ["meson configure build -Da=b", build]),
                                       (-100, "-Da=b", [clear, again + " -Da=b", build])):
            listed = os.path.join(folder, "status")
            open(listed, "w").close()
            if os.path.exists(os.path.join(folder, "build/build.ninja")):
                when = os.stat(os.path.join(folder, "build/build.ninja")).st_mtime - age
                os.utime(listed, (when, when))
            done = script(f"package_list=status; build_koine build all {options}", folder, **environment)
            calls = called(folder)
            if done.returncode or calls != expected:
                complaints.append(f"packages {age} s older, options '{options}': called {calls}, expected {expected}; {done}")
    return complaints


def without_root_there_is_advice():
    with tempfile.TemporaryDirectory() as folder:
        commands = fake_commands(os.path.join(folder, "bin"), apt_get=":", dpkg_query="exit 1", id="echo 1000")
        done = script("install_packages gcc meson", folder, PATH=commands, CALLS=os.path.join(folder, "calls"))
        calls = called(folder)
        right = (done.returncode == 1 and "apt-get update && apt-get install --no-install-recommends gcc meson\n" in done.stderr and
                 "pip install" in done.stderr and not any(call.startswith("apt-get") for call in calls))
        return [] if right else [f"found {done}, called {calls}"]


def without_a_network_it_ends_at_once():
    """apt is not even asked to install: it would wait long, then report packages that it cannot find."""
    complaints = []
    # 127.0.0.1:9 answers that nothing listens there; apt itself reaches what no server is needed for, or by a proxy.
    for uri, config, installs in (("http://nowhere.invalid/debian/", "", False), ("http://127.0.0.1:9/debian/", "", False),
                                  ("file:/media/debian/", "", True), ("http://127.0.0.1:9/debian/", 'Acquire::http::Proxy "x";', True)):
        with tempfile.TemporaryDirectory() as folder:
            commands = fake_commands(os.path.join(folder, "bin"), apt_get=f"[ $1 != indextargets ] || echo {uri}",
                                     apt_config=f"echo '{config}'", dpkg_query="exit 1", id="echo 0")
            environment = {"PATH": commands, "CALLS": os.path.join(folder, "calls")}
            environment.update({f"{name}_proxy": "" for name in ("http", "https", "all")})
            done = script("install_packages gcc meson", folder, **environment)
            installed = any(" install " in call for call in called(folder))
            said = "is there a network? These packages are missing: gcc meson" in done.stderr
            if installed != installs or said == installs or (done.returncode == 0) != installs:
                complaints.append(f"{uri}, {config}: installed {installed}; {done}")
    return complaints


def a_link_replaces_nothing_else():
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, ".local/bin/koine")
        for turn in range(2):
            done = script("link_command /somewhere/koine", folder, HOME=folder)
            if done.returncode or "is not on the PATH: export PATH=" not in done.stdout or os.readlink(link) != "/somewhere/koine":
                complaints.append(f"turn {turn}: {done}")
        done = script("link_command /elsewhere/koine", folder, HOME=folder)
        if not done.returncode or "nothing was changed" not in done.stderr or os.readlink(link) != "/somewhere/koine":
            complaints.append(f"the link of another was replaced: {done}")
        done = script("link_command /somewhere/koine", folder, HOME=folder, PATH=os.path.dirname(link) + ":" + os.environ["PATH"])
        if done.returncode or "not on the PATH" in done.stdout:
            complaints.append(f"the PATH has it: {done}")
    return complaints


def start_refuses_what_it_does_not_know():
    complaints = []
    for word, status, where, text in (("--lnk", 2, "stderr", "unknown argument '--lnk'"), ("--help", 0, "stdout", "tools/start --link")):
        if not shutil.which("bash"):
            raise Skipped("bash is not installed")
        done = subprocess.run([os.path.join(TOOLS, "start"), word], capture_output=True, text=True)
        if done.returncode != status or text not in getattr(done, where) or "#" in done.stdout:
            complaints.append(f"{word}: {done}")
    return complaints


def make(path, days, size=10):
    """A file that was used so many days ago."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(bytes(size))
    os.utime(path, (time.time() - days * 86400,) * 2)
    return path


def build_folders_share_a_cache():
    """Removes only files that are stored by content; an older folder stays unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(TOOLS, f"{folder}/tools")
        kept = make(f"{folder}/old/tests/cache/pocl/kcache/x", 0)
        done = script("share_test_cache one; share_test_cache two; share_test_cache old", folder, KOINE_TEST_CACHE=f"{folder}/shared")
        make(f"{folder}/one/tests/cache/pocl/kcache/AB/C/program.bc", 0)
        make(f"{folder}/one/tests/cache/koine/devices/cpu.txt", 0)
        found = [os.path.exists(f"{folder}/{name}") for name in (
            "two/tests/cache/pocl/kcache/AB/C/program.bc", "shared/unoptimized/pocl", "two/tests/cache/koine/devices/cpu.txt",
            "old/tests/cache/pocl/kcache/AB")]
        apart = script("share_test_cache three; ls three", folder, KOINE_TEST_CACHE="")
        right = found == [True, True, False, False] and os.path.exists(kept) and done.returncode == 0 and apart.returncode
        return [] if right else [f"found {found}, {done}, {apart}"]


def unused_kernels_are_removed():
    """After a month, temporary files after a day, and the oldest beyond a size."""
    with tempfile.TemporaryDirectory() as folder:
        cache = f"{folder}/pocl/kcache"
        old, older = make(f"{cache}/AA/old/program.bc", 40), make(f"{folder}/unoptimized/koine/programs/1.bin", 40)
        used = make(f"{cache}/AA/used/program.bc", 40)
        make(f"{cache}/AA/used/last_accessed", 1)
        recent, latest = make(f"{folder}/koine/programs/2.bin", 3, 3000), make(f"{cache}/BB/new/k/8-1-1/k.so", 2, 3000)
        temporary, made = make(f"{cache}/tempfile_x.so", 2), make(f"{cache}/tempfile_y.so", 0)
        complaints = []

        def look(wanted, *options, **environment):
            subprocess.run([sys.executable, f"{TOOLS}/test_cache.py", folder, *options], check=True, env={**os.environ, **environment})
            there = [path for path in (old, older, used, recent, latest, temporary, made) if os.path.exists(path)]
            if there != wanted:
                complaints.append(f"{options} {environment} left {there}, not {wanted}")

        look([used, recent, latest, made])
        make(old, 40)
        look([old, used, recent, latest, made])  # once a day
        look([used, recent, latest, made], "--now")
        look([used, latest, made], "--now", KOINE_TEST_CACHE_GIB=str(3500 / 2**30))
        return complaints


def a_change_reaches_what_depends_on_it():
    complaints = []
    for wanted, paths in (
            ("documents", ("docs/a.md", "README.md", "src/plan/README.md", "tests/README.md", "LICENSE")),
            ("above", ("src/formats/csv.c", "src/train/a.c", "src/mpi/x.h", "tests/train/a.c", "tests/tools/a.py", "tools/command/x.c",
                       "examples/x.c")),
            ("all", ("src/plan/x.c", "src/verify/x.c", "src/base/x.h", "src/meson.build", "src/new/x.c", "cl/a.cl", "tests/ops/x.c",
                     "tests/meson.build", "tests/support.c", "meson.build", "include/koine/a.h", "tools/common.sh", ".ci/run",
                     "docs/a.py", ""))):
        for path in paths:
            done = subprocess.run([sys.executable, f"{TOOLS}/affected.py", f"{TOOLS}/.."], input=f"docs/b.md\n{path}\n" if path else "",
                                  capture_output=True, text=True)
            if done.stdout != wanted + "\n":
                complaints.append(f"{path}: expected {wanted}, found {done}")
    return complaints


run((function.__name__.replace("_", " "), function)
    for function in (progress_of_slow_commands_is_printed, the_end_of_a_script_stays_its_own, what_is_short_is_not, packages_installed_later_are_used,
                     without_root_there_is_advice, without_a_network_it_ends_at_once, a_link_replaces_nothing_else,
                     start_refuses_what_it_does_not_know, build_folders_share_a_cache, unused_kernels_are_removed,
                     a_change_reaches_what_depends_on_it))
