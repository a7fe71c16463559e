"""Training steps of PyTorch's models compute what PyTorch computes; skipped where PyTorch is missing.

usage: pytorch.py HOUSE_FOLDER
"""
import importlib.util
import subprocess
import sys
import warnings

from package import case, end_without, expect, expect_equal, raises, run

import koine


@case
def the_package_does_not_import_pytorch():
    done = subprocess.run([sys.executable, "-c", "import sys, koine; print('torch' in sys.modules)"], capture_output=True, text=True, timeout=50)
    expect_equal(done.stdout.strip(), "False")
    if not importlib.util.find_spec("torch"):
        with raises(ImportError, "pip install torch"):
            koine.torch


end_without("torch", "PyTorch")

import contextlib  # noqa: E402
import copy  # noqa: E402
import functools  # noqa: E402
import gc  # noqa: E402
import io  # noqa: E402
import logging  # noqa: E402
import traceback  # noqa: E402
import weakref  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def net(*more):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), *more, nn.Linear(8, 3))


def batches(count=6, size=8, seed=4):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(size, 6, generator=generator), torch.randint(0, 3, (size,), generator=generator)) for _ in range(count)]


def pytorch(model, loss, optimizer, data, scheduler=None):
    """Losses of PyTorch's own steps."""
    found = []
    for *x, y in data:
        optimizer.zero_grad()
        value = loss(model(*x), y)
        value.backward()
        optimizer.step()
        found.append(value.item())
        if scheduler:
            scheduler.step()
    return found


def distance(one, other):
    """The largest relative difference of two dictionaries of tensors or lists of numbers."""
    if isinstance(one, list):
        one, other = ({"": torch.tensor(numbers)} for numbers in (one, other))
    expect_equal(sorted(one), sorted(other))
    return max(((one[name].double() - other[name].double()).abs().max() / other[name].double().abs().max().clamp(min=1e-3)).item() for name in one)


def same(make, model=net, loss=F.cross_entropy, data=None, schedule=None, most=1e-5, **more):
    """Steps of Koine and PyTorch from one start give the same losses, parameters, and state of the optimizer. Returns Koine's."""
    data = data or batches()
    ours, theirs = model(), model()
    optimizers = [make(net) for net in (ours, theirs)]
    schedulers = [schedule(optimizer) if schedule else None for optimizer in optimizers]
    step = koine.torch.train_step(ours, loss, optimizers[0], **more)
    found = []
    for given in data:
        found.append(step(*given))
        if schedulers[0]:
            schedulers[0].step()
    wanted = pytorch(theirs, loss, optimizers[1], data, schedulers[1])
    expect(distance([float(value) for value in found], wanted) <= most, f"losses {found}, expected {wanted}")
    wrong = distance(ours.state_dict(), theirs.state_dict())
    expect(wrong <= most, f"parameters differ by {wrong:.2g}")
    kept, other = (optimizer.state_dict()["state"] for optimizer in optimizers)
    expect_equal(sorted(kept), sorted(other))
    for number in other:
        tensors = [{name: value for name, value in state[number].items() if value is not None} for state in (kept, other)]
        wrong = distance(*({name: torch.as_tensor(value) for name, value in some.items()} for some in tensors))
        expect(wrong <= most, f"the optimizer's state of parameter {number} differs by {wrong:.2g}")
    return step, ours, optimizers[0]


OPTIMIZERS = {
    "SGD": ({}, {"momentum": .9}, {"momentum": .9, "nesterov": True, "weight_decay": .1}, {"momentum": .8, "dampening": .3}),
    "Adam": ({}, {"betas": (.8, .9), "eps": 1e-3, "weight_decay": .1}, {"amsgrad": True}),
    "AdamW": ({}, {"weight_decay": .3, "amsgrad": True}),
    "RMSprop": ({}, {"alpha": .9, "eps": 1e-3, "momentum": .5, "centered": True, "weight_decay": .1}),
    "Adagrad": ({}, {"lr_decay": .1, "eps": 1e-3, "initial_accumulator_value": .1, "weight_decay": .1}),
    "Adadelta": ({}, {"rho": .8, "weight_decay": .1}),
}


