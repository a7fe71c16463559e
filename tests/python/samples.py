#!/usr/bin/env python3
"""Runs PyTorch's samples of its operators (OpInfo) through koine.torch, and compares results or gradients.

usage: samples.py [--gradients] [--count N] [--notes FILE] [--seconds S] [--page] [NAME…]

Each sample, a call of an operator in float32, is traced into core ATen as torch.compile does, built by the table of koine.torch,
and computed by Koine and by PyTorch. What an operator comes to is printed in a line, and the counts at the end. Exit status 1:
results or gradients differ.

  --gradients  compares the gradients that Koine has in a training step with those of PyTorch's autograd, instead of results
  --count N    samples for each operator, the smallest first (4)
  --notes FILE keeps what was found in a file, and goes on from it; an operator during which the process ended is noted as such
  --seconds S  stops before the next operator after so many seconds
  --page       writes the page docs/appendix/torch-samples.md to standard output, only from the notes
"""
import argparse
import json
import logging
import math
import os
import pathlib
import re
import textwrap
import time
import warnings

TOLERANCE = 2e-4  # of the largest element
# Gradients of PyTorch that torch.autograd.gradcheck refuses.
NOT_GRADIENTS = ("as_strided_scatter",)
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


def call_of(operator, sample):
    """The sample as a function of its tensors, which returns those of its results; and its tensors."""
    from torch.utils import _pytree as pytree
    leaves, spec, places = tensors_in((sample.input, sample.args, sample.kwargs))

    def call(*tensors):
        given = list(leaves)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        value, arguments, keywords = pytree.tree_unflatten(given, spec)
        results, _, found = tensors_in(operator(value, *arguments, **keywords))
        return [results[place] for place in found]
    return call, [leaves[place] for place in places]


def traced(call, tensors):
    """A module of core ATen of a call, without writes in place."""
    import torch
    from koine.torch.compile import decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    def trace(function):
        return make_fx(torch.func.functionalize(function, remove="mutations"), decompositions(), tracing_mode="fake")(*tensors)
    module = trace(call)
    for node in list(module.graph.nodes):  # the converted arguments are not results
        if node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)
    module.recompile()
    module.graph.eliminate_dead_code()
    if any(str(node.target).split(".")[1].endswith("_") for node in module.graph.nodes if str(node.target).startswith("aten.")):
        module = trace(module)  # those of decompositions, which torch.compile makes functional, too
    return module


def reason_of(module):
    """Why not all of a module is computed by Koine, or None; and whether it draws random numbers."""
    from koine.torch import parts
    reasons, random = {}, False
    for node in module.graph.nodes:
        if node.op == "call_function" and "getitem" not in str(node.target) and tensors_in(node.meta.get("val"))[2]:
            random = random or parts.is_random(node)
            why = parts.why_not(node)
            if why is not None:
                reasons.setdefault(f"{str(node.target)[len('aten.'):]}: {why}")
    return next(iter(reasons), None), random


def tried(operator, sample, gradients):
    """Status and reason of one sample."""
    import koine
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if operator.name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"):
        return OTHER, "its elements are undefined"
    if gradients and operator.name in NOT_GRADIENTS:
        return OTHER, "PyTorch's gradient is not the function's, by torch.autograd.gradcheck"
    call, given = call_of(operator, sample)
    tensors = [tensor.detach() for tensor in given]
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            wanted = call(*(tensor.clone() for tensor in tensors))
            module = traced(call, tensors)
    except Exception as error:  # of the tracer's own, such as for sizes that depend on data
        return OTHER, f"it is not traced: {type(error).__name__}"
    if not wanted:
        return OTHER, "its results are not tensors"
    why, random = reason_of(module)
    if random:
        return OTHER, "it draws random numbers"
    if why:
        return PART, why
    try:
        wrong = differing_gradients(call, module, given) if gradients else differing_results(module, tensors, wanted)
    except koine.UnsupportedError as error:  # such as gradients of gradients
        return PART, re.sub(" '[^']*'", "", str(error))
    except Exception as error:  # a fault, which the page tells
        wrong = f"{type(error).__name__}: {error}"
    return (OTHER, wrong[0]) if isinstance(wrong, list) else (WRONG, wrong) if wrong else (FINE, "")


