"""Everyday training loops of PyTorch, with PyTorch's own steps and with Koine's: the same values, or a clear error. Skipped where PyTorch is
missing.

Each loop is a function of `train_step`, which returns a function step(x, y), and returns a list of what it has seen: tensors, numbers, lists,
dictionaries. A loop that Koine refuses says with which words.

usage: pytorch_loops.py HOUSE_FOLDER [WORD…]    only loops with such a word in their names
"""
import copy
import functools
import io
import logging
import math
import pickle
import sys
import warnings

from package import case, end_without, expect, run

end_without("torch", "PyTorch")

import koine  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.optim import lr_scheduler, swa_utils  # noqa: E402

warnings.simplefilter("ignore")
torch.set_num_threads(1)
logging.getLogger("koine").addHandler(logging.NullHandler())
logging.getLogger("koine").propagate = False


# ---- the two kinds of steps ----------------------------------------------------------------------------------------


def call(model, loss, arguments, keywords):
    if loss is None:
        output = model(*arguments, **keywords)
        if isinstance(output, tuple):
            return output[1]
        return output["loss"] if isinstance(output, dict) else output.loss if hasattr(output, "loss") else output
    return loss(model(*arguments[:-1], **keywords), arguments[-1])


def eager(model, loss, optimizer, clip_norm=0, clip_value=0, accumulate=1, **_):
    """PyTorch's step."""
    done = [0]

    def step(*arguments, **keywords):
        if done[0] % accumulate == 0:
            optimizer.zero_grad()
        value = call(model, loss, arguments, keywords)
        (value / accumulate).backward()
        done[0] += 1
        if done[0] % accumulate == 0:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            if clip_value:
                nn.utils.clip_grad_value_(parameters, clip_value)
            if clip_norm:
                nn.utils.clip_grad_norm_(parameters, clip_norm)
            optimizer.step()
        return value.detach()
    return step


def numbers(seen):
    """All numbers in what a loop has seen, as one list of arrays."""
    if isinstance(seen, torch.Tensor):
        return [seen.detach().double().reshape(-1).numpy().copy()]
    if isinstance(seen, dict):
        return [array for key in sorted(seen, key=str) for array in numbers(seen[key])]
    if isinstance(seen, (list, tuple)):
        return [array for item in seen for array in numbers(item)]
    if seen is None or isinstance(seen, str):
        return [np.zeros(0)]
    return [np.array([float(seen)])]


def compare(found, wanted, most):
    expect(len(found) == len(wanted), f"{len(found)} values, expected {len(wanted)}")
    for place, (one, other) in enumerate(zip(found, wanted)):
        expect(one.shape == other.shape, f"value {place} has {one.shape} numbers, expected {other.shape}")
        if one.size:
            wrong = np.abs(one - other).max() / max(1e-2, np.abs(other).max())
            expect(wrong <= most, f"value {place} differs by {wrong:.2g}: {one[:6]}, expected {other[:6]}")


def loop(function=None, most=3e-5, refused=None):
    """Makes a test of a loop. refused: what the error says."""
    if function is None:
        return functools.partial(loop, most=most, refused=refused)

    def test():
        torch.manual_seed(1)
        wanted = numbers(function(eager))
        torch.manual_seed(1)
        if refused:
            try:
                function(koine.torch.train_step)
            except Exception as error:
                expect(isinstance(error, (koine.KoineError, TypeError, ValueError, RuntimeError)) and refused in str(error),
                       f"{type(error).__name__}: {error}; expected {refused!r}")
                return
            expect(False, f"nothing was raised; expected {refused!r}")
        compare(numbers(function(koine.torch.train_step)), wanted, most)
    test.__name__ = function.__name__
    return case(test) if not sys.argv[2:] or any(word in function.__name__ for word in sys.argv[2:]) else test


# ---- models and data -----------------------------------------------------------------------------------------------


def net(*more, seed=3, outputs=3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), *more, nn.Linear(8, outputs))


def batches(count=4, size=8, seed=4):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(size, 6, generator=generator), torch.randint(0, 3, (size,), generator=generator)) for _ in range(count)]


def sgd(model, lr=.1, momentum=.9, **more):
    return torch.optim.SGD(model.parameters(), lr, momentum=momentum, **more)


def adam(model, lr=.02, **more):
    return torch.optim.Adam(model.parameters(), lr, **more)


X = torch.randn(5, 6, generator=torch.Generator().manual_seed(9))


# ---- reading after a step ------------------------------------------------------------------------------------------


@loop
def norms_of_parameters(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        step(x, y)
        seen.append([parameter.norm() for parameter in model.parameters()])
    return seen


@loop
def a_copy_of_the_model_each_epoch(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, adam(model))
    copies = []
    for x, y in batches():
        step(x, y)
        copies.append(copy.deepcopy(model))
    return [copied(X) for copied in copies]


@loop
def the_whole_model_is_saved(train_step):
    model = net(nn.BatchNorm1d(8))
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches():
        step(x, y)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False).state_dict()


