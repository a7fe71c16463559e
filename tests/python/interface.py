"""What users of the Python package see: its names, keywords, defaults and docstrings.

usage: interface.py HOUSE_FOLDER SOURCE_ROOT KOINE
"""
import dataclasses
import importlib
import inspect
import pathlib
import re
import subprocess
import sys

from package import case, expect, expect_equal, raises, run

ROOT, KOINE = pathlib.Path(sys.argv[2]), sys.argv[3]

import numpy as np  # noqa: E402

import koine  # noqa: E402
import koine.sklearn  # noqa: E402
from koine import _declarations, _library, _settings, train, types  # noqa: E402

# Names of the package without the exceptions, as a user needs them. A new name needs a reason: koine.io and koine.debug have the others.
NAMES = """Batch Buffer Callback Communicator Context Dataset Device Evaluation Field Graph Group History Loader Lora MPIGroup Model Operator Plan
Session States StopTraining Trainer Value Vocabulary cache_folder data_sources debug default_context devices draw_token grammar io list_models load_dataset ops
optim optimizers set_default_context set_default_device types""".split()
MODULES = ["koine", "koine.callbacks", "koine.debug", "koine.io", "koine.optim", "koine.sklearn"]
# Functions and classes that have keywords of structs, with the structs and how many keywords are theirs.
TAKING = [(koine.Trainer.__init__, "kn_trainer_params"), (koine.Trainer.__init__, "kn_session_params"), (koine.Model.fit, "kn_trainer_params"),
          (koine.Model.plan, "kn_trainer_params"), (koine.Session.__init__, "kn_session_params"), (koine.Trainer.fit, "kn_fit_params"),
          (koine.Context.__init__, "kn_context_params"), (koine.Context.verify, "kn_verify_params"), (koine.Dataset.__init__, "kn_dataset_params"),
          (koine.Loader.__init__, "kn_loader_params"), (koine.Operator.kernel, "kn_kernel_params"), (koine.Operator.pointwise, "kn_pointwise_params")]
# Fields that are not keywords under their names, and why.
NOT_KEYWORDS = {
    "kn_trainer_params": {"session": "its fields are keywords"},
    "kn_session_params": {"training": "of a trainer it is always true"},
    "kn_fit_params": {"validation": "validation_data", "user": "of callbacks"},
    "kn_context_params": {"allocator": "Python has none", "log": "logging", "compile_progress": "progress", "interrupt": "for signal handlers in C", "debug": "its fields are keywords"},
    "kn_dataset_params": {"allocator": "Python has none", "log": "logging", "expected": "Model sets it", "images": "libkoine-images", "archives": "libkoine-images"},
    "kn_loader_params": {"augmentation": "augment"},
    "kn_verify_params": {"user": "of callbacks"},
    "kn_kernel_params": {"allocator": "Python has none", "gradient_operator": "gradient", "user": "of callbacks", "release": "Python frees them"},
    "kn_pointwise_params": {"allocator": "Python has none"},
}


