"""koine.sklearn: the estimators by themselves, and with scikit-learn if it is installed.

usage: estimators.py HOUSE_FOLDER
"""
import copy
import importlib.util
import os
import pickle

from package import Skipped, case, expect, expect_equal, raises, run, script

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before scipy is imported

import numpy as np  # noqa: E402

import koine  # noqa: E402
from koine.sklearn import Classifier, Regressor  # noqa: E402

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(3, 20, (240, 3)) * [1, 10, 0.1]
KIND = np.array(["low", "mid", "high"])[np.digitize((X - X.mean(0)) @ (1 / X.std(0)), [-1, 1])]
NUMBER = (X / X.std(0)) @ [1, -2, 3] * 50 + 7


@case
def classes_of_any_kind_are_learnt():
    for labels in (KIND, (KIND == "low"), np.where(KIND == "low", 7, -3)):
        estimator = Classifier(epochs=40, learning_rate=0.01).fit(X, labels)
        expect(estimator.score(X, labels) > 0.9, f"{estimator.score(X, labels)}")
        expect_equal(estimator.predict(X[:5]).dtype, np.unique(labels).dtype)
        shares = estimator.predict_proba(X[:9])
        expect_equal(shares.shape, (9, len(np.unique(labels))))
        expect(np.allclose(shares.sum(1), 1, atol=1e-5))


@case
def numbers_are_learnt():
    for y in (NUMBER, NUMBER.astype(int).tolist()):
        estimator = Regressor(epochs=60, learning_rate=0.01).fit(X, y)
        expect(estimator.score(X, y) > 0.95, f"{estimator.score(X, y)}")
        expect_equal(estimator.predict(X).shape, (240,))

    def network(features, outputs):
        graph = koine.Graph()
        graph.input("x", ("batch", features)).linear(outputs).output("y_hat")
        return graph
    both = np.stack([NUMBER, -NUMBER], 1)
    expect(Regressor(network, epochs=60, learning_rate=0.05).fit(X, both).predict(X).shape == both.shape)


@case
def wrong_input_is_refused():
    with raises(Exception, "not fitted"):
        Classifier().predict(X)
    with raises(ValueError, "2D array"):
        Classifier().fit(X[:, 0], KIND)
    with raises(ValueError, "NaN"):
        Regressor().fit(np.where(X > 0, X, np.nan), NUMBER)
    with raises(ValueError, "one class"):
        Classifier().fit(X, np.zeros(240))
    with raises(ValueError, "samples"):
        Classifier().fit(X, KIND[:5])
    with raises(ValueError, "expecting 3 features"):
        Regressor(epochs=1).fit(X, NUMBER).predict(X[:, :2])


@case
def parameters_are_read_and_set():
    estimator = Classifier(epochs=3)
    expect_equal(estimator.get_params()["epochs"], 3)
    expect_equal(estimator.set_params(epochs=4, batch_size=8).get_params()["batch_size"], 8)
    with raises(ValueError, "epoch"):
        estimator.set_params(epoch=4)


@case
def samples_have_weights():
    """Integers are repetitions, to the same bits; others multiply losses."""
    random = np.random.default_rng(3)
    times, order = random.integers(0, 3, 240), random.permutation(240)
    for kind, y in ((Classifier, KIND), (Regressor, NUMBER)):
        repeated = kind(epochs=3).fit(X.repeat(times, axis=0), y.repeat(times))
        weighted = kind(epochs=3).fit(X[order], y[order], sample_weight=times[order])
        expect((repeated.predict(X) == weighted.predict(X)).all())
    rare = np.where(KIND == "mid", 1e-3, 1.5)
    expect((Classifier(epochs=30, learning_rate=0.01).fit(X, KIND, sample_weight=rare).predict(X) == "mid").mean() < 0.1)
    twice = np.concatenate([NUMBER, -NUMBER])
    estimator = Regressor(epochs=60, learning_rate=0.01).fit(np.tile(X, (2, 1)), twice, sample_weight=np.repeat([1.25, 1e-3], 240))
    expect(estimator.score(X, NUMBER) > 0.9, f"{estimator.score(X, NUMBER)}")
    expect(estimator.score(np.tile(X, (2, 1)), twice, sample_weight=np.repeat([1, 0], 240)) > 0.9)
    for wrong, part in (([1, 2], "sample_weight.shape"), (np.full(240, -1), "Negative"), (np.zeros(240), "non-zero"), (np.full(240, np.nan), "NaN")):
        with raises(ValueError, part):
            Classifier().fit(X, KIND, sample_weight=wrong)


