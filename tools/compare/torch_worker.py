"""PyTorch's side of one row, in a separate process.

usage: torch_worker.py prepare CASE BATCH FOLDER MODE [--onnx]      weights, samples, and what should come out
       torch_worker.py serve CASE BATCH FOLDER MODE [--threads N] [--channels-last] [--compile] [--checkpoint]
                       [--autocast] [--by step|compiled]

--by: Koine computes it, by koine.torch.train_step or as the backend of torch.compile.
"""

import argparse
import copy
import os
import warnings

import torch
import torch.nn.functional as F

import networks
import tensors
import worker
from cases import CASES, LEARNING_RATE

CHECKED_STEPS = 4
KINDS = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
DTYPES = {kind: dtype for dtype, kind in KINDS.items()}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("prepare", "serve"))
    parser.add_argument("case", choices=CASES)
    parser.add_argument("batch", type=int)
    parser.add_argument("folder")
    parser.add_argument("mode", choices=("train", "infer"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpoint", action="store_true", help="recompute blocks in the backward pass")
    parser.add_argument("--autocast", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--by", choices=("step", "compiled"), default="")
    parser.add_argument("--onnx", action="store_true")
    return parser.parse_args()


def raw(tensor):
    """(kind, shape, bytes)"""
    tensor = tensor.detach().contiguous()
    return KINDS[tensor.dtype], list(tensor.shape), tensor.view(-1).view(torch.uint8).numpy().tobytes()


def samples(case, batch):
    """x and the classes to be learnt, the same each time."""
    generator = torch.Generator().manual_seed(1)
    if case.tokens:
        size = (batch, *case.shape)
        return (
            torch.randint(case.tokens, size, generator=generator),
            torch.randint(case.classes, size, generator=generator),
        )
    return (
        torch.randn((batch, *case.shape), generator=generator),
        torch.randint(case.classes, (batch,), generator=generator),
    )


def optimizer_of(case, network):
    rate = LEARNING_RATE[case.optimizer]
    if case.optimizer == "adamw":
        return torch.optim.AdamW(network.parameters(), lr=rate)
    return torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)


def loss_of(out, y):
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def training_step(forward, optimizer, x, y):
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(forward(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def settle(network, x):
    """Running statistics become those of the samples; with the first ones, signals would fade from layer to layer and
    logits would tell nothing of what is before the last one."""
    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    network.train()
    with torch.no_grad():
        network(x)
    for norm, momentum in zip(norms, usual):
        norm.momentum = momentum


def checked_losses(case, network, x, y):
    """The losses of the first steps in double precision, and how far single precision is from them by itself: a few
    steps of a deep network can make much of a rounding error."""
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # no two programs drop the same
    found = []
    for dtype in (torch.float64, torch.float32):
        one = copy.deepcopy(network).to(dtype)
        optimizer, given = optimizer_of(case, one), x.to(dtype) if x.is_floating_point() else x
        losses = [training_step(one, optimizer, given, y) for _ in range(CHECKED_STEPS)]
        found.append(torch.tensor(losses, dtype=torch.float64))
    return {"losses": raw(found[0]), "distance": raw((found[1] - found[0]).abs())}


def prepare(options):
    """Writes weights.safetensors, samples.safetensors, expected.safetensors and, if asked for, network.onnx."""
    case = CASES[options.case]
    network = networks.make(case.name)
    x, y = samples(case, options.batch)
    settle(network, x)

    def path(name):
        return os.path.join(options.folder, name)

    tensors.write(
        path("weights.safetensors"),
        {name: raw(tensor) for name, tensor in networks.koine_names(case.name, network).items()},
    )
    tensors.write(path("samples.safetensors"), {"x": raw(x), "y": raw(y)})
    if options.mode == "infer":
        network.eval()
        with torch.inference_mode():
            expected = {"logits": raw(network(x))}
        if options.onnx:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    network,
                    (x,),
                    path("network.onnx"),
                    input_names=["x"],
                    output_names=["logits"],
                    dynamo=False,
                    opset_version=17,
                )
    else:
        expected = checked_losses(case, network, x, y)
    tensors.write(path("expected.safetensors"), expected)


def load(path):
    found = {}
    for name, (kind, shape, data) in tensors.read(path).items():
        found[name] = torch.frombuffer(bytearray(data), dtype=DTYPES[kind]).reshape(shape)
    return found


def serve(options):
    stream = worker.own_output()
    base = worker.memory("VmRSS")
    case = CASES[options.case]
    network = networks.make(case.name)
    given = load(os.path.join(options.folder, "samples.safetensors"))
    x, y = given["x"], given["y"]
    network.train(options.mode == "train")
    if options.channels_last:
        network = network.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    if options.checkpoint:
        networks.checkpoint_blocks(network)
    if options.autocast:
        network.forward = torch.autocast("cpu", torch.bfloat16)(network.forward)
    forward = torch.compile(network) if options.compile else network
    if options.by:
        import koine

        if options.by == "compiled":
            forward = torch.compile(network, backend=koine.torch.backend)
    if options.by == "step":
        trained = koine.torch.train_step(network, loss_of, optimizer_of(case, network))

        def step():
            return trained(x, y).item()
    elif options.mode == "train":
        optimizer = optimizer_of(case, network)

        def step():
            return training_step(forward, optimizer, x, y)
    else:

        def step():
            with torch.inference_mode():
                return forward(x)

    worker.serve(stream, step, base, worker.warm_up(step))


if __name__ == "__main__":
    given = arguments()
    if given.threads:
        torch.set_num_threads(given.threads)
    (prepare if given.task == "prepare" else serve)(given)
