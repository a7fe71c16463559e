"""Compares training by koine.torch.train_step with PyTorch on models that no other benchmark uses.

usage: torch_models.py [--count N] [--seed N] [--check] [--rounds N] [--seconds S] [--threads N] [--limit S] [--json FILE] [FAMILY...]

The rule for what is measured: a family is a module of timm.models, a module of torchvision's classification models, or a model type of
transformers with a causal, masked or classifying language model. The families of each package are shuffled by --seed, and the smallest model
of each is used. --count 20 measures 10 models of timm, 4 of torchvision and 6 of transformers, the first ones that can be created. Weights are random, dropout and stochastic depth are 0. timm and torchvision: as the package makes them with 10 classes, batch 4 of
the model's own image size. transformers: the default configuration with 4 layers, 256 wide, 4 heads, 1000 tokens; batch 4 of 128 tokens.
A model that cannot be created without a download, has more than 40 million parameters, or takes PyTorch longer than --limit seconds per step
is skipped and listed.

Checked first: two steps of SGD in float64, in PyTorch's float32 and in Koine. Koine's losses may differ from those of float64 by 1e-4, its
change of all parameters by 1e-2 (of the norm of the change), or both by four times as much as PyTorch's. Rounding may flip a ReLU whose
input is almost 0, which changes gradients by up to 1e-3. With --check, nothing is timed. If a model differs or is not supported, its row
shows that and the exit status is 1.

Then both train in alternating rounds, by AdamW, in a process for each model. A ratio above 1 means that Koine is faster; it is the median over
the rounds.

Needs the Python package of Koine (build/tools/python in PYTHONPATH), timm, torchvision and transformers.
"""

import argparse
import contextlib
import copy
import json
import logging
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import warnings

