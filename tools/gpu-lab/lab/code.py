"""Machine code as the model sees it: a list of instructions of a few kinds, its loops, and what a round of them does."""
import collections
import dataclasses
import math

# fma: multiply-adds; matrix: those of a matrix unit; load and store: global memory; fetch and put: local memory; spill: private memory; barrier; vector and
# scalar: other instructions of AMD's two kinds of units; other.
MEMORY = ("load", "store", "fetch", "put")
PRODUCTS = ("fma", "matrix")


@dataclasses.dataclass
class Instruction:
    name: str
    kind: str
    amount: int = 0         # bytes of a work-item; of fma and matrix its multiply-adds
    target: int | None = None  # of a jump: the position that it goes to


@dataclasses.dataclass
class Kernel:
    """A compiled kernel."""
    name: str
    instructions: list
    registers: int
    spilled: int            # bytes of registers that were moved to memory, stores and loads
    private_bytes: int
    local_bytes: int
    code_bytes: int
    wave: int = 0           # work-items of a wave where the compiler chose


class Tally:
    """Numbers of instructions by kind, and their amounts."""

    def __init__(self):
        self.count, self.amount = collections.Counter(), collections.Counter()

    def add(self, other, weight=1.0):
        for mine, its in ((self.count, other.count), (self.amount, other.amount)):
            for kind, number in its.items():
                mine[kind] += number * weight

    @property
    def total(self):
        return sum(self.count.values())

    @property
    def products(self):
        """Multiply-adds of products. With those of a matrix unit, others are of something else, such as exponential functions."""
        return self.amount["matrix"] or self.amount["fma"]


def within(inner, outer):
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Loops:
    """The loops of a kernel as (first, last), each from its head to its last jump back."""

    def __init__(self, instructions):
        self.instructions = instructions
        ends = {}
        for i, instruction in enumerate(instructions):
            if instruction.target is not None and instruction.target <= i:
                ends[instruction.target] = max(ends.get(instruction.target, 0), i)
        self.loops = sorted(ends.items())

    def inside(self, loop):
        return [other for other in self.loops if other != loop and within(other, loop)]

    def tally(self, loop, without=()):
        """Of one round of a loop, without some others inside."""
        tally = Tally()
        for i in range(loop[0], loop[1] + 1):
            if any(first <= i <= last for first, last in without):
                continue
            instruction = self.instructions[i]
            tally.count[instruction.kind] += 1
            if instruction.kind in MEMORY + PRODUCTS:
                tally.amount[instruction.kind] += instruction.amount
        return tally

    def own(self, loop):
        return self.tally(loop, self.inside(loop))

    def waits(self, loop, without=()):
        """The waits of a round for global memory: where a number goes into local memory after loads, and at the end. Of
        each the part of the round's multiply-adds that come after the last of its loads and before; they hide that much.
        Multiply-adds of the loops that are left out count as all. Without local memory they need what was loaded: none."""
        parts, pending, done, whole, puts = [], False, 0, 0, False
        for i in range(loop[0], loop[1] + 1):
            instruction, left = self.instructions[i], any(first <= i <= last for first, last in without)
            amount = instruction.amount if instruction.kind in PRODUCTS else 0
            whole, done = whole + amount, done + (math.inf if left and amount else amount)
            if left:
                continue
            puts = puts or instruction.kind == "put"
            if instruction.kind == "load":
                pending, done = True, 0
            elif instruction.kind == "put" and pending:
                parts.append(done)
                pending = False
        if pending:
            parts.append(done if puts else 0)
        return [min(1.0, part / max(1, whole)) for part in parts]

    def shares(self, loop):
        """Whether work-items exchange numbers in a loop: it has a barrier, or where the kernel has none, since its work-groups
        are of one wave, it stores to local memory."""
        kind = "barrier" if any(instruction.kind == "barrier" for instruction in self.instructions) else "put"
        return self.tally(loop).count[kind] > 0

    def hottest(self):
        """The loop with most multiply-adds outside inner loops; None if no loop has enough of them to be a product's."""
        if not self.loops:
            return None
        hot = max(self.loops, key=lambda loop: (self.own(loop).products, loop[0] - loop[1]))
        shares = any(within(hot, loop) and self.shares(loop) for loop in self.loops)
        return hot if self.own(hot).products >= (8 if shares else 24) else None


@dataclasses.dataclass
class Slice:
    """One round of a product's outer loop, in which a work-group adds slices of the depth."""
    tally: Tally
    slices: float           # how many: one, unless the compiler or the kernel unrolled the loop, or split it
    hot: Tally              # of the hottest loop, once
    waits: list             # for global memory: (how often, part of the multiply-adds that hide it)
    outside: int            # instructions of the kernel outside that loop


def slice_of(kernel, multiply_adds, numbers):
    """The slice of a product, in which a work-item does so many multiply-adds and puts so many numbers into local memory:
    loops inside are taken as often as that says. None if the kernel has no loop of a product."""
    loops = Loops(kernel.instructions)
    hot = loops.hottest()
    if not hot:
        return None
    around = [loop for loop in loops.loops if within(hot, loop) and loops.shares(loop)]
    outer = min(around, key=lambda loop: loop[1] - loop[0]) if around else hot
    inner, own = loops.inside(outer), loops.own(hot)
    tally = Tally()
    tally.add(loops.own(outer))
    if outer != hot:
        tally.add(own, max(1.0, multiply_adds / own.products))
    waits = [(1, part) for part in loops.waits(outer, inner)]
    rest = [loop for loop in inner if loop != hot]
    fills = [loop for loop in rest if loops.own(loop).count["put"] and
             not any(other != loop and within(loop, other) for other in rest)]
    each = sum(loops.own(loop).amount["put"] for loop in fills)
    rounds = max(1.0, (4 * numbers - tally.amount["put"]) / each) if each else 1.0
    for loop in fills:
        tally.add(loops.own(loop), rounds)
        waits += [(rounds, 0) for _ in loops.waits(loop)]
    outside = len(kernel.instructions) - (outer[1] - outer[0] + 1)
    slices = own.products / multiply_adds if outer == hot else 1.0
    return Slice(tally, slices, own, waits, outside)


@dataclasses.dataclass
class Stream:
    """A kernel without a product: instructions that run once, and a round of its smallest loop that loads."""
    straight: int
    round: Tally


def stream_of(kernel):
    loops = Loops(kernel.instructions)
    leaves = [loop for loop in loops.loops if not loops.inside(loop)]
    covered = {i for loop in leaves for i in range(loop[0], loop[1] + 1)}
    loading = [loop for loop in leaves if loops.own(loop).count["load"]] or leaves
    least = min(loading, key=lambda loop: loop[1] - loop[0]) if loading else None
    return Stream(len(kernel.instructions) - len(covered), loops.tally(least) if least else Tally())


def mix_of(kernel):
    """The hottest loop by kinds of instructions, in percent; of a kernel without multiply-adds, of its longest loop."""
    loops = Loops(kernel.instructions)
    loop = loops.hottest() or max(loops.loops, key=lambda loop: loop[1] - loop[0], default=None)
    if not loop:
        return {}
    tally = loops.own(loop)
    return {kind: round(100 * number / max(1, tally.total)) for kind, number in tally.count.most_common()}


def resolve(instructions, jumps, labels):
    """Sets the targets of jumps, (position, label), where the label is known."""
    for position, label in jumps:
        if label in labels:
            instructions[position].target = labels[label]
