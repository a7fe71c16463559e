"""Optimizers that PyTorch does not have, as their authors wrote them down."""

import torch


class Lamb(torch.optim.Optimizer):
  """You et al., Large Batch Optimization for Deep Learning (2020), algorithm 2 with corrected moments."""

  def __init__(self, parameters, lr, betas, eps, weight_decay):
    super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

  @torch.no_grad()
  def step(self):
    for group in self.param_groups:
      beta1, beta2 = group["betas"]
      for value in group["params"]:
        state = self.state[value]
        if not state:
          state.update(step=0, mean=torch.zeros_like(value), square=torch.zeros_like(value))
        state["step"] += 1
        state["mean"].mul_(beta1).add_(value.grad, alpha=1 - beta1)
        state["square"].mul_(beta2).addcmul_(value.grad, value.grad, value=1 - beta2)
        mean = state["mean"] / (1 - beta1 ** state["step"])
        square = state["square"] / (1 - beta2 ** state["step"])
        direction = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * value
        own, other = value.norm(), direction.norm()
        trust = own / other if own > 0 and other > 0 else 1.0
        value.sub_(direction, alpha=float(group["lr"] * trust))


class Lion(torch.optim.Optimizer):
  """Chen et al., Symbolic Discovery of Optimization Algorithms (2023), program 1."""

  def __init__(self, parameters, lr, betas, weight_decay):
    super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

  @torch.no_grad()
  def step(self):
    for group in self.param_groups:
      beta1, beta2 = group["betas"]
      for value in group["params"]:
        state = self.state[value]
        if not state:
          state["mean"] = torch.zeros_like(value)
        direction = (beta1 * state["mean"] + (1 - beta1) * value.grad).sign()
        value.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=group["lr"])
        state["mean"].mul_(beta2).add_(value.grad, alpha=1 - beta2)