@loop
def the_model_is_pickled(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches():
        step(x, y)
    return pickle.loads(pickle.dumps(model)).state_dict(), pickle.loads(pickle.dumps(model[0].weight))


@loop
def a_part_of_the_model_is_called(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, adam(model))
    seen = []
    for x, y in batches():
        step(x, y)
        seen += [model[0](X), model[:2](X), F.linear(X, model[0].weight)]
    return seen


class Generating(nn.Module):
    """A small language model with a method that computes without forward."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.embedding, self.rnn, self.head = nn.Embedding(7, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 7)

    def forward(self, ids):
        return self.head(self.rnn(self.embedding(ids))[0])

    @torch.no_grad()
    def generate(self, ids, count):
        for _ in range(count):
            ids = torch.cat([ids, self.head(self.rnn(self.embedding(ids))[0])[:, -1:].argmax(-1)], 1)
        return ids


@loop
def a_method_of_the_model_generates(train_step):
    model = Generating()
    step = train_step(model, lambda output, target: F.cross_entropy(output.flatten(0, 1), target.flatten()), adam(model, .1))
    ids, seen = torch.arange(14).reshape(2, 7) % 7, []
    for _ in range(4):
        step(ids, ids.roll(-1, 1))
        seen.append(model.generate(ids[:, :1], 4))
    return seen


@loop
def an_averaged_model(train_step):
    model = net()
    step, averaged = train_step(model, F.cross_entropy, sgd(model)), swa_utils.AveragedModel(model)
    for x, y in batches():
        step(x, y)
        averaged.update_parameters(model)
    return averaged.state_dict(), averaged(X)


@loop
def swa_with_batch_norm(train_step):
    model = net(nn.BatchNorm1d(8))
    optimizer = sgd(model)
    step, averaged = train_step(model, F.cross_entropy, optimizer), swa_utils.AveragedModel(model)
    scheduler, swa = lr_scheduler.CosineAnnealingLR(optimizer, 3), swa_utils.SWALR(optimizer, swa_lr=.05, anneal_epochs=1)
    data = batches()
    for epoch in range(4):
        for x, y in data[:2]:
            step(x, y)
        if epoch >= 2:
            averaged.update_parameters(model)
            swa.step()
        else:
            scheduler.step()
    swa_utils.update_bn([x for x, _ in data], averaged)
    return averaged.state_dict(), model.state_dict()


@loop
def an_average_of_parameters_by_hand(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    shadow = [parameter.detach().clone() for parameter in model.parameters()]
    for x, y in batches():
        step(x, y)
        with torch.no_grad():
            for kept, parameter in zip(shadow, model.parameters()):
                kept.mul_(.9).add_(parameter, alpha=.1)
    return shadow, model.state_dict()


@loop
def an_average_through_data(train_step):
    model = net()
    average = copy.deepcopy(model)
    step = train_step(model, F.cross_entropy, adam(model))
    for x, y in batches():
        step(x, y)
        for kept, parameter in zip(average.parameters(), model.parameters()):
            kept.data.lerp_(parameter.data, .2)
    return average(X), model(X)


@loop
def an_average_replaces_the_weights_for_evaluation(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    shadow, seen = [parameter.detach().clone() for parameter in model.parameters()], []
    for x, y in batches():
        step(x, y)
        backup = [parameter.data.clone() for parameter in model.parameters()]
        for kept, parameter in zip(shadow, model.parameters()):
            kept.mul_(.5).add_(parameter.data, alpha=.5)
            parameter.data.copy_(kept)
        seen.append(model(X))
        for kept, parameter in zip(backup, model.parameters()):
            parameter.data = kept
    return seen, model.state_dict()


@loop
def parameters_as_arrays(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        step(x, y)
        seen += [torch.from_numpy(model[0].weight.detach().numpy().copy()), torch.tensor(model[2].bias.tolist()),
                 torch.from_numpy(np.asarray(model[2].weight.detach()).copy())]
    return seen


@loop
def an_array_taken_before_the_training(train_step):
    model = net()
    array, alias = model[0].weight.detach().numpy(), model[2].weight.data
    view, states = model[2].bias.detach()[1:], model.state_dict()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        step(x, y)
        seen += [torch.from_numpy(array.copy()), alias.clone(), view.clone(), {key: value.clone() for key, value in states.items()}]
        alias.mul_(.9)  # counts, although PyTorch does not
        array *= .9
    return seen, model.state_dict()


@loop
def a_vector_of_parameters(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        step(x, y)
        vector = nn.utils.parameters_to_vector(model.parameters())
        seen.append(vector)
        nn.utils.vector_to_parameters(vector * .9, model.parameters())
    return seen, model.state_dict()


@loop
def a_traced_script_reads_the_parameters(train_step):
    model = net()
    script = torch.jit.trace(model, X)
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        step(x, y)
        seen.append(script(X))
    return seen


@loop
def histograms_and_statistics(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, adam(model))
    seen = []
    for x, y in batches():
        step(x, y)
        for parameter in model.parameters():
            seen += [torch.stack([parameter.mean(), parameter.std(), parameter.abs().max()]), torch.linalg.vector_norm(parameter)]
    return seen


@loop
def the_loss_on_a_validation_set(train_step):
    model = net(nn.BatchNorm1d(8), nn.Dropout(0))
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        model.train()
        step(x, y)
        model.eval()
        with torch.no_grad():
            seen.append(F.cross_entropy(model(X), torch.zeros(5, dtype=torch.long)))
        with torch.inference_mode():
            seen.append(model(X).clone())
    return seen


@loop
def running_statistics_are_read(train_step):
    model = net(nn.BatchNorm1d(8))
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        step(x, y)
        seen.append([model[2].running_mean.clone(), model[2].running_var.sum(), model[2].num_batches_tracked.clone()])
    model[2].reset_running_stats()
    step(*batches()[0])
    return seen, model.state_dict()


@loop
def statistics_of_the_optimizer(train_step):
    model = net()
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    seen = []
    for x, y in batches():
        step(x, y)
        seen += [optimizer.state[model[0].weight]["exp_avg"].clone(), optimizer.state[model[2].bias]["exp_avg_sq"].sum(),
                 optimizer.state[model[0].bias]["step"].clone()]
    return seen


@loop
def moments_are_reset(train_step):
    model = net()
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        step(x, y)
        if place == 1:
            for state in optimizer.state.values():
                state["exp_avg"].zero_()
        if place == 3:
            optimizer.state.clear()
    return model.state_dict(), optimizer.state_dict()["state"]


# ---- writing between steps -----------------------------------------------------------------------------------------


@loop
def weights_are_clipped(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        seen.append(step(x, y))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-.2, .2)
    return [float(loss) for loss in seen], model.state_dict()


@loop
def weights_are_clipped_through_data(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, torch.optim.RMSprop(model.parameters(), .01))
    seen = []
    for x, y in batches():
        seen.append(step(x, y))
        for parameter in model.parameters():
            parameter.data.clamp_(-.2, .2)
    return [float(loss) for loss in seen], model.state_dict()


@loop
def weights_are_clipped_by_foreach(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches():
        step(x, y)
        with torch.no_grad():
            torch._foreach_clamp_max_(list(model.parameters()), .2)
    return model.state_dict()


@loop
def the_norm_of_rows_is_kept(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches():
        step(x, y)
        with torch.no_grad():
            model[0].weight.copy_(F.normalize(model[0].weight, dim=1))
            model[2].weight.data = torch.renorm(model[2].weight.data, 2, 0, .5)
            model[2].bias[1:] = 0
    return model.state_dict()


@loop
def a_layer_is_initialised_again(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    for place, (x, y) in enumerate(batches()):
        step(x, y)
        if place == 1:
            torch.manual_seed(5)
            model[2].reset_parameters()
            nn.init.constant_(model[0].bias, .3)
    return model.state_dict()


@loop
def noise_is_added_to_weights(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    generator = torch.Generator().manual_seed(2)
    for x, y in batches():
        step(x, y)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn(parameter.shape, generator=generator) * .01
    return model.state_dict()


@loop
def a_mask_prunes_weights(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    mask = (torch.arange(48).reshape(8, 6) % 3 > 0).float()
    for x, y in batches():
        step(x, y)
        model[0].weight.data.mul_(mask)
    return model.state_dict()


@loop
def pruning_of_pytorch(train_step):
    from torch.nn.utils import prune
    model = net()
    prune.l1_unstructured(model[0], "weight", amount=.3)
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches():
        step(x, y)
    prune.remove(model[0], "weight")
    return model.state_dict(), model(X)


@loop
def checkpoints_are_loaded_in_between(train_step):
    model = net(nn.BatchNorm1d(8))
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    data, best = batches(6), None
    for place, (x, y) in enumerate(data):
        step(x, y)
        if place == 2:
            best = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    model.load_state_dict(best["model"])
    optimizer.load_state_dict(best["optimizer"])
    return [float(step(x, y)) for x, y in data], model.state_dict(), optimizer.state_dict()["state"]


@loop
def the_best_weights_are_restored(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    least, best = math.inf, None
    for x, y in batches(6):
        loss = step(x, y)
        if loss.item() < least:
            least, best = loss.item(), {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(best)
    return least, model(X)


@loop
def a_checkpoint_starts_another_process(train_step):
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), .02)
    step, data = train_step(model, F.cross_entropy, optimizer), batches(6)
    for x, y in data[:3]:
        step(x, y)
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    file.seek(0)
    other, loaded = net(seed=8), torch.load(file)
    its_own = torch.optim.AdamW(other.parameters(), .02)
    other.load_state_dict(loaded[0])
    its_own.load_state_dict(loaded[1])
    step = train_step(other, F.cross_entropy, its_own)
    return [float(step(x, y)) for x, y in data[3:]], other.state_dict(), its_own.state_dict()["state"]


@loop
def parameters_are_assigned_by_load_state_dict(train_step):
    model, other = net(), net(seed=5)
    step = train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), .1))
    step(*batches()[0])
    for (_, parameter), value in zip(model.named_parameters(), other.state_dict().values()):
        parameter.data = value.clone()
    return [float(step(x, y)) for x, y in batches()], model.state_dict()


# ---- several steps -------------------------------------------------------------------------------------------------


@loop
def two_losses_on_one_model(train_step):
    model = net()
    optimizer = sgd(model)
    first, second = train_step(model, F.cross_entropy, optimizer), train_step(model, lambda output, _: (output ** 2).mean(), optimizer)
    seen = []
    for x, y in batches():
        seen += [first(x, y), second(x, y)]
    return [float(loss) for loss in seen], model.state_dict()


@loop
def two_losses_with_two_optimizers(train_step):
    model = net()
    first = train_step(model, F.cross_entropy, adam(model))
    second = train_step(model, lambda output, _: (output ** 2).mean(), torch.optim.AdamW(model.parameters(), .01))
    seen = []
    for x, y in batches():
        seen += [first(x, y), second(x, y)]
    return [float(loss) for loss in seen], model.state_dict()


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.trunk, self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x, which="one"):
        return getattr(self, which)(self.trunk(x).tanh())


@loop
def two_tasks_in_turn(train_step):
    model = Heads()
    step = train_step(model, lambda output, target: F.cross_entropy(output, target) if output.shape[1] == 3 else output.square().mean(), sgd(model))
    seen = []
    for place, (x, y) in enumerate(batches(6)):
        seen.append(step(x, y, which="two" if place % 3 == 1 else "one"))
    return [float(loss) for loss in seen], model.state_dict()


@loop
def two_tasks_in_turn_with_adam(train_step):
    model = Heads()
    optimizer = adam(model)
    step = train_step(model, lambda output, target: F.cross_entropy(output, target) if output.shape[1] == 3 else output.square().mean(), optimizer)
    seen = []
    for place, (x, y) in enumerate(batches(6)):
        seen.append(step(x, y, which="two" if place % 3 == 1 else "one"))
    return [float(loss) for loss in seen], model.state_dict(), optimizer.state_dict()["state"]


def gan(train_step, make):
    torch.manual_seed(1)
    generator, critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6)), nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(.2), nn.Linear(8, 1))
    of_critic = train_step(critic, F.binary_cross_entropy_with_logits, make(critic))
    of_generator = train_step(generator, lambda fake, target: F.binary_cross_entropy_with_logits(critic(fake), target), make(generator))
    source, seen = torch.Generator().manual_seed(3), []
    for x, _ in batches(4):
        noise = torch.randn(8, 4, generator=source)
        with torch.no_grad():
            fake = generator(noise)
        seen.append(of_critic(torch.cat([x, fake]), torch.cat([torch.ones(8, 1), torch.zeros(8, 1)])))
        seen.append(of_generator(noise, torch.ones(8, 1)))
    return [float(loss) for loss in seen], generator.state_dict(), critic.state_dict()


@loop
def a_gan(train_step):
    return gan(train_step, functools.partial(adam, lr=.01, betas=(.5, .999)))


@loop
def a_gan_with_weight_clipping(train_step):
    torch.manual_seed(1)
    generator, critic = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    of_critic = train_step(critic, lambda output, sign: (output * sign).mean(), torch.optim.RMSprop(critic.parameters(), .01))
    of_generator = train_step(generator, lambda fake, _: -critic(fake).mean(), torch.optim.RMSprop(generator.parameters(), .01))
    source = torch.Generator().manual_seed(3)
    for x, _ in batches(4):
        noise = torch.randn(8, 4, generator=source)
        of_critic(torch.cat([x, generator(noise).detach()]), torch.cat([-torch.ones(8, 1), torch.ones(8, 1)]))
        for parameter in critic.parameters():
            parameter.data.clamp_(-.1, .1)
        of_generator(noise, torch.zeros(1))
    return generator.state_dict(), critic.state_dict()


@loop
def a_frozen_teacher(train_step):
    student, teacher = net(), net(nn.BatchNorm1d(8), seed=5).eval().requires_grad_(False)

    def loss(output, given):
        x, y = given
        return F.cross_entropy(output, y) + F.kl_div(F.log_softmax(output, 1), F.softmax(teacher(x), 1), reduction="batchmean")
    step = train_step(student, loss, sgd(student))
    return [float(step(x, (x, y))) for x, y in batches()], student.state_dict(), teacher.state_dict()


@loop
def a_teacher_that_follows_the_student(train_step):
    student, teacher = net(), net(seed=5)

    def loss(output, x):
        with torch.no_grad():
            target = teacher(x)
        return F.mse_loss(output, target)
    step, seen = train_step(student, loss, sgd(student)), []
    for x, _ in batches(6):
        seen.append(step(x, x))
        with torch.no_grad():
            for one, other in zip(teacher.parameters(), student.parameters()):
                one.lerp_(other, .3)
    return [float(one) for one in seen], teacher.state_dict()


@loop
def a_target_network_is_copied(train_step):
    online, target = net(), net()
    target.load_state_dict(online.state_dict())
    step = train_step(online, F.mse_loss, adam(online))
    seen = []
    for place, (x, _) in enumerate(batches(6)):
        with torch.no_grad():
            wanted = target(x.flip(0)) * .9 + 1
        seen.append(step(x, wanted))
        if place % 2:
            target.load_state_dict(online.state_dict())
    return [float(loss) for loss in seen], target.state_dict()


@loop
def eager_steps_in_between(train_step):
    model = net(nn.BatchNorm1d(8))
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place % 2:
            optimizer.zero_grad()
            (F.cross_entropy(model(x), y) * 2).backward()
            optimizer.step()
        else:
            step(x, y)
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def a_step_is_made_again(train_step):
    model = net()
    optimizer = adam(model)
    for _ in range(3):
        step = train_step(model, F.cross_entropy, optimizer)
        for x, y in batches(2):
            step(x, y)
        del step
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def a_new_optimizer_in_each_phase(train_step):
    model = net()
    for make in (adam, sgd, adam):
        step = train_step(model, F.cross_entropy, make(model))
        for x, y in batches(2):
            step(x, y)
    return model.state_dict()


@loop
def models_of_an_ensemble(train_step):
    models = [net(seed=seed) for seed in (1, 2, 3)]
    steps = [train_step(model, F.cross_entropy, sgd(model)) for model in models]
    for x, y in batches():
        for step in steps:
            step(x, y)
    return sum(model(X) for model in models), [model.state_dict() for model in models]


@loop
def an_old_graph_is_not_differentiated_with_new_weights(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    step(*batches()[0])
    value = model(X).square().sum()
    step(*batches()[1])
    try:
        value.backward()
        return [0.0]
    except RuntimeError as error:
        return [float("inplace" in str(error))]


# ---- what changes between steps ------------------------------------------------------------------------------------


@loop
def layers_are_unfrozen(train_step):
    model = net()
    model[0].requires_grad_(False)
    optimizer = sgd(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place == 3:
            model[0].requires_grad_(True)
        step(x, y)
    return model.state_dict()


@loop
def layers_are_unfrozen_with_adam(train_step):
    model = net()
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place == 3:
            for parameter in model[0].parameters():
                parameter.requires_grad = True
        step(x, y)
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def layers_are_frozen(train_step):
    model = net()
    optimizer = adam(model, weight_decay=.1)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place == 3:
            model[2].requires_grad_(False)
        step(x, y)
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def batch_norm_is_frozen(train_step):
    model = net(nn.BatchNorm1d(8))
    step = train_step(model, F.cross_entropy, sgd(model))
    for place, (x, y) in enumerate(batches(6)):
        model.train()
        if place > 2:
            model[2].eval()
        step(x, y)
    return model.state_dict()


@loop
def a_group_is_added(train_step):
    model = net()
    optimizer = torch.optim.SGD(model[2].parameters(), .1, momentum=.9)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place == 3:
            optimizer.add_param_group({"params": model[0].parameters(), "lr": .01})
        step(x, y)
    return model.state_dict()


@loop
def a_group_is_added_to_adam(train_step):
    model = net()
    optimizer = torch.optim.Adam(model[2].parameters(), .1)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place == 3:
            optimizer.add_param_group({"params": model[0].parameters(), "lr": .01})
        step(x, y)
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def dropout_is_turned_off(train_step):
    model = net(nn.Dropout(.0))
    model[2].p = 1.0
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for place, (x, y) in enumerate(batches()):
        model[2].p = 1.0 if place < 2 else 0.0
        seen.append(step(x, y))
    return [float(loss) for loss in seen], model.state_dict()


@loop
def a_factor_grows(train_step):
    model = net()
    beta = 0.0

    def loss(output, target):
        return F.cross_entropy(output, target) + beta * output.square().mean()
    step, seen = train_step(model, loss, sgd(model)), []
    for place, (x, y) in enumerate(batches()):
        beta = place / 2
        seen.append(step(x, y))
    return [float(loss) for loss in seen], model.state_dict()


FACTOR = {"value": 1.0}
SMOOTHING = 0.0


@loop
def numbers_of_the_program_change(train_step):
    global SMOOTHING
    model = net()
    step = train_step(model, lambda output, target: F.cross_entropy(output, target, label_smoothing=SMOOTHING) * FACTOR["value"], sgd(model))
    seen = []
    for place, (x, y) in enumerate(batches()):
        SMOOTHING, FACTOR["value"] = .1 * (place // 2), 1.0 + place // 2
        seen.append(step(x, y))
    return [float(loss) for loss in seen], model.state_dict()


@loop
def class_weights_change(train_step):
    model = net()
    weights = torch.ones(3)
    step = train_step(model, lambda output, target: F.cross_entropy(output, target, weights), sgd(model))
    seen = []
    for place, (x, y) in enumerate(batches(6)):
        if place % 2:
            weights[place % 3] += 1
        else:
            weights = weights * 1.5 + torch.arange(3)
        seen.append(step(x, y))
    return [float(loss) for loss in seen], model.state_dict()


class Weighted:
    """A loss that is an object with a number and a tensor."""

    def __init__(self):
        self.factor, self.weight, self.calls = 1.0, torch.tensor([1., 2., 3.]), 0

    def __call__(self, output, target):
        return F.cross_entropy(output, target, self.weight) * self.factor


@loop
def attributes_of_the_loss_change(train_step):
    model, loss = net(), Weighted()
    step, seen = train_step(model, loss, sgd(model)), []
    for place, (x, y) in enumerate(batches()):
        if place == 2:
            loss.factor, loss.weight = 2.0, torch.tensor([3., 1., 1.])
        if place == 3:
            loss.weight.mul_(2)
            loss.weight.data[0] = .5
        seen.append(step(x, y))
    return [float(loss) for loss in seen], model.state_dict()


class Counting(nn.Module):
    """Counts its calls, and computes with the number."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.calls, self.scale = nn.Linear(6, 3), 0, 1.0

    def forward(self, x):
        self.calls += 1
        if self.calls > 2:
            x = x * .5
        return self.inner(x) * self.scale


@loop
def a_model_that_counts_its_calls(train_step):
    model = Counting()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for place, (x, y) in enumerate(batches()):
        model.scale = 2.0 if place == 3 else 1.0
        seen.append(step(x, y))
    return [float(loss) for loss in seen], model.calls, model.state_dict()


@loop
def a_layer_is_replaced(train_step):
    model = net()
    optimizer = sgd(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches()):
        if place == 2:
            torch.manual_seed(4)
            model[1] = nn.ReLU()
            model[2] = nn.Linear(8, 3)
            optimizer.add_param_group({"params": model[2].parameters(), "lr": .05})
        step(x, y)
    return model.state_dict()


@loop
def a_hook_is_registered_later(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    for place, (x, y) in enumerate(batches()):
        if place == 2:
            handle = model[1].register_forward_hook(lambda module, given, output: output * .5)
        if place == 3:
            handle.remove()
        step(x, y)
    return model.state_dict()


@loop
def hooks_for_gradients(train_step):
    model = net()
    model[0].weight.register_hook(lambda gradient: gradient.clamp(-.01, .01))
    model[2].weight.register_hook(lambda gradient: gradient * torch.tensor([[1.], [0.], [1.]]))
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches():
        step(x, y)
    return model.state_dict()


@loop(refused="backward hooks")
def backward_hooks_of_modules(train_step):
    model = net()
    model[1].register_full_backward_hook(lambda module, to, of: (to[0] * .5,))
    step = train_step(model, F.cross_entropy, sgd(model))
    step(*batches()[0])
    return model.state_dict()


@loop
def hooks_of_the_optimizer(train_step):
    model = net()
    optimizer = sgd(model)
    counts = []

    def halve(*_):
        model[0].weight.grad.mul_(.5)
    optimizer.register_step_post_hook(lambda *_: counts.append(float(model[0].weight.detach().norm())))
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches()):
        if place == 2:
            optimizer.register_step_pre_hook(halve)
        step(x, y)
    return counts, model.state_dict()


# ---- schedulers, groups, clipping ----------------------------------------------------------------------------------


def scheduled(make_optimizer, make_scheduler, count=6):
    def function(train_step):
        model = net()
        optimizer = make_optimizer(model)
        scheduler, step = make_scheduler(optimizer), train_step(model, F.cross_entropy, optimizer)
        seen = []
        for x, y in batches(count):
            loss = step(x, y)
            seen.append(optimizer.param_groups[0]["lr"])
            scheduler.step(*([loss.item()] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
        return seen, model.state_dict()
    return function


for _name, _optimizer, _scheduler in (
        ("one cycle with momentum", sgd, lambda optimizer: lr_scheduler.OneCycleLR(optimizer, .1, total_steps=6)),
        ("one cycle with adam", adam, lambda optimizer: lr_scheduler.OneCycleLR(optimizer, .1, total_steps=6)),
        ("cyclic rates", sgd, lambda optimizer: lr_scheduler.CyclicLR(optimizer, .01, .1, step_size_up=2)),
        ("warm up, then cosine", adam, lambda optimizer: lr_scheduler.SequentialLR(
            optimizer, [lr_scheduler.LinearLR(optimizer, .1, total_iters=2), lr_scheduler.CosineAnnealingLR(optimizer, 4)], [2])),
        ("a plateau", sgd, lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, factor=.5, patience=0, threshold=.5)),
        ("a function of the step", sgd, lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))),
        ("nadam", lambda model: torch.optim.NAdam(model.parameters(), .02), lambda optimizer: lr_scheduler.StepLR(optimizer, 2, .5)),
        ("radam", lambda model: torch.optim.RAdam(model.parameters(), .02, weight_decay=.1), lambda optimizer: lr_scheduler.StepLR(optimizer, 2, .5)),
        ("maximize", lambda model: torch.optim.SGD(model.parameters(), .02, maximize=True), lambda optimizer: lr_scheduler.StepLR(optimizer, 2, .5)),
        ("foreach and fused", lambda model: torch.optim.AdamW(model.parameters(), .02, fused=True), lambda optimizer: lr_scheduler.StepLR(optimizer, 2, .5)),
        ("groups with their own betas", lambda model: torch.optim.AdamW([{"params": model[0].parameters(), "betas": (.8, .9)},
                                                                         {"params": model[2].parameters(), "eps": 1e-3}], .02),
         lambda optimizer: lr_scheduler.StepLR(optimizer, 2, .5))):
    _function = scheduled(_optimizer, _scheduler)
    _function.__name__ = f"a schedule: {_name}"
    loop(_function, most=1e-4)