def optimizer_case(name, settings):
    def optimizer():
        same(lambda model: getattr(torch.optim, name)(model.parameters(), lr=.02, **settings))
    optimizer.__name__ = f"{name} {settings}"
    case(optimizer)


for _name, _all in OPTIMIZERS.items():
    for _settings in _all:
        optimizer_case(_name, _settings)


@case
def losses_wait_until_they_are_asked_for():
    model = net()
    step = koine.torch.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), .1))
    losses = [step(x, y) for x, y in batches()]
    expect(all(loss.value is None for loss in losses))
    expect_equal(f"{losses[2]:.3f}", f"{losses[2].item():.3f}")
    expect(all(loss.value is not None for loss in losses), "all are read at once")
    expect(abs(sum(losses) - sum(loss.item() for loss in losses)) < 1e-6)
    expect(losses[0] > 0 and losses[0] + 1 == 1 + losses[0].item() and losses[0] != losses[1])
    with raises(koine.KoineError, "leave out loss.backward()"):
        losses[0].backward()


@case
def many_losses_are_kept():
    model = nn.Linear(2, 1)
    x, y = torch.ones(4, 2), torch.zeros(4, 1)
    step = koine.torch.train_step(model, F.mse_loss, torch.optim.SGD(model.parameters(), 1e-4))
    kept = [step(x, y) for _ in range(1030)]
    values = [loss.item() for loss in kept]
    expect(all(after < before for before, after in zip(values, values[1:])), "each loss is its own")


@case
def recurrent_layers_are_traced_once():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(2, 3, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0]

    model, x = Recurrent(), torch.ones(4, 5, 2)
    before = model.layer._flat_weights
    step = koine.torch.train_step(model, F.mse_loss, torch.optim.SGD(model.parameters(), 1e-4))
    for _ in range(3):
        step(x, torch.zeros(4, 5, 3))
    expect_equal(len(step._traced), 1)
    expect(model.layer._flat_weights is before, "the layer's list of its parameters is unchanged")


@case
def batches_of_other_sizes_train_too():
    data = batches(3) + batches(1, size=5) + batches(1, size=8) + batches(1, size=1)
    step, *_ = same(lambda model: torch.optim.Adam(model.parameters()), data=data)
    expect(len(step._traced) == 1, "one trace for all sizes of a batch")


@case
def groups_have_their_rates_and_decays():
    def make(model):
        return torch.optim.AdamW([{"params": model[0].parameters(), "lr": .05, "weight_decay": .2},
                                  {"params": [model[2].weight]}, {"params": [model[2].bias], "lr": 0., "weight_decay": 0}], lr=.01)
    same(make)
    same(lambda model: torch.optim.SGD([{"params": [model[0].weight], "lr": .5}, {"params": [model[0].bias]}], lr=.1, momentum=.9))


@case
def schedulers_are_followed():
    def make(model):
        return torch.optim.SGD(model.parameters(), .1, momentum=.9)
    same(make, schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6))
    same(make, schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, .1))


@contextlib.contextmanager
def logged():
    """The messages that Koine logs meanwhile."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("koine").addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger("koine").removeHandler(handler)


class Falling:
    """A scheduler of the user: every momentum falls."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def step(self):
        for group in self._optimizer.param_groups:
            for option in ("momentum", "alpha", "rho"):
                if option in group:
                    group[option] *= .9
            if "betas" in group:
                group["betas"] = tuple(beta * .9 for beta in group["betas"])


