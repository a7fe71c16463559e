"""Model: fit, predict, evaluate, files; the same results as the command.

usage: models.py HOUSE_FOLDER KOINE
"""
import copy
import importlib.util
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

from package import Skipped, case, expect, expect_equal, raises, run, script

KOINE = os.path.abspath(sys.argv[2])
os.chdir(tempfile.mkdtemp(prefix="koine-python-"))

import numpy as np  # noqa: E402

import koine  # noqa: E402

DIGITS = {"max_samples": 600}
X, Y = koine.load_dataset("digits", **DIGITS).arrays()
CONTEXT = koine.default_context()


def command(*words):
    done = subprocess.run([KOINE, *words], capture_output=True, text=True)
    expect(done.returncode == 0, done.stderr)
    return done.stdout


def small():
    """A model of two layers, built by hand."""
    graph = koine.Graph()
    graph.input("x", "batch,2").linear(16, name="one").relu().linear(2, name="two").output("logits")
    return graph


class Logged:
    """with Logged() as lines: what the logger "koine" is told."""

    def __enter__(self):
        self.lines = []
        self.handler = logging.Handler()
        self.handler.emit = lambda record: self.lines.append(record.getMessage())
        logging.getLogger("koine").addHandler(self.handler)
        return self.lines

    def __exit__(self, *_):
        logging.getLogger("koine").removeHandler(self.handler)


def points(count=256):
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (count, 2)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(np.int64)


@case
def the_lines_of_the_readme_work():
    model = koine.Model("mlp")
    history = model.fit((X, Y), epochs=2, optimizer="adamw", validation_split=0.1)
    expect_equal((len(history.epochs), history.epochs[-1].validation.samples, history.stop_reason), (2, 60, "done"))
    expect_equal(model.predict(X[:7]).shape, (7, 10))
    expect(model.evaluate((X, Y)).accuracy > 0.5)
    model.save("a.safetensors")
    model.to_onnx("a.onnx")
    for path in ("a.safetensors", "a.onnx"):
        expect(np.allclose(koine.Model(path).predict(X[:50]), model.predict(X[:50]), atol=1e-5), path)


@case
def training_has_the_bits_of_the_command():
    """The same model, data and seed: the same weights, with all defaults."""
    command("train", "mlp", "--data", "digits:train", "--steps", "12", "--save", "command.safetensors")
    model = koine.Model("mlp")
    model.fit("digits:train", steps=12)
    wanted = koine.io.load_safetensors("command.safetensors")
    for weight in model.weights:
        expect((model.states[weight.name] == wanted[weight.name]).all(), weight.name)
    model.save("python.safetensors")
    found = koine.io.load_safetensors("python.safetensors")
    expect_equal(sorted(found), sorted(wanted))
    expect_equal(koine.io.safetensors_metadata("python.safetensors", "data.classes"), koine.io.safetensors_metadata("command.safetensors", "data.classes"))


@case
def the_command_reads_what_python_saved():
    model = koine.Model("mlp")
    model.fit((X, Y), epochs=3)
    model.save("shared.safetensors")
    score = json.loads(command("eval", "shared.safetensors", "--data", "digits:test", "--json").splitlines()[-1])
    own = model.evaluate("digits:test")
    expect(abs(score["accuracy"] - own.accuracy) < 1e-9 and abs(score["loss"] - own.loss) < 1e-5, f"{score}, {own}")
    command("train", "--resume", "shared.safetensors", "--data", "digits:train", "--steps", "40")


@case
def models_are_made_of_names_texts_and_files():
    expect_equal(koine.Model("lenet", classes=4).outputs[0].shape, ("batch", 4))
    text = "koine 1\nmodel tiny\ninput x 3\nlogits = linear 2\n"
    expect_equal((koine.Model(text).name, koine.Model(text).parameters), ("tiny", 8))
    pathlib.Path("net.koine").write_text(text)
    expect_equal(koine.Model(pathlib.Path("net.koine")).text, koine.Model(text).text)
    with raises(koine.NotFoundError, "lenett", "lenet"):
        koine.Model("lenett")
    with raises(koine.FormatError, "2:1"):
        koine.Model("koine 1\nrelo\n")
    with raises(koine.ArgumentError, "no setting is called 'class'", "classes=10"):
        koine.Model("lenet", **{"class": 3})
    expect("mlp" in koine.list_models() and "linear" in koine.grammar())


@case
def models_are_made_of_graphs():
    x, y = points()
    np.save("points.npy", x)
    np.save("kinds.npy", y)
    model = koine.Model(small())
    history = model.fit((x, y), epochs=30, batch_size=32, learning_rate=0.02)
    expect(model.evaluate((x, y)).accuracy > 0.95, str(history))
    model.save("graph.safetensors")
    other = koine.Model(small())
    other.load("graph.safetensors")
    expect((other.predict(x) == model.predict(x)).all())
    opened = koine.Model("graph.safetensors")
    expect((opened.predict(x) == model.predict(x)).all() and opened.inputs[0].name == "x")
    opened.fit((x, y), epochs=1, batch_size=32)
    opened.save("again.safetensors")
    expect((koine.Model("again.safetensors").predict(x) == opened.predict(x)).all())
    score = json.loads(command("eval", "again.safetensors", "--data", "npy:points.npy,kinds.npy", "--json").splitlines()[-1])
    expect(abs(score["accuracy"] - opened.evaluate((x, y)).accuracy) < 1e-5, f"{score}")
    for name in ("lenet", "elman", "resnet18c"):  # operators with several results, statistics, recurrences
        made = koine.Model(koine.Model(name).graph)
        made.save("zoo.safetensors")
        zeros = made._zeros(2, made.inputs)
        expect((koine.Model("zoo.safetensors").predict(zeros) == made.predict(zeros)).all(), name)
    model.to_onnx("graph.onnx")
    expect(np.allclose(koine.Model("graph.onnx").predict(x), model.predict(x), atol=1e-5))
    before = model.predict(x)
    with raises(koine.ShapeError, "'y' has the shape"):
        model.fit((x, y), loss="mse", epochs=1)
    expect((model.predict(x) == before).all(), "a loss that did not fit changed the weights")
    with raises(koine.ArgumentError, "no outputs"):
        koine.Model(koine.Graph())


