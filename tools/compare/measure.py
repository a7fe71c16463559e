"""Measuring: one row after the other, all peers in turn, a probe of the machine between them."""

import contextlib
import os
import platform
import shutil
import sys
import time

import peers
import probe as probes
import results

# A candidate for PyTorch's best that takes so many times as long as the fastest one is not run again.
SLOW = 1.5


def say(words):
    print(words, file=sys.stderr, flush=True)


def machine():
    """ "AMD EPYC 9R14, Linux 6.1": no names of hosts or users."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {platform.system()} {'.'.join(platform.release().split('.')[:2])}"


class Turn:
    """Peers of one row, each measured between two probes."""

    def __init__(self, row, settings):
        self.row, self.settings, self.last = row, settings, settings.probe.run()

    def measure(self, run):
        """The result of `run`, with that of the probes."""
        found, before = run(), self.last
        self.last = self.settings.probe.run()
        found["probe"] = probes.between(before, self.last)
        return found


def koine_run(settings, row):
    found = settings.koine.run(row, settings.seconds)
    return {
        "median_ms": found["median_ms"],
        "best_ms": found["best_ms"],
        "n": found["n"],
        "first_s": found["first_s"],
        "base_bytes": found["rss_base_bytes"],
        "peak_bytes": found["rss_peak_bytes"],
        "flops": found["gflops"] * found["median_ms"] * 1e6,
    }


def start_workers(row, folder, settings, result, stack):
    """{key: Worker} of all peers that can do the row; why the others cannot goes into the notes."""
    makers = {}
    if "torch" in settings.peers:
        makers["torch"] = lambda: peers.torch_worker(row, folder, settings.limits, settings.log)
    if "best" in settings.peers:
        for variant in peers.best_variants(row):
            makers["best:" + ",".join(variant)] = lambda variant=variant: peers.torch_worker(
                row, folder, settings.limits, settings.log, variant
            )
    if "onnx" in settings.peers and row.mode == "infer":
        makers["onnx"] = lambda: peers.onnx_worker(folder, settings.limits, settings.log)
    for way in ("step", "compiled"):
        if way in settings.peers and (way == "compiled" or row.mode == "train"):
            makers[way] = lambda way=way: peers.own_worker(
                row, folder, settings.limits, settings.log, settings.koine.path, way
            )
    workers = {}
    for key, make in makers.items():
        try:
            workers[key] = make()
            stack.callback(workers[key].close)
        except peers.Failed as problem:
            result["notes"].append(f"{key}: {problem}")
    return workers


def drop_slow(workers, first):
    """Candidates that the first round showed to be slow are closed."""
    times = {key: found["median_ms"] for key, found in first.items() if key.startswith("best:")}
    for key, taken in times.items():
        if taken > SLOW * min(times.values()):
            workers.pop(key).close()


def run_rounds(row, workers, settings, result):
    turn = Turn(row, settings)
    for number in range(settings.rounds):
        found = {"koine": turn.measure(lambda: koine_run(settings, row))}
        result["flops"] = found["koine"].pop("flops")
        for key in list(workers):
            try:
                found[key] = turn.measure(lambda: workers[key].run(settings.seconds))
            except peers.Failed as problem:
                result["notes"].append(f"{key}: {problem}")
                workers.pop(key).close()
        result["rounds"].append(found)
        if number == 0:
            drop_slow(workers, found)
        shown = ", ".join(f"{key} {one['median_ms']:.4g}" for key, one in found.items())
        say(f"  round {number + 1} of {settings.rounds}, ms: {shown}")


def measure_row(row, settings, parameters):
    """A row of the raw results."""
    result = {**row._asdict(), "parameters": parameters, "notes": [], "rounds": [], "check": None}
    folder = os.path.join(settings.scratch, f"{row.case}-{row.mode}-{row.batch}")
    os.makedirs(folder, exist_ok=True)
    say(f"{row.case} {row.mode}, batch {row.batch}")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, True)
        try:
            if settings.peers:
                peers.prepare(
                    row, folder, settings.limits, settings.log, "onnx" in settings.peers and row.mode == "infer"
                )
                result["check"] = settings.koine.check(row, folder)
                if not result["check"]["agrees"]:
                    result["notes"].append(
                        f"not measured: Koine and PyTorch compute different numbers: {result['check']}"
                    )
                    say(f"  {result['notes'][-1]}")
                    return result
                say(f"  computes the same: largest difference {result['check']['difference']:.1e}")
            if settings.rounds:
                run_rounds(row, start_workers(row, folder, settings, result, stack), settings, result)
        except peers.Failed as problem:
            result["notes"].append(str(problem))
        for note in result["notes"]:
            say(f"  {note}")
    return result


def measure(rows, settings):
    """All raw results. Each finished row is handed to settings.keep, so that an interrupt loses one at most."""
    settings.limits.apply()
    raw = {
        "about": {
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
            "threads": settings.limits.threads,
            "rounds": settings.rounds,
            "seconds": settings.seconds,
            "load": os.getloadavg()[0],
            "versions": {
                "device": settings.koine.device(),
                "Koine": settings.koine.call("--version").split()[-1],
                **({} if not settings.peers else peers.versions()),
            },
        },
        "left_out": list(settings.left_out),
        "rows": [],
    }
    if raw["about"]["load"] > 0.3:
        say(f"others are using this machine (load average {raw['about']['load']:.1f}): ratios will not mean much")
    known = settings.koine.models()
    for name in {row.case: None for row in rows}:
        if name not in known:
            raw["left_out"].append(f"{name}: this Koine has no such model")
    for row in rows:
        if row.case in known:
            raw["rows"].append(measure_row(row, settings, known[row.case]))
            seen = [
                one["probe"]
                for result in raw["rows"]
                for found in result["rounds"]
                for one in found.values()
                if one.get("probe")
            ]
            if seen:
                raw["about"]["peak"] = {key: list(results.spread([one[key] for one in seen])) for key in seen[0]}
            settings.keep(raw)
    return raw