def differing_results(module, tensors, wanted):
    import koine
    import torch
    from koine.torch import parts
    from koine.torch.kept import Kept
    made = parts.split(module, Kept(koine.default_context()), False, {"fallback": False})
    with torch.no_grad():
        found = made(*(tensor.clone() for tensor in tensors))
    return difference(list(found), wanted)


def factors_of(shape):
    """What the elements of a result count in the sum that is differentiated."""
    import torch
    return torch.cos(torch.arange(math.prod(shape), dtype=torch.float32)).reshape(tuple(shape))


def differing_gradients(call, module, given):
    """What is different; a list with a reason if there is nothing to compare."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    leaves = [tensor.detach().clone().requires_grad_(tensor.requires_grad and tensor.dtype == torch.float32) for tensor in given]
    trained = [place for place, leaf in enumerate(leaves) if leaf.requires_grad]
    with sdpa_kernel(SDPBackend.MATH):
        try:
            results = call(*(leaf * 1 if leaf.requires_grad else leaf for leaf in leaves))  # a leaf cannot be written in place
        except RuntimeError as error:
            return [f"PyTorch does not differentiate it: {type(error).__name__}"]
    which = [place for place, result in enumerate(results) if result.requires_grad and result.dtype == torch.float32]
    if not trained or not which:
        return ["it has no gradient"]
    try:
        total = sum((results[place] * factors_of(results[place].shape)).sum() for place in which)
        wanted = torch.autograd.grad(total, [leaves[place] for place in trained], allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        return [f"PyTorch does not differentiate it: {type(error).__name__}"]
    wanted = [torch.zeros_like(leaves[place]) if gradient is None else gradient for place, gradient in zip(trained, wanted)]
    return difference(gradients_of(module, [leaf.detach() for leaf in leaves], trained, which), wanted)


def gradients_of(module, tensors, trained, which):
    """By a trainer that does not update: it keeps half of the gradients for a second step, as train_step does for some optimizers."""
    import koine
    import torch
    from koine.torch import operators, trace
    from koine.torch.exchange import array_of

    class Build(trace.Nodes):
        functional, place = True, 0

        def _placeholder(self, node):
            position, self.place = self.place, self.place + 1
            fake = node.meta["val"]
            if position in trained:
                self.trained.add(node)
                return self.graph.parameter(f"input{position}", list(fake.shape), init=0.0)
            return self.graph.input(f"input{position}", list(fake.shape), trace.koine_type(fake.dtype, "an input"))

        def finish(self):
            for node in module.graph.nodes:
                if node.op == "get_attr":
                    self.values[node] = self.graph.constant(array_of(getattr(module, node.target)))
                elif node.op != "output":
                    self._add(node)
            results = next(node for node in module.graph.nodes if node.op == "output").args[0]
            total = self.graph.number(0.0)
            for place in which:
                value = self.values[results[place]]
                product = value.mul(self.graph.constant(factors_of(value.shape).numpy()))
                total = total + (product.sum(list(range(value.rank))) if value.rank else product)
            return total
    build = Build(operators.ROWS, operators.REASONS)
    total = build.finish()
    states = koine.States(koine.default_context(), 0)
    for place in trained:
        states[f"input{place}"] = array_of(tensors[place])
    used = [node for node in module.graph.nodes if node.op == "placeholder"]
    feeds = {f"input{place}": array_of(tensor) for place, tensor in enumerate(tensors) if place not in trained and used[place].users}
    try:
        koine.Trainer(total, states=states, optimizer="sgd", momentum=0.0, accumulate=2).step(feeds, count=1)
    except koine.ArgumentError as error:
        if "does not depend on a trainable parameter" not in str(error):
            raise
        return [torch.zeros_like(tensors[place]) for place in trained]  # steps have no gradient
    return [2 * torch.from_numpy(states[f"input{place}.gradient"]) if f"input{place}.gradient" in states else torch.zeros_like(tensors[place])
            for place in trained]


def sizes_of(sample):
    leaves, _, places = tensors_in((sample.input, sample.args, sample.kwargs))
    return sum(leaves[place].numel() for place in places) or 10**9


def run(operator, count, gradients):
    """What the samples of an operator came to."""
    import itertools
    import torch
    torch.manual_seed(1)
    try:
        samples = list(itertools.islice(operator.sample_inputs("cpu", torch.float32, requires_grad=gradients), 60))
    except Exception as error:  # some need packages that are not here
        return {"statuses": [OTHER], "why": [f"it has no samples here: {type(error).__name__}"]}
    samples.sort(key=sizes_of)
    found = [tried(operator, sample, gradients) for sample in samples[:count]]
    return {"statuses": [status for status, _ in found], "why": list(dict.fromkeys(why for _, why in found if why))}


def worst(note):
    return next((status for status in (WRONG, PART, OTHER, FINE) if status in note["statuses"]), OTHER)


HEAD = """\
# PyTorch operator samples

