"""koine.sklearn: the estimators alone, and with scikit-learn where that is installed.

usage: estimators.py HOUSE_FOLDER
"""
import importlib.util

from package import Skipped, case, expect, expect_equal, raises, run

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
    expect_equal(estimator.set_params(epochs=4, batch=8).get_params()["batch"], 8)
    with raises(ValueError, "epoch"):
        estimator.set_params(epoch=4)


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
