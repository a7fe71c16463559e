"""A step of PyTorch's network takes about as many launches as that of Koine's own; skipped where PyTorch is missing. Nothing runs: plans
are for a device that a target file describes.

usage: pytorch_plans.py HOUSE_FOLDER SOURCE_ROOT
"""
import os
import sys
import warnings

from package import case, end_without, expect, expect_equal, run

end_without("torch", "PyTorch")

import koine  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

warnings.simplefilter("ignore")
ROOT = sys.argv[2]
sys.path.insert(0, os.path.join(ROOT, "tools", "compare"))
import networks  # noqa: E402
import torch_worker  # noqa: E402
from cases import CASES  # noqa: E402

# What a step has in addition to Koine's own: the launch that keeps losses until they are read, and extra work from how a network is written.
MORE = {"mobilenetv2": 2}
context = koine.Context(target=os.path.join(ROOT, "tools", "gpu-lab", "targets", "gfx1100.target"))


def plan_of(model, loss, *arguments, optimizer=None):
    step = koine.torch.train_step(model, loss, optimizer or torch.optim.SGD(model.parameters(), .01, momentum=.9), context=context)
    return step.plan(*arguments)


def network_case(name, batch):
    def network():
        theirs = networks.make(name)
        optimizer = torch_worker.optimizer_of(CASES[name], theirs)
        found = plan_of(theirs.train(), torch_worker.loss_of, *torch_worker.samples(CASES[name], batch), optimizer=optimizer)
        own = koine.Model(name, context=context).plan(batch, training=True, optimizer=CASES[name].optimizer,
                                                      **({} if CASES[name].optimizer == "adamw" else {"momentum": 0.9}))
        most = own.info.steps + MORE.get(name, 1)
        expect(found.info.steps <= most, f"{found.info.steps} launches, expected at most {most}:\n{found}\n{own}")
        expect_equal(found.info.conversions, own.info.conversions)
    network.__name__ = f"{name} takes no more launches than Koine's own"
    case(network)


for _name, _batch in (("mlp", 128), ("lenet", 64), ("resnet18c", 32), ("mobilenetv2", 4), ("lstm", 32), ("gpt", 8)):
    network_case(_name, _batch)


def operators_of(plan):
    return [step.label.split()[0] for step in plan.steps]


class Attention(nn.Module):
    """As timm writes it: q, k and v are the first axis of a permuted product."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.qkv, self.out, self.dropout = nn.Linear(24, 72), nn.Linear(24, 24), dropout

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, 4, 6).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).reshape(batch, length, size))


@case
def attention_reads_its_product_in_place():
    for dropout, name in ((0.0, "attention"), (0.5, "attention_dropout")):
        operators = operators_of(plan_of(Attention(dropout), F.mse_loss, torch.zeros(2, 5, 24), torch.zeros(2, 5, 24)))
        expect(name in operators and f"{name}_packed_gradient" in operators, operators)
        expect(not {"transpose", "slice", "pad", "concat"} & set(operators), operators)


@case
def permutations_of_permutations_are_one():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            y = self.layer(x).permute(0, 2, 1).unsqueeze(1).squeeze(1)
            return torch.relu(y).permute(2, 0, 1).permute(1, 2, 0).permute(0, 2, 1)
    operators = operators_of(plan_of(Turned(), F.mse_loss, torch.zeros(2, 5, 6), torch.zeros(2, 5, 6)))
    expect(operators.count("transpose") <= 4, operators)


@case
def a_mean_over_classes_that_count_takes_three_launches():
    operators = operators_of(plan_of(nn.Linear(6, 4), nn.CrossEntropyLoss(label_smoothing=.1), torch.zeros(8, 6), torch.zeros(8, dtype=torch.int64)))
    expect_equal(operators.count("cross_entropy_counted"), 2)
    expect_equal(operators.count("cross_entropy_counted_gradient"), 1)


@case
def the_host_counts_batches():
    plan = plan_of(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)), F.mse_loss, torch.zeros(2, 3, 6, 6), torch.zeros(2, 4, 4, 4))
    counters = [step.label for step in plan.steps if step.label.startswith("add ") and step.shape.endswith("()")]
    expect(len(counters) == 1, counters)  # the trainer's own counter of steps


run()
