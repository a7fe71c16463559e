"""Optimizers, for `optimizer=` of Model.fit, Trainer and the estimators of koine.sklearn.

>>> import koine
>>> koine.optim.AdamW(learning_rate=3e-4, weight_decay=0.05)
AdamW(learning_rate=0.0003, beta1=0.9, beta2=0.999, epsilon=1e-08, amsgrad=False, weight_decay=0.05)
>>> history = koine.Model("mlp").fit("digits", steps=2, optimizer=koine.optim.SGD(0.1, nesterov=True))

A name, such as optimizer="adamw", is the same with the defaults below; its settings are then keywords of fit():
fit(…, optimizer="sgd", learning_rate=0.1, nesterov=True). All but LAMB (You et al. 2020, with bias-corrected moments) and Lion
(Chen et al. 2023) compute what PyTorch's optimizers of the same names compute.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Dict

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "LAMB", "Lion", "Optimizer", "RMSprop"]


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """The base class of the optimizers."""

    @property
    def name(self) -> str:
        """The name of the optimizer as a word, such as "adamw"."""
        return type(self).__name__.lower()

    @property
    def settings(self) -> Dict[str, Any]:
        """The settings as keywords of koine.Trainer."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum.

    Args:
        learning_rate: Step size, from which the schedule starts.
        momentum: Decay of the momentum; 0 turns it off. PyTorch's and Keras' default is 0.
        dampening: Fraction of a gradient that does not enter the momentum.
        nesterov: Look ahead along the momentum.
        weight_decay: Multiple of a weight that is added to its gradient.
    """

    learning_rate: float = 0.01
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam: steps by the mean gradient over the root of the mean squared gradient.

    Args:
        learning_rate: Step size, from which the schedule starts.
        beta1: Decay of the mean gradient.
        beta2: Decay of the mean squared gradient.
        epsilon: Number that is added to the divisor.
        amsgrad: Divide by the largest mean square so far.
        weight_decay: Multiple of a weight that is added to its gradient.
    """

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    amsgrad: bool = False
    weight_decay: float = 0.0


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam whose weight decay shrinks the weights themselves.

    Args:
        learning_rate: Step size, from which the schedule starts.
        beta1: Decay of the mean gradient.
        beta2: Decay of the mean squared gradient.
        epsilon: Number that is added to the divisor.
        amsgrad: Divide by the largest mean square so far.
        weight_decay: Fraction of a weight, times the learning rate, that is subtracted from it per update.
    """

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    amsgrad: bool = False
    weight_decay: float = 0.01


@dataclasses.dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop: divides gradients by the root of their mean square.

    Args:
        learning_rate: Step size, from which the schedule starts.
        momentum: Decay of the momentum; 0 turns it off.
        beta2: Decay of the mean squared gradient; PyTorch's alpha, Keras' rho.
        epsilon: Number that is added to the divisor.
        centered: Divide by the standard deviation of the gradients.
        weight_decay: Multiple of a weight that is added to its gradient.
    """

    learning_rate: float = 0.01
    momentum: float = 0.0
    beta2: float = 0.99
    epsilon: float = 1e-8
    centered: bool = False
    weight_decay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad: divides gradients by the root of the sum of their squares.

    Args:
        learning_rate: Step size, from which the schedule starts.
        rate_decay: The rate is divided by 1 + rate_decay * updates; PyTorch's lr_decay.
        accumulator: Initial value of the sums of squares.
        epsilon: Number that is added to the divisor.
        weight_decay: Multiple of a weight that is added to its gradient.
    """

    learning_rate: float = 0.01
    rate_decay: float = 0.0
    accumulator: float = 0.0
    epsilon: float = 1e-10
    weight_decay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Adadelta(Optimizer):
    """Adadelta: Adagrad with decaying sums, which sets its own step size.

    Args:
        learning_rate: Multiple of its step, from which the schedule starts.
        beta2: Decay of the mean squares; PyTorch's and Keras' rho.
        epsilon: Number that is added to the divisor.
        weight_decay: Multiple of a weight that is added to its gradient.
    """

    learning_rate: float = 1.0
    beta2: float = 0.9
    epsilon: float = 1e-6
    weight_decay: float = 0.0


@dataclasses.dataclass(frozen=True)
class LAMB(Optimizer):
    """LAMB: Adam whose step for each parameter has the size of the parameter, for large batches.

    Args:
        learning_rate: Step size, from which the schedule starts.
        beta1: Decay of the mean gradient.
        beta2: Decay of the mean squared gradient.
        epsilon: Number that is added to the divisor.
        weight_decay: Multiple of a weight that is added to its step.
    """

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01


@dataclasses.dataclass(frozen=True)
class Lion(Optimizer):
    """Lion: steps by the sign of a mean of gradients.

    Args:
        learning_rate: Step size, from which the schedule starts.
        beta1: Weight of the momentum in the step.
        beta2: Decay of the momentum.
        weight_decay: Fraction of a weight, times the learning rate, that is subtracted from it per update.
    """

    learning_rate: float = 0.0001
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
