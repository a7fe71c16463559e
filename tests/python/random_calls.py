#!/usr/bin/env python3
"""Random calls of the Python package: each ends with a result or one of the package's exceptions.

usage: random_calls.py HOUSE_FOLDER [--seconds S] [--seed N]

Programs of random calls, valid ones and others, run one after the other, each in a process with its own seed. A call may raise what
Python's own functions raise for wrong arguments, and koine.KoineError; it must not raise anything else, end the process, or be
without an answer for two minutes. A program that fails is run again with its seed by --only:

  --seconds S  how long (20)
  --seed N     the first program's; KOINE_TEST_SEED does the same
  --only N     runs the program of this seed in this process, and prints each call
"""
import argparse
import collections
import gc
import os
import pathlib
import random
import selectors
import subprocess
import sys
import tempfile
import time
import traceback

HOUSE = sys.argv[1]
CALLS = 400  # of a program
SILENCE = 120  # seconds
MOST = 1 << 20  # elements of a value, above which its graph is left alone


def allowed():
    import koine
    return koine.KoineError, TypeError, ValueError, LookupError, OverflowError, OSError, MemoryError


class Fault(Exception):
    """An exception that a call must not raise."""


class Program:
    """Calls by a seed. What they made is kept, and given to later ones, after it was closed as well."""

    def __init__(self, seed, say):
        import koine
        import numpy as np
        self.koine, self.np, self.random, self.say = koine, np, random.Random(seed), say
        self.wild = self.random.choice([0.02, 0.07, 0.3])  # the fraction of arguments that are anything
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="koine-random-"))
        self.graphs, self.values, self.made = [], [], []
        self.operators = [getattr(koine.ops, name) for name in sorted(koine.ops.__all__) if callable(getattr(koine.ops, name))]
        self.actions = [(self.new_graph, 2), (self.operator, 30), (self.session, 5), (self.run_session, 8), (self.trainer, 2), (self.step, 5),
                        (self.model, 2), (self.use_model, 6), (self.dataset, 3), (self.use_dataset, 5), (self.files, 4), (self.states, 5),
                        (self.method, 12), (self.end, 3)]

    def chance(self, fraction):
        return self.random.random() < fraction

    # ---- arguments -----------------------------------------------------------------------------------------------------

    def number(self):
        return self.random.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 16, -1, -1, -2, -3, 100, 2**40, 2**62, -2**63, 2**63, 2**64])

    def few(self):
        return self.random.choice([1, 1, 2, 2, 3, 4, 5, 7])

    def real(self):
        return self.random.choice([0.0, 0.5, 0.5, 1.0, 1.0, 2.0, 0.1, -1.0, 1e-8, 1e30, -1e300, float("inf"), float("nan")])

    def word(self):
        return self.random.choice(["x", "y", "batch", "0", "1", "0,1", "-1", "batch,3", "3,batch", "2,3", "4,batch,3", "relu", "", " ", "a.b", "a b", "é", "\0", "x" * 300,
                                   "%s%n", "../x", "-1,-1", "1e9", "2*batch", "batch/2", "9999999999999999999", "ij,jk->ik", "mean", "reflect", "sgd"])

    def kind(self):
        return self.random.choice(["float32", "float32", "int32", "int64", "uint8", "bool", "float16", "bfloat16", "int8", "float64", "complex64", "nothing", 3, 99, None])

    def shape(self):
        return self.random.choice(["batch,3", "batch,3", "batch,4", "batch,2,6,6", "batch,3,8,8", "batch,5,4", "3", "", "batch", "2,3", "0,3", "batch,0", [2, 3], ("batch", 4), 5, "-1,3",
                                   "a,b,c,d,e,f,g,h,i", "batch,,3", [2**40, 2**40], None])

    def array(self, shape=None):
        np = self.np
        if shape is None:
            shape = tuple(self.random.choice([0, 1, 2, 3, 3, 4, 5]) for _ in range(self.random.randrange(5)))
        made = np.asarray(np.random.default_rng(self.random.randrange(99)).uniform(-2, 2, shape))
        made = made.astype(self.random.choice(["float32", "float32", "float64", "int64", "int32", "uint8", "bool", "float16", ">f4", "complex64", "U4", "O"]))
        if made.ndim and self.chance(0.2):
            made = made[::-1]
        if self.chance(0.2):
            made = np.asfortranarray(made)
        if self.chance(0.1):
            made.flags.writeable = False
        return made

    def value(self):
        own = [value for value in self.values if self.graphs and value.graph is self.graphs[-1]]
        return self.random.choice(own if own and self.chance(0.9) else self.values) if self.values else None

    def path(self):
        return self.random.choice([str(self.folder / name) for name in ("a.npy", "b.safetensors", "c.onnx", "d", "e.txt")] + [str(self.folder), "", "/", "/dev/null", "/proc/nowhere/a.npy", self.folder / "f"])

    def anything(self):
        made = [lambda: None, self.number, self.real, self.word, self.array, self.value, self.kind, self.path, lambda: b"bytes", list, dict, object, lambda: [1, 2], lambda: {"x": 1}, lambda: (lambda *_: None),
                lambda: self.random.choice(self.made) if self.made else (), lambda: int, lambda: True, lambda: [[1], [2, 3]], lambda: range(3), lambda: self.koine, lambda: {1: 2}, lambda: 1j]
        return self.random.choice(made)()

    def argument(self, name, kind, default=None):
        """One that fits a parameter by its name and type, or anything."""
        if self.chance(self.wild):
            return self.anything()
        if "Optional" in kind and self.chance(0.5):
            return None
        if name == "dtype":
            return self.kind()
        for part, make in (("Sequence[ValueLike]", lambda: [self.value() for _ in range(self.random.randrange(4))]), ("Sequence[Value]", lambda: [self.value() for _ in range(self.random.randrange(4))]),
                           ("ValueLike", lambda: self.value() if self.chance(0.9) else self.random.choice([self.real(), self.array()])), ("Value", self.value), ("Graph", lambda: self.graphs[-1] if self.graphs else None),
                           ("Axes", lambda: self.random.choice([0, 1, -1, [0], [0, 1], "0", "-1", [1, 0], [2, 3], self.number(), [self.number(), 1]])),
                           ("Ints", lambda: self.random.choice([1, 2, 3, [1, 1], [2, 2], [3, 2], [1, 0, 1, 0], self.number(), [self.number()] * 2])), ("Shape", self.shape), ("Path", self.path),
                           ("ndarray", self.array), ("Mapping", lambda: {self.word(): self.anything()}), ("Callable", lambda: (lambda *_: None)), ("bool", lambda: self.chance(0.5)), ("float", self.real),
                           ("Sequence[int]", lambda: [self.number() for _ in range(self.random.randrange(4))]), ("int", lambda: self.few() if self.chance(0.7) else self.number()),
                           ("str", lambda: default if isinstance(default, str) and self.chance(0.5) else self.word())):
            if part in kind:
                return make()
        return self.anything()

    def arguments(self, function, skip=()):
        import inspect
        plain, keywords = [], {}
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:
            return [self.anything()], {}
        for parameter in parameters:
            if parameter.name in skip or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            optional = parameter.default is not parameter.empty
            if optional and self.chance(0.7):
                continue
            made = self.argument(parameter.name, str(parameter.annotation), parameter.default)
            if parameter.kind == parameter.KEYWORD_ONLY or optional:
                keywords[parameter.name] = made
            else:
                plain.append(made)
        if self.chance(0.03):
            keywords[self.random.choice(["nothing", "name", "axis"])] = self.anything()
        return plain[:-1] if plain and self.chance(0.02) else plain, keywords

    # ---- calls ---------------------------------------------------------------------------------------------------------

    def call(self, function, *plain, **keywords):
        """The result, or None."""
        name = getattr(function, "__qualname__", type(function).__name__)
        self.say(f"{name}({', '.join([short(item) for item in plain] + [f'{key}={short(item)}' for key, item in keywords.items()])})")
        try:
            return function(*plain, **keywords)
        except allowed() as error:
            str(error)
            return None
        except Exception as error:
            raise Fault(f"{name} raised {type(error).__name__}: {error}\n{traceback.format_exc()}") from error

    def keep(self, made):
        if made is not None:
            self.made.append(made)
            del self.made[:-60]
        return made

    def keep_value(self, made):
        value = self.koine.Value
        for item in made if isinstance(made, (list, tuple)) else [made]:
            if isinstance(item, value):
                size = 1
                for length in item.shape:
                    size *= length if isinstance(length, int) else 8
                if size > MOST:
                    self.graphs, self.values = [], []
                    return
                self.values.append(item)
        del self.values[:-40]

    def new_graph(self):
        graph = self.koine.Graph()
        self.graphs = (self.graphs + [graph])[-3:]
        for name in ("x", "y"):
            shape = self.random.choice(["batch,3", "batch,4", "batch,2,6,6", "batch,5,4", "2,3"])
            self.keep_value(self.call(graph.input, name, shape, self.random.choice(["float32", "float32", "float32", "int32"])))
        self.keep_value(self.call(graph.parameter, "w", self.random.choice(["3", "4", "3,4", "1"])))

    def operator(self):
        if not self.values:
            return self.new_graph()
        function = self.random.choice(self.operators)
        plain, keywords = self.arguments(function)
        made = self.call(function, *plain, **keywords)
        self.keep_value(made)
        if made is None and self.chance(0.6):  # a graph keeps its first error
            self.new_graph()

    def session(self):
        values = [self.value() for _ in range(self.random.choice([1, 1, 2]))]
        self.keep(self.call(self.koine.Session, *(values if len(values) == 1 else [values]), **({"precision": self.word()} if self.chance(0.1) else {})))

    def of(self, kind):
        found = [item for item in self.made if isinstance(item, kind)]
        return self.random.choice(found) if found else None

    def feeds(self, graph):
        made = {}
        try:
            inputs = [(value.name, value.shape) for value in graph.inputs]
        except self.koine.KoineError:
            inputs = []
        batch = self.random.choice([0, 1, 2, 3])
        for name, shape in inputs:
            made[name] = self.array(tuple(size if isinstance(size, int) else batch for size in shape)) if self.chance(0.93) else self.anything()
        if self.chance(0.05):
            made[self.word()] = self.anything()
        if made and self.chance(0.05):
            made.pop(next(iter(made)))
        return made

    def run_session(self):
        session = self.of(self.koine.Session)
        if session is not None and self.graphs:
            self.call(session.run, self.feeds(self.random.choice(self.graphs)))

    def trainer(self):
        value = self.value()
        if value is None:
            return
        rank = self.call(lambda: value.rank)
        if rank and self.chance(0.9):
            value = self.call(value.mean, list(range(rank)))
        settings = {} if self.chance(0.5) else {self.random.choice(["learning_rate", "momentum", "weight_decay", "accumulate", "clip_norm", "nothing", "schedule"]): self.anything()}
        self.keep(self.call(self.koine.Trainer, value, optimizer=self.random.choice(["sgd", "adam", "adamw", "lion", "nothing"]), **settings))

    def step(self):
        trainer = self.of(self.koine.Trainer)
        if trainer is not None and self.graphs:
            self.call(trainer.step, self.feeds(self.random.choice(self.graphs)), wait=self.chance(0.5))

    def model(self):
        source = self.random.choice(["mlp", "mlp", "linear", "lenet", "nothing", "", "input x 3\nlinear 2\n", str(self.folder / "c.onnx")]) if self.chance(0.7) else self.graphs[-1] if self.graphs else self.anything()
        self.keep(self.call(self.koine.Model, source, **({self.random.choice(["classes", "nothing", "seed", "precision"]): self.anything()} if self.chance(0.2) else {})))

    def samples(self):
        count = self.random.choice([0, 1, 2, 3, 9])
        x = self.random.choice([self.array((count, 28, 28)), self.array((count, 1, 28, 28)), self.array((count, 784)), self.array()])
        return x, self.np.zeros(self.random.choice([count, count, 1]), self.random.choice(["int64", "int32", "float32"])) + self.random.choice([0, 1, 9, 11, -1])

    def use_model(self):
        model = self.of(self.koine.Model)
        if model is None:
            return
        x, y = self.samples()
        what = self.random.choice(["fit", "fit", "predict", "predict", "evaluate", "save", "load", "to_onnx", "plan", "summary", "predict_proba", "predict_classes"])
        if what == "fit":
            more = {self.random.choice(["learning_rate", "optimizer", "validation_split", "validation_data", "batch_size", "seed", "callbacks", "checkpoints", "precision", "nothing"]): self.anything()} if self.chance(0.4) else {}
            self.call(model.fit, x if self.chance(0.1) else (x, y), steps=2, **more)
        elif what in ("save", "load", "to_onnx"):
            self.call(getattr(model, what), self.path())
        elif what in ("plan", "summary"):
            self.call(getattr(model, what))
        else:
            self.call(getattr(model, what), (x, y) if what == "evaluate" else x)

    def dataset(self):
        koine = self.koine
        if self.chance(0.5):
            self.keep(self.call(koine.Dataset.from_arrays, **{name: self.array((4, 3)) if self.chance(0.7) else self.anything() for name in self.random.sample(["x", "y", "z", "weights"], 2)}))
        else:
            self.keep(self.call(koine.load_dataset, self.random.choice(["digits:test", "csv:" + self.path_text(), "images:" + str(self.folder), "nothing", "text:" + self.path_text(), "", "digits:nothing"])))

    def path_text(self):
        return str(self.path())

    def use_dataset(self):
        dataset = self.of(self.koine.Dataset)
        if dataset is None:
            return
        what = self.random.choice(["read", "split", "loader", "arrays", "statistics", "sample_name", "variance", "class_weights", "adapted", "next"])
        if what == "next":
            loader = self.of(self.koine.Loader)
            if loader is not None:
                self.call(loader.next)
            return
        function = getattr(dataset, what)
        plain, keywords = self.arguments(function)
        self.keep(self.call(function, *plain, **keywords))

    def files(self):
        koine = self.koine
        if self.chance(0.15):
            path = self.folder / self.random.choice(["a.npy", "b.safetensors", "c.onnx", "d"])
            if not path.is_dir():
                path.unlink(missing_ok=True)  # a model may have mapped the old file, which must not be cut short
                path.write_bytes(self.random.randbytes(self.random.choice([0, 1, 9, 200])))
            return
        function = self.random.choice([koine.io.load_npy, koine.io.save_npy, koine.io.load_safetensors, koine.io.save_safetensors, koine.io.safetensors_metadata, koine.io.onnx_signature,
                                       koine.io.load_onnx_tensor, koine.io.save_onnx_tensor, koine.io.encode, koine.list_models, koine.optimizers, koine.devices])
        plain, keywords = self.arguments(function)
        self.call(function, *plain, **keywords)

    def states(self):
        owner = self.of((self.koine.Session, self.koine.Trainer, self.koine.Model))
        states = self.call(lambda: owner.states) if owner is not None else self.of(self.koine.States)
        if states is None:
            return
        self.keep(states)
        names = self.call(lambda: sorted(states)) or []
        name = self.random.choice(names) if names and self.chance(0.8) else self.anything()
        if self.chance(0.5):
            found = self.call(lambda: states[name])
            if found is not None and self.chance(0.7):
                self.call(states.__setitem__, name, found)
        else:
            self.call(states.__setitem__, name, self.array())

    # What takes a long time by its nature, or addresses, which nothing can check.
    LEFT = {"fit", "verify", "verify_one", "from_opencl", "wait_for", "buffer", "find_not_finite", "use_averages", "feed_buffer", "fetch_buffer", "generate", "keep", "close"}

    def method(self):
        owner = self.random.choice([*self.made, *self.values[-5:], *self.graphs, self.koine.default_context()])
        names = [name for name in dir(type(owner)) if not name.startswith("_") and name not in self.LEFT] if type(owner).__module__.startswith("koine") else []
        if not names:
            return
        if self.chance(0.1):
            self.call(repr, owner)
            return
        name = self.random.choice(names)
        found = self.call(lambda: getattr(owner, name))
        if callable(found):
            plain, keywords = self.arguments(found)
            found = self.call(found, *plain, **keywords)
        if type(found).__module__.startswith("koine"):
            self.keep_value(found) if isinstance(found, self.koine.Value) else self.keep(found)

    def end(self):
        what = self.random.choice(["close", "drop", "graph", "collect"])
        if what == "graph" and self.graphs:
            self.call(self.random.choice(self.graphs).close)
            self.new_graph()
        elif what == "close" and self.made:
            owner = self.random.choice(self.made)
            if hasattr(owner, "close") and owner is not self.koine.default_context():
                self.call(owner.close)
        elif what == "drop" and self.made:
            self.made.pop(self.random.randrange(len(self.made)))
        else:
            gc.collect()

    def run(self, until):
        actions, weights = zip(*self.actions)
        for _ in range(CALLS):
            self.random.choices(actions, weights)[0]()
            if time.monotonic() > until:
                return