@case
def the_loss_of_weighted_samples_is_that_of_the_reference():
    random = np.random.default_rng(4)
    x, w = random.normal(size=(32, 5)).astype(np.float32), random.uniform(0.1, 3, 32)
    graph = koine.Graph()
    graph.input("x", "batch,5").linear(4, name="one").output("logits")
    for model, y, loss, more in ((koine.Model(graph), random.integers(0, 4, 32), "cross-entropy", {}),
                                 (koine.Model(graph), random.integers(0, 4, 32), "cross-entropy", {"class_weights": [1, 2, 0.5, 3]}),
                                 (koine.Model(graph), random.normal(size=(32, 4)), "mse", {}),
                                 (koine.Model(graph), random.normal(size=(32, 4)), "l1", {}),
                                 (koine.Model(graph), random.integers(0, 2, (32, 4)), "binary-cross-entropy", {})):
        z = model.predict(x).astype(np.float64)
        if loss == "cross-entropy":
            logs = z - np.log(np.exp(z).sum(1, keepdims=True))
            rows = -logs[np.arange(32), y] * np.asarray(more.get("class_weights", np.ones(4)))[y]
        else:
            rows = {"mse": (z - y) ** 2, "l1": abs(z - y), "binary-cross-entropy": np.log1p(np.exp(z)) - z * y}[loss].mean(1)
        found = model.fit(x, y, sample_weight=w, loss=loss, steps=1, batch_size=32, **more).losses[0]
        expect(abs(found - (rows * w).sum() / w.sum()) < 1e-5, f"{loss}: {found}, {(rows * w).sum() / w.sum()}")
    graph = koine.Graph()
    graph.input("x", "batch,5").linear(4, name="one").softmax().output("shares")
    model = koine.Model(graph)
    rows, y = -np.log(model.predict(x).astype(np.float64)), random.integers(0, 4, 32)
    found = model.fit(x, y, sample_weight=w, steps=1, batch_size=32).losses[0]
    expect(abs(found - (rows[np.arange(32), y] * w).sum() / w.sum()) < 1e-5)
    for call, part in ((lambda: koine.Model(graph).fit(x, x[:, :4], sample_weight=w, loss="huber", steps=1), "does not support sample weights"),
                       (lambda: model.fit(x, y, sample_weight=w[:5], steps=1), "sample_weight has the shape"),
                       (lambda: model.fit(lambda: [(x, y)], sample_weight=w, steps=1), "needs all samples"),
                       (lambda: model.fit(koine.Dataset.from_arrays(x=x, y=y), sample_weight=w, steps=1), "needs arrays")):
        with raises(Exception, part):
            call()


@case
def classes_have_weights():
    for weights in ({"mid": 1e-4}, {"mid": 1e-4, "low": 1}):
        expect((Classifier(epochs=30, learning_rate=0.01, class_weight=weights).fit(X, KIND).predict(X) == "mid").mean() < 0.1)
    few = np.concatenate([np.flatnonzero(KIND == "mid"), np.flatnonzero(KIND == "low")[:5]])
    estimator = Classifier(epochs=30, learning_rate=0.01, class_weight="balanced").fit(X[few], KIND[few])
    expect((estimator.predict(X[few]) == "low").sum() >= 5)
    with raises(ValueError, "expected 'balanced'"):
        Classifier(class_weight="equal").fit(X, KIND)


@case
def several_labels_and_targets_are_learnt():
    scaled = (X - X.mean(0)) / X.std(0)
    labels = np.stack([scaled[:, 0] > 0, scaled[:, 1] > 0, scaled[:, 2] > 1, scaled[:, 0] > 1], 1).astype(int)
    estimator = Classifier(epochs=60, learning_rate=0.01).fit(X, labels)
    expect(estimator.score(X, labels) > 0.9, f"{estimator.score(X, labels)}")
    shares = estimator.predict_proba(X)
    expect(shares.shape == labels.shape and (estimator.predict(X) == (shares > 0.5)).all() and 0 <= shares.min() and shares.max() <= 1)
    with raises(ValueError, "label"):
        Classifier().fit(X, np.stack([KIND, KIND], 1))
    both = np.stack([NUMBER, scaled.sum(1)], 1)
    estimator = Regressor(epochs=60, learning_rate=0.01).fit(X, both)
    expect(estimator.score(X, both) > 0.95 and estimator.predict(X).shape == both.shape, f"{estimator.score(X, both)}")