@case
def momenta_that_change_or_differ_stay_on_the_device():
    schedulers = torch.optim.lr_scheduler
    makers = [functools.partial(getattr(torch.optim, name), lr=.02, **settings)
              for name, settings in (("SGD", {"momentum": .9}), ("SGD", {"momentum": .9, "nesterov": True}), ("Adam", {}), ("AdamW", {"amsgrad": True}),
                                     ("RMSprop", {"momentum": .9, "centered": True}), ("Adadelta", {}))]
    with logged() as messages:
        for maker in makers:
            same(lambda model: maker(model.parameters()), data=batches(8), schedule=Falling, most=1e-4)
            if "rho" not in maker([torch.zeros(1)]).param_groups[0]:
                same(lambda model: maker(model.parameters()), data=batches(8), most=1e-4,
                     schedule=lambda optimizer: schedulers.OneCycleLR(optimizer, .1, total_steps=8))
        same(lambda model: torch.optim.SGD(model.parameters(), .1, momentum=.9), data=batches(8),
             schedule=lambda optimizer: schedulers.CyclicLR(optimizer, .01, .1, step_size_up=2))
        same(lambda model: torch.optim.AdamW([{"params": model[0].parameters(), "betas": (.8, .9)}, {"params": model[2].parameters()}], .02),
             data=batches(8), schedule=Falling)
        same(lambda model: torch.optim.Adam(model.parameters(), .02, betas=[.8, .9]), data=batches(8), schedule=Falling)
        expect(not messages, str(messages))
        # A momentum of 0 has no state, so groups with and without one differ in more than a number.
        same(lambda model: torch.optim.SGD([{"params": model[0].parameters(), "momentum": .9}, {"params": model[2].parameters()}], .02))
        expect(len(messages) == 1 and "copied in each step" in messages[0], str(messages))


@case
def other_optimizers_step_on_gradients_that_come_back():
    with logged() as messages:
        for name, settings in (("NAdam", {}), ("RAdam", {}), ("SGD", {"maximize": True}), ("Adamax", {})):
            same(lambda model: getattr(torch.optim, name)(model.parameters(), lr=.02, **settings), most=1e-4)
            expect(len(messages) == 1 and "copied in each step" in messages[0], str(messages))
            messages.clear()
    model = net()
    with raises(koine.UnsupportedError, "LBFGS"):
        koine.torch.train_step(model, F.cross_entropy, torch.optim.LBFGS(model.parameters()))


class Scaled(nn.Linear):
    """Its factor has no dimensions; its tokens are numbers of 64 bits."""

    def __init__(self):
        super().__init__(6, 3)
        self.factor = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("moved", torch.zeros(3, dtype=torch.int64))

    def forward(self, x, counts=None):
        self.moved.copy_((self.moved + 1).clamp(max=9))
        return super().forward(x) * self.factor * (1 if counts is None else counts.float().mean())


@case
def parameters_without_dimensions_are_trained():
    def model():
        torch.manual_seed(1)
        return Scaled()
    for name in ("SGD", "NAdam"):
        same(lambda model, name=name: getattr(torch.optim, name)(model.parameters(), lr=.02), model=model, most=1e-4)


@case
def integers_beyond_32_bits_are_refused_and_nothing_is_lost():
    model = Scaled()
    (x, y), small = batches(1)[0], torch.tensor([1, 2**31 - 1])
    with koine.torch.train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), .0)) as step:
        wanted = float(step(x, small, y))
        for number in (2**31, -2**31 - 1, 2**40):
            with raises(koine.DtypeError, "argument 1", str(number), "32 bits"):
                step(x, torch.tensor([1, number]), y)
        expect_equal(float(step(x, small, y)), wanted)
        step.sync()
        expect_equal(model.moved.tolist(), [2, 2, 2])
        with torch.no_grad():
            model.moved += 2**35
        with raises(koine.DtypeError, "moved", "32 bits"):
            step(x, small, y)
        with torch.no_grad():
            model.moved -= 2**35
        expect_equal(float(step(x, small, y)), wanted)
        step.sync()
    expect_equal(model.moved.tolist(), [3, 3, 3])


@case
def clipped_norms_are_pytorchs():
    data, model, other = batches(), net(), net()
    for make in (torch.optim.SGD, torch.optim.NAdam):
        optimizer = make(other.parameters(), .1)
        step = koine.torch.train_step(model, F.cross_entropy, make(model.parameters(), .1), clip_norm=.1)
        for x, y in data:
            step(x, y)
            optimizer.zero_grad()
            F.cross_entropy(other(x), y).backward()
            nn.utils.clip_grad_norm_(other.parameters(), .1)
            optimizer.step()
        expect(distance(model.state_dict(), other.state_dict()) < 1e-5)
        step.close()
    with raises(TypeError, "learning_rate"):
        koine.torch.train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters()), learning_rate=.1)