class Signs(torch.optim.Optimizer):
    """An optimizer from outside: the sign of a mean, as in Lion."""

    def __init__(self, parameters, lr=.01, beta=.9):
        super().__init__(parameters, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                mean.lerp_(parameter.grad, 1 - group["beta"])
                parameter.add_(mean / (mean.abs() + 1e-4), alpha=-group["lr"])


@loop(most=1e-4)
def an_optimizer_from_outside(train_step):
    model = net()
    optimizer = Signs(model.parameters())
    step = train_step(model, F.cross_entropy, optimizer)
    for x, y in batches():
        step(x, y)
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def rates_and_decays_are_set_by_hand(train_step):
    model = net()
    optimizer = torch.optim.AdamW([{"params": model[0].parameters(), "weight_decay": .1}, {"params": model[2].parameters()}], .02)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        optimizer.param_groups[0]["lr"] = .01 * place
        if place == 3:
            optimizer.param_groups[1]["weight_decay"] = .3
        step(x, y)
    return model.state_dict()


@loop
def gradients_are_clipped_by_norm(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model), clip_norm=.1)
    for x, y in batches():
        step(x, y)
    return model.state_dict()


@loop
def gradients_are_clipped_by_value(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, Signs(model.parameters()), clip_value=.01)
    for x, y in batches():
        step(x, y)
    return model.state_dict()


