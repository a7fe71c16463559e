"""Random functions of tensors have the same results and gradients by torch.compile(backend="koine") as by PyTorch in float64.

usage: pytorch_random.py HOUSE_FOLDER [--seconds N | --count N] [--seed N] [--keep-going]

A function has 1 to 12 operators, on shapes with sizes of 0, 1 and values that are not multiples of 4, broadcast along any axes, permuted, and
read several times. Its tolerances come from runs in float64 in which each result is changed by as much as float32 or float16
rounds. A function that is wrong is reduced and printed as a program. Without --seed it begins with another one each time, which it
prints. Skipped where PyTorch is missing.
"""
import argparse
import faulthandler
import os
import random
import subprocess
import sys
import time
import warnings

HOUSE = sys.argv[1]
LARGEST, AXES = 3000, 5  # elements and axes of a value
NOISE = {"torch.float32": 2**-17, "torch.float16": 2**-10}  # how far a result may be off, relative to the largest of its elements
RUNS = 4  # with such changes
ALLOWED = 8  # times the largest change of a result that they make
ERRORS = 20  # times PyTorch's largest


# ---- functions -------------------------------------------------------------------------------------------------------


class Given:
    """An argument: how it is drawn."""

    def __init__(self, name, kind, shape, seed, low=0, high=1):
        self.name, self.kind, self.shape, self.seed, self.low, self.high = name, kind, tuple(shape), seed, low, high

    def text(self):
        generator = f"generator=torch.Generator().manual_seed({self.seed})"
        if self.kind == "bool":
            return f"torch.randint(0, 2, {self.shape}, {generator}).bool()"
        if self.kind in ("int64", "int32", "uint8"):
            return f"torch.randint({self.low}, {self.high}, {self.shape}, {generator}).to(torch.{self.kind})"
        return f"torch.randn({self.shape}, {generator}).to(torch.{self.kind})"


class Step:
    """name = text, where the text reads other names."""

    def __init__(self, name, text, reads):
        self.name, self.text, self.reads = name, text, tuple(reads)


class Function:
    def __init__(self, given, steps, outputs, trained):
        self.given, self.steps, self.outputs, self.trained = given, steps, outputs, trained

    def source(self):
        lines = [f"def f({', '.join(one.name for one in self.given)}):", *(f"    {step.name} = {step.text}" for step in self.steps),
                 f"    return {', '.join(self.outputs)},"]
        return "\n".join(lines)

    def program(self):
        """Shows what is wrong, by itself."""
        lines = ["import torch", "import koine.torch", "from torch.nn import functional as F", "", "F32, F16 = torch.float32, torch.float16", "", "",
                 self.source(), "", "", f"given = [{', '.join(one.text() for one in self.given)}]"]
        if self.trained:
            lines += [f"trained = [given[i].requires_grad_() for i in {[i for i, one in enumerate(self.given) if one.name in self.trained]}]"]
        lines += ["wanted, found = f(*given), torch.compile(f, backend=koine.torch.backend)(*given)"]
        if self.trained:
            lines += ["for results in (wanted, found):",
                      "    results = [one for one in results if one.requires_grad]",
                      "    print(torch.autograd.grad(results, trained, [torch.ones_like(one) for one in results], allow_unused=True))"]
        return "\n".join([*lines, "print(wanted)", "print(found)"])


