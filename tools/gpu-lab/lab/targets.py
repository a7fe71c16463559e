"""The devices: a target file of Koine, and what the model needs to know beyond it.

Target files have what OpenCL reports, and the published peak and bandwidth. This table has how a unit works: a streaming
multiprocessor of NVIDIA, a compute unit of AMD, a core of Intel.
"""
import dataclasses
import os

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "targets")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclasses.dataclass(frozen=True)
class Unit:
    """Sizes are those of one unit; latencies are in cycles of its clock."""
    maker: str              # nvidia, amd or intel: whose compiler
    merged: float           # how many of OpenCL's compute units make one of these
    slots: int              # instructions that it can begin in a cycle
    waves: int              # resident waves (warps, threads of an engine)
    groups: int             # resident work-groups
    local_bytes: int        # of local memory, for all resident work-groups together
    l2_latency: int         # of a load that the second cache answers
    memory_latency: int     # of a load that memory answers
    wave: int = 32          # work-items of a wave; 0: the compiler chooses
    registers: int = 0      # nvidia: of 32 bits; amd: for each lane of a SIMD
    granule: int = 1        # registers are handed out in multiples of this
    simds: int = 4          # amd: SIMDs of a unit
    wave_cycles: int = 1    # amd: cycles that a wave's vector instruction occupies its SIMD
    engines: int = 0        # intel: vector engines of a core
    local_rate: int = 128   # bytes a cycle from local memory
    l2_rate: int = 64       # bytes a cycle from the second cache
    matrix: int = 0         # multiply-adds of 16-bit numbers a cycle of the matrix units, as published
    matrix_share: float = 1.0  # of them that the instruction which Koine uses can reach

    @property
    def matrix_rate(self):
        return self.matrix * self.matrix_share

    def occupancy_limit(self, registers):
        """Resident waves that registers allow (amd, intel)."""
        if self.maker == "intel":
            return self.engines * (8 if registers <= 128 else 4)
        taken = -(-max(registers, 1) // self.granule) * self.granule
        return min(self.waves // self.simds, self.registers // taken) * self.simds


# Sizes: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; AMD's ISA guides for Vega 7nm, RDNA 2
# to 4 and CDNA 3; Intel's Xe-HPG and Xe2 architecture guides. Latencies: round figures of public microbenchmarks (Chips and
# Cheese; Jia and others, "Dissecting the NVIDIA Turing T4"); they matter where few work-groups run.
TABLE = {
    "sm_75": Unit("nvidia", 1, slots=4, waves=32, groups=16, local_bytes=64 << 10, l2_latency=250, memory_latency=550,
                  registers=65536, granule=256),
    "sm_80": Unit("nvidia", 1, slots=4, waves=64, groups=32, local_bytes=164 << 10, l2_latency=270, memory_latency=600,
                  registers=65536, granule=256, matrix=1024),
    "sm_86": Unit("nvidia", 1, slots=4, waves=48, groups=16, local_bytes=100 << 10, l2_latency=230, memory_latency=480,
                  registers=65536, granule=256, matrix=256),
    "sm_90": Unit("nvidia", 1, slots=4, waves=64, groups=32, local_bytes=228 << 10, l2_latency=280, memory_latency=700,
                  registers=65536, granule=256, matrix=2048, matrix_share=0.62),
    "gfx906": Unit("amd", 1, slots=4, waves=40, groups=16, local_bytes=64 << 10, l2_latency=450, memory_latency=850,
                   wave=64, registers=256, granule=4, wave_cycles=4),
    "gfx942": Unit("amd", 1, slots=4, waves=32, groups=16, local_bytes=64 << 10, l2_latency=500, memory_latency=900,
                   wave=64, registers=512, granule=8, wave_cycles=4, matrix=1024),
    "gfx1030": Unit("amd", 0.5, slots=2, waves=32, groups=32, local_bytes=64 << 10, l2_latency=350, memory_latency=700,
                    registers=1024, granule=8, simds=2),
    "gfx1100": Unit("amd", 0.5, slots=2, waves=32, groups=32, local_bytes=64 << 10, l2_latency=350, memory_latency=700,
                    registers=1536, granule=24, simds=2, matrix=256),
    "gfx1201": Unit("amd", 0.5, slots=2, waves=32, groups=32, local_bytes=64 << 10, l2_latency=350, memory_latency=700,
                    registers=1536, granule=24, simds=2, matrix=512),
    "dg2": Unit("intel", 16, slots=16, waves=128, groups=128, local_bytes=128 << 10, l2_latency=350, memory_latency=800,
                wave=0, engines=16, matrix=1024),
    "bmg": Unit("intel", 8, slots=8, waves=64, groups=64, local_bytes=128 << 10, l2_latency=350, memory_latency=800,
                wave=0, engines=8, matrix=1024),
}


@dataclasses.dataclass(frozen=True)
class Target:
    """A device: rates are of the whole device, in units of one and a second."""
    word: str
    name: str
    path: str
    unit: Unit
    local_bytes: int        # of a work-group
    units: float
    clock: float
    flops: float
    bandwidth: float

    @property
    def matrix_flops(self):
        return 2 * self.unit.matrix * self.units * self.clock

    @property
    def lanes(self):
        """Multiply-adds a cycle of a unit."""
        return self.flops / (2 * self.units * self.clock)


def number(text):
    """64, 48KiB or 2.5e3."""
    for ending, factor in UNITS.items():
        if text.endswith(ending):
            return int(text[:-len(ending)]) * factor
    return float(text)


def read_facts(path):
    """The lines of a target file by their words; Koine itself checks them."""
    facts = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            word, _, value = line.split("#")[0].strip().partition(" ")
            if word:
                facts[word] = value.strip()
    return facts


def target(word):
    if word not in TABLE:
        raise ValueError(f"'{word}' is not a target; expected one or more of {', '.join(TABLE)}")
    path, unit = os.path.join(FOLDER, word + ".target"), TABLE[word]
    facts = read_facts(path)
    return Target(word, facts["name"], path, unit, number(facts["local_memory"]),
                  number(facts["compute_units"]) / unit.merged, number(facts["clock_mhz"]) * 1e6,
                  number(facts["peak_gflops"]) * 1e9, number(facts["bandwidth_gbytes"]) * 1e9)