@loop
def gradients_are_accumulated(train_step):
    model = net()
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer, accumulate=3, clip_norm=.5)
    seen = []
    for place, (x, y) in enumerate(batches(9)):
        seen.append(step(x, y))
        seen.append(model[0].weight.norm())
        if place == 5:
            optimizer.param_groups[0]["lr"] = .01
    return [float(loss) for loss in seen], model.state_dict(), optimizer.state_dict()["state"]


@loop
def gradients_are_accumulated_for_another_optimizer(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, Signs(model.parameters()), accumulate=2)
    seen = [step(x, y) for x, y in batches(6)]
    return [float(loss) for loss in seen], model.state_dict()


# ---- losses and models ---------------------------------------------------------------------------------------------


@loop
def a_loss_with_class_weights(train_step):
    model, loss = net(), nn.CrossEntropyLoss(weight=torch.tensor([1., 2., .5]), label_smoothing=.1)
    step, seen = train_step(model, loss, sgd(model)), []
    for place, (x, y) in enumerate(batches()):
        if place == 2:
            loss.weight[0] = 3
        seen.append(step(x, y))
    return [float(one) for one in seen], model.state_dict()


@loop
def a_loss_with_positive_weights(train_step):
    model = net()
    step = train_step(model, nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1., 2., 3.])), sgd(model))
    return [float(step(x, F.one_hot(y, 3).float())) for x, y in batches()], model.state_dict()


