"""How long a launch would take: cycles on each port of a unit for the resident work-groups, against exposed latency.

The assumptions, all of which README.md repeats:
- Work-groups are dealt evenly to the units. As many are resident as registers, local memory and the limits of a unit allow;
  they run in rounds, the last one with fewer.
- A product's time on a unit is the slowest of: multiply-add lanes; instructions begun; bytes of local memory; bytes from the
  second cache; and the latency of a single work-group. Nothing hides its barriers; multiply-adds between a load and
  the instruction that needs its number hide as much of the latency as they take time.
- Local memory has no bank conflicts, and each work-item's bytes count, even where neighbours read the same ones.
- Everything comes from the second cache but the first reading of each buffer, which memory delivers at 90 % of its peak.
- Other kernels take the slowest of: their bytes from memory; instructions begun; and bytes in flight over the latency.
- Nothing overlaps between launches, and launching costs nothing here; launches are counted instead.
"""
import dataclasses
import math

BARRIER_CYCLES, ROUND_CYCLES, MEMORY_SHARE, FLIGHT_BYTES = 30, 60, 0.9, 64
SPLIT = 3  # products of a matrix unit for one of float32


def waves_of(target, kernel, items):
    return math.ceil(items / (target.unit.wave or kernel.wave or 16))


def occupancy(target, kernel, items):
    """Work-groups of so many items that a unit holds at a time, and their waves."""
    unit, waves = target.unit, waves_of(target, kernel, items)
    local = unit.local_bytes // kernel.local_bytes if kernel.local_bytes else unit.groups
    if unit.maker == "nvidia":
        taken = math.ceil(kernel.registers * 32 / unit.granule) * unit.granule * waves
        local = unit.local_bytes // (kernel.local_bytes + 1024)  # the driver keeps 1 KiB of each
        groups = min(unit.registers // max(taken, 1), unit.waves // waves, unit.groups, local)
    else:
        groups = min(unit.occupancy_limit(kernel.registers) // waves, unit.groups, local)
    return max(1, groups), max(1, groups) * waves


def issue_cycles(target, kernel, tally, waves):
    """Cycles of a unit until it has begun the instructions of so many waves."""
    unit = target.unit
    if unit.maker == "nvidia":
        return tally.total / unit.slots * waves
    if unit.maker == "amd":
        return (tally.count["fma"] + tally.count["matrix"] + tally.count["vector"]) * unit.wave_cycles / unit.simds * waves
    sends = sum(tally.count[kind] for kind in ("load", "store", "fetch", "put"))
    lanes = target.lanes / unit.engines
    return max((tally.total - sends) * max(1, kernel.wave / lanes), tally.total) / unit.engines * waves


def slice_cycles(target, kernel, piece, items, groups):
    """Cycles that a unit with so many resident work-groups needs for a slice of each, and what binds it."""
    unit = target.unit
    wave, per = unit.wave or kernel.wave, waves_of(target, kernel, items)
    waves, amount = per * groups, piece.tally.amount
    ports = {"lanes": amount["fma"] * wave / target.lanes * waves,
             "matrix unit": amount["matrix"] * wave / max(1, unit.matrix_rate) * waves,
             "issue": issue_cycles(target, kernel, piece.tally, waves),
             "local memory": (amount["fetch"] + amount["put"]) * wave / unit.local_rate * waves,
             "second cache": amount["load"] * wave / unit.l2_rate * waves}
    alone = max(ports[port] for port in ("lanes", "matrix unit", "issue", "local memory")) / groups
    waited = sum(times * max(0, unit.l2_latency - part * alone) for times, part in piece.waits)
    ports["latency"] = alone + waited + BARRIER_CYCLES * piece.tally.count["barrier"] + ROUND_CYCLES
    bound = max(ports, key=ports.get)
    return ports[bound], bound


@dataclasses.dataclass
class Time:
    seconds: float
    ideal: float            # the larger of arithmetic and bytes at the device's peaks
    flops: float            # of products, by the direct method; 0 for other kernels
    bound: str
    groups: int = 0         # resident on a unit
    peak: float = 0.0       # of what multiplies; 0: the lanes


def memory_seconds(target, launch):
    return sum(argument.get("bytes", 0) for argument in launch["arguments"]) / (MEMORY_SHARE * target.bandwidth)


def group_count(launch):
    return math.prod(whole // part for whole, part in zip(launch["global"], launch["local"]))


def product_time(target, kernel, piece, launch):
    """Of a launch with tiles; `piece` is the slice of its kernel."""
    unit, tiles, items = target.unit, launch["tiles"], math.prod(launch["local"])
    resident, _ = occupancy(target, kernel, items)
    each = math.ceil(group_count(launch) / target.units)
    slices = math.ceil(tiles["part_depth"] / tiles["tile"][2]) / piece.slices
    outside = (piece.outside * waves_of(target, kernel, items) / unit.slots * unit.wave_cycles +
               2 * unit.memory_latency)
    cycles, bound = 0.0, ""
    for groups, rounds in ((resident, each // resident), (each % resident, 1)):
        if groups and rounds:
            taken, why = slice_cycles(target, kernel, piece, items, groups)
            cycles += rounds * (slices * taken + outside)
            bound = bound or why
    seconds, memory = cycles / target.clock, memory_seconds(target, launch)
    flops = 2.0 * tiles["products"] * tiles["rows"] * tiles["columns"] * tiles["depth"] * tiles["batches"]
    flops = launch["flops"] or flops
    bound = "memory" if memory > seconds else bound if each >= resident else "few work-groups"
    peak = target.matrix_flops if piece.tally.amount["matrix"] else target.flops
    if tiles.get("split"):
        peak /= SPLIT
    return Time(max(seconds, memory), max(flops / peak, memory), flops, bound, resident, peak)


def other_time(target, kernel, stream, launch):
    """Of any other launch; `stream` are its kernel's instructions."""
    unit, items = target.unit, math.prod(launch["local"])
    groups, memory = group_count(launch), memory_seconds(target, launch)
    buffers = [argument["bytes"] for argument in launch["arguments"] if argument.get("bytes")]
    generated = not launch["arguments"][0]["name"]
    numbers = (sum(buffers) / len(buffers) if generated else buffers[0]) / 4 if buffers else 0
    each = max(numbers, groups) / (groups * items)
    loaded = max(stream.round.count["load"], stream.round.amount["load"] / 4)  # numbers; a load may have several
    rounds = max(1, math.ceil(each / max(1, loaded / 2))) if stream.round.total else 0
    instructions = stream.straight + rounds * stream.round.total
    waves = waves_of(target, kernel, items) * groups
    issue = waves * instructions * unit.wave_cycles / (unit.slots * target.units * target.clock)
    bytes_ahead = stream.round.amount["load"] or sum(one.amount for one in kernel.instructions if one.kind == "load")
    resident, resident_waves = occupancy(target, kernel, items)
    flight = (resident_waves * (unit.wave or kernel.wave or 16) * min(bytes_ahead, FLIGHT_BYTES) * target.units *
              min(1, groups / target.units / resident))
    latency = sum(buffers) / max(1, flight) * unit.memory_latency / target.clock if bytes_ahead else 0
    times = {"memory": memory, "issue": issue, "few bytes in flight": latency}
    bound = max(times, key=times.get)
    return Time(times[bound], memory, 0, bound, resident)
