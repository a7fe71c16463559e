#!/usr/bin/env python3
"""Runs PyTorch's samples of its operators (OpInfo) through koine.torch, and compares the results.

usage: samples.py [--count N] [--notes FILE] [--seconds S] [--page] [NAME…]

Each sample, a call of an operator in float32, is traced into core ATen as torch.compile does, built by the table of koine.torch,
and computed by Koine and by PyTorch. What an operator comes to is printed in a line, and the counts at the end. Exit status 1:
results differ.

  --count N    samples for each operator, the smallest first (4)
  --notes FILE keeps what was found in a file, and goes on from it; an operator during which the process ended is noted as such
  --seconds S  stops before the next operator after so many seconds
  --page       writes the page docs/torch-samples.md on standard output, from the notes alone
"""
import argparse
import json
import logging
import os
import pathlib
import textwrap
import time
import warnings

TOLERANCE = 2e-4  # of the largest element
FINE, PART, WRONG, OTHER = "in Koine", "partly in PyTorch", "different", "not tried"


def tensors_in(found):
    import torch
    from torch.utils import _pytree as pytree
    leaves, spec = pytree.tree_flatten(found)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    return leaves, spec, places


def difference(found, wanted):
    """What is different, or None."""
    import torch
    if len(found) != len(wanted):
        return f"{len(found)} results, expected {len(wanted)}"
    for one, other in zip(found, wanted):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"a result is {one.dtype} {tuple(one.shape)}, expected {other.dtype} {tuple(other.shape)}"
        if not other.dtype.is_floating_point:
            if not torch.equal(one, other):
                return f"{int((one != other).sum())} of {one.numel()} integers differ"
            continue
        finite = other[other.isfinite()]
        largest = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
        if not torch.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True):
            apart = (one.double() - other.double()).abs()
            return f"{int((~torch.isclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True)).sum())} of {one.numel()} numbers " \
                   f"differ, by up to {apart[apart.isfinite()].max().item() if apart.isfinite().any() else float('nan'):.2g}"
    return None


def traced(operator, sample):
    """A module of core ATen with the sample's tensors as its arguments, and these."""
    import torch
    from koine.torch.compile import decompositions
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils import _pytree as pytree
    leaves, spec, places = tensors_in((sample.input, sample.args, sample.kwargs))

    def call(*tensors):
        given = list(leaves)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        value, arguments, keywords = pytree.tree_unflatten(given, spec)
        results, _, found = tensors_in(operator(value, *arguments, **keywords))
        return [results[place] for place in found]
    tensors = [leaves[place].detach() for place in places]
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        wanted = call(*(tensor.clone() for tensor in tensors))
        module = make_fx(torch.func.functionalize(call, remove="mutations"), decompositions(), tracing_mode="fake")(*tensors)
    return module, tensors, wanted


def tried(operator, sample):
    """Status and reason of one sample."""
    import torch
    from koine.torch import parts
    from koine.torch.kept import Kept
    import koine
    try:
        module, tensors, wanted = traced(operator, sample)
    except Exception as error:  # of the tracer's own, such as for sizes that depend on data
        return OTHER, f"it is not traced: {type(error).__name__}"
    if operator.name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"):
        return OTHER, "its elements are undefined"
    if not wanted:
        return OTHER, "its results are no tensors"
    reasons, random = {}, False
    for node in module.graph.nodes:
        if node.op == "call_function" and "getitem" not in str(node.target) and isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
            random = random or parts.is_random(node)
            why = parts.why_not(node)
            if why is not None:
                reasons.setdefault(f"{str(node.target)[len('aten.'):]}: {why}")
    if random:
        return OTHER, "it draws random numbers"
    if reasons:
        return PART, next(iter(reasons))
    kept = Kept(koine.default_context())
    made = parts.split(module, kept, False, {})
    for child in made.children():
        if isinstance(child, parts.Part):
            child.strict = True
    with torch.no_grad():
        found = made(*(tensor.clone() for tensor in tensors))
    wrong = difference(list(found), wanted)
    return (WRONG, wrong) if wrong else (FINE, "")


def sizes_of(sample):
    leaves, _, places = tensors_in((sample.input, sample.args, sample.kwargs))
    return sum(leaves[place].numel() for place in places) or 10**9