@case
def parts_of_the_data_are_learnt_in_turn():
    estimator = Classifier(learning_rate=0.01)
    with raises(ValueError, "classes must be passed"):
        estimator.partial_fit(X, KIND)
    for turn in range(30):
        estimator.partial_fit(X[turn % 2::2], KIND[turn % 2::2], classes=np.unique(KIND))
    expect(estimator.score(X, KIND) > 0.9, f"{estimator.score(X, KIND)}")
    for words, part in (({"classes": ["a", "b"]}, "last call"), ({}, "not in `classes`")):
        with raises(ValueError, part):
            estimator.partial_fit(X, np.where(KIND == "low", "none", KIND), **words)
    estimator = Regressor(learning_rate=0.01)
    for turn in range(30):
        estimator.partial_fit(X[turn % 2::2], NUMBER[turn % 2::2])
    expect(estimator.score(X, NUMBER) > 0.9, f"{estimator.score(X, NUMBER)}")
    with raises(ValueError, "columns"):
        estimator.partial_fit(X, np.stack([NUMBER, NUMBER], 1))


@case
def random_states_are_seeds():
    def shares(**words):
        return Classifier(epochs=1, **words).fit(X, KIND).predict_proba(X[:1]).tolist()
    expect_equal(shares(random_state=3), shares(seed=3))
    expect_equal(shares(random_state=np.random.RandomState(3)), shares(random_state=np.random.RandomState(3)))
    expect(shares(random_state=3) != shares(random_state=4))


@case
def estimators_are_copied_and_pickled():
    for kind, y in ((Classifier, KIND), (Regressor, NUMBER)):
        estimator = kind(epochs=2).fit(X, y)
        for other in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
            expect((other.predict(X) == estimator.predict(X)).all())
            expect_equal(len(other.history_.losses), len(estimator.history_.losses))
        with raises(Exception, "not fitted"):
            pickle.loads(pickle.dumps(kind())).predict(X)
    if importlib.util.find_spec("joblib"):
        import joblib
        joblib.dump(estimator, "estimator.joblib")
        expect((joblib.load("estimator.joblib").predict(X) == estimator.predict(X)).all())
        os.remove("estimator.joblib")


@case
def they_work_without_scikit_learn():
    script("""
import sys
sys.modules["sklearn"] = None
import numpy as np
from koine.sklearn import Classifier, Regressor
x = np.random.default_rng(1).normal(size=(80, 2))
y = np.where(x[:, 0] > 0, "a", "b")
estimator = Classifier(epochs=30, learning_rate=0.02).fit(x, y)
assert estimator.score(x, y, sample_weight=np.ones(80)) > 0.9 and estimator.get_params()["epochs"] == 30
assert Regressor(epochs=30, learning_rate=0.02).fit(x, x).score(x, x) > 0.8
class Sparse:
    def toarray(self): return x
for kind, words, part in ((Classifier, (x, None), "requires y"), (Classifier, (x, x[:, 0]), "continuous"), (Classifier, (x[:, 0], y), "Reshape your data"),
                          (Regressor, (x * 1j, x), "Complex"), (Regressor, (x[:0], x[:0]), "0 sample(s)"), (Regressor, (x[:, :0], x), "0 feature(s)"),
                          (Regressor, (x, np.where(x > 0, x, np.inf)), "infinity"), (Regressor, (Sparse(), x), "Sparse data")):
    try:
        kind().fit(*words)
    except (ValueError, TypeError) as error:
        assert part in str(error), error
    else:
        raise AssertionError(part)
""")


@case
def scikit_learn_finds_no_fault():
    if not importlib.util.find_spec("sklearn"):
        raise Skipped("scikit-learn is not installed")
    import warnings
    from sklearn.utils import estimator_checks
    if not hasattr(estimator_checks, "estimator_checks_generator"):
        raise Skipped("this scikit-learn is older than 1.6")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (Classifier, Regressor):
            results = estimator_checks.check_estimator(kind(), on_fail=None, on_skip=None)
            failed = [f"{result['check_name']}: {result['exception']}"[:300] for result in results if result["status"] == "failed"]
            expect(len(results) > 50 and not failed, "\n".join(failed))


@case
def scikit_learn_uses_them():
    if not importlib.util.find_spec("sklearn"):
        raise Skipped("scikit-learn is not installed")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    scores = cross_val_score(Classifier(epochs=30, learning_rate=0.01), X, KIND, cv=3)
    expect(scores.min() > 0.8, str(scores))
    pipeline = make_pipeline(StandardScaler(), Regressor(epochs=30, learning_rate=0.01))
    expect(clone(pipeline).fit(X, NUMBER).score(X, NUMBER) > 0.9)
    search = GridSearchCV(Classifier(epochs=10), {"learning_rate": [1e-5, 0.02]}, cv=2).fit(X, KIND)
    expect_equal(search.best_params_, {"learning_rate": 0.02})


run()
