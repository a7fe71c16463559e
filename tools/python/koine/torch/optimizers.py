"""The PyTorch optimizers that Koine implements with the same formula, options and moments."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch


class Rule(NamedTuple):
    """Koine's optimizer, its setting for each PyTorch option, and its state kind for each PyTorch moment."""

    name: str
    options: Mapping[str, Any]
    moments: Mapping[str, str]
    counts: bool = True  # PyTorch stores a step count per parameter


_ADAM = ({"betas": ("beta1", "beta2"), "eps": "epsilon", "amsgrad": "amsgrad"},
         {"exp_avg": "moment1", "exp_avg_sq": "moment2", "max_exp_avg_sq": "moment2_max"})
RULES: Dict[type, Rule] = {
    torch.optim.SGD: Rule("sgd", {"momentum": "momentum", "dampening": "dampening", "nesterov": "nesterov"}, {"momentum_buffer": "momentum"}, False),
    torch.optim.Adam: Rule("adam", *_ADAM),
    torch.optim.AdamW: Rule("adamw", *_ADAM),
    torch.optim.RMSprop: Rule("rmsprop", {"alpha": "beta2", "eps": "epsilon", "momentum": "momentum", "centered": "centered"},
                              {"square_avg": "moment2", "momentum_buffer": "momentum", "grad_avg": "moment1"}),
    torch.optim.Adagrad: Rule("adagrad", {"lr_decay": "rate_decay", "eps": "epsilon", "initial_accumulator_value": "accumulator"}, {"sum": "sum"}),
    torch.optim.Adadelta: Rule("adadelta", {"rho": "beta2", "eps": "epsilon"}, {"square_avg": "moment2", "acc_delta": "delta"}),
}
# Options that may differ between groups and between steps.
_OWN = ("params", "lr", "weight_decay", "initial_lr", "param_names", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr")
# Options that may also do so if they are above 0, and the options by which the schedulers that change them (OneCycleLR) are known.
_DECAYS = ("momentum", "betas", "alpha", "rho")
_CYCLES = ("base_momentum", "max_momentum")
# Options that only select a PyTorch implementation.
_HOW = ("foreach", "fused", "capturable")


def why_not(optimizer: Any) -> Optional[str]:
    """Why Koine does not support an optimizer; None if it does."""
    if type(optimizer) not in RULES:
        return f"Koine has no {type(optimizer).__name__}"
    rule, first = RULES[type(optimizer)], optimizer.param_groups[0]
    for group in optimizer.param_groups:
        for option, value in group.items():
            if option in _OWN or option in _HOW:
                continue
            if option == "decoupled_weight_decay":
                if value != (rule.name == "adamw"):
                    return f"{type(optimizer).__name__} has decoupled_weight_decay={value}"
            elif option not in rule.options:
                if value:
                    return f"Koine has no {option} in {rule.name}"
            elif value != first.get(option) and not (option in _DECAYS and decays_may_vary(optimizer)):
                return f"the groups have different {option}, {first.get(option)} and {value}"
    return None


def decays_may_vary(optimizer: Any) -> bool:
    """Whether the momentum and betas may change without a new trainer: a momentum of 0 has no state."""
    rule = RULES[type(optimizer)]
    return all(number > 0 for group in optimizer.param_groups for option in _DECAYS if option in rule.options
               for number in (group[option] if isinstance(group[option], (tuple, list)) else (group[option],)))


def decays_vary(optimizer: Any) -> bool:
    """Whether the momentum or betas differ between groups, or a scheduler is known to change them."""
    groups = optimizer.param_groups
    return decays_may_vary(optimizer) and (any(option in groups[0] for option in _CYCLES)
                                           or any(group.get(option) != groups[0].get(option) for group in groups for option in _DECAYS))


def momenta_of(optimizer: Any) -> List[Tuple[float, float]]:
    """The arguments of Trainer.set_momentum for each group."""
    pairs = [group.get("betas", (group.get("momentum", 0), group.get("alpha", group.get("rho", 0)))) for group in optimizer.param_groups]
    return [(float(first), float(second)) for first, second in pairs]


def settings_of(optimizer: Any, vary: bool) -> Dict[str, Any]:
    """Keywords of koine.Trainer for an optimizer. Learning rates are set before each step, and so are the momentum and betas if they vary."""
    rule, first = RULES[type(optimizer)], optimizer.param_groups[0]
    settings: Dict[str, Any] = {"optimizer": rule.name, "learning_rate": 1.0, "weight_decay": 0.0}
    if vary:
        settings["variable_momentum"] = True
    for option, ours in rule.options.items():
        if vary and option in _DECAYS:
            continue
        if isinstance(ours, tuple):
            settings.update(zip(ours, (float(number) for number in first[option])))
        else:
            settings[ours] = bool(first[option]) if isinstance(first[option], bool) else float(first[option])
    return settings


def decays_of(optimizer: Any) -> List[float]:
    return [float(group.get("weight_decay", 0)) for group in optimizer.param_groups]


def rates_of(optimizer: Any) -> List[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def kinds_of(optimizer: Any) -> List[Tuple[str, str]]:
    """PyTorch's and Koine's names of the optimizer state of a parameter, for the current options."""
    rule, first = RULES[type(optimizer)], optimizer.param_groups[0]
    needs = {"momentum_buffer": "momentum", "max_exp_avg_sq": "amsgrad", "grad_avg": "centered"}
    return [(theirs, ours) for theirs, ours in rule.moments.items() if theirs not in needs or first.get(needs[theirs])]


def start_of(optimizer: Any, kind: str) -> float:
    """The initial value of a moment."""
    return float(optimizer.param_groups[0].get("initial_accumulator_value", 0)) if kind == "sum" else 0.0


def counts_matter(optimizer: Any) -> bool:
    """Whether an update depends on the number of steps."""
    first = optimizer.param_groups[0]
    return bool({"sgd": first.get("dampening"), "adagrad": first.get("lr_decay"), "adam": True, "adamw": True}.get(RULES[type(optimizer)].name))