@case
def adapters_are_trained_alone():
    x, y = points()
    base = koine.Model("koine 1\ninput x 2\nhidden = linear 16\nrelu\nlogits = linear 3\n")
    base.fit((x, y), epochs=2, batch_size=32)
    base.save("base.safetensors")
    model = koine.Model("base.safetensors", lora=koine.Lora(rank=4, alpha=4, targets=["hidden", "logits"]))
    expect((model.predict(x) == base.predict(x)).all(), "a new adapter changes the results")
    expect_equal((model.lora.rank, model.lora.targets), (4, ["hidden", "logits"]))
    expect_equal([weight.name for weight in model.weights if weight.trained],
                 ["hidden.lora_a", "hidden.lora_b", "logits.lora_a", "logits.lora_b"])
    before = {name: np.array(base.states[name]) for name in ("hidden.weight", "logits.bias")}
    model.fit((x, y), epochs=20, batch_size=32, learning_rate=0.02)
    expect(model.evaluate((x, y)).loss < base.evaluate((x, y)).loss - 0.01)
    expect(all((model.states[name] == array).all() for name, array in before.items()), "a frozen weight changed")
    model.save("adapter.safetensors")
    again = koine.Model("base.safetensors", lora=model.lora)
    expect(again.load("adapter.safetensors") == 4 and (again.predict(x) == model.predict(x)).all())
    with raises(koine.ArgumentError, "rank=4 scale=1", "none"):
        base.load("adapter.safetensors")
    with raises(koine.ArgumentError, "open it again"):
        model.fit((x, y), epochs=1, lora=koine.Lora(rank=2))
    late = koine.Model("base.safetensors")
    late.fit((x, y), epochs=1, batch_size=32, lora=koine.Lora(rank=2, targets="hidden"))
    expect_equal(late.lora.targets, ["hidden"])
    expect((late.states["logits.weight"] == base.states["logits.weight"]).all())
    with raises(koine.NotFoundError, "'conv' matches no linear layer"):
        koine.Model("base.safetensors").fit((x, y), epochs=1, lora=koine.Lora(targets="conv"))
    model.save_adapter("adapter")
    other = koine.Model("base.safetensors", adapter="adapter")
    expect((other.predict(x) == model.predict(x)).all() and other.lora == model.lora, str(other.lora))
    expect((copy.deepcopy(other).predict(x) == model.predict(x)).all())
    further = koine.Model("base.safetensors", adapter="adapter").fit((x, y), steps=1, batch_size=len(x), validation_split=0)
    expect(abs(further.losses[0] - model.evaluate((x, y)).loss) < 1e-5, "training began with a new adapter")
    lora = koine.Lora(rank=2, targets="hidden")
    first = koine.Model("base.safetensors", lora=lora)
    first.fit((x, y), steps=4, batch_size=32, checkpoints="parts", schedule="constant", validation_split=0)
    second = koine.Model("base.safetensors", lora=lora)
    second.fit((x, y), steps=4, batch_size=32, checkpoints="parts", schedule="constant", validation_split=0, resume=True)
    expect((second.predict(x) == first.predict(x)).all(), "the resumed model lacks what was not trained")
    expect((koine.Model("base.safetensors", adapter="adapter.safetensors").predict(x) == model.predict(x)).all())
    with raises(koine.ArgumentError, "no adapter"):
        base.save_adapter("nothing")
    made = koine.Model(small(), lora=koine.Lora(rank=2))
    made.fit((x, y), epochs=1)
    made.fit((x, y), epochs=1, loss="cross-entropy", class_weights="balanced")  # the graph is copied


@case
def language_models_are_tuned_and_generate():
    """The layers of this model are zeros, so that only an adapter of the output has an effect."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
    import byte_model
    byte_model.write("bytes.gguf")
    pathlib.Path("ab.txt").write_text("ab" * 300)
    model = koine.Model("bytes.gguf", window=16)
    expect_equal([model.generate("a", length=4, temperature=0), model.generate("é", length=9, temperature=0)], ["bc d", "!"])
    model.fit("text:ab.txt", lora=koine.Lora(rank=8, alpha=8, targets="output"), steps=60, batch_size=4, learning_rate=0.05, validation_split=0)
    expect_equal(model.generate("a", length=4, temperature=0), "baba")
    model.save_adapter("ab")
    expect_equal(koine.Model("bytes.gguf", adapter="ab").generate("b", length=3, temperature=0), "aba")
    pathlib.Path("talk.jsonl").write_text('{"prompt": "xa", "completion": "c d"}\n' * 4)
    with raises(ValueError, "loss_on"):
        model.fit("jsonl:talk.jsonl", steps=1, loss_on="some")
    losses = [koine.Model("bytes.gguf", window=16).fit("jsonl:talk.jsonl", steps=1, batch_size=4, validation_split=0, loss_on=which).losses[0]
              for which in ("answers", "all")]
    expect(losses[0] != losses[1], str(losses))


@case
def a_graph_may_have_several_models():
    """Each has its own weights and its own loss."""
    script("""
