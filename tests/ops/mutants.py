"""Small mistakes in kernels, which the operator cases have to notice: a sign, an index, a comparison or a bound is changed
at a place drawn by a seed, and the cases whose programs are different then run.

usage: mutants.py PROGRAM KERNELS HOUSE COMPILER -- families | files PART PARTS | sample SEED COUNT
PROGRAM: test-mutants (mutants.c); KERNELS: the folder cl
families: in each folder of cl but common, a file by the seed, with the settings "cpu" and "gpu"; files: in each file. One of
its first mutants must be noticed.
sample: prints what became of COUNT mutants: the cases of operator-smoke notice them, the smallest ones with any kernels, some of
all cases, or none
"""
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile

PROGRAM, KERNELS, HOUSE = os.path.abspath(sys.argv[1]), *sys.argv[2:4]
COMPILER, WORDS = sys.argv[4:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
KERNELS = pathlib.Path(KERNELS)
sys.path.insert(0, HOUSE)
from report import run  # noqa: E402

TRIES, FEW = 12, 3  # mutants of a file until one is noticed
PROGRAMS = 16       # of those with the file, so many are compared with the mutant's
CASES = 3           # of a setting run one after the other; of all cases:
MORE_CASES = 8
SECONDS = 40        # of processor time, for loops that do not end
# Programs of these are compiled while a device is opened, or not by single operators, or only by devices without local memory:
# tests/device, tests/run/test_producers.c, tests/ops/test_kinds.c.
NO_CASES = re.compile(r"probe/.*|attention/stored\.cl|conv/fused_depthwise\.cl|conv/implicit_direct\.cl|recurrent/present\.cl|common/present\.cl")
# What is replaced, and by what. Only between operands: at the beginning or end of an expression they are not binary operators.
CHANGES = [
    (r"(?<=[\w)\]]) \+ (?=[\w(])", " - "), (r"(?<=[\w)\]]) - (?=[\w(])", " + "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"(?<=[\w)\]]) < (?=[\w(-])", " <= "), (r" <= ", " < "), (r"(?<=[\w)\]]) > (?=[\w(-])", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
    (r"\bmin\(", "max("), (r"\bmax\(", "min("), (r"(?<=[\w)])\](?= *[=;,)+*-])", " + 1]"), (r"(?<![\w.)\]] )(?<=[ (,])-(?=[a-z(])", ""),
]


def places(text):
    """(start, end, replacement) of all changes, outside of comments and of directives other than #define."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|^[ \t]*#[ \t]*(?!define\b)(?:[^\n]*\\\n)*[^\n]*$",
                  lambda match: re.sub(r"[^\n]", " ", match.group(0)), text, flags=re.S | re.M)
    return sorted((match.start(), match.end(), to) for what, to in CHANGES for match in re.finditer(what, code))


class Mutant:
    def __init__(self, file, text, place):
        self.file, (start, end, to) = file, place
        self.text = text[:start] + to + text[end:]
        self.line = text.count("\n", 0, start) + 1
        self.new = self.text.split("\n")[self.line - 1]
        self.about = f"{file}:{self.line}: {text.split(chr(10))[self.line - 1].strip()}  →  {self.new.strip().rstrip(chr(92)).strip()}"


def mutants_of(file, seed):
    """All mutants of a file, in an order by the seed."""
    text = (KERNELS / file).read_text(encoding="utf-8")
    found = [Mutant(file, text, place) for place in places(text)]
    random.Random(f"{seed} {file}").shuffle(found)
    return found


class Programs:
    """What each case compiles (mutants.c), and what the compiler sees of it."""

    def __init__(self, folder, thoroughness, *settings):
        self.folder, self.seen, self.cases, self.users = folder, {}, collections.defaultdict(list), collections.defaultdict(list)
        done = subprocess.run([PROGRAM, "list", str(thoroughness), folder, *settings], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        for line in done.stdout.splitlines():
            setting, case, programs = line.split("\t")
            for program in programs.split():
                self.cases[program].append((setting, case))
        for program in self.cases:
            for file in set(re.findall(r'^#line 1 "(.*)"$', self.text(program), flags=re.M)):
                self.users[file].append(program)

    def text(self, program):
        return pathlib.Path(self.folder, program + ".cl").read_text(encoding="utf-8")

    def preprocessed(self, text):
        done = subprocess.run([*COMPILER, "-E", "-P", "-undef", "-D__OPENCL_VERSION__=120", "-Dcl_khr_fp64", "-x", "c", "-"],
                              input=text, capture_output=True, text=True)
        return hashlib.sha1(done.stdout.encode()).hexdigest()

    def changed(self, program, mutant):
        """Whether the mutant changes anything in a program, after preprocessing."""
        if program not in self.seen:
            self.seen[program] = self.preprocessed(self.text(program))
        file, number, lines = "", 0, self.text(program).split("\n")
        for i, line in enumerate(lines):
            moved = re.fullmatch(r'#line (\d+) "(.*)"', line)
            if moved:
                number, file = int(moved.group(1)), moved.group(2)
                continue
            if file == mutant.file and number == mutant.line:
                lines[i] = mutant.new
            number += 1
        return self.preprocessed("\n".join(lines)) != self.seen[program]

    def cases_for(self, mutant, only=None):
        """{setting: cases} whose programs the mutant changes; `only`: of this setting."""
        users = [program for program in self.users[mutant.file]
                 if not only or any(setting == only for setting, _ in self.cases[program])]
        random.Random(mutant.about).shuffle(users)
        found = collections.defaultdict(dict)
        for program in users[:PROGRAMS]:
            if self.changed(program, mutant):
                for setting, case in self.cases[program]:
                    if not only or setting == only:
                        found[setting][case] = True
        return {setting: list(cases) for setting, cases in found.items()}


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def noticed(mutant, setting, cases):
    """The first failure of the cases with the mutant; None if all pass; "compile" if it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        changed = pathlib.Path(folder, "cl")
        shutil.copytree(KERNELS, changed)
        (changed / mutant.file).write_text(mutant.text, encoding="utf-8")
        # Neither the library's cache nor the driver's gets mutants.
        environment = {**os.environ, "XDG_CACHE_HOME": folder, "POCL_CACHE_DIR": os.path.join(folder, "driver"),
                       "POCL_MAX_PTHREAD_COUNT": "1"}
        done = subprocess.run([PROGRAM, "run", setting, str(changed), *cases], capture_output=True, text=True,
                              preexec_fn=limit, env=environment, errors="replace")
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") >= 2]
    for status, case, *message in lines:
        if status != "KN_OK":
            return "compile" if status == "KN_ERROR_COMPILE" else f"{setting} {case}: {' '.join(message)}"
    if done.returncode < 0:
        return f"{setting}, {'does not end' if -done.returncode in (9, 24) else 'crash'}"
    if done.returncode:
        sys.exit(f"{PROGRAM}: {done.returncode}\n{done.stderr}")
    return None


def first_notice(programs, mutant, only=None, settings=9, cases=CASES):
    """As `noticed`, by some cases of each of some settings; "unused" where no program is different."""
    draw = random.Random(mutant.about)
    found = sorted(programs.cases_for(mutant, only).items())
    if not found:
        return "unused"
    for setting, names in draw.sample(found, min(len(found), settings)):
        draw.shuffle(names)
        answer = noticed(mutant, setting, names[:cases])
        if answer:
            return answer
    return None


def files():
    return sorted(str(path.relative_to(KERNELS)) for path in KERNELS.glob("*/*.cl"))


# ---- the tests -----------------------------------------------------------------------------------------------------------


def one_is_noticed(programs, file, seed):
    """Of helpers with few places to change, all may be where a change has no effect."""
    def case():
        survivors = []
        for mutant in mutants_of(file, seed):
            answer = first_notice(programs, mutant)
            if answer not in (None, "unused", "compile"):
                return []
            survivors += [] if answer else [f"not noticed: {mutant.about}"]
            if len(survivors) == TRIES:
                break
        if not survivors and not file.startswith("common/"):
            return [f"{file}: no case of the operator table compiles a line that can be changed"]
        print("".join(f"  {line}\n" for line in survivors), end="")
        return survivors if len(survivors) >= FEW else []
    return (f"{file}: cases notice a mutant", case)


def candidates():
    """Files with something to change that cases can notice."""
    return [file for file in files() if not NO_CASES.fullmatch(file) and places((KERNELS / file).read_text(encoding="utf-8"))]


def families(programs):
    """Without common: many programs include its kernels, but few cases launch them."""
    folders = collections.defaultdict(list)
    for file in candidates():
        if programs.users[file] and not file.startswith("common/"):
            folders[file.split("/")[0]].append(file)
    return [random.Random(folder).choice(names) for folder, names in sorted(folders.items())]


def sample(folder, seed, count):
    """Prints a line per mutant, and how many there are of each kind. Files in turn; places by the seed. What the smallest
    cases do not notice, cases of any size get in a second round."""
    programs = Programs(folder, 2)
    queues = {file: mutants_of(file, seed) for file in candidates()}
    drawn = []
    while len(drawn) < 2 * count and any(queues.values()):
        drawn += [queue.pop() for queue in queues.values() if queue]
    fates = collections.Counter()

    def smallest(mutant):
        for what, only in (("smoke", "chosen"), ("smallest", None)):
            answer = first_notice(programs, mutant, only)
            if answer == "compile" or (answer not in (None, "unused")):
                return ("no program" if answer == "compile" else what), answer
        return answer or "survived", ""

    def larger(mutant):
        answer = first_notice(programs, mutant, None, 4, MORE_CASES)
        return ("all" if answer else "survived"), answer or ""

    def round_of(which, mutants):
        kept = []
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as pool:
            for mutant, (what, where) in zip(mutants, pool.map(which, mutants)):
                fates[what] += 1
                kept += [mutant] if what == "survived" else []
                print(f"{what}\t{mutant.about}\t{where}", flush=True)
                if fates["smoke"] + fates["smallest"] + fates["survived"] >= count:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
        return kept
    survivors = round_of(smallest, drawn)
    print(dict(fates), flush=True)
    del fates["survived"]
    programs, count = Programs(folder, 0), 10**9
    round_of(larger, survivors)
    print(dict(fates))


def main():
    with tempfile.TemporaryDirectory() as folder:
        if WORDS[0] == "sample":
            sample(folder, *map(int, WORDS[1:]))
            return
        programs = Programs(folder, 2, *(["cpu", "gpu"] if WORDS[0] == "families" else []))
        wanted = families(programs) if WORDS[0] == "families" else candidates()[int(WORDS[1])::int(WORDS[2])]
        run([one_is_noticed(programs, file, 1) for file in wanted])


if __name__ == "__main__":
    main()