def public(module):
    """Public classes and functions of a module."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not inspect.ismodule(thing) and callable(thing):
            yield f"{module.__name__}.{name}", thing


@case
def the_package_shows_what_users_need():
    errors = [name for name, thing in vars(koine).items() if inspect.isclass(thing) and issubclass(thing, koine.KoineError)]
    expect_equal(sorted(koine.__all__), sorted([*NAMES, *errors]))
    expect(set(dir(koine)) == {*koine.__all__, "__version__", "sklearn", "torch"}, str(dir(koine)))
    for name in koine.__all__:
        expect(getattr(koine, name) is not None, name)
    expect(koine.sklearn is importlib.import_module("koine.sklearn"))


@case
def each_field_of_a_struct_is_a_keyword():
    for function, struct in TAKING:
        parameters = inspect.signature(function).parameters
        expect(not any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values()), f"{function.__qualname__} has hidden keywords")
        missing = [name for name in _library.fields_of(struct) if name not in parameters and name != "size" and
                   not name.endswith("_count") and name not in NOT_KEYWORDS[struct]]
        if function is koine.Model.fit:  # a model has its own workers and no extra values
            missing = [name for name in missing if name not in ("extra", "communicator", "shard_counts")]
        if function is koine.Model.plan:
            missing = [name for name in missing if name not in ("extra", "communicator", "shard_counts", "groups", "milestones", "schedule", "learning_rate")]
        expect(not missing, f"{function.__qualname__} lacks {missing} of {struct}")


@case
def keywords_are_typed_and_described():
    for function, _ in TAKING:
        owner = function
        if function.__name__ == "__init__":
            owner = getattr(koine, function.__qualname__.split(".")[0])
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in ("self", "cls"):
                expect(parameter.annotation != inspect.Parameter.empty, f"{owner.__qualname__}: {name} has no type")
                expect(re.search(rf"^ +{name}: \S", inspect.getdoc(owner), re.M), f"{owner.__qualname__}: {name} is not described")


@case
def keywords_have_the_defaults_of_the_library():
    made = _library.make("kn_trainer_params")
    parameters = inspect.signature(koine.Trainer).parameters
    for name in ("accumulate", "power", "plateau_patience", "cycle_rise", "outer_rate"):
        expect_equal(parameters[name].default, getattr(made, name))
    expect_equal((parameters["precision"].default, parameters["fast_math"].default, parameters["momentum"].default), ("float32", False, None))
    with raises(TypeError, "did you mean 'clip_norm'"):
        koine.Trainer(koine.Graph().input("x", "1").mean([0]), clip_norms=1)


@case
def optimizers_are_those_of_the_library():
    made = {kind().name: kind() for kind in koine.optim.Optimizer.__subclasses__()}
    expect_equal(sorted(made), sorted(koine.optimizers()))
    for number, name in enumerate(koine.optimizers()):
        chosen = _library.make("kn_trainer_params")
        _library.lib.kn_trainer_params_choose(chosen, number)
        read = [field for field in train.OF_OPTIMIZERS if _library.lib.kn_optimizer_reads(number, field.encode())]
        expect_equal(sorted(made[name].settings), sorted([*read, "learning_rate", "weight_decay"]))
        expect_equal(made[name].settings, {field: getattr(chosen, field) for field in made[name].settings})


@case
def the_table_of_settings_is_complete():
    """Each plain field of kn_trainer_params is a setting by name, except those that the loop or the workers decide."""
    decided = {"size", "skip_not_finite", "sum_any_order", "micro_batch", "shards", "extra_count", "group_count", "milestone_count"}
    plain = {name for name, field in _library.ffi.typeof("kn_trainer_params").fields if field.type.kind in ("primitive", "enum")}
    expect_equal(sorted(setting.name for setting in train.trainer_settings()), sorted(plain - decided))
    expect_equal(train.OF_OPTIMIZERS, tuple(setting.name for setting in train.trainer_settings() if setting.owner == "optimizer"))
    expect(len(train.OF_OPTIMIZERS) == 10 and all(setting.help for setting in train.trainer_settings()))


@case
def training_is_fitted_and_shards_are_dealt():
    x = koine.Graph().input("x", "batch,256")
    loss = (x.linear(256).tanh().linear(256) ** 2).mean()
    sample = {"x": np.zeros((1, 256), np.float32)}
    whole, keywords = koine.Trainer.fit_memory(loss, 4096, sample, optimizer="sgd", eval_values=[loss])
    expect_equal((whole.batch, whole.part, whole.message, keywords), (4096, 0, "", {"micro_batch": 0, "offload_optimizer": False}))
    small, keywords = koine.Trainer.fit_memory(loss, 4096, sample, optimizer="sgd", memory_bytes=whole.bytes // 2)
    expect(0 < keywords["micro_batch"] < 4096 and small.bytes <= whole.bytes // 2 and small.message, f"found {small}, {keywords}")
    expect(koine.Trainer(loss, optimizer="sgd", **keywords).step(x=np.ones((4096, 256), np.float32)) > 0)
    with raises(koine.DeviceMemoryError, "even with a batch of 1"):
        koine.Trainer.fit_memory(loss, 4096, sample, memory_bytes=1000)
    with raises(TypeError, "no input"):
        koine.Trainer.fit_memory(loss, 4096, {"z": sample["x"]})
    data = koine.Dataset.from_arrays(x=np.ones((64, 256), np.float32))
    expect_equal(koine.Trainer.deal_shards(loss, data, [koine.default_context()], 4, 16), [4])


@case
def results_are_dataclasses_of_the_structs():
    for struct, kind in types.RESULTS.items():
        expect_equal([field.name for field in dataclasses.fields(kind)], [name for name in _library.fields_of(struct) if name not in ("size", "user")])
    score = koine.Model("mlp").evaluate(koine.load_dataset("digits:test", max_samples=10))
    expect(isinstance(score, koine.Evaluation) and isinstance(score, types.Score) and "<td>samples</td><td>10</td>" in score._repr_html_())
    expect_equal(types.FitEpoch.__annotations__["validation"], "Score")


def default_of(command, option):
    """The default that the help of the command shows in parentheses."""
    text = subprocess.run([KOINE, command, "--help"], capture_output=True, text=True).stdout
    found = re.search(rf"^  (?:-\w, )?--{option}(?![\w-]).*?(?=^  (?:-\w, )?--|\Z)", text, re.M | re.S)
    expect(found, f"koine {command} has no option --{option}")
    return re.findall(r"\(([^()]*)\)", " ".join(found.group(0).split()))[-1]


@case
def python_and_the_command_have_the_same_defaults():
    def default(function, name):
        return str(inspect.signature(function).parameters[name].default)
    for command, option, function, name in (
            ("train", "batch", koine.Model.fit, "batch_size"), ("train", "optimizer", koine.Model.fit, "optimizer"),
            ("eval", "batch", koine.Model.evaluate, "batch_size"), ("plan", "batch", koine.Model.plan, "batch_size"),
            ("generate", "length", koine.Model.generate, "length"), ("generate", "temperature", koine.Model.generate, "temperature"),
            ("generate", "seed", koine.Model.generate, "seed"), ("plan", "optimizer", koine.Model.plan, "optimizer")):
        usual = default_of(command, option).split(";")[0]  # "64; 8 with --lora"
        expect_equal((command, option, default(function, name)), (command, option, usual))
    expect_equal(default_of("plan", "mode"), "train" if inspect.signature(koine.Model.plan).parameters["training"].default else "infer")
    expect_equal(default_of("train", "math"), "fast" if inspect.signature(koine.Model).parameters["fast_math"].default else "exact")


@case
def public_things_have_docstrings():
    for module in map(importlib.import_module, MODULES):
        expect(module.__doc__, module.__name__)
        for name, thing in public(module):
            expect(inspect.getdoc(thing), f"{name} has no docstring")
            if not inspect.isclass(thing) or issubclass(thing, koine.KoineError):
                continue
            for member, found in vars(thing).items():
                function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
                if not member.startswith("_") and inspect.isfunction(function):
                    expect(inspect.getdoc(function), f"{name}.{member} has no docstring")


@case
def docstrings_describe_each_argument():
    """Google style: where a docstring has Args:, it has all arguments."""
    described = 0
    for module in map(importlib.import_module, MODULES):
        for name, thing in public(module):
            things = [(name, thing)]
            if inspect.isclass(thing):
                things += [(f"{name}.{member}", getattr(found, "__func__", found)) for member, found in vars(thing).items()
                           if not member.startswith("_") and inspect.isfunction(getattr(found, "__func__", found))]
            for full, function in things:
                text = vars(function).get("__doc__") if inspect.isclass(function) else function.__doc__
                if not text or "Args:\n" not in text:
                    continue
                described += 1
                section = re.search(r"^( *)Args:\n((?:\1 +.*\n|\n)+)", text + "\n", re.M).group(2)
                for argument in inspect.signature(function).parameters:
                    if argument not in ("self", "cls"):
                        expect(re.search(rf"^ +\**{argument}: \S", section, re.M), f"{full}: {argument} is not described")
    expect(described > 40, f"only {described} docstrings have Args:")


run()