import koine, numpy as np
graph = koine.Graph()
graph.input("x", "batch,2").linear(16, name="one").relu().linear(1, name="two").output("y_hat")
x = np.random.default_rng(1).random((64, 2), np.float32)
one = koine.Model(graph)
one.fit(x, x.sum(1), loss="mse", epochs=2)
two, three = koine.Model(graph, seed=2), koine.Model(one.graph)
kept = one.predict(x)
two.fit(x, x.sum(1), loss="l1", epochs=2)
assert (one.predict(x) == kept).all() and (two.predict(x) != kept).any() and three.inputs[0].name == "x"
del graph, one
two.predict(x), three.predict(x)
two.close()
three.predict(x)
""")


@case
def a_model_of_a_graph_takes_another_loss():
    x, y = points()
    model = koine.Model(small())
    model.fit((x, y), epochs=10, batch_size=32, learning_rate=0.02)
    model.fit((x, y), epochs=1, batch_size=32, class_weights=[1, 3])
    model.fit((x, y), epochs=1, batch_size=32, class_weights="balanced")
    model.fit((x, y), epochs=1, batch_size=32)
    expect(model.evaluate((x, y)).accuracy > 0.8, "the weights are lost")


@case
def models_are_copied_and_pickled():
    """A copy predicts, trains on and saves as the original does, bit for bit."""
    import copy
    import pickle
    x, y = points()
    koine.Model(small()).to_onnx("points.onnx")
    makers = {"mlp": lambda: koine.Model("mlp", width=32), "points.onnx": lambda: koine.Model("points.onnx"), "graph": lambda: koine.Model(small())}
    for name, make in makers.items():
        data = (X, Y) if name == "mlp" else (x, y)
        for fitted in (False, True):
            model = make()
            if fitted:
                model.fit(data, epochs=2, batch_size=32, class_weights="balanced")
            copies = [copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))]
            wanted = model.predict(data[0][:50])
            model.fit(data, epochs=1, batch_size=32)
            model.save("one.safetensors")
            for made in copies:
                expect((made.predict(data[0][:50]) == wanted).all(), f"{name}: the copy predicts something else")
                expect_equal((made.name, made.class_names, repr(made)), (model.name, model.class_names if fitted else [], repr(model)))
                made.fit(data, epochs=1, batch_size=32)
                made.save("two.safetensors")
                expect(pathlib.Path("one.safetensors").read_bytes() == pathlib.Path("two.safetensors").read_bytes(), f"{name}: it is trained otherwise")
    model = koine.Model("mlp", width=32)
    model.graph.find("linear1.weight").freeze()
    made = pickle.loads(pickle.dumps(model))
    expect_equal([weight.reason for weight in made.weights if weight.name == "linear1.weight"], ["frozen"])
    made.fit((X, Y), loss="cross-entropy", class_weights=np.ones(10), epochs=1)
    expect((made.states["linear1.weight"] == koine.Model("mlp", width=32).states["linear1.weight"]).all())


@case
def contexts_are_opened_again():
    import copy
    import pickle
    context = koine.Context("cpu", timeline=True)
    expect(copy.deepcopy(context) is context)
    one, two = (pickle.loads(pickle.dumps(context)) for _ in range(2))
    expect(one is two and one is not context and one.device.name == context.device.name)
    expect(pickle.loads(pickle.dumps(koine.default_context())) is koine.default_context())
    model = koine.Model("mlp", context=context, width=8)
    out = script("""