def run(operator, count):
    """What the samples of an operator came to."""
    import itertools
    import torch
    torch.manual_seed(1)
    try:
        samples = list(itertools.islice(operator.sample_inputs("cpu", torch.float32, requires_grad=False), 60))
    except Exception as error:  # some need packages that are not here
        return {"statuses": [OTHER], "why": [f"it has no samples here: {type(error).__name__}"]}
    samples.sort(key=sizes_of)
    found = [tried(operator, sample) for sample in samples[:count]]
    return {"statuses": [status for status, _ in found], "why": list(dict.fromkeys(why for _, why in found if why))}


def worst(note):
    return next((status for status in (WRONG, PART, OTHER, FINE) if status in note["statuses"]), OTHER)


HEAD = """\
# Samples of PyTorch's operators

Made by `tests/python/samples.py --count {count} --notes FILE`, and then with `--page`; PyTorch {version}, on
{device}.

PyTorch has samples of calls for each of its operators, which test it. Here the {count} smallest of each, in float32, were traced
into core ATen as by `torch.compile`, built by the [table](torch-operators.md) of `koine.torch`, and compared: numbers may differ
by {tolerance:g} of the largest one. Of an operator that is partly in PyTorch, `torch.compile` computes the rest in Koine; for
`train_step` it is an error with the reason. Gradients are not tried here.

| | operators | samples |
|---|---|---|
"""


def page(notes, facts):
    operators = {status: [name for name, note in notes.items() if worst(note) == status] for status in (FINE, PART, WRONG, OTHER)}
    lines = [HEAD.format(**facts)]
    for status, names in operators.items():
        lines.append(f"| {status} | {len(names)} | {sum(note['statuses'].count(status) for note in notes.values())} |\n")
    lines.append("\n## In Koine, with PyTorch's results\n\n" + listed(operators[FINE]))
    reasons = {}
    for status in (WRONG, PART, OTHER):
        for name in operators[status]:
            for why in notes[name]["why"]:
                reasons.setdefault((status, why), []).append(name)
    for status in (WRONG, PART, OTHER):
        rows = [(why, names) for (own, why), names in reasons.items() if own == status]
        if rows:
            lines.append(f"\n## {status[0].upper()}{status[1:]}\n\n| why | operators |\n|---|---|\n")
            lines += [f"| {why.replace('|', '/')} | {', '.join(f'`{name}`' for name in names)} |\n" for why, names in sorted(rows, key=lambda row: -len(row[1]))]
    return "".join(lines)


def listed(names):
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)) + ".", 120, break_on_hyphens=False) + "\n" if names else "None.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--notes")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    notes, facts = {}, {}
    if given.notes and os.path.exists(given.notes):
        for line in pathlib.Path(given.notes).read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            facts.update(item.get("facts", {}))
            if "name" in item:
                notes[item["name"]] = item
    if given.page:
        print(page(dict(sorted(notes.items())), facts), end="")
        return 0
    import torch
    import koine.torch
    from torch.testing._internal.common_methods_invocations import op_db
    warnings.simplefilter("ignore")
    logging.getLogger("koine").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)

    def note(item):
        if given.notes:
            with open(given.notes, "a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")
    note({"facts": {"version": torch.__version__.split("+")[0], "device": koine.default_context().device.name, "count": given.count, "tolerance": TOLERANCE}})
    began = time.monotonic()
    for operator in op_db:
        name = operator.name + (f" ({operator.variant_test_name})" if operator.variant_test_name else "")
        if name in notes or (given.names and operator.name not in given.names) or not operator.supports_dtype(torch.float32, "cpu"):
            continue
        if time.monotonic() - began > given.seconds:
            print("stopped; the same command goes on")
            break
        note({"name": name, "statuses": [WRONG], "why": ["the process ended"]})
        item = {"name": name, **run(operator, given.count)}
        notes[name] = item
        note(item)
        counts = ", ".join(f"{item['statuses'].count(status)} {status}" for status in dict.fromkeys(item["statuses"]))
        print("; ".join([f"{name}: {counts}", *item["why"]]), flush=True)
    print(", ".join(f"{sum(worst(item) == status for item in notes.values())} {status}" for status in (FINE, PART, WRONG, OTHER)))
    return any(worst(item) == WRONG for item in notes.values())


if __name__ == "__main__":
    raise SystemExit(main())