class Normed(nn.Module):
    """Batch norm twice with one module, a buffer that PyTorch writes, one that it only reads, and tied parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.conv, self.norm, self.last = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)
        self.tied = nn.Linear(4, 3)
        self.tied.weight = self.last.weight
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("scale", torch.arange(1., 5.))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = self.norm(self.norm(self.conv(x)).relu_()).mean((2, 3))
        if self.training:
            self.mean.mul_(.9).add_(x.detach().mean(0), alpha=.1)
            self.calls += 2
        return self.last(x * self.scale) + self.tied(x)


def images(count=4):
    return [(torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(i)), torch.arange(8) % 3) for i in range(count)]


@case
def buffers_are_updated():
    step, model, _ = same(lambda model: torch.optim.SGD(model.parameters(), .1), model=Normed, data=images())
    expect_equal((model.calls.item(), model.norm.num_batches_tracked.item()), (8, 8))
    model.eval()  # another trace: the running statistics are not updated
    mean = model.norm.running_mean.clone()
    for x, y in images(1):
        step(x, y)
    expect(torch.equal(model.state_dict()["norm.running_mean"], mean))
    model.scale.mul_(2)  # what a trace has as a constant
    model.train()
    other = copy.deepcopy(model)
    expect(abs(float(step(*images(1)[0])) - F.cross_entropy(other(images(1)[0][0]), images(1)[0][1]).item()) < 1e-5)


@case
def frozen_parameters_stay():
    def frozen():
        model = net()
        model[0].weight.requires_grad_(False)
        return model
    same(lambda model: torch.optim.Adam(parameter for parameter in model.parameters() if parameter.requires_grad), model=frozen)
    same(lambda model: torch.optim.Adam(model[2].parameters()), model=net)


@case
def training_is_resumed_from_state_dicts():
    data = batches(8)

    def make(model):
        return torch.optim.AdamW(model.parameters(), .02)
    one, other = net(), net()
    optimizer, wanted = make(one), pytorch(other, F.cross_entropy, make(other), data)
    step = koine.torch.train_step(one, F.cross_entropy, optimizer)
    for x, y in data[:4]:
        step(x, y)
    file = io.BytesIO()
    torch.save({"model": one.state_dict(), "optimizer": optimizer.state_dict()}, file)
    new = net()
    its_own = make(new)
    for model, optimizer, step in ((new, its_own, koine.torch.train_step(new, F.cross_entropy, its_own)), (one, optimizer, step)):
        step(*data[7])
        file.seek(0)
        saved = torch.load(file)  # load_state_dict() takes the tensors themselves
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        found = [step(x, y).item() for x, y in data[4:]]
        expect(distance(found, wanted[4:]) < 1e-5, f"{found}, expected {wanted[4:]}")
        expect(distance(model.state_dict(), other.state_dict()) < 1e-5)


@case
def the_model_sees_what_the_device_has():
    model, other = net(), net()
    optimizer = torch.optim.SGD(other.parameters(), .1)
    step = koine.torch.train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), .1))
    for x, y in batches(3):
        loss = step(x, y)
        pytorch(other, F.cross_entropy, optimizer, [(x, y)])
        expect(distance({"": model(x)}, {"": other(x)}) < 1e-5, "a call of the model brings the parameters back")
        with torch.no_grad():
            for parameter in (model[0].weight, other[0].weight):
                parameter.mul_(.5)  # and what is written in PyTorch goes to the device
    twin = copy.deepcopy(model)
    expect(distance(twin.state_dict(), other.state_dict()) < 1e-5)
    step.close()
    expect(distance(model.state_dict(), other.state_dict()) < 1e-5)
    expect(loss.item() > 0, "losses are read before the step is closed")
    with raises(koine.KoineError, "closed"):
        step(*batches(1)[0])


@case
def dropout_is_koines():
    """Different numbers than PyTorch's, but from the same distribution, and the same for the same seed."""
    def losses(seed):
        model = net(nn.Dropout(.5))
        step = koine.torch.train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), 0.), seed=seed)
        x, y = torch.randn(4096, 6, generator=torch.Generator().manual_seed(1)), torch.arange(4096) % 3
        return [step(x, y).item() for _ in range(4)], model, x, y
    found, model, x, y = losses(1)
    expect(losses(1)[0] == found and losses(2)[0] != found and len(set(found)) == 4)
    wanted = F.cross_entropy(model(x), y).item()
    expect(abs(found[0] - wanted) < .05, f"{found}, PyTorch's {wanted}")

    class Dropping(nn.Module):
        """Whole channels, and whole samples."""

        def __init__(self):
            super().__init__()
            self.scale, self.dropout = nn.Parameter(torch.ones(8)), nn.Dropout1d(.25)

        def forward(self, x):
            kept = torch.empty(x.shape[0], 1, 1).bernoulli_(.8)
            return self.dropout(x * self.scale[:, None]) * kept
    model, x = Dropping(), torch.ones(512, 8, 4)
    step = koine.torch.train_step(model, lambda output, places: (output.mean() - places.mean()) * 1, torch.optim.SGD(model.parameters(), 0.))
    found = [step(x, torch.zeros(1)).item() for _ in range(4)]
    expect(all(abs(number - .8) < .06 for number in found) and len(set(found)) == 4, str(found))