class Drawn:
    """Draws a function."""

    def __init__(self, seed, torch, functional):
        self.random, self.torch = random.Random(seed), torch
        self.space = {"torch": torch, "F": functional, "F32": torch.float32, "F16": torch.float16}
        self.given, self.steps, self.values = [], [], {}
        self.base = [self.size() for _ in range(self.random.choice([1, 2, 2, 3, 3, 4, 4]))]
        if self.random.random() < .3:  # images
            self.base = [self.random.choice([1, 2, 3, 4]), self.random.choice([1, 2, 3, 4, 8, 12, 16, 20]), self.random.choice([1, 2, 5, 6, 8, 9]),
                         self.random.choice([1, 3, 4, 7, 8])]
        self.half = self.random.random() < .12
        count = self.random.randint(1, 12)
        self.input()
        for _ in range(6 * count):
            if len(self.steps) >= count:
                break
            self.random.choices(OPERATORS, WEIGHTS)[0](self)

    # ---- choices -----------------------------------------------------------------------------------------------------

    def size(self):
        return self.random.choice([1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13] + [0] * (self.random.random() < .03))

    def chance(self, part):
        return self.random.random() < part

    def pick(self, *items):
        return self.random.choice(items)

    def part(self, shape):
        """A shape that broadcasts with one."""
        made = [size if self.chance(.6) else 1 for size in shape]
        while made and self.chance(.2):
            made.pop(0)
        return made

    def input(self, shape=None, kind=None, low=0, high=1):
        """The name of a new argument."""
        shape = (self.base if self.chance(.5) else self.part(self.base)) if shape is None else shape
        kind = kind or ("float16" if self.half else "float32")
        one = Given(f"x{len(self.given)}", kind, shape, self.random.randrange(10**6), low, high)
        self.given.append(one)
        self.values[one.name] = eval(one.text(), dict(self.space))  # pylint: disable=eval-used
        return one.name

    def of(self, *kinds, least=0, test=lambda value: True):
        """The name of a value of some types, the last ones preferred; a new argument where there is none."""
        found = [name for name, value in self.values.items() if str(value.dtype)[6:] in kinds and value.dim() >= least and test(value)]
        if not found:
            return None
        return found[-1] if self.chance(.5) else self.random.choice(found)

    def float(self, least=0, test=lambda value: True):
        return self.of("float32", "float16", least=least, test=test)

    def like(self, name):
        """A value that broadcasts with another one, of its type or of another."""
        value, kind = self.values[name], str(self.values[name].dtype)[6:]
        if self.chance(.5):
            found = [other for other, one in self.values.items() if other != name and one.dtype == value.dtype and self.fits(one.shape, value.shape)]
            if found:
                return self.random.choice(found)
        return self.input(self.part(value.shape), kind) if kind.startswith("float") else self.input(self.part(value.shape), kind, *self.limits(kind))

    @staticmethod
    def limits(kind):
        return {"int64": (-2**20, 2**20), "int32": (-50, 50), "uint8": (0, 256), "bool": (0, 2)}[kind]

    def fits(self, one, other):
        try:
            self.torch.broadcast_shapes(one, other)
            return True
        except RuntimeError:
            return False

    def shape(self, name):
        return list(self.values[name].shape)

    def axis(self, name):
        rank = self.values[name].dim()
        return self.random.randrange(-rank, rank) if rank else 0

    def axes(self, name):
        rank = self.values[name].dim()
        return sorted(self.random.sample(range(rank), self.random.randint(1, rank))) if rank else []

    def add(self, text, *reads):
        """A step, if PyTorch takes it."""
        try:
            made = eval(text, {**self.space, **self.values})  # pylint: disable=eval-used
        except Exception:  # pylint: disable=broad-except
            return None
        if not isinstance(made, self.torch.Tensor) or made.numel() > LARGEST or made.dim() > AXES or made.dtype == self.torch.float64:
            return None
        name = f"v{len(self.steps)}"
        self.steps.append(Step(name, text, reads))
        self.values[name] = made
        return name

    # ---- the whole ---------------------------------------------------------------------------------------------------

    def function(self):
        read = {name for step in self.steps for name in step.reads}
        outputs = [step.name for step in self.steps if step.name not in read or self.chance(.15)]
        trained = [one.name for one in self.given if one.kind == "float32" and self.chance(.8)] if self.chance(.75) else []
        return pruned(Function(self.given, self.steps, outputs, trained))


def pruned(function):
    """Without what no output needs."""
    needed, steps = set(function.outputs), []
    for step in reversed(function.steps):
        if step.name in needed:
            needed.update(step.reads)
            steps.append(step)
    given = [one for one in function.given if one.name in needed]
    return Function(given, steps[::-1], function.outputs, [name for name in function.trained if name in needed])


OPERATORS, WEIGHTS = [], []


def operator(weight):
    def put(function):
        OPERATORS.append(function)
        WEIGHTS.append(weight)
        return function
    return put


UNARY = ["torch.relu({})", "{}.exp()", "torch.tanh({})", "torch.sigmoid({})", "{}.sin()", "{}.cos()", "{}.abs()", "-{}", "{}.abs().sqrt()", "({}.abs() + .5).rsqrt()",
         "({}.abs() + .5).log()", "{}.abs().log1p()", "F.gelu({})", "F.gelu({}, approximate='tanh')", "F.silu({})", "F.softplus({})", "F.elu({}, .7)", "F.leaky_relu({}, .1)",
         "F.hardtanh({}, -.6, .4)", "F.hardswish({})", "F.mish({})", "{}.square()", "torch.erf({})", "({}.abs() + .5).reciprocal()", "{} ** 3", "{}.clamp(-.5, .8)", "{}.clamp(min=.1)",
         "{}.atan()", "{}.floor()", "{}.round()", "{}.sign()", "F.logsigmoid({})", "{} * 1.7", "{} + .3", "1 - {}", "{} / 3", "2 / ({}.abs() + .5)", "{} - 2", "{}.expm1()", "{}.sinh()",
         "F.relu6({} * 3)", "F.hardsigmoid({})", "F.softsign({})", "torch.trunc({})", "{}.detach() * 2", "F.selu({})", "{}.clone()", "torch.nan_to_num({})", "F.threshold({}, .1, -.2)"]
