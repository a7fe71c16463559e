"""The complete operator table, and its documentation page, docs/torch-operators.md."""
from __future__ import annotations

import textwrap
from typing import Any, Iterable, List, Set

import torch

from . import arrays, backward, composed, distances, drawn, layers, pointwise, pools, sampling, scatters  # noqa: F401  register rows
from .operators import BACKWARD, FUNCTIONAL, REASONS, ROWS, SIZES

HEAD = """\
# PyTorch operators

Made by `python3 -c 'import koine.torch.table as t; print(t.page(), end="")'`. `torch.export` and `torch.compile` decompose all
other operators into core ATen first. An operator that is neither in this list nor decomposed is an error in a training step,
which names the operator and its module; `torch.compile` leaves it to PyTorch.
"""


def operators_kept() -> List[Any]:
    """The table's operators as PyTorch objects, without operators that this PyTorch version lacks."""
    found = []
    for name in ROWS:
        _, operator, overload = name.split(".")
        packet = getattr(torch.ops.aten, operator, None)
        if packet is not None and overload in packet.overloads():
            found.append(getattr(packet, overload))
    return found


def core() -> Set[str]:
    """The names of the core ATen operators."""
    names = [name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    overloads = [getattr(getattr(torch.ops.aten, operator), overload or "default") for operator, _, overload in
                 (name.partition(".") for name in names)]
    return {str(overload) for overload in overloads if torch.Tag.core in overload.tags}


def short(name: str) -> str:
    """In code font, without "aten."."""
    return f"`{name[len('aten.'):] if name.startswith('aten.') else name}`"


def listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(map(short, sorted(names))) + ".", 120, break_on_hyphens=False)


def page() -> str:
    known = core()
    trained = {name for name in (*ROWS, *SIZES) if name in known} - BACKWARD
    count = len(known) - len(REASONS)
    parts = [HEAD, f"Koine supports {count} of {len(known)} core ATen operators, {100 * count // len(known)} %: those in the next section, "
             f"{len(BACKWARD & known)} of backward passes, and {len(FUNCTIONAL)} that write in place.\n",
             f"## Core ATen: {len(trained)} trainable operators\n", listed(trained),
             "\n## Other operators that are trained without decomposition\n", listed(set(ROWS) - known - BACKWARD),
             "\n## Operators of backward passes, in graphs of torch.compile\n", listed(BACKWARD),
             "\n## In-place operators that the tracer makes functional\n",
             "| operator | becomes |\n|---|---|",
             *(f"| {short(name)} | {short(other)} |" for name, other in FUNCTIONAL.items()),
             f"\n## Core ATen: {len(REASONS)} unsupported operators\n", "| reason | operators |\n|---|---|"]
    for why in dict.fromkeys(REASONS.values()):
        names = ", ".join(short(name) for name, reason in REASONS.items() if reason == why)
        parts.append(f"| {why} | {names} |")
    return "\n".join(parts) + "\n"