def short(item):
    try:
        text = f"array {item.dtype}{item.shape}" if hasattr(item, "dtype") and hasattr(item, "tobytes") else repr(item)
    except Exception as error:  # of something that is closed
        text = f"<{type(item).__name__}: {type(error).__name__}>"
    return text.encode("ascii", "backslashreplace").decode()[:100]


def work(seed, seconds):
    """One program; each call is told before it is made."""
    import resource
    import shutil
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.pop("KOINE_DEVICE", None)
    import logging
    import warnings
    logging.getLogger("koine").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    program = Program(seed, lambda text: print(text, flush=True))
    os.chdir(program.folder)
    try:
        program.run(time.monotonic() + seconds)
    except Fault as fault:
        print(f"FAULT {fault}", flush=True)
        return 1
    finally:
        shutil.rmtree(program.folder, ignore_errors=True)
    return 0


def watched(seed, seconds):
    """Runs a program in another process; what is wrong, or None, and the number of its calls."""
    child = subprocess.Popen([sys.executable, __file__, HOUSE, "--only", str(seed), "--seconds", str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    last, count, waiting = collections.deque(maxlen=40), 0, b""
    with selectors.DefaultSelector() as selector, child:
        selector.register(child.stdout, selectors.EVENT_READ)
        os.set_blocking(child.stdout.fileno(), False)
        while True:
            if not selector.select(SILENCE):
                child.kill()
                return f"no answer for {SILENCE} seconds in\n" + "\n".join(last), count
            found = child.stdout.read()
            if not found:
                break
            *lines, waiting = (waiting + found).split(b"\n")
            count += len(lines)
            last.extend(line.decode(errors="replace") for line in lines)
        messages = child.stderr.read().decode(errors="replace")
        status = child.wait()
    return None if status == 0 else f"status {status} after\n" + "\n".join(last) + "\n" + messages[-3000:], count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("house")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("KOINE_TEST_SEED") or time.time()))
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    if given.only is not None:
        return work(given.only, given.seconds)
    sys.path.insert(0, HOUSE)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import package
    until, counts = time.monotonic() + given.seconds, []

    def calls_end_with_a_result_or_an_exception():
        for seed in range(given.seed, given.seed + 10**6):
            left = until - time.monotonic()
            if left <= 0:
                break
            wrong, count = watched(seed, left)
            counts.append(count)
            package.expect(wrong is None, f"seed {seed} (--only {seed} repeats it): {wrong}")
        print(f"{sum(counts)} calls in {len(counts)} programs, from seed {given.seed}", flush=True)
    package.case(calls_end_with_a_result_or_an_exception)
    package.run()


if __name__ == "__main__":
    raise SystemExit(main())
