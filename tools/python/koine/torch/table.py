"""The whole table of operators, and a page of it, docs/torch-operators.md."""
from __future__ import annotations

import textwrap
from typing import Iterable, Set

import torch

from . import arrays, layers, pointwise  # noqa: F401  they put their rows into the table
from .operators import REASONS, ROWS, SIZES

HEAD = """\
# PyTorch's operators in koine.torch

Made by `python3 -c 'import koine.torch.table as t; print(t.page(), end="")'`. `torch.export` decomposes all other operators into
those of core ATen before the table is asked; what is neither here nor decomposed is an error that names the operator and its
module.
"""


def core() -> Set[str]:
    """Names of the operators of core ATen."""
    names = [name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    overloads = [getattr(getattr(torch.ops.aten, operator), overload or "default") for operator, _, overload in
                 (name.partition(".") for name in names)]
    return {str(overload) for overload in overloads if torch.Tag.core in overload.tags}


def listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name[len('aten.'):]}`" for name in sorted(names)) + ".", 120, break_on_hyphens=False)


def page() -> str:
    known = core()
    trained = {name for name in (*ROWS, *SIZES) if name in known}
    parts = [HEAD, f"## Of core ATen, {len(trained)} that are trained\n", listed(trained),
             "\n## Others that are trained as they are, without decomposing\n", listed(set(ROWS) - known),
             f"\n## Of core ATen, {len(REASONS)} that are not\n", "| why | operators |\n|---|---|"]
    for why in dict.fromkeys(REASONS.values()):
        names = ", ".join(f"`{name[len('aten.'):]}`" for name, reason in REASONS.items() if reason == why)
        parts.append(f"| {why} | {names} |")
    return "\n".join(parts) + "\n"