INITIALIZED = ("googlenet", "inception_v3")  # warn unless asked to initialize their weights
SHARES = {"timm": 10, "torchvision": 4, "transformers": 6}
MAX_PARAMETERS, CLASSES, BATCH, TOKENS, LENGTH = 40e6, 10, 4, 1000, 128
ALLOWED_LOSS, ALLOWED_CHANGE, FACTOR = 1e-4, 1e-2, 4
# Fields of transformers' configurations; a configuration has some of them.
SMALL = {"num_hidden_layers": 4, "n_layer": 4, "num_layers": 4, "n_layers": 4, "encoder_layers": 2, "decoder_layers": 2, "hidden_size": 256, "n_embd": 256,
         "d_model": 256, "dim": 256, "embedding_size": 256, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_key_value_heads": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "head_dim": 64, "intermediate_size": 1024, "ffn_dim": 1024, "hidden_dim": 1024,
         "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024, "vocab_size": TOKENS, "num_labels": CLASSES, "use_cache": False,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="only these, such as timm/convnext or transformers/gpt2")
    parser.add_argument("--count", type=int, default=20, help="number of models (20)")
    parser.add_argument("--seed", type=int, default=1201, help="order of the families (1201)")
    parser.add_argument("--check", action="store_true", help="check results without timing")
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds (3)")
    parser.add_argument("--seconds", type=float, default=3, help="minimum time per measurement (3)")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of PyTorch (2)")
    parser.add_argument("--limit", type=float, default=4, help="most seconds that a step of PyTorch may take (4)")
    parser.add_argument("--timeout", type=float, default=900, help="most seconds for a model (900)")
    parser.add_argument("--json", default="", help="file for the measurements")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- the models --------------------------------------------------------------------------------------------


def timm_families():
    """The names of the models by family."""
    import timm

    families = {}
    for name in sorted(timm.list_models()):
        families.setdefault(timm.models.model_entrypoint(name).__module__.split(".")[-1], []).append(name)
    return families


def torchvision_families():
    from torchvision import models

    families = {}
    for name in sorted(models.list_models(module=models)):
        families.setdefault(models.get_model_builder(name).__module__.split(".")[-1], []).append(name)
    return families


def transformers_families():
    from transformers.models.auto import modeling_auto as auto

    tables = (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
              auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)
    return sorted({kind for table in tables for kind in table})


def drawn(seed):
    """All families as PACKAGE/NAME in the order of the rule, by package."""
    order = {}
    for package, families in (("timm", timm_families), ("torchvision", torchvision_families), ("transformers", transformers_families)):
        names = [f"{package}/{name}" for name in families()]
        random.Random(seed).shuffle(names)
        order[package] = names
    return order


def without_chance(model):
    """Sets the probabilities of dropout and stochastic depth to 0."""
    for module in model.modules():
        for option in ("drop_prob", "dropout", "attention_dropout", "attn_drop", "p"):
            if isinstance(getattr(module, option, None), float) and (option != "p" or "Drop" in type(module).__name__ or
                                                                     type(module).__name__ == "StochasticDepth"):
                setattr(module, option, 0.0)
    return model


def smallest(names, make):
    """The name of the model with the fewest parameters."""
    import torch

    sizes = {}
    for name in names:
        with contextlib.suppress(Exception), torch.device("meta"):  # some cannot be made without memory
            sizes[name] = sum(parameter.numel() for parameter in make(name).parameters())
    return min(sizes, key=sizes.get, default=names[0])


def image_model(package, family):
    """The name of the family's smallest model, the model, and the function that draws a batch."""
    import torch

    if package == "timm":
        import timm

        def make(name):
            return timm.create_model(name, pretrained=False, num_classes=CLASSES)
        name = smallest(timm_families()[family], make)
        model = make(name)
        shape = timm.data.resolve_model_data_config(model)["input_size"]
    else:
        from torchvision import models

        def make(name):
            return models.get_model(name, weights=None, num_classes=CLASSES, **({"init_weights": True} if name in INITIALIZED else {}))
        name = smallest(torchvision_families()[family], make)
        model = make(name)
        shape = (3, 299, 299) if name == "inception_v3" else (3, 224, 224)
    return name, model, lambda: {"x": torch.randn(BATCH, *shape), "target": torch.randint(CLASSES, (BATCH,))}


def text_model(kind):
    """As image_model, for a model type."""
    import torch
    import transformers
    from transformers.models.auto import modeling_auto as auto

    config = transformers.CONFIG_MAPPING[kind]()
    text = config.get_text_config()
    for name, value in SMALL.items():
        if hasattr(text, name):
            setattr(text, name, value)
    for name, value in vars(text).items():
        if isinstance(value, float) and ("drop" in name or name.endswith("pdrop")):
            setattr(text, name, 0.0)
        if name == "layer_types" and isinstance(value, list):
            text.layer_types = value[:4]
    for table in (auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_MASKED_LM_MAPPING, auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING):
        if type(config) in table:
            model = table[type(config)](config)
            break
    else:
        raise ValueError("no model for this configuration")
    classifies = table is auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    def draw():
        tokens = torch.randint(3, TOKENS, (BATCH, LENGTH))
        return {"input_ids": tokens, "labels": torch.randint(CLASSES, (BATCH,)) if classifies else tokens}
    return kind, model, draw


def made(family):
    import torch

    torch.manual_seed(1)
    package, _, own = family.partition("/")
    name, model, draw = text_model(own) if package == "transformers" else image_model(package, own)
    if sum(parameter.numel() for parameter in model.parameters()) > MAX_PARAMETERS:
        raise ValueError("more than 40 million parameters")
    return f"{package}/{name}", without_chance(model).train(), draw


# ---- one model, in its own process -------------------------------------------------------------------------------


def image_loss(output, target):
    from torch.nn import functional

    output = output[0] if isinstance(output, (tuple, list)) else output.logits if hasattr(output, "logits") else output
    return functional.cross_entropy(output, target)


def eager_loss(model, batch):
    if "labels" in batch:
        return model(**batch).loss
    return image_loss(model(batch["x"]), batch["target"])


def eager_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = eager_loss(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def koine_step(model, optimizer, takes_labels):
    """The step, and a function that makes one with a batch."""
    import koine

    step = koine.torch.train_step(model, None if takes_labels else image_loss, optimizer)
    return step, (lambda batch: step(**batch)) if takes_labels else (lambda batch: step(batch["x"], batch["target"]))


def in_type(batch, dtype):
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in batch.items()}


def distance(found, right, start):
    """The norm of the difference between two sets of parameters, relative to that of the change from the start to the right ones."""
    far, change = (sum(float((one.double() - two.double()).square().sum()) for one, two in zip(ones, twos)) for ones, twos in
                   ((found, right), (right, start)))
    return math.sqrt(far) / max(math.sqrt(change), 1e-30)


def checked(model, batches, steps=2):
    """The distances of Koine, then of PyTorch, from float64: of losses and of the change of parameters."""
    import torch

    seen = {}
    for kind in ("double", "single", "koine"):
        own = copy.deepcopy(model)
        if kind == "double":
            own = own.double()
        optimizer = torch.optim.SGD(own.parameters(), 1e-2, momentum=0.9)
        step, run = koine_step(own, optimizer, "labels" in batches[0]) if kind == "koine" else (None, None)
        losses = []
        for batch in batches[:steps]:
            batch = in_type(batch, torch.float64) if kind == "double" else batch
            losses.append(run(batch).item() if run else float(eager_step(own, optimizer, batch)))
        seen[kind] = (losses, [parameter.detach().clone() for parameter in own.parameters()])
        if step:
            step.close()
    losses, parameters = seen["double"]
    if not all(math.isfinite(loss) for loss in losses):
        raise ValueError("PyTorch's loss is not finite")
    result = []
    for kind in ("koine", "single"):
        result.append(max([abs(one - two) / max(abs(two), 1e-3) for one, two in zip(seen[kind][0], losses)]))
        result.append(distance(seen[kind][1], parameters, list(model.parameters())))
    return result


def speed(run, batch, seconds):
    """The median time of a step."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        float(run(batch))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def timed(model, batch, options):
    import torch

    runs = {}
    for kind in ("koine", "torch"):
        own = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(own.parameters(), 1e-4)
        if kind == "koine":
            runs[kind] = koine_step(own, optimizer, "labels" in batch)[1]
        else:
            runs[kind] = lambda given, own=own, optimizer=optimizer: eager_step(own, optimizer, given)
        start = time.perf_counter()
        float(runs[kind](batch))
        runs[kind + " first"] = time.perf_counter() - start
    rounds = [{kind: speed(runs[kind], batch, options.seconds) for kind in ("koine", "torch")} for _ in range(options.rounds)]
    return {"rounds": rounds, "first": runs["koine first"]}


def one(family, options):
    """The result of a family: a dictionary with "skipped", "refused", or numbers."""
    import koine
    import torch

    torch.set_num_threads(options.threads)
    try:
        name, model, draw = made(family)
        batches = [draw() for _ in range(2)]
        own = copy.deepcopy(model)
        optimizer = torch.optim.SGD(own.parameters(), 0.0)
        eager_step(own, optimizer, batches[0])
        start = time.perf_counter()
        eager_step(own, optimizer, batches[1])
        if time.perf_counter() - start > options.limit:
            raise ValueError(f"a step takes PyTorch {time.perf_counter() - start:.1f} s")
    except Exception as error:  # packages raise anything for models that cannot be made by default
        return {"skipped": " ".join(f"{type(error).__name__}: {error}".split())[:160]}
    result = {"name": name, "parameters": sum(parameter.numel() for parameter in model.parameters())}
    try:
        result["far"] = checked(model, batches)
        if not options.check:
            result.update(timed(model, batches[0], options))
    except (koine.KoineError, NotImplementedError) as error:
        result["refused"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    except ValueError as error:
        return {"skipped": str(error)}
    return result


def in_process(family, options):
    command = [sys.executable, __file__, "--one", family]
    for option in ("rounds", "seconds", "threads", "limit"):
        command += [f"--{option}", str(getattr(options, option))]
    try:
        done = subprocess.run(command + ["--check"] * options.check, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"skipped": f"not done after {options.timeout:g} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"refused": f"the process ended with {done.returncode}: " + " ".join(done.stderr.split())[-300:]}


# ---- the table ---------------------------------------------------------------------------------------------


def line_of(name, result):
    """A row of the table, and whether it is right."""
    if "skipped" in result:
        return f"| `{name}` | skipped: {result['skipped']} | | | | |", True
    if "refused" in result:
        return f"| `{name}` | **refused: {result['refused']}** | | | | |", False
    loss, change, loss_single, change_single = result["far"]
    good = loss <= max(ALLOWED_LOSS, FACTOR * loss_single) and change <= max(ALLOWED_CHANGE, FACTOR * change_single)
    far = f"{loss:.0e}, {change:.0e} ({loss_single:.0e}, {change_single:.0e})" + ("" if good else " **wrong**")
    if "rounds" not in result:
        return f"| `{name}` | {result['parameters'] / 1e6:.1f} | | | | {far} |", good
    ours, theirs = (statistics.median(found[kind] for found in result["rounds"]) * 1e3 for kind in ("koine", "torch"))
    ratios = sorted(found["torch"] / found["koine"] for found in result["rounds"])
    result["ratio"] = statistics.median(ratios)
    return (f"| `{name}` | {result['parameters'] / 1e6:.1f} | {ours:.0f} | {theirs:.0f} | {result['ratio']:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | "
            f"{far} |"), good


def main():
    options = arguments()
    warnings.simplefilter("ignore")
    logging.getLogger("koine").setLevel(logging.ERROR)
    if options.one:
        print(json.dumps(one(options.families[0], options)))
        return
    results, wrong = {}, 0
    order = {"given": options.families} if options.families else drawn(options.seed)
    print("| model | million parameters | Koine (ms) | PyTorch (ms) | ratio | distance from float64: loss, change of parameters (PyTorch's float32) |")
    print("|---|---|---|---|---|---|", flush=True)
    for package, names in order.items():
        wanted = len(names) if options.families else round(SHARES[package] * options.count / sum(SHARES.values()))
        for name in names:
            if wanted <= 0:
                break
            result = results[name] = in_process(name, options)
            line, good = line_of(result.get("name", name), result)
            print(line, flush=True)
            wrong += not good
            wanted -= "skipped" not in result
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    ratios = [result["ratio"] for result in results.values() if "ratio" in result]
    if ratios:
        print(f"| geometric mean of {len(ratios)} | | | | **{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}** | |")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