@loop
def a_negative_log_likelihood_with_weights(train_step):
    model = net(nn.Identity())
    model.append(nn.LogSoftmax(1))
    step = train_step(model, nn.NLLLoss(weight=torch.tensor([1., 2., .5])), sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict()


class Uncertain(nn.Module):
    """A loss with its own parameters and buffers."""

    def __init__(self):
        super().__init__()
        self.logs = nn.Parameter(torch.zeros(2))
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, output, target):
        parts = torch.stack([F.cross_entropy(output, target), output.square().mean()])
        self.mean.mul_(.9).add_(.1 * parts[0].detach())
        return (parts * torch.exp(-self.logs) + self.logs).sum()


@loop
def a_loss_with_parameters(train_step):
    model, loss = net(), Uncertain()
    step = train_step(model, loss, torch.optim.Adam([*model.parameters(), *loss.parameters()], .02))
    return [float(step(x, y)) for x, y in batches()], model.state_dict(), loss.state_dict()


@loop
def parameters_that_a_function_captures(train_step):
    model, temperature = net(), nn.Parameter(torch.tensor(1.5))
    weight = model[0].weight
    step = train_step(model, lambda output, target: F.cross_entropy(output / temperature, target) + weight.square().mean(),
                      torch.optim.SGD([{"params": model.parameters()}, {"params": [temperature], "lr": .5}], .1))
    seen = []
    for x, y in batches():
        seen += [step(x, y), temperature.item()]
    return [float(one) for one in seen], model.state_dict()