@case
def parts_without_gradients_have_none():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(5)
            self.one, self.two = nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, x):
            with torch.no_grad():
                target = self.one(x) * 2
            return self.one(x) * target + self.two(x).detach() * x.sum()
    same(lambda model: torch.optim.SGD([model.one.weight, model.one.bias], .01), model=Partly)


@case
def arguments_may_be_several_and_named():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.one, self.two = nn.Linear(3, 4), nn.Linear(2, 4)

        def forward(self, x, pair, scale=None, twice=False):
            return (self.one(x) + self.two(pair["first"]) + pair["second"]) * (1 if scale is None else scale) * (2 if twice else 1)
    model, other = Two(), Two()
    x, pair, scale, y = torch.randn(5, 3), {"first": torch.randn(5, 2), "second": torch.randn(5, 4)}, torch.randn(5, 1), torch.randn(5, 4)
    step = koine.torch.train_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.))
    for keywords in ({}, {"scale": scale}, {"scale": scale, "twice": True}):
        expect(abs(step(x, pair, y, **keywords).item() - F.mse_loss(other(x, pair, **keywords), y).item()) < 1e-5)
    expect_equal(len(step._traced), 3)
    with raises(TypeError, "step(x, y)"):
        step(x)


@case
def mistakes_are_explained():
    class Uncovered(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleDict({"spectrum": nn.Module()})
            self.inner["spectrum"].forward = lambda x: torch.fft.rfft(x).abs()
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            return self.last(self.inner["spectrum"](x))
    x, y = batches(1)[0]

    def step_of(model, loss=F.cross_entropy):
        return koine.torch.train_step(model, loss, torch.optim.SGD(model.parameters(), .1))
    with raises(koine.UnsupportedError, "aten._fft_r2c.default", "inner.spectrum", 'self.last(self.inner["spectrum"](x))', "torch-operators.md"):
        step_of(Uncovered())(x, y)
    class Deciding(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)
    with raises(koine.UnsupportedError, "torch.export does not trace", "data-dependent"):
        step_of(Deciding(6, 3))(x, y)
    with raises(koine.ShapeError, "(8,)", "one tensor without dimensions"):
        step_of(net(), nn.CrossEntropyLoss(reduction="none"))(x, y)
    with raises(koine.UnsupportedError, "model.float()"):
        step_of(net().double())(x.double(), y)


@case
def what_is_dropped_is_freed():
    from koine.torch import resident
    model, (x, y) = net(nn.BatchNorm1d(8)), batches(1)[0]
    optimizer = torch.optim.Adam(model.parameters())
    step = koine.torch.train_step(model, F.cross_entropy, optimizer)
    step(x, y)
    wanted, pool = step.pool.states["0.weight"], weakref.ref(step.pool)
    del step
    gc.collect()
    expect(pool() is not None, "a model without its step still has its states")
    expect((model[0].weight.detach().numpy() == wanted).all())
    koine.torch.train_step(model, F.cross_entropy, optimizer)(x, y)
    kept = weakref.ref(model)
    del model, optimizer
    gc.collect()
    gc.collect()  # states refer to tensors weakly, and go after them
    expect(kept() is None and pool() is None, "model and states are freed")
    expect_equal(len(resident._residents), 0)


@case
def a_step_that_is_closed_leaves_the_states_to_others():
    model, other = net(), net()
    optimizers = [torch.optim.SGD(one.parameters(), .1, momentum=.9) for one in (model, other)]
    one, two = (koine.torch.train_step(model, F.cross_entropy, optimizers[0]) for _ in range(2))
    expect(one.pool is two.pool)
    data = batches(4)
    for place, (x, y) in enumerate(data):
        (one if place < 2 else two)(x, y)
        if place == 1:
            one.close()
    pytorch(other, F.cross_entropy, optimizers[1], data)
    expect(distance(model.state_dict(), other.state_dict()) < 1e-5)
    two.close()
    expect(two.pool.states.closed)


@case
def steps_that_meet_share_their_states():
    models, others = [net(), net()], [net(), net()]
    optimizers = [[torch.optim.SGD(one.parameters(), .1, momentum=.9) for one in some] for some in (models, others)]
    steps = [koine.torch.train_step(model, F.cross_entropy, optimizer) for model, optimizer in zip(models, optimizers[0])]
    data = batches(4)
    for step, (x, y) in zip(steps, data):
        step(x, y)
    expect(steps[0].pool is not steps[1].pool)

    def both(output, target, second):
        return F.cross_entropy(output, target[0]) + F.mse_loss(output, second(target[1]))
    together = koine.torch.train_step(models[0], lambda output, target: both(output, target, models[1]), optimizers[0][0])
    together(data[2][0], (data[2][1], data[2][0]))
    expect(steps[0].pool is steps[1].pool is together.pool, "three steps have one pool")
    steps[1](*data[3])
    for place in (0, 1):
        pytorch(others[place], F.cross_entropy, optimizers[1][place], [data[place]])
    optimizers[1][0].zero_grad()
    both(others[0](data[2][0]), (data[2][1], data[2][0]), others[1]).backward()
    optimizers[1][0].step()
    pytorch(others[1], F.cross_entropy, optimizers[1][1], [data[3]])
    for one, other in zip(models, others):
        expect(distance(one.state_dict(), other.state_dict()) < 1e-5)


@case
def only_what_is_read_is_copied():
    model, (x, y) = net(), batches(1)[0]
    step = koine.torch.train_step(model, F.cross_entropy, torch.optim.Adam(model.parameters()))
    step(x, y)

    def plain():
        return [type(parameter) is nn.Parameter for parameter in model.parameters()]
    expect_equal(plain(), [False] * 4)
    expect(sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad) == 83 and
           isinstance(model[0].weight, nn.Parameter) and model[0].weight.shape == (8, 6) and model[0].weight.grad is None)
    expect_equal(plain(), [False] * 4)
    model[2](torch.zeros(1, 8))
    expect_equal(plain(), [False, False, True, True])
    step(x, y)
    expect_equal(plain(), [False] * 4)
    step.close()
    expect_equal(plain(), [True] * 4)


@case
def errors_are_short():
    class Deciding(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)
    model, (x, y) = Deciding(6, 3), batches(1)[0]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            koine.torch.train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), .1))(x, y)
        except koine.UnsupportedError:
            lines = traceback.format_exc().splitlines()
    expect(len(lines) < 40, f"{len(lines)} lines")
    expect(any("super().forward(x if x.sum() > 0 else -x)" in line for line in lines[-2:]), lines[-1])
    expect_equal(errors.getvalue(), "")


run()