import pickle, sys
model = pickle.load(open(sys.argv[1], "rb"))
print(model.predict([[[0.5] * 28] * 28])[0].tolist(), model.context.device.type)
""", str(_written("model.pickle", pickle.dumps(model))))
    expect_equal(out.strip(), f"{model.predict([[[0.5] * 28] * 28])[0].tolist()} cpu")


def _written(name, content):
    path = pathlib.Path(name).resolve()
    path.write_bytes(content)
    return path


@case
def inputs_of_onnx_files_are_given():
    """Arrays give their shapes to what a file leaves open."""
    graph = koine.Graph()
    (graph.input("x", "batch,length,3").sum(1)).output("y")
    koine.Model(graph).to_onnx("open.onnx")
    expect_equal(koine.Model("open.onnx", given={"x": np.zeros((2, 5, 3), np.float32)}).inputs[0].shape, (2, 5, 3))
    model = koine.Model("open.onnx", length=4)
    expect_equal(model.predict(np.ones((2, 4, 3))).tolist(), [[4.0] * 3] * 2)


@case
def arrays_come_in_any_shape_that_means_the_same():
    model = koine.Model("mlp")
    wanted = None
    for x in (X, X[:, 0], X.astype(np.float64), np.asfortranarray(X), np.round(X * 255).astype(np.uint8), X.tolist()):
        model = koine.Model("mlp")
        model.fit((x, Y), steps=3)
        found = model.predict(x)
        wanted = found if wanted is None else wanted
        expect(np.allclose(found, wanted, atol=2e-2), "the results differ")
    for y in (Y.astype(np.int64), Y.astype(np.uint8), Y.reshape(-1, 1)):
        model.fit(X, y, steps=1)
    expect(model.evaluate(X, Y).loss == model.evaluate((X, Y)).loss)
    samples = type("Dataset", (), {"__module__": "torch.utils.data.dataset", "__len__": lambda _: 90, "__getitem__": lambda _, i: (X[i], Y[i])})
    expect_equal(len(model.fit(samples(), epochs=1, batch_size=30).losses), 3)
    expect_equal(model.predict(X[:0]).shape, (0, 10))
    expect_equal(model.predict(X[:65], batch_size=32).shape, (65, 10))
    expect((model.predict(X[:65], batch_size=32) == model.predict(X[:65], batch_size=5)).all())


@case
def data_in_memory_is_used_in_place():
    from koine import _samples
    model = koine.Model("mlp")
    loss = model._need_loss(None)
    dataset = _samples.of_arrays({"x": X, "y": Y}, model.inputs, loss.target, 10)
    places = [array.__array_interface__["data"][0] for array in dataset._core.keep if isinstance(array, np.ndarray)]
    expect_equal(places, [array.__array_interface__["data"][0] for array in (X, Y)])


@case
def wrong_data_is_refused():
    model = koine.Model("mlp")
    for data, kind, part in (((X, Y + 5), koine.ArgumentError, "labels from"), ((X[:5], Y[:4]), koine.ShapeError, "different numbers of samples"),
                             ((np.moveaxis(X, 1, -1).repeat(3, -1), Y), koine.ShapeError, "'x' has the shape"), ((X, Y.astype(float)), koine.DtypeError, "'y' is float64"),
                             ((X,), koine.ArgumentError, "'y'"), ((X[:0], Y[:0]), koine.ArgumentError, "no samples"),
                             ("nothing:here", koine.KoineError, "nothing"), ((np.array([["a"]]), Y), koine.KoineError, "")):
        with raises(kind, part):
            model.fit(data, epochs=1)
    with raises(koine.ShapeError, "expected (batch,1,28,28)"):
        model.predict(np.ones((2, 5)))
    pathlib.Path("two.csv").write_text("a,b\n1,2\n3,4\n")
    for spec, kind, part in (("csv:two.csv,target=b", koine.KoineError, "does not match the model 'mlp': 'x' is float32 (batch,1) in the data"),
                             ("text", koine.KoineError, "does not match"), ("shapes", koine.KoineError, "does not match")):
        with raises(kind, part):
            model.fit(spec, epochs=1)
    with raises(koine.ArgumentError, "has 10 classes, but the model has 4 outputs", "classes=10"):
        koine.Model("lenet", classes=4).fit("digits", epochs=1)
    with raises(koine.ShapeError, "'y' has the shape"):
        model.fit((X, Y), loss="mse", epochs=1)
    expect(model.evaluate((X, Y)).accuracy >= 0, "a loss that did not fit stayed")
    for words in ({"validation_split": True}, {"validation_split": "0.1"}, {"validation_data": object()}, {"validation_data": 0.1}, {"epochs": 2.5},
                  {"epochs": True}, {"batch_size": "8"}):
        with raises(TypeError, f"{next(iter(words))} is"):
            model.fit((X, Y), **{"steps": 1, **words})
    for words in ({"epochs": 0}, {"steps": 0}, {"seconds": 0}, {"seconds": float("nan")}, {"epochs": -1}, {"batch_size": 0}, {"batch_size": -2},
                  {"validation_split": 1.5}, {"validation_split": float("nan")}):
        with raises(ValueError, f"{next(iter(words))} is {next(iter(words.values()))}; expected"):
            model.fit((X, Y), **words)
    for call in (model.predict, lambda x, batch_size: model.evaluate(x, Y, batch_size=batch_size)):
        with raises(ValueError, "batch_size is 0; expected at least 1"):
            call(X, batch_size=0)
    with raises(koine.FileError, "nothing.csv"):
        koine.load_dataset("csv:nothing.csv,target=a")
    with raises(koine.FileError, "y.npy"):
        np.save("x.npy", X[:2])
        koine.load_dataset("npy:x.npy,y.npy")
    for words, part in (({"patience": 2}, "validation"), ({"patience": -1}, "patience is -1"), ({"class_weights": "equal"}, "balanced"),
                        ({"optimizer": "adamm"}, "did you mean 'adam'"), ({"schedule": "cosinus"}, "did you mean 'cosine'")):
        with raises(ValueError, part):
            model.fit((X, Y), epochs=1, **words)
    with raises(TypeError, "did you mean 'learning_rate'"):
        model.fit((X, Y), epochs=1, learning_rates=1)
    with raises(TypeError, "'validation_dat'; did you mean 'validation_data'?"):
        model.fit((X, Y), epochs=1, validation_dat=(X, Y))
    with raises(TypeError, "both given"):
        model.fit((X, Y), epochs=1, validation_data=(X, Y), validation_split=0.1)
    with raises(koine.ArgumentError, "nesterov applies to sgd"):
        model.fit((X, Y), epochs=1, nesterov=True)


@case
def doubtful_data_is_warned_about_once():
    x, y = points(90)
    broken, spoilt = x.copy(), x.copy()
    broken[[70, 85]], spoilt[33, 1] = np.nan, np.inf

    def warnings(use):
        with Logged() as lines:
            try:
                use(koine.Model(small()))
            except koine.NotFiniteError:
                pass
        return lines
    for use in (lambda model: model.fit(broken, y, epochs=3), lambda model: model.evaluate(broken, y, batch_size=7),
                lambda model: [model.predict(broken, batch_size=7), model.predict(broken)],
                lambda model: model.fit(lambda: [(broken[i:i + 30], y[i:i + 30]) for i in (0, 30, 60)], epochs=2),
                lambda model: model.evaluate(lambda: [(broken[i:i + 30], y[i:i + 30]) for i in (0, 30, 60)]),
                lambda model: model.fit(x, y, epochs=2, validation_data=(broken, y))):
        lines = warnings(use)
        expect(len(lines) == 1 and ("'x' of sample 70 has NaN" in lines[0] or "'x' of sample 85 has NaN" in lines[0]), str(lines))
    lines = warnings(lambda model: model.predict(spoilt))
    expect(len(lines) == 1 and "'x' of sample 33 has infinite numbers" in lines[0], str(lines))
    lines = warnings(lambda model: model.fit(x, y, epochs=1, batch_size=10**9))
    expect(len(lines) == 1 and "larger than the data, which has 90" in lines[0], str(lines))
    expect_equal(warnings(lambda model: [model.fit(x, y, epochs=1), model.fit(x[:20], y[:20], epochs=1), model.predict(x)]), [])


@case
def validation_is_limited():
    x, y = points()
    for words, count in (({"validate_samples": 20}, 20), ({"validate_samples": 20, "validation_data": (x, y)}, 20), ({"validate_samples": 9999}, 64)):
        history = koine.Model(small()).fit(x, y, epochs=1, **({"validation_split": 0.25} if "validation_data" not in words else {}), **words)
        expect_equal([epoch.validation.samples for epoch in history.epochs], [count])
    expect_equal(koine.Model("mlp").fit("digits", steps=1, validate_samples=100).epochs[0].validation.samples, 100)
    for words, part in (({"validate_samples": 5}, "needs validation data"), ({"validate_samples": 0, "validation_split": 0.1}, "validate_samples is 0")):
        with raises(ValueError, part):
            koine.Model(small()).fit(x, y, epochs=1, **words)
    seen = []
    graph = koine.Graph()
    inputs, target = graph.input("x", "batch,2"), graph.input("y", "batch", "int32")
    loss = inputs.linear(2).cross_entropy(target).rename("loss")
    trainer = koine.Trainer(loss)
    data = koine.Dataset.from_arrays(x=x, y=y)
    trainer.fit(data, epochs=1, batch_size=100, validation_data=data, eval_session=koine.Session(loss, states=trainer.states), loss="loss",
                on_validation=lambda done, all: seen.append((done, all)))
    expect_equal(seen, [(100, 256), (200, 256), (256, 256)])


@case
def validation_data_may_come_in_batches():
    x, y = points()
    history = koine.Model(small()).fit(x, y, epochs=2, validation_data=lambda: [(x[:30], y[:30]), (x[30:40], y[30:40])])
    expect_equal([epoch.validation.samples for epoch in history.epochs], [40, 40])
    for nothing in (0, 0.0):
        history = koine.Model("mlp").fit("digits:train", steps=1, validation_split=nothing)
        expect_equal([epoch.validation.samples for epoch in history.epochs], [0])


@case
def regression_has_r2():
    x = np.random.default_rng(1).uniform(-1, 1, (300, 3)).astype(np.float32)
    graph = koine.Graph()
    graph.input("x", "batch,3").linear(1).output("y_hat")
    model = koine.Model(graph)
    for y in (x @ [1, 2, 3], (x @ [1, 2, 3]).reshape(-1, 1)):
        model.fit((x, y), loss="mse", epochs=20, learning_rate=0.1)
        expect(model.evaluate((x, y), loss="mse").r2 > 0.99)


@case
def batches_come_out_of_iterables():
    x, y = points()

    def batches():
        for first in range(0, 256, 32):
            yield x[first:first + 32], y[first:first + 32]

    class Loader:
        """As a DataLoader of PyTorch: with a length, and iterated over anew in each epoch."""

        def __len__(self):
            return 8

        def __iter__(self):
            return iter([list(batch) for batch in batches()])
    for data in (batches, Loader()):
        model = koine.Model(small())
        history = model.fit(data, epochs=20, learning_rate=0.02, validation_data=(x, y))
        expect_equal((len(history.losses), len(history.epochs), history.stop_reason), (160, 20, "done"))
        expect(model.evaluate(data).accuracy > 0.9 and history.history["val_accuracy"][-1] > 0.9)
        expect(abs(model.evaluate(data).loss - model.evaluate((x, y)).loss) < 1e-5)
    expect_equal(len(koine.Model(small()).fit(batches(), epochs=1).losses), 8)
    expect_equal(len(koine.Model(small()).fit(batches, steps=11).losses), 11)
    with raises(ValueError, "can be run through once"):
        koine.Model(small()).fit(batches(), epochs=2)
    with raises(ValueError, "validation_split needs all samples"):
        koine.Model(small()).fit(batches, epochs=1, validation_split=0.1)
    history = koine.Model(small()).fit(batches, epochs=50, learning_rate=0.0, patience=2, validation_data=(x, y), optimizer="sgd")
    expect_equal((history.stop_reason, len(history.epochs)), ("patience", 3))


@case
def callbacks_see_each_step_and_stop():
    x, y = points()

    class Seen(koine.Callback):
        def __init__(self, stop):
            self.calls, self.stop = [], stop

        def on_begin(self):
            self.calls.append("begin")

        def on_step(self, step):
            self.calls.append(step.step)

        def on_epoch(self, epoch):
            self.calls.append(f"epoch {epoch.epoch}, {self.model.evaluate(x, y).samples}")
            return self.stop(epoch)

        def on_end(self, history):
            self.calls.append(history.stop_reason)

    def raises_at(wanted):
        def at(epoch):
            if epoch.epoch == wanted:
                raise koine.StopTraining
        return at
    for data in ((x, y), lambda: iter([(x[:128], y[:128]), (x[128:], y[128:])])):
        for stop in (lambda epoch: epoch.epoch < 2, raises_at(2)):
            seen, plain = Seen(stop), []
            history = koine.Model(small()).fit(data, epochs=5, batch_size=128, callbacks=[seen], on_step=plain.append)
            expect_equal(seen.calls, ["begin", 1, 2, "epoch 1, 256", 3, 4, "epoch 2, 256", "callback"])
            expect_equal(([step.step for step in plain], history.stop_reason), ([1, 2, 3, 4], "callback"))
    with raises(ZeroDivisionError):
        koine.Model(small()).fit((x, y), epochs=1, callbacks=[Seen(lambda _: 1 / 0)])

    class Never:  # needs no base class
        def on_begin(self):
            raise koine.StopTraining
    expect_equal(koine.Model(small()).fit((x, y), epochs=1, callbacks=[Never()]).losses, [])


@case
def optimizers_are_objects_or_names():
    x, y = points()

    def losses(**words):
        return koine.Model(small()).fit((x, y), epochs=2, **words).losses
    adamw = koine.optim.AdamW(learning_rate=0.01, weight_decay=0.1)
    expect_equal(losses(optimizer=adamw), losses(optimizer="adamw", learning_rate=0.01, weight_decay=0.1))
    expect_equal(losses(optimizer=koine.optim.SGD()), losses(optimizer="sgd"))
    expect(losses(optimizer=koine.optim.SGD()) != losses(optimizer=koine.optim.SGD(momentum=0.0)))
    expect_equal(losses(optimizer=adamw, clip_norm=1e9, ema=0.5), losses(optimizer=adamw))
    with raises(TypeError, "learning_rate is given twice"):
        losses(optimizer=adamw, learning_rate=0.1)
    with raises(TypeError, "expected a name such as 'adam'"):
        losses(optimizer=koine.optim.AdamW)
    expect(repr(adamw).startswith("AdamW(learning_rate=0.01, beta1=0.9,"))
    graph = koine.Graph()
    trainer = koine.Trainer((graph.input("x", "batch,2").linear(1) ** 2).mean(), optimizer=koine.optim.Lion(0.5))
    expect_equal(trainer.learning_rate, 0.5)


@case
def devices_are_chosen_by_name():
    before = koine.default_context()
    model = koine.Model(small(), device="cpu")
    expect_equal(model.context.device.type, "cpu")
    expect(koine.Model(small(), device="cpu").context is model.context, "the device was opened twice")
    with raises(koine.NoDeviceError, "nothing"):
        koine.Model(small(), device="nothing of the kind")
    with raises(TypeError, "both given"):
        koine.Model(small(), device="cpu", context=before)
    try:
        koine.set_default_device("nothing of the kind")
        with raises(koine.NoDeviceError, "nothing"):
            koine.Model(small())
        koine.set_default_device(before.device.index)
        expect_equal(koine.Model(small()).context.device.index, before.device.index)
        expect(koine.default_context() is not before)
    finally:
        koine.set_default_device(None)
        koine.set_default_context(before)


@case
def speed_of_batches_is_that_of_their_epoch():
    x, y = points()
    steps, epochs = [], []
    koine.Model(small()).fit(lambda: iter([(x, y)]), epochs=2, on_step=steps.append, on_epoch=epochs.append)
    # At most this time has gone by in the second epoch.
    expect(steps[1].samples_per_s * (steps[1].seconds - epochs[0].seconds) > 255)


@case
def weights_that_are_too_large_for_their_type_are_not_saved():
    model = koine.Model("mlp", seed=7)
    name = next(name for name in model.states if model.states[name].ndim == 2)
    for number, kind, fits in ((65504, "float16", True), (65520, "float16", False), (65520, "bfloat16", True), (3.4e38, "bfloat16", False),
                               (3.4e38, "float32", True), (np.inf, "float16", True)):
        weights = model.states[name].copy()
        weights[1, 2] = number
        model.states[name] = weights
        if fits:
            model.save("large.safetensors", weights=kind)
            continue
        with raises(koine.KoineError, f"'{name}'", f"too large for {kind}"):
            model.save("refused.safetensors", weights=kind)
        expect(not os.path.exists("refused.safetensors"), "an incomplete file")


@case
def weights_that_cannot_be_read_are_asked_for_again():
    whole = koine.Model("mlp", seed=7)
    whole.save("whole.safetensors")
    model, calls = koine.Model("whole.safetensors"), []
    call = model._made._call

    def fails_once(function, *words):
        calls.append(function)
        if len(calls) == 1:
            raise OSError("unreadable")
        return call(function, *words)
    model._made._call = fails_once
    with raises(OSError, "unreadable"):
        model.predict(X)
    expect((model.predict(X) == whole.predict(X)).all())


@case
def loaders_and_tensors_of_pytorch_are_taken():
    if not importlib.util.find_spec("torch"):
        raise Skipped("PyTorch is not installed")
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    x, y = (torch.from_numpy(array) for array in points())
    samples = TensorDataset(x, y)
    for data in (DataLoader(samples, batch_size=32), DataLoader(samples, batch_size=32, shuffle=True), samples, (x, y)):
        model = koine.Model(small())
        history = model.fit(data, epochs=10, batch_size=32, learning_rate=0.02, validation_data=(x, y))
        expect_equal(len(history.losses), 80)
        expect(model.evaluate(data).accuracy > 0.9, str(history))
    expect_equal(model.predict(x.requires_grad_()).shape, (256, 2))


@case
def batches_leave_out_ignored_targets_as_arrays_do():
    x, y = points()
    y = np.where((np.arange(256) < 64) | (np.arange(256) % 3 == 0), 1, y).astype(np.int32)
    model = koine.Model("koine 1\nloss cross-entropy ignore=1\ninput x 2\nlinear 8\nlogits = linear 2\n")
    whole = model.evaluate((x, y), batch_size=256)
    parts = [model.evaluate((x, y), batch_size=24), model.evaluate(lambda: [(x[i:i + 32], y[i:i + 32]) for i in range(0, 256, 32)])]
    wanted = (model.predict(x).argmax(1) == y)[y != 1].mean()
    for found in (whole, *parts):
        expect_equal(found.samples, 256)
        expect(abs(found.accuracy - wanted) < 1e-6 and abs(found.loss - whole.loss) < 1e-5, f"{found}, {whole}, {wanted}")


@case
def the_loss_of_a_large_vocabulary_is_that_of_its_logits():
    """Also in batches with different numbers of ignored targets."""
    random = np.random.default_rng(3)
    x, y = (random.integers(0, 5000, (9, 4)).astype(np.int32) for _ in range(2))
    y[(random.random(y.shape) < 0.4) | (np.arange(9) < 3)[:, None]] = 7
    model = koine.Model("koine 1\ntask classification\nloss cross-entropy ignore=7\ninput x 4 int32\nembedding 5000 8\n"
                        "output = linear 5000 bias=no\n")
    y[8, 0] = model.predict(x)[8, 0].argmax()
    logits, counted = model.predict(x).astype(np.float64), y != 7
    own = np.take_along_axis(logits, np.where(counted, y, 0)[..., None], -1)[..., 0]
    wanted = (np.log(np.exp(logits).sum(-1)) - own)[counted].mean()
    for size in (9, 4):
        found = model.evaluate((x, y), batch_size=size)
        expect(abs(found.loss - wanted) < 1e-5 and abs(found.accuracy - (logits.argmax(-1) == y)[counted].mean()) < 1e-6, f"{found}, {wanted}")
    expect(found.accuracy > 0)
    history = model.fit(x, y, batch_size=9, steps=1, validation_split=0, shuffle=False)
    expect(abs(history.losses[0] - wanted) < 1e-5, f"{history.losses}, {wanted}")


@case
def sums_of_losses_are_divided_by_the_whole_batch():
    """In shards, of which each has its own number of ignored targets."""
    random = np.random.default_rng(4)
    x, y = random.normal(size=(12, 5)).astype(np.float32), random.integers(0, 7, 12).astype(np.int32)
    y[1:6] = -1
    found = []
    for shards in (1, 4):
        graph = koine.Graph()
        label = graph.input("y", "batch", "int32")
        total = graph.apply("cross_entropy_of_product", graph.input("x", "batch,5"), graph.parameter("w", "7,5"), label, ignored=-1)
        counted = (label.cast("float32") >= 0.0).cast("float32").sum()
        hits = (total.result(1) / counted).rename("hits")
        trainer = koine.Trainer(total / counted, optimizer="sgd", learning_rate=1.0, seed=1, extra=[hits], shards=shards)
        right = np.zeros((), np.float32)
        loss = trainer.step(x=x, y=y, out={"hits": right})
        found.append(np.concatenate([[loss, right], trainer.states["w"].ravel()]))
    expect(np.allclose(*found, rtol=1e-5, atol=1e-6), f"{found}")


@case
def batches_train_as_arrays_do():
    """The same order gives the same weights."""
    x, y = points()

    def batches():
        for first in range(0, 256, 32):
            yield x[first:first + 32], y[first:first + 32]
    one, two = koine.Model(small()), koine.Model(small())
    one.fit(batches, epochs=3, schedule="constant")
    two.fit((x, y), epochs=3, batch_size=32, shuffle=False, schedule="constant")
    expect((one.predict(x) == two.predict(x)).all())


@case
def callbacks_see_and_stop_the_run():
    x, y = points()
    seen = []
    model = koine.Model(small())
    history = model.fit((x, y), epochs=3, batch_size=64, on_step=seen.append, on_epoch=lambda epoch: epoch.epoch < 2)
    expect_equal(([step.step for step in seen], history.stop_reason, len(history.epochs)), (list(range(1, 9)), "callback", 2))
    expect_equal([step.loss for step in seen], history.losses)

    scores = []

    def looks(epoch):
        scores.append((model.evaluate((x, y)).loss, epoch.validation.loss))
        model.save("looked.safetensors")
        koine.Session(model.outputs, states=model.states).close()
    for data in ((x, y), lambda: [(x, y)] * 4):
        model.fit(data, epochs=2, batch_size=64, on_epoch=looks, validation_data=(x, y))
    expect(all(abs(own - told) < 1e-6 for own, told in scores) and len(scores) == 4, str(scores))
    expect(np.allclose(koine.io.load_safetensors("looked.safetensors")["one.weight"], model.states["one.weight"]))

    def fails(step):
        if step.step == 3:
            raise RuntimeError("as it happens")
    before = model.predict(x)
    for data in ((x, y), lambda: [(x, y)] * 4):
        with raises(RuntimeError, "as it happens"):
            model.fit(data, epochs=3, batch_size=64, on_step=fails)
        expect(len(model.history.losses) == 3 and (model.predict(x) != before).any(), "the weights of the run are lost")


@case
def control_c_stops_after_the_step_and_keeps_the_weights():
    for data in ("(x, y)", "lambda: [(x, y)] * 4"):
        out = script(f"""
