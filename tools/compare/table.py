"""The results as Markdown."""

import results
from results import PEERS, TITLES

MODE_TITLES = {"train": "Training", "infer": "Inference"}


def number(value):
    """Three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_text(found):
    return f"**{number(found.median)}** ({number(found.low)}..{number(found.high)})"


def megabytes(value):
    return f"{value / 1e6:.0f}"


def rows_of(table):
    """Columns padded to equal width, so that the Markdown is readable as text."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in table]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines


def speed_table(chosen, peers):
    table = [
        [
            "case",
            "batch",
            "Koine ms",
            *(f"{TITLES[peer]} ms" for peer in peers),
            *(f"times {TITLES[peer]}" for peer in peers),
        ]
    ]
    for one in chosen:
        table.append(
            [
                one.case,
                str(one.batch),
                number(one.times["koine"].median),
                *(number(one.times[peer].median) if peer in one.times else "" for peer in peers),
                *(ratio_text(one.ratios[peer]) if peer in one.ratios else "" for peer in peers),
            ]
        )
    found, _ = results.means(chosen)
    table.append(
        [
            "geometric mean",
            "",
            "",
            *("" for _ in peers),
            *(f"**{number(found[peer][0])}**" if peer in found else "" for peer in peers),
        ]
    )
    return rows_of(table)


def share_table(chosen, peers):
    table = [["case", "batch", "limit by", *(TITLES[peer] for peer in ("koine", *peers))]]
    for one in chosen:
        table.append(
            [
                one.case,
                str(one.batch),
                one.bound or "",
                *(f"{100 * one.shares[peer]:.0f}%" if peer in one.shares else "" for peer in ("koine", *peers)),
            ]
        )
    return rows_of(table)


def memory_table(chosen, peers):
    table = [
        [
            "case",
            "batch",
            *(f"{TITLES[peer]} MB" for peer in ("koine", *peers)),
            "less base",
            "Koine of PyTorch",
            "less base",
        ]
    ]
    for one in chosen:
        cells = [megabytes(one.memory[peer][0]) if peer in one.memory else "" for peer in ("koine", *peers)]
        less = megabytes(one.memory["koine"][1])
        shares = ["", ""]
        if "torch" in one.memory:
            less += f" / {megabytes(one.memory['torch'][1])}"
            shares = [
                f"{one.memory['koine'][i] / one.memory['torch'][i]:.2f}" if one.memory["torch"][i] > 0 else ""
                for i in (0, 1)
            ]
        table.append([one.case, str(one.batch), *cells, less, *shares])
    _, shares = results.means(chosen)
    table.append(
        [
            "geometric mean",
            "",
            *("" for _ in ("koine", *peers)),
            "",
            *(f"{shares[name]:.2f}" if shares[name] else "" for name in ("peak", "peak less base")),
        ]
    )
    return rows_of(table)


def check_text(one):
    check = one.check or {}
    if not check:
        return "not checked"
    if "expected_rms" in check:
        return f"logits differ by {check['difference']:.1e} at most, their RMS is {check['expected_rms']:.2g}"
    return (
        f"losses of the first {len(check['expected'])} steps differ by {check['difference']:.1e} of the first at most"
    )


def markdown(raw):
    """The whole page."""
    about, lines = raw["about"], results.lines(raw)
    page = [
        "# Koine and other programs",
        "",
        f"{about['date']}, {about['machine']}, {about['threads']} threads, single precision; "
        f"{about['rounds']} rounds of {about['seconds']:g} s in turn.",
    ]
    if about.get("peak"):
        page += [
            "",
            "Peak of the machine, probed with each measurement, median (least..most): "
            + ", ".join(
                f"{number(low[0])} ({number(low[1])}..{number(low[2])}) {unit}"
                for low, unit in ((about["peak"]["gflops"], "GFLOP/s"), (about["peak"]["gbytes"], "GB/s"))
            )
            + ".",
        ]
    if about.get("load", 0) > 0.3:
        page += [
            "",
            f"**Others were using the machine** (load average {about['load']:.1f} before the first measurement): "
            "measure again when it is quiet.",
        ]
    page += [
        "",
        "Versions: " + "; ".join(f"{name} {version}" for name, version in about["versions"].items() if version),
    ]
    for mode in ("train", "infer"):
        chosen = [one for one in lines if one.mode == mode]
        peers = [peer for peer in PEERS if any(peer in one.times for one in chosen)]
        if not chosen:
            continue
        page += [
            "",
            f"## {MODE_TITLES[mode]}",
            "",
            "How many times faster Koine is: median over the rounds (least..most).",
            "",
            *speed_table(chosen, peers),
            *(
                ["", "Fraction of the limit, medians.", "", *share_table(chosen, peers)]
                if any(one.shares for one in chosen)
                else []
            ),
            "",
            "Most memory of the process, and that less what it had with no model.",
            "",
            *memory_table(chosen, peers),
        ]
        if any("best" in one.times for one in chosen):
            page += [
                "",
                "PyTorch's best: "
                + "; ".join(f"{one.case}:{one.batch} {one.best}" for one in chosen if "best" in one.times)
                + ".",
            ]
        page += [
            "",
            "Checked before: " + "; ".join(f"{one.case}:{one.batch} {check_text(one)}" for one in chosen) + ".",
        ]
    page += ["", *how_to_read()]
    notes = [
        f"{row['case']}:{row['batch']} {row['mode']}: {note}" for row in raw["rows"] for note in row.get("notes", [])
    ]
    if raw["left_out"] or notes:
        page += ["", "## Left out", "", *(f"- {one}" for one in [*raw["left_out"], *notes])]
    return "\n".join(page) + "\n"


def how_to_read():
    return [
        "## What the numbers are",
        "",
        "A step of training is forward, loss, backward, update (SGD with momentum; AdamW for gpt) and the loss read; a "
        "step of inference is the whole output. Times are medians of a round, and then over the rounds; ratios are "
        "made in each round, of measurements one after the other. PyTorch at its best is the fastest of "
        "channels-last, `torch.compile`, both and neither, each with jemalloc and huge pages. The fraction of the limit "
        "is the time that the probed peak would need for the operations counted by the direct method (math), or for "
        "reading and updating the parameters once (memory), whichever is longer, of the time taken. train_step and "
        "torch.compile by Koine are PyTorch's networks, computed by Koine; below 1 is what they take less than Koine's "
        "own networks.",
    ]