Made by `tests/python/samples.py --count {count} --notes FILE`, again with `--gradients`, and then with `--page`; PyTorch {version},
on {device}.

PyTorch tests each operator with sample calls. The {count} smallest float32 samples per operator were traced into core ATen as by
`torch.compile`, built with the [operators](../torch-operators.md) of `koine.torch`, and compared. Numbers may differ by
{tolerance:g} of the largest number. For operators that are partly in PyTorch, `torch.compile` computes the remaining part in Koine;
`train_step` reports an error with the reason. Gradients come from a Koine training step of a weighted sum of all results and are
compared with PyTorch's autograd.
"""
TITLES = {"results": "Results", "gradients": "Gradients"}


def page(notes, facts):
    lines = [HEAD.format(**facts)]
    for kind, title in TITLES.items():
        found = {name: note for (own, name), note in sorted(notes.items()) if own == kind}
        if found:
            lines += [f"\n## {title}\n", *part_of_page(found)]
    return "".join(lines)


def part_of_page(notes):
    operators = {status: [name for name, note in notes.items() if worst(note) == status] for status in (FINE, PART, WRONG, OTHER)}
    compared = len(operators[FINE]) + len(operators[PART]) + len(operators[WRONG])
    lines = ["\n| | operators | samples |\n|---|---|---|\n"]
    for status, names in operators.items():
        lines.append(f"| {status} | {len(names)} | {sum(note['statuses'].count(status) for note in notes.values())} |\n")
    lines.append(f"\nKoine computes {100 * len(operators[FINE]) // max(1, compared)} % of the tried operators.\n")
    lines.append("\n### In Koine\n\n" + listed(operators[FINE]))
    reasons = {}
    for status in (WRONG, PART, OTHER):
        for name in operators[status]:
            for why in notes[name]["why"]:
                reasons.setdefault((status, why), []).append(name)
    for status in (WRONG, PART, OTHER):
        rows = [(why, names) for (own, why), names in reasons.items() if own == status]
        if rows:
            lines.append(f"\n### {status[0].upper()}{status[1:]}\n\n| why | operators |\n|---|---|\n")
            lines += [f"| {why.replace('|', '/')} | {', '.join(f'`{name}`' for name in names)} |\n" for why, names in sorted(rows, key=lambda row: -len(row[1]))]
    return lines


def listed(names):
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)) + ".", 120, break_on_hyphens=False) + "\n" if names else "None.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradients", action="store_true")
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
                notes[item["of"], item["name"]] = item
    if given.page:
        print(page(notes, facts), end="")
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
    began, kind = time.monotonic(), "gradients" if given.gradients else "results"
    for operator in op_db:
        name = operator.name + (f" ({operator.variant_test_name})" if operator.variant_test_name else "")
        if (kind, name) in notes or (given.names and operator.name not in given.names) or not operator.supports_dtype(torch.float32, "cpu"):
            continue
        if time.monotonic() - began > given.seconds:
            print("stopped; the same command goes on")
            break
        if given.gradients and not operator.supports_autograd:
            continue
        note({"of": kind, "name": name, "statuses": [WRONG], "why": ["the process ended"]})
        item = {"of": kind, "name": name, **run(operator, given.count, given.gradients)}
        notes[kind, name] = item
        note(item)
        counts = ", ".join(f"{item['statuses'].count(status)} {status}" for status in dict.fromkeys(item["statuses"]))
        print("; ".join([f"{name}: {counts}", *item["why"]]), flush=True)
    found = [worst(item) for (own, _), item in notes.items() if own == kind]
    print(", ".join(f"{found.count(status)} {status}" for status in (FINE, PART, WRONG, OTHER)))
    return WRONG in found


if __name__ == "__main__":
    raise SystemExit(main())