BINARY = ["{} + {}", "{} - {}", "{} * {}", "{} / ({}.abs() + .5)", "torch.maximum({}, {})", "torch.minimum({}, {})", "torch.atan2({}, {})", "torch.where({0} > {1}, {0}, {1})",
          "torch.where({1} > 0, {0} * 2, {1})", "({}.abs() + .2) ** {}.tanh()", "torch.add({}, {}, alpha=.5)", "torch.lerp({}, {}, .3)", "torch.hypot({}, {})", "torch.rsub({}, {})",
          "F.mse_loss({0}, {1}.expand_as({0}))", "F.smooth_l1_loss({0}, {1}.expand_as({0}), reduction='none')", "torch.copysign({}, {})", "{} * {} * .5 + 1"]
WHOLE = ["{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "torch.where({0} > {1}, {0}, {1})", "{} & {}", "{} | {}", "{} ^ {}", "{0} // ({1}.abs() + 1)", "{0} % ({1}.abs() + 1)"]


@operator(9)
def unary(on):
    name = on.float()
    if name:
        on.add(on.pick(*UNARY).format(name), name)


@operator(8)
def binary(on):
    name = on.float()
    if name:
        other = on.like(name)
        one, two = (name, other) if on.chance(.7) else (other, name)
        on.add(on.pick(*BINARY).format(one, two), one, two)


@operator(2)
def self_and_self(on):
    name = on.float(least=2)
    if name:
        on.add(on.pick(f"{name} + {name}.mT", f"{name} @ {name}.mT", f"{name} * {name}", f"{name} - {name}.mean()", f"{name} / ({name}.abs().sum() + 1)"), name)


@operator(3)
def integers(on):
    name = on.of("int64", "int32", "uint8")
    if not name or on.chance(.2):
        kind = on.pick("int64", "int64", "int64", "int32", "uint8")
        name = on.input(None, kind, *(on.pick((-9, 9), (-2**20, 2**20), (-2**30, 2**30), (-2**31, 2**31 - 1), (0, 2**40)) if kind == "int64" else on.limits(kind)))
    if on.chance(.5):
        other = on.like(name)
        on.add(on.pick(*WHOLE).format(name, other), name, other)
        return
    axis = on.axis(name)
    on.add(on.pick("{}.sum()", f"{{}}.sum({axis})", f"{{}}.cumsum({axis})", "{} * 3 + 1", "-{}", "{}.abs()", "{}.clamp(-5, 9)", "{} // 3", "{} % 7", "~{}", "{}.to(F32)", "{} > 2", "{} == 3",
                   f"{{}}.amax({axis})", f"{{}}.argmax({axis})", f"{{}}.sort({axis})[0]", "{}.to(torch.int64)", "{}.to(torch.uint8)", "{}.to(torch.int32)", "{}.to(torch.int8)", "{} / 2", "{}.prod()",
                   "{}.to(torch.int16) * 5", "{} * .5", "{} << 2", "torch.sign({})", "{} == {}.amax()", "torch.div({}, 5, rounding_mode='trunc')", f"{{}}.flip({axis})").replace("{}", name), name)


@operator(3)
def truths(on):
    name = on.of("bool")
    if not name or on.chance(.4):
        source = on.float()
        if source:
            other = on.like(source)
            on.add(on.pick("{} > {}", "{} <= {}", "{} == {}", "{} != {}").format(source, other), source, other)
        return
    axis = on.axis(name)
    text = on.pick("~{}", f"{{}}.any({axis})", f"{{}}.all({axis})", "{}.to(F32)", f"{{}}.sum({axis})", "{}.to(torch.int64) * 3", "{}.any()", "{} * 2.5", f"{{}}.cumsum({axis})", "{}.sum()",
                   f"{{}}.flip({axis})", "{}.to(F32).mean()")
    on.add(text.format(name), name)


@operator(3)
def masks(on):
    name = on.float()
    if name:
        mask = on.of("bool", test=lambda value: on.fits(value.shape, on.values[name].shape)) or on.input(on.part(on.shape(name)), "bool")
        on.add(on.pick("{0}.masked_fill({1}, -.5)", "torch.where({1}, {0}, 0.)", "{0} * {1}", "torch.where({1}, {0}, {0} * 2)", "{0}.masked_fill({1}, float('-inf')).exp()").format(name, mask), name, mask)


@operator(2)
def types(on):
    name = on.of("float32", "float16", "int64", "bool", "int32", "uint8")
    if name:
        on.add(f"{name}.to({on.pick('F32', 'F32', 'F16', 'torch.int64', 'torch.int32', 'torch.bool')})", name)


@operator(7)
def reductions(on):
    name = on.float()
    if not name:
        return
    axes, axis, keep = on.axes(name), on.axis(name), on.chance(.5)
    text = on.pick(f"{{}}.sum({axes}, keepdim={keep})", f"{{}}.mean({axes}, keepdim={keep})", f"{{}}.amax({axes}, keepdim={keep})", f"{{}}.amin({axes}, keepdim={keep})",
                   f"{{}}.var({axes}, correction=0, keepdim={keep})", f"{{}}.logsumexp({axes}, keepdim={keep})", f"torch.linalg.vector_norm({{}}, 2, {axes}, keepdim={keep})", f"{{}}.cumsum({axis})",
                   f"F.softmax({{}}, {axis})", f"F.log_softmax({{}}, {axis})", f"{{}}.max({axis}, keepdim={keep})[0]", f"{{}}.sort({axis})[0]", f"{{}}.topk(1, {axis})[0]", f"{{}}.prod({axis})",
                   "{}.sum()", "{}.mean()", f"{{}}.argmax({axis})", f"{{}}.abs().sum({axes})", f"{{}}.std({axes}, correction=0)", "{}.max()", f"{{}}.square().mean({axes}, keepdim={keep})",
                   f"F.normalize({{}}, dim={axis})", f"{{}}.median({axis})[0]")
    on.add(text.format(name), name)


@operator(8)
def shapes(on):
    name = on.of("float32", "float32", "float16", "int64", "bool")
    if not name:
        return
    shape, axis, rank = on.shape(name), on.axis(name), len(on.shape(name))
    order = on.random.sample(range(rank), rank)
    cut = on.random.randint(0, rank)
    size = shape[axis] if rank else 1
    begin = on.random.randint(0, max(0, size - 1))
    amounts = [on.random.randint(0, 2) for _ in range(2 * min(rank, 2))]
    text = on.pick(f"{{}}.permute({order})", f"{{}}.permute({order})", f"{{}}.reshape(-1)", f"{{}}.unsqueeze({on.random.randint(0, rank)})", "{}.squeeze()", f"{{}}.flip({axis})", f"{{}}.roll(1, {axis})",
                   f"{{}}.narrow({axis}, {begin}, {max(0, size - begin - on.pick(0, 0, 1))})", f"{{}}[..., {begin}:]", "{}[..., ::2]", f"torch.cat([{{0}}, {{0}} * 2], {axis})", f"torch.stack([{{0}}, {{0}}], {axis})",
                   f"F.pad({{}}, {amounts})", f"{{}}.repeat({[on.pick(1, 2) for _ in range(rank)]})", f"{{}}.select({axis}, {begin})", "{}.tril()", "{}.triu(1)",
                   f"{{}}.reshape({[*shape[:cut], *([int(_product(shape[cut:]))] if cut < rank else [])]})", f"{{}}.expand({[on.pick(1, 3), *shape]})", f"{{}}.transpose({axis}, 0)",
                   f"{{}}.chunk(2, {axis})[-1]", f"{{}}.unflatten({axis}, (1, -1))", f"{{}}.diagonal(0, 0, {axis})", f"{{}}.unfold({axis}, 2, 1).contiguous()", f"{{}}.contiguous()", f"{{}}.t()",
                   f"F.pad({{}}, {amounts[:2]}, mode='{on.pick('reflect', 'replicate')}')", f"{{}}.repeat_interleave(2, {axis})", f"{{}}.movedim({axis}, 0)", f"{{}}[{begin}]", f"{{}}[-1:]")
    if "cat" in text and on.chance(.5):
        other = on.like(name)
        on.add(f"torch.cat([{name}, {other}.expand_as({name})], {axis})", name, other)
        return
    on.add(text.format(name), name)


def _product(sizes):
    made = 1
    for size in sizes:
        made *= size
    return made


@operator(4)
def indices(on):
    name = on.float(least=1, test=lambda value: value.numel() > 0)
    if not name:
        return
    axis, shape = on.axis(name), on.shape(name)
    size = shape[axis]
    what = on.random.randrange(9)
    if what == 0:
        table, places = on.input([on.size() or 1, on.size()]), None
        places = on.input(on.part(on.base), "int64", 0, on.shape(table)[0])
        on.add(f"F.embedding({places}, {table})", places, table)
    elif what == 1:
        places = on.input([on.pick(1, 2, 5, 9)], "int64", 0, size)
        on.add(f"{name}.index_select({axis}, {places})", name, places)
    elif what == 2:
        places = on.input([1 if on.chance(.3) else length for length in shape], "int64", 0, size)
        on.add(f"{name}.gather({axis}, {places})", name, places)
    elif what == 3:
        places = on.input(on.pick([3], [2, 3], [1]), "int64", -shape[0], shape[0])
        on.add(f"{name}[{places}]", name, places)
    elif what == 4 and len(shape) > 1:
        places = on.input([on.pick(1, 4, 5)], "int64", -shape[1], shape[1])
        on.add(f"{name}[:, {places}]", name, places)
    elif what == 5:
        places, source = on.input(shape, "int64", 0, size), on.input(shape, str(on.values[name].dtype)[6:])
        on.add(f"{name}.scatter_add({axis}, {places}, {source})", name, places, source)
    elif what == 6:
        places = on.input([3], "int64", 0, shape[0])
        source = on.input([3, *shape[1:]], str(on.values[name].dtype)[6:])
        on.add(f"{name}.index_add(0, {places}, {source})" if on.chance(.5) else f"torch.index_put({name}, ({places},), {source}, accumulate=True)", name, places, source)
    elif what == 7:
        on.add(f"{name}.gather({axis}, {name}.argmax({axis}, keepdim=True))", name)
    elif len(shape) > 1:
        one, two = on.input([4], "int64", 0, shape[0]), on.input([4], "int64", 0, shape[1])
        on.add(f"{name}[{one}, {two}]", name, one, two)


@operator(5)
def products(on):
    name = on.float(least=1)
    if not name:
        return
    kind, shape, size = str(on.values[name].dtype)[6:], on.shape(name), on.pick(1, 2, 3, 5, 8, 16, 17)
    what = on.random.randrange(6)
    if what == 0:
        weight, bias = on.input([size, shape[-1]], kind), on.input([size], kind)
        on.add(f"F.linear({name}, {weight}, {bias})", name, weight, bias)
    elif what == 1:
        weight = on.input([shape[-1], size], kind)
        on.add(f"{name} @ {weight}", name, weight)
    elif what == 2 and len(shape) > 1:
        weight = on.input([*on.part(shape[:-2]), size, shape[-2]], kind)
        on.add(f"{weight} @ {name}", name, weight)
    elif what == 3 and len(shape) == 2:
        weight, bias = on.input([shape[1], size], kind), on.input(on.part([shape[0], size]), kind)
        on.add(f"torch.addmm({bias}, {name}, {weight}, beta=.5, alpha=2)", name, weight, bias)
    elif what == 4 and len(shape) > 1:
        weight = on.input([*shape[:-2], shape[-1], size], kind)
        on.add(f"torch.einsum('...ij,...jk->...ki', {name}, {weight})", name, weight)
    else:
        weight = on.input([shape[-1]], kind)
        on.add(f"{name} @ {weight}", name, weight)


def images(on):
    return on.of("float32", least=4, test=lambda value: value.dim() == 4 and value.numel() > 0)


@operator(5)
def convolutions(on):
    name = images(on)
    lines = on.of("float32", test=lambda value: value.dim() == 3 and value.numel() > 0)
    if not name and not lines:
        return
    two = name is not None and (not lines or on.chance(.8))
    name = name if two else lines
    channels, outputs = on.shape(name)[1], on.pick(1, 2, 4, 5, 8, 12, 16, 24)
    groups = on.pick(1, 1, 1, channels)
    outputs = groups * on.pick(1, 2) if groups > 1 else outputs
    window = [on.pick(1, 2, 3, 3, 5) for _ in range(2 if two else 1)]
    turned = on.chance(.25)
    shape = [channels, outputs // groups, *window] if turned else [outputs, channels // groups, *window]
    weight = on.input(shape, "float32")
    reads, bias = [name, weight], "None"
    if on.chance(.5):
        bias = on.input([outputs], "float32")
        reads.append(bias)
    settings = f"stride={on.pick(1, 1, 2, 3)}, padding={on.pick(0, 1, 1, 2)}, groups={groups}, dilation={on.pick(1, 1, 1, 2)}"
    made = on.add(f"F.conv{'_transpose' * turned}{2 if two else 1}d({name}, {weight}, {bias}, {settings})", *reads)
    if made and on.chance(.5):  # what comes next to a convolution is often in one kernel with it
        other = on.input(on.part(on.shape(made)), "float32")
        on.add(on.pick("{} + {}", "{} * {}", "F.relu({} + {})", "{1} - {0}").format(made, other), made, other)


@operator(3)
def pools(on):
    name = images(on)
    if name:
        window, stride, pad = on.pick(2, 3), on.pick(1, 2), on.pick(0, 1)
        on.add(on.pick(f"F.max_pool2d({{}}, {window}, {stride}, {pad})", f"F.avg_pool2d({{}}, {window}, {stride}, {pad})", f"F.avg_pool2d({{}}, {window}, {stride}, {pad}, count_include_pad=False)",
                       f"F.adaptive_avg_pool2d({{}}, {on.pick(1, 2, 3)})", f"F.adaptive_max_pool2d({{}}, {on.pick(1, 2)})", f"F.max_pool2d({{}}, {window}, ceil_mode=True)", "F.interpolate({}, scale_factor=2)",
                       "F.interpolate({}, size=(5, 6), mode='bilinear')", "F.pixel_shuffle({}, 2)", "F.pixel_unshuffle({}, 2)", "{}.mean((2, 3), keepdim=True)", "{}.mean(2, keepdim=True)",
                       "{}.mean(3, keepdim=True)", "{}.mean(0, keepdim=True)").format(name), name)


@operator(4)
def norms(on):
    name = on.of("float32", least=2)
    if not name:
        return
    shape = on.shape(name)
    what = on.random.randrange(6)
    if what == 0:
        weight, bias = on.input(shape[-1:]), on.input(shape[-1:])
        on.add(f"F.layer_norm({name}, {shape[-1:]}, {weight}, {bias})", name, weight, bias)
    elif what == 1:
        on.add(f"F.layer_norm({name}, {shape[-2:]})", name)
    elif what == 2:
        weight, bias = on.input(shape[1:2]), on.input(shape[1:2])
        on.add(f"F.batch_norm({name}, None, None, {weight}, {bias}, training=True)", name, weight, bias)
    elif what == 3:
        mean, variance = on.input(shape[1:2]), on.input(shape[1:2])
        on.add(f"F.batch_norm({name}, {mean}, {variance}.abs() + .5)", name, mean, variance)
    elif what == 4:
        on.add(f"F.group_norm({name}, {on.pick(1, 2, 4)})", name)
    else:
        on.add(f"F.rms_norm({name}, {shape[-1:]})" if on.chance(.5) else f"F.instance_norm({name})", name)


@operator(2)
def attention(on):
    name = on.of("float32", least=3, test=lambda value: 0 < value.shape[-1] and 0 < value.shape[-2])
    if name:
        shape = on.shape(name)
        length = on.pick(shape[-2], 3, 5)  # one for both, which PyTorch does not check
        k, v = (on.input([*shape[:-2], length, shape[-1]]) for _ in range(2))
        on.add(f"F.scaled_dot_product_attention({name}, {k}, {k} * .5 + 1)" if on.chance(.3) else f"F.scaled_dot_product_attention({name}, {k}, {v}, is_causal={on.chance(.5)})", name, k, v)


@operator(2)
def losses(on):
    name = on.of("float32", least=2, test=lambda value: value.numel() > 0)
    if name:
        shape = on.shape(name)
        labels = on.input([shape[0], *shape[2:]], "int64", 0, shape[1])
        what = on.random.randrange(4)
        if what == 0:
            on.add(f"F.cross_entropy({name}, {labels}, label_smoothing={on.pick(0., .1)}, reduction='{on.pick('mean', 'sum', 'none')}')", name, labels)
        elif what == 1:
            on.add(f"F.cross_entropy({name}, torch.where({labels} == 0, -100, {labels}), reduction='sum')", name, labels)
        elif what == 2:
            other = on.input(shape)
            on.add(f"F.binary_cross_entropy_with_logits({name}, {other}.sigmoid())", name, other)
        else:
            other = on.input(shape)
            on.add(f"F.kl_div(F.log_softmax({name}, 1), F.softmax({other}, 1), reduction='batchmean')", name, other)


# ---- results ---------------------------------------------------------------------------------------------------------


class Unfit(Exception):
    """A function whose results cannot be compared."""


class Results:
    """Outputs and gradients of a function, computed by PyTorch or by Koine."""

    def __init__(self, torch, functional, koine):
        self.torch, self.functional, self.koine = torch, functional, koine

    def arguments(self, function, double):
        space = {"torch": self.torch}
        made = {one.name: eval(one.text(), space) for one in function.given}  # pylint: disable=eval-used
        return {name: value.double() if double and value.is_floating_point() else value for name, value in made.items()}

    def space(self, double):
        return {"torch": self.torch, "F": self.functional, "F32": self.torch.float64 if double else self.torch.float32,
                "F16": self.torch.float64 if double else self.torch.float16}

    def finish(self, function, given, outputs):
        """Outputs and gradients, with fixed gradients of the outputs."""
        torch = self.torch
        if not function.trained:
            return [output.detach() for output in outputs]
        smooth = [output for output in outputs if output.requires_grad]
        found = [output.detach() for output in outputs]
        if not smooth:
            return found
        generator = torch.Generator().manual_seed(7)
        slopes = [torch.randn(output.shape, generator=generator).to(output.dtype) for output in smooth]
        gradients = torch.autograd.grad(smooth, [given[name] for name in function.trained], slopes, allow_unused=True)
        return found + [torch.zeros(()) if gradient is None else gradient for gradient in gradients]

    def train(self, function, given):
        for name in function.trained:
            given[name].requires_grad_()

    def exact(self, function, types, noise, seed):
        """By PyTorch in float64, with changes of each result; types: those that the values have otherwise."""
        torch, given, space = self.torch, self.arguments(function, True), self.space(True)
        self.train(function, given)
        generator, values = torch.Generator().manual_seed(seed), dict(given)
        for step in function.steps:
            made = eval(step.text, {**space, **values})  # pylint: disable=eval-used
            kind = types[step.name]
            if kind not in NOISE:
                if made.is_floating_point():
                    raise Unfit
            else:
                made = made.double()
                finite = made.detach().nan_to_num(0, 0, 0).abs()
                if kind == "torch.float32" and made.numel() and finite.max() > 1e18:
                    raise Unfit  # more than float32 has
                if noise and made.numel():
                    made = made + (torch.randn(made.shape, generator=generator) * finite.max() * NOISE[kind])
                if kind == "torch.float16":
                    made = made + (made.detach().half().double() - made.detach()).nan_to_num(0, float("inf"), float("-inf"))
            values[step.name] = made
        return self.finish(function, given, [values[name] for name in function.outputs])

    def eager(self, function):
        """The results of plain PyTorch, and the types of all values."""
        given, space = self.arguments(function, False), self.space(False)
        self.train(function, given)
        values = dict(given)
        for step in function.steps:
            values[step.name] = eval(step.text, {**space, **values})  # pylint: disable=eval-used
        return self.finish(function, given, [values[name] for name in function.outputs]), {name: str(value.dtype) for name, value in values.items()}

    def compiled(self, function, dynamo):
        space = self.space(False)
        exec(function.source(), space)  # pylint: disable=exec-used
        given = self.arguments(function, False)
        self.train(function, given)
        if dynamo:
            self.torch._dynamo.reset()
            call = self.torch.compile(space["f"], backend=self.koine.torch.backend, dynamic=False)
        else:
            call = self.koine.torch.backend(self.torch.fx.symbolic_trace(space["f"]), list(given.values()))
        return self.finish(function, given, list(call(*given.values())))

    def wrong(self, function, dynamo=False):
        """What is wrong, or None."""
        torch = self.torch
        try:
            eager, types = self.eager(function)
            wanted = self.exact(function, types, False, 0)
            changed = [self.exact(function, types, True, seed) for seed in range(RUNS)]
        except (RuntimeError, IndexError, ValueError, ZeroDivisionError) as error:
            raise Unfit from error
        try:
            found = self.compiled(function, dynamo)
        except Exception as error:  # pylint: disable=broad-except
            return f"{type(error).__name__}: {str(error)[:2000]}"
        for position, (one, plain, other) in enumerate(zip(found, eager, wanted)):
            name = function.outputs[position] if position < len(function.outputs) else f"the gradient of {function.trained[position - len(function.outputs)]}"
            if one.dtype != plain.dtype or one.shape != plain.shape:
                return f"{name} is {one.dtype} {tuple(one.shape)}, expected {plain.dtype} {tuple(plain.shape)}"
            usual = self.largest(plain, other)  # a backward pass rounds where no result is changed above
            both = [self.far(value, other, [run[position] for run in changed], usual) for value in (one, plain)]
            far = both[0] & ~both[1]  # not what PyTorch has wrong, too
            if far.any():
                place = tuple(int(number) for number in torch.nonzero(far)[0]) if far.dim() else ()
                return f"{name} has {one[place].item()} at {list(place)}, expected {other[place].item()}; {int(far.sum())} of {far.numel()} are wrong"
        return None

    def largest(self, plain, wanted):
        """The largest error that PyTorch makes."""
        if not plain.is_floating_point() or not plain.numel():
            return 0.
        apart = (plain.double() - wanted.double()).abs()
        return float(self.torch.where(self.torch.isfinite(apart), apart, 0.).max())

    def far(self, found, wanted, changed, usual_error):
        """Which elements are further from what is wanted than changes, and PyTorch's own errors, explain."""
        torch = self.torch
        if not found.is_floating_point():
            sure = torch.ones(found.shape, dtype=torch.bool)
            for run in changed:
                sure &= run == wanted
            return (found != wanted) & sure
        found, wanted, runs = found.double(), wanted.double(), torch.stack([run.double() for run in changed])
        same_kind = (torch.isnan(runs) == torch.isnan(wanted)).all(0) & (torch.isinf(runs) == torch.isinf(wanted)).all(0)
        finite = torch.isfinite(wanted)
        other_kind = same_kind & ((torch.isnan(found) != torch.isnan(wanted)) | (torch.isinf(wanted) & (found != wanted)) | (finite & ~torch.isfinite(found)))
        spread = torch.where(same_kind & finite, (runs - wanted).abs().amax(0), 0.) if found.numel() else torch.zeros_like(found)
        usual = spread.square().mean().sqrt() if found.numel() else 0.
        size = wanted[finite].abs().max() if finite.any() else 0.
        allowed = ALLOWED * torch.maximum(spread, torch.as_tensor(usual).double()) + 5e-5 * max(float(size), 1.)  # of intermediate results that are about 1
        allowed = allowed + ERRORS * min(usual_error, 1e-2 * max(float(size), 1.))
        distance = torch.where(same_kind & finite & torch.isfinite(found), (found - wanted).abs(), 0.)
        return other_kind | (distance > allowed)


# ---- reducing --------------------------------------------------------------------------------------------------------


def smaller(function, values):
    """Functions with less in them. values: of all names, of which a step's result may become an argument."""
    for output in function.outputs:
        if len(function.outputs) > 1:
            yield pruned(Function(function.given, function.steps, [output], function.trained))
    if function.trained:
        yield Function(function.given, function.steps, function.outputs, [])
        for name in function.trained:
            yield Function(function.given, function.steps, function.outputs, [one for one in function.trained if one != name])
    for position in range(len(function.steps) - 1, -1, -1):
        step, before, after = function.steps[position], function.steps[:position], function.steps[position + 1:]
        if step.name in function.outputs:
            for name in step.reads:
                if any(one.name == name for one in before):
                    yield pruned(Function(function.given, before, [name], function.trained))
            continue
        value = values.get(step.name)
        kind = str(value.dtype)[6:] if value is not None else ""
        if kind in ("float32", "float16", "bool"):
            given = Given("x" + step.name, kind, value.shape, position + 1)
            renamed = [Step(one.name, rename(one.text, step.name, given.name), [given.name if name == step.name else name for name in one.reads]) for one in after]
            yield pruned(Function([*function.given, given], [*before, *renamed], function.outputs, function.trained + [given.name] * (kind == "float32" and bool(function.trained))))


def rename(text, name, other):
    import re
    return re.sub(rf"\b{name}\b", other, text)


def reduced(results, function):
    """The smallest function that is wrong, and how."""
    wrong, again, tries = results.wrong(function), True, 0
    while again and tries < 60:
        again = False
        try:
            space = results.space(False)
            values = results.arguments(function, False)
            for step in function.steps:
                values[step.name] = eval(step.text, {**space, **values})  # pylint: disable=eval-used
        except Exception:  # pylint: disable=broad-except
            break
        for candidate in smaller(function, values):
            tries += 1
            try:
                found = results.wrong(candidate)
            except Unfit:
                continue
            if found:
                function, wrong, again = candidate, found, True
                break
    return function, wrong


# ---- the test --------------------------------------------------------------------------------------------------------


def work(first, count, seconds, keep_going):
    """Tries functions from one seed on, and says so before each."""
    import logging

    import koine.torch
    import torch
    from torch.nn import functional
    warnings.simplefilter("ignore")
    logging.getLogger("koine").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    results, until, status, tried = Results(torch, functional, koine), time.monotonic() + seconds, 0, 0
    for seed in range(first, first + count):
        if time.monotonic() > until:
            break
        print(f"seed {seed}", flush=True)
        function = Drawn(seed, torch, functional).function()
        if not function.steps:
            continue
        try:
            wrong = results.wrong(function, dynamo=seed % 8 == 0)
        except Unfit:
            continue
        tried += 1
        if wrong:
            small, why = reduced(results, function)
            print(f"WRONG {seed}: {wrong}\n{why}\n\n{small.program()}\n", flush=True)
            status = 1
            if not keep_going:
                break
    print(f"tried {tried}", flush=True)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("house")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("KOINE_TEST_SEED") or time.time()))
    parser.add_argument("--keep-going", action="store_true", help="report all that are wrong, each reduced")
    parser.add_argument("--work", action="store_true")
    given = parser.parse_args()
    seconds, count = (1e9 if given.count else given.seconds), given.count or 10**6
    if given.work:
        faulthandler.enable()
        return work(given.seed, count, seconds, given.keep_going)
    from package import case, end_without, expect, run
    end_without("torch", "PyTorch")

    def random_functions_are_as_in_pytorch():
        """In another process, whose crash has a seed, too."""
        command = [sys.executable, __file__, given.house, "--work", "--seed", str(given.seed), "--seconds", str(given.seconds)]
        command += (["--count", str(given.count)] if given.count else []) + ["--keep-going"] * given.keep_going
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            last, lines = "", []
            for line in child.stdout:
                if line.startswith("seed "):
                    last = line.strip()
                else:
                    lines.append(line)
                    if given.keep_going:
                        print(line, end="", flush=True)
            status = child.wait()
        print(f"functions from seed {given.seed} to {last}: {''.join(lines[-1:]).strip()}", flush=True)
        expect(status == 0, f"{last} (--seed {last[5:]} --count 1 repeats it), status {status}:\n{''.join(lines)}")
    case(random_functions_are_as_in_pytorch)
    run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
