"""From raw measurements to medians, ratios and their spread. Knows no peer and no file."""

import collections
import math
import statistics

PEERS = ("torch", "best", "onnx", "step", "compiled")
USUAL = PEERS[:3]
TITLES = {
    "koine": "Koine",
    "torch": "PyTorch as installed",
    "best": "PyTorch at its best",
    "onnx": "ONNX Runtime",
    "step": "train_step",
    "compiled": "torch.compile by Koine",
}

Spread = collections.namedtuple("Spread", "median low high")
# times: {peer: Spread of milliseconds}; ratios: {peer: Spread of how many times faster Koine is}; shares: {peer: of the
# limit}; bounds: "math" or "memory"; memory: {peer: (peak, peak less base)} in bytes; best: the words of PyTorch's best
Line = collections.namedtuple("Line", "case mode batch times ratios shares bound memory best check notes")


def spread(numbers):
    return Spread(statistics.median(numbers), min(numbers), max(numbers))


def geometric_mean(numbers):
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers)) if numbers else None


def best_of(rounds):
    """The key of PyTorch's fastest variant, or None."""
    keys = {key for one in rounds for key in one if key.startswith("best:")}
    medians = {key: [one[key]["median_ms"] for one in rounds if key in one] for key in keys}
    # Those that were given up early were slow by far.
    most = max(map(len, medians.values()), default=0)
    medians = {key: statistics.median(times) for key, times in medians.items() if len(times) == most}
    return min(sorted(medians), key=medians.get) if medians else None


def key_of(peer, best):
    return best if peer == "best" else peer


def least_ms(row, probe):
    """(milliseconds that the machine needs at least, by what): operations by the direct method; or the parameters read
    once, and in training read for both directions and read and written with a moment by the update."""
    if not probe:
        return None, None
    passes = 5 if row["mode"] == "train" else 1
    math_ms = row["flops"] / probe["gflops"] * 1e-6
    memory_ms = 4.0 * row["parameters"] * passes / probe["gbytes"] * 1e-6 if probe["gbytes"] else 0
    return (math_ms, "math") if math_ms >= memory_ms else (memory_ms, "memory")


def line(row):
    """A row of the raw results as a Line; None where nothing was measured."""
    rounds = [one for one in row["rounds"] if "koine" in one]
    if not rounds:
        return None
    best = best_of(rounds)
    times, ratios, shares, memory, bounds = {}, {}, {}, {}, []
    for peer in ("koine", *PEERS):
        key = key_of(peer, best)
        found = [(one["koine"], one[key]) for one in rounds if key in one]
        if not found:
            continue
        times[peer] = spread([theirs["median_ms"] for _, theirs in found])
        least = [(least_ms(row, theirs.get("probe")), theirs["median_ms"]) for _, theirs in found]
        known = [(one[0] / taken, one[1]) for one, taken in least if one[0]]
        if known:
            shares[peer] = statistics.median(share for share, _ in known)
            bounds += [bound for _, bound in known]
        memory[peer] = (
            max(theirs["peak_bytes"] for _, theirs in found),
            max(theirs["peak_bytes"] - theirs["base_bytes"] for _, theirs in found),
        )
        if peer != "koine":
            ratios[peer] = spread([theirs["median_ms"] / ours["median_ms"] for ours, theirs in found])
    words = best.split(":", 1)[1].replace("jemalloc,", "").replace("jemalloc", "") if best else ""
    return Line(
        row["case"],
        row["mode"],
        row["batch"],
        times,
        ratios,
        shares,
        statistics.mode(bounds) if bounds else None,
        memory,
        words or "jemalloc alone",
        row.get("check"),
        row.get("notes", []),
    )


def lines(raw):
    return [found for found in map(line, raw["rows"]) if found]


def means(chosen):
    """{peer: (geometric mean of the ratios, how many)}, and the same for memory of PyTorch as installed:
    {"peak", "peak less base"} as Koine's share."""
    ratios = {peer: [one.ratios[peer].median for one in chosen if peer in one.ratios] for peer in PEERS}
    both = [one for one in chosen if "torch" in one.memory]
    memory = {
        name: geometric_mean(
            [
                one.memory["koine"][i] / one.memory["torch"][i]
                for one in both
                if min(one.memory["koine"][i], one.memory["torch"][i]) > 0
            ]
        )
        for i, name in enumerate(("peak", "peak less base"))
    }
    return {peer: (geometric_mean(found), len(found)) for peer, found in ratios.items() if found}, memory