@loop
def a_penalty_on_weights_in_the_loss(train_step):
    model = net()
    step = train_step(model, lambda output, target: F.cross_entropy(output, target) +
                      1e-2 * sum(parameter.abs().sum() for parameter in model.parameters()), sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict()


@loop
def a_penalty_on_a_list_of_parameters(train_step):
    model = net()
    weights = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    step = train_step(model, lambda output, target: F.cross_entropy(output, target) + 1e-2 * sum(weight.norm() for weight in weights), sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict()


@loop(refused="same memory")
def a_penalty_on_a_tuple_of_parameters(train_step):
    model = net()
    weights = tuple(model.parameters())
    step = train_step(model, lambda output, target: F.cross_entropy(output, target) + 1e-2 * sum(weight.norm() for weight in weights), sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict()


@loop(refused="requires a gradient")
def an_argument_that_is_trained(train_step):
    model, prompt = net(), nn.Parameter(torch.zeros(8, 6))
    step = train_step(model, F.cross_entropy, torch.optim.SGD([*model.parameters(), prompt], .1))
    return [float(step(prompt, y)) for _, y in batches()], model.state_dict(), prompt


@loop(refused="requires a gradient")
def an_argument_with_a_graph(train_step):
    first, model = nn.Linear(6, 6), net()
    step = train_step(model, F.cross_entropy, torch.optim.SGD([*first.parameters(), *model.parameters()], .1))
    return [float(step(first(x), y)) for x, y in batches()], model.state_dict(), first.state_dict()


@loop
def options_of_the_optimizer_are_turned_on(train_step):
    model = net()
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for place, (x, y) in enumerate(batches(6)):
        if place == 2:
            optimizer.param_groups[0]["weight_decay"] = .1
        step(x, y)
    other, (x, y) = net(), batches(1)[0]
    optimizer = torch.optim.SGD(other.parameters(), .1)
    step = train_step(other, F.cross_entropy, optimizer)
    for place in range(6):
        optimizer.param_groups[0]["momentum"] = .9 if place > 2 else 0.
        step(x, y)
    return model.state_dict(), other.state_dict(), optimizer.state_dict()["state"]


@loop
def the_loss_is_used_as_a_tensor(train_step):
    model = net()
    step, total, losses = train_step(model, F.cross_entropy, sgd(model)), 0, []
    for x, y in batches():
        loss = step(x, y)
        if torch.isnan(loss) or not torch.isfinite(loss) or math.isnan(loss):
            raise ValueError("nan")
        total += loss
        losses.append(loss)
    return [total / len(losses), total.item(), torch.stack(losses), losses[0].cpu().numpy().item(), losses[1].detach().cpu().item(), round(loss.item(), 6),
            float(loss.detach().numpy()), np.mean([loss.item() for loss in losses]), loss.data.clone(), loss * 2 - 1, max(losses), loss.dim(),
            torch.mean(torch.stack(losses)), loss.tolist(), loss.exp(), float(loss.dtype == torch.float32)]


class Answer:
    def __init__(self, loss, logits):
        self.loss, self.logits = loss, logits


class Labelled(nn.Module):
    """A model that computes its own loss, as those of transformers do."""

    def __init__(self, kind):
        super().__init__()
        self.inner, self.kind = net(), kind

    def forward(self, inputs, labels=None):
        logits = self.inner(inputs)
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return {"object": Answer(loss, logits), "dict": {"loss": loss, "logits": logits}, "pair": (logits, loss), "tensor": loss}[self.kind]


@loop
def a_model_that_returns_its_loss(train_step):
    seen = []
    for kind in ("object", "dict", "pair", "tensor"):
        model = Labelled(kind)
        step = train_step(model, None, sgd(model))
        for x, y in batches(2):
            seen += [step(**{"inputs": x, "labels": y}), step(x, y), step(x, labels=y)]
        seen.append(model.inner(X))
    return [one if isinstance(one, torch.Tensor) else float(one) for one in seen]


@loop
def a_batch_that_is_a_dictionary(train_step):
    class Taking(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, batch):
            return F.cross_entropy(self.inner(batch["x"]), batch["y"])
    model = Taking()
    step = train_step(model, None, sgd(model))
    return [float(step({"x": x, "y": y})) for x, y in batches()], model.state_dict()


@loop
def spectral_norm_by_parametrization(train_step):
    torch.manual_seed(1)
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
    step = train_step(model, F.cross_entropy, sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict(), model.eval()(X)


@loop
def spectral_norm_by_hooks(train_step):
    torch.manual_seed(1)
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
    step = train_step(model, F.cross_entropy, sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict(), model.eval()(X)


@loop
def weight_norm(train_step):
    torch.manual_seed(1)
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
    step = train_step(model, F.cross_entropy, sgd(model))
    return [float(step(x, y)) for x, y in batches()], model.state_dict(), model(X)


@loop
def tied_weights(train_step):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.embedding, self.head = nn.Embedding(7, 6), nn.Linear(6, 7, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            return self.head(self.embedding(ids).tanh())
    model = Tied()
    step = train_step(model, F.cross_entropy, adam(model))
    for _ in range(3):
        step(torch.arange(7), torch.arange(7).roll(1))
        with torch.no_grad():
            model.head.weight.mul_(.9)
    return model.state_dict(), float(model.head.weight is model.embedding.weight)


@loop(refused="same memory")
def weights_tied_by_memory(train_step):
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model[2].weight.data = model[0].weight.data
    step = train_step(model, F.mse_loss, sgd(model))
    step(X, X)
    return model.state_dict()


@loop
def batch_norm_with_a_cumulative_mean(train_step):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=None), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    step = train_step(model, F.cross_entropy, sgd(model, .01))
    for x, y in batches():
        step(x[:, :1, None, None].expand(-1, 1, 6, 6) * torch.arange(36.).reshape(6, 6) / 36, y)
    return model.state_dict()


@loop
def an_lstm_with_a_projection(train_step):
    torch.manual_seed(1)
    model = nn.LSTM(6, 8, proj_size=3, batch_first=True)
    step = train_step(model, lambda output, target: F.mse_loss(output[0], target), sgd(model))
    generator = torch.Generator().manual_seed(2)
    return [float(step(torch.randn(4, 5, 6, generator=generator), torch.ones(4, 5, 3))) for _ in range(3)], model.state_dict()


@loop(refused="autocast")
def a_surrounding_autocast(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step(*batches()[0])
    return model.state_dict()


@loop
def batches_of_other_sizes_and_a_last_small_one(train_step):
    model = net(nn.BatchNorm1d(8))
    optimizer = adam(model)
    step = train_step(model, F.cross_entropy, optimizer)
    for size in (8, 8, 5, 8, 3):
        step(*batches(1, size)[0])
    return model.state_dict(), optimizer.state_dict()["state"]


@loop
def the_model_goes_to_another_type_and_back(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), .1))
    for x, y in batches():
        step(x, y)
    half = copy.deepcopy(model).double()
    seen = half(X.double())
    model.cpu().float()
    model.zero_grad()
    return seen, [float(step(x, y)) for x, y in batches(2)], sum(parameter.numel() for parameter in model.parameters())


@loop
def fine_tuning_a_part_with_a_new_head(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    for x, y in batches(2):
        step(x, y)
    model.requires_grad_(False)
    torch.manual_seed(9)
    model[2] = nn.Linear(8, 3)
    step = train_step(model, F.cross_entropy, adam(model[2]))
    return [float(step(x, y)) for x, y in batches()], model.state_dict()


@loop
def adversarial_examples_between_steps(train_step):
    model = net()
    step = train_step(model, F.cross_entropy, sgd(model))
    seen = []
    for x, y in batches():
        x = x.clone().requires_grad_(True)
        gradient, = torch.autograd.grad(F.cross_entropy(model(x), y), x)
        seen.append(step((x + .05 * gradient / (gradient.abs() + 1e-3)).detach(), y))
    return [float(loss) for loss in seen], model.state_dict()


@loop
def mixup(train_step):
    model = net()
    step = train_step(model, lambda output, target: target[2] * F.cross_entropy(output, target[0]) + (1 - target[2]) * F.cross_entropy(output, target[1]), sgd(model))
    seen = [step(.3 * x + .7 * x.flip(0), (y, y.flip(0), torch.tensor(.3 + place / 10))) for place, (x, y) in enumerate(batches())]
    return [float(loss) for loss in seen], model.state_dict()


def loss_by_square(output, target):
    """Its weights are squares of int64 numbers."""
    square = target * target
    return (F.cross_entropy(output, target % 3, reduction="none") * square.float() / 1e6).mean() + (square.sum() % 7).float()


@loop
def integers_that_fit_into_32_bits(train_step):
    model = net()
    step = train_step(model, loss_by_square, sgd(model))
    seen = [step(x, y + place * 50) for place, (x, y) in enumerate(batches())]
    return [float(loss) for loss in seen], model.state_dict()


@loop(refused="32 bits")
def integers_that_exceed_32_bits(train_step):
    model = net()
    step = train_step(model, loss_by_square, sgd(model))
    for place, (x, y) in enumerate(batches()):
        step(x, y + place * 100_000)


run()