import os, signal, threading, time
import numpy as np, koine
x = np.random.default_rng(1).random((256, 2), np.float32); y = (x[:, 0] > x[:, 1]).astype(np.int64)
graph = koine.Graph(); graph.input("x", "batch,2").linear(64).relu().linear(2).output("logits")
model = koine.Model(graph)
before = model.predict(x)
def interrupt():
    while model.history is None or len(model.history.losses) < 5: time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    model.fit({data}, epochs=1000000, batch_size=64)
except KeyboardInterrupt:
    print("interrupted", len(model.history.losses) >= 5, bool((model.predict(x) != before).any()), model.evaluate((x, y)).samples)
history = model.fit((x, y), epochs=1)
print(history.stop_reason)
""")
        expect_equal(out, "interrupted True True 256\ndone\n")


@case
def weights_that_would_be_spoilt_stay():
    x, y = points()
    model = koine.Model(small())
    model.fit((x, y), epochs=2)
    before = model.predict(x)
    for data in ((x * 1e30, y), lambda: [(x * 1e30, y)] * 9):
        with raises(koine.NotFiniteError):
            model.fit(data, epochs=20, learning_rate=1e30, optimizer="sgd")
        expect((model.predict(x) == before).all())
    model = koine.Model(small())
    with raises(koine.NotFiniteError):
        model.fit((x * 1e30, y), epochs=20, learning_rate=1e30, optimizer="sgd")
    expect(np.isfinite(model.predict(x)).all(), "a model that was not trained before is spoilt")


@case
def training_goes_on_from_the_weights():
    x, y = points()
    model = koine.Model(small())
    losses = [model.fit((x, y), epochs=5, learning_rate=0.02).losses for _ in range(3)]
    expect(losses[1][0] < losses[0][0] / 1.2 and losses[2][0] < losses[1][0])
    expect_equal(koine.Model(small(), seed=3).fit((x, y), epochs=1).losses, koine.Model(small(), seed=3).fit((x, y), epochs=1).losses)


@case
def a_run_goes_on_from_its_checkpoints_bit_for_bit():
    x, y = points()
    words = {"batch_size": 32, "schedule": "constant", "validation_split": 0.2}
    whole = koine.Model(small())
    whole.fit((x, y), epochs=4, **words)
    koine.Model(small()).fit((x, y), epochs=2, checkpoints="points", **words)
    later = koine.Model(small())
    history = later.fit((x, y), epochs=4, checkpoints="points", resume=True, **words)
    expect_equal([epoch.epoch for epoch in history.epochs], [3, 4])
    expect((later.predict(x) == whole.predict(x)).all())
    folder = koine.io.Checkpoints("points")
    expect(len(folder) == 3 and folder.newest and folder.best)


@case
def losses_weights_and_rules_are_set():
    x, y = points()
    model = koine.Model("koine 1\ninput x 2\nlinear 8\nrelu\nlogits = linear 2\n")
    model.fit((x, y), epochs=2, class_weights="balanced", groups=[{"pattern": "*.bias", "frozen": True}], clip_norm=1,
              warmup_steps=2, weight_decay=0.01, optimizer="adamw")
    expect((model.states["logits.bias"] == koine.Model(model.text).states["logits.bias"]).all(), "a frozen bias was trained")
    model.fit((x, y), epochs=1, class_weights=[1, 3])
    model.fit((x, np.eye(2)[y]), epochs=1, loss="mse")
    expect("accuracy" not in model.history.history)
    with raises(koine.ShapeError, "'y' has the shape (256,), expected (batch,2)"):
        model.fit((x, y), epochs=1)  # the loss is the one before
    model.fit((x, y), epochs=2, ema=0.9, loss="cross-entropy")
    expect(model.evaluate((x, y)).accuracy > 0)
    rates = koine.Model(small()).fit((x, y), epochs=2, batch_size=64, learning_rate=0.5, schedule="multi-step", milestones=[2, 4]).rates
    expect(np.allclose(rates, [0.5, 0.5, 0.05, 0.05, 0.005, 0.005, 0.005, 0.005]), str(rates))


@case
def precision_and_math_are_chosen():
    x, y = points()
    for words in ({"precision": "float16"}, {"fast_math": False}):
        model = koine.Model(small(), **words)
        model.fit((x, y), epochs=2)
        expect(np.isfinite(model.predict(x)).all())
    with raises(TypeError, "expected True or False"):
        koine.Model(small(), fast_math="faster")


@case
def tables_are_learnt():
    random = np.random.default_rng(2)
    rows = "\n".join(f"{a:.4f},{'ab'[b]},{2 * a + b:.4f}" for a, b in zip(random.uniform(0, 1, 300), random.integers(0, 2, 300)))
    pathlib.Path("table.csv").write_text(f"size,kind,price\n{rows}\n")
    model = koine.Model("table")
    model.fit("csv:table.csv,target=price", epochs=40, validation_split=0.2, learning_rate=0.01)
    expect(model.evaluate("csv:table.csv,target=price").r2 > 0.9)
    model.save("table.safetensors")
    pathlib.Path("more.csv").write_text("kind,size\nb,0.5\na,0.5\n")
    found = koine.Model("table.safetensors").predict("csv:more.csv")
    expect(found.shape == (2, 1) and found[0, 0] > found[1, 0])


@case
def models_for_tables_take_the_sizes_of_arrays():
    x, y = points(64)
    expect_equal(koine.Model("table-classes").fit(x, y, epochs=1).stop_reason, "done")
    model = koine.Model("table")
    model.fit(x, y.astype(np.float32), epochs=1)
    expect_equal((model.settings["inputs"], model.predict(x).shape), (2, (64, 1)))
    with raises(koine.ShapeError, "expected (batch,2)"):
        model.fit(np.ones((4, 3)), np.ones(4), epochs=1)  # it is trained
    with raises(koine.ShapeError, "expected (batch,5)"):
        koine.Model("table", inputs=5).fit(x, y.astype(np.float32), epochs=1)


@case
def models_for_images_take_the_shape_of_arrays():
    random = np.random.default_rng(1)
    for name, shape in (("mlp", (3, 32, 32)), ("mlp", (9,)), ("mlp", (28, 20)), ("lenet", (12, 16)), ("cifar-cnn", (1, 16, 16))):
        x, model = random.random((20, *shape), np.float32), koine.Model(name)
        model.fit(x, np.arange(20) % 5, steps=1)
        expect_equal((model.predict(x).shape, int(np.prod(model.inputs[0].shape[1:]))), ((20, 5), int(np.prod(shape))))
        model.save("sized.safetensors")
        expect((koine.Model("sized.safetensors").predict(x) == model.predict(x)).all())
        with raises(koine.ShapeError, "'x' has the shape"):
            model.fit(random.random((20, 5, 5), np.float32), np.arange(20) % 5, steps=1)  # it is trained
    for model, shape in ((koine.Model("mlp", size=28), (9,)), (koine.Model("lenet"), (9,)), (koine.Model("lenet"), (2, 2)), (koine.Model(small()), (9,))):
        with raises(koine.ShapeError, "'x' has the shape"):
            model.fit(random.random((20, *shape), np.float32), np.arange(20) % 2, steps=1)


@case
def text_is_learnt_and_generated():
    pathlib.Path("book.txt").write_text("the cat sat on the mat and the dog sat on the cat. " * 60)
    model = koine.Model("char-rnn", window=32, width=64)
    model.fit("text:book.txt", steps=60, batch_size=16, learning_rate=0.01)
    found = model.generate("the ", length=30, temperature=0)
    expect_equal(len(found), 30)
    expect(set(found) <= set("the cat sat on the mat and the dog sat on the cat. "))
    model.save("rnn.safetensors")
    expect_equal(koine.Model("rnn.safetensors").generate("the ", length=30, temperature=0), found)
    expect_equal(model.generate("the ", length=20, seed=4), model.generate("the ", length=20, seed=4))
    expect_equal(command("generate", "rnn.safetensors", "--prompt", "the ", "--temperature", "0", "--length", "30").rstrip("\n")[-30:], found)
    with raises(koine.NotFoundError, "'Z'"):
        model.generate("Z")
    with raises(koine.ArgumentError, "no vocabulary"):
        koine.Model("mlp").generate("a")


@case
def models_show_what_they_are():
    model = koine.Model("mlp")
    plan, step = model.plan(batch_size=8, training=False), model.plan(batch_size=8, optimizer="sgd")
    expect("batch = 8" in str(plan) and step.info.steps > plan.info.steps)
    expect(all("<table>" in thing._repr_html_() for thing in (model, plan)))
    expect("linear" in model.summary() and model.flops > 1e5 and model.task == "classification" and model.loss_name == "cross-entropy")
    history = model.fit((X, Y), epochs=1)
    expect("polyline" in history._repr_html_() and "accuracy" in repr(history))
    expect_equal(model.class_names, [str(i) for i in range(10)])
    expect(np.allclose(model.predict_proba(X[:9]).sum(-1), 1, atol=1e-5))


@case
def progress_is_shown_where_tqdm_is():
    try:
        import tqdm  # noqa: F401
    except ImportError:
        done = subprocess.run([sys.executable, "-c", "import koine; koine.Model('mlp').fit('digits:test', epochs=1, batch_size=1000, progress=True)"],
                              capture_output=True, text=True)
        expect(done.returncode == 0 and done.stderr.startswith("epoch 1: loss "), done.stderr)
        return
    done = subprocess.run([sys.executable, "-c", "import koine; koine.Model('mlp').fit('digits:test', steps=9, progress=True)"], capture_output=True, text=True)
    expect(done.returncode == 0 and "9/9" in done.stderr, done.stderr)


@case
def models_are_closed():
    model = koine.Model("mlp")
    model.fit((X, Y), steps=1)
    cores = model._states._core, model._made._core
    model.close()
    expect_equal([core.pointer for core in cores], [None, None])
    expect("closed" in repr(model))
    graph = small()
    model = koine.Model(graph)
    core = model._made._core
    del model
    expect_equal(graph.outputs[0].name, "logits")  # the graph is kept while it is held
    del graph
    expect(core.pointer is None)
    model = koine.Model("mlp")
    model.fit((X, Y), steps=1)
    core, made = model._states._core, model._made._core
    del model
    expect(core.pointer is None and made.pointer is None)


@case
def trainers_are_reached_directly():
    graph = koine.Graph()
    x, y = graph.input("x", "batch,2"), graph.input("y", "batch", "int32")
    logits = x.linear(16).relu().linear(2)
    accuracy = logits.accuracy(y).rename("accuracy")
    trainer = koine.Trainer(logits.cross_entropy(y), optimizer="adamw", learning_rate=0.02, extra=[accuracy], seed=5)
    inputs, labels = points()
    right = np.zeros((), np.float32)
    for _ in range(40):
        with raises(koine.DtypeError, "out of 'accuracy' is int, expected a NumPy array"):
            trainer.step(x=inputs, y=labels, out={"accuracy": 3})
        loss = trainer.step(x=inputs, y=labels, out={"accuracy": right})
    expect(loss < 0.3 and right > 0.9 and trainer.steps == 40 and trainer.learning_rate == 0.02)
    expect(trainer.step(x=inputs, y=labels, wait=False) is None)
    trainer.wait()
    trainer.evaluate({"accuracy": (accuracy, right)}, x=inputs, y=labels)
    expect(right > 0.9)
    module, held = sys.modules["koine.train"], []
    library = module.lib

    class Watched:
        """The library, called with the trainer's lock held."""

        def __getattr__(self, name):
            held.append(trainer._lock._is_owned())
            return getattr(library, name)
    module.lib = Watched()
    expect(trainer.find_not_finite(x=inputs, y=labels) is None)
    module.lib = library
    expect_equal(held, [True])
    trainer.compile(64)
    expect("adamw" in str(trainer.plan()) or trainer.plan().info.steps > 10)
    expect_equal(len(koine.optimizers()), 8)
    dataset = koine.Dataset.from_arrays(x=inputs, y=labels)
    result = trainer.fit(dataset, epochs=12, batch_size=64, train_accuracy="accuracy")
    expect(result.stop_reason == "done" and result.epoch_accuracy > 0.9, str(result))


run()
