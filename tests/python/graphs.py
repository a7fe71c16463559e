"""Graphs, operators, sessions and plans.

usage: graphs.py HOUSE_FOLDER
"""
from package import case, expect, expect_equal, raises, run

import numpy as np  # noqa: E402

import koine  # noqa: E402
from koine import ops  # noqa: E402

RANDOM = np.random.default_rng(1)


def computed(build, **arrays):
    """The result of a graph over some inputs."""
    graph = koine.Graph()
    values = {name: graph.input(name, array.shape, array.dtype) for name, array in arrays.items()}
    made = build(**values)
    return koine.Session(made).run(arrays)


@case
def expressions_of_python_are_those_of_numpy():
    x, y = RANDOM.random((2, 3), np.float32) + 1, RANDOM.random(3, np.float32) + 1
    for build in (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x ** y,
                  lambda x, y: 2 * x + 1 - y / 3, lambda x, y: 1 - x, lambda x, y: 2 / y - x, lambda x, y: 2 ** x, lambda x, y: -x,
                  lambda x, y: abs(-x), lambda x, y: x % y, lambda x, y: x[:, 1:], lambda x, y: x[0], lambda x, y: x[..., -1],
                  lambda x, y: x[:, :2] * y[:2], lambda x, y: x > y, lambda x, y: x <= y, lambda x, y: x[1, 0:2]):
        found, wanted = computed(build, x=x, y=y), build(x=x, y=y)
        expect_equal(found.shape, wanted.shape)
        expect(np.allclose(found, wanted, rtol=1e-5), f"{found} is not {wanted}")
    array = np.ones((3, 2), np.float32)
    expect(np.allclose(computed(lambda x: x @ array, x=x), x @ array))
    expect(np.allclose(computed(lambda x: array @ x, x=x), array @ x))


@case
def operators_take_axes_and_shapes_as_numbers():
    x = RANDOM.random((2, 3, 4), np.float32)
    for found, wanted in ((computed(lambda x: x.sum([0, 2]), x=x), x.sum((0, 2))), (computed(lambda x: x.max(-1, keep=True), x=x), x.max(-1, keepdims=True)),
                          (computed(lambda x: x.mean(), x=x), x.mean()), (computed(lambda x: x.transpose([2, 0, 1]), x=x), x.transpose(2, 0, 1)),
                          (computed(lambda x: x.reshape([6, -1]), x=x), x.reshape(6, -1)), (computed(lambda x: x.flip(1), x=x), x[:, ::-1]),
                          (computed(lambda x: ops.concat([x, x * 2], axis=1), x=x), np.concatenate([x, 2 * x], 1)),
                          (computed(lambda x: ops.stack([x, x], axis=0), x=x), np.stack([x, x])),
                          (computed(lambda x: ops.einsum("bij,bkj->bik", [x, x]), x=x), np.einsum("bij,bkj->bik", x, x)),
                          (computed(lambda x: ops.where(x > 0.5, x, 0.0), x=x), np.where(x > 0.5, x, 0)),
                          (computed(lambda x: x.maximum(0.5), x=x), np.maximum(x, 0.5)), (computed(lambda x: x.pad([0, 1, 0, 0, 1, 2]), x=x), np.pad(x, ((0, 0), (1, 1), (0, 2))))):
        expect_equal(found.shape, wanted.shape)
        expect(np.allclose(found, wanted, rtol=1e-5))


@case
def tanh_reaches_1():
    """Some drivers' does not; 1 - tanh(x)^2 is multiplied by what is large in gradients of gelu."""
    x = np.float32([21, -21, 1e4, -np.inf, np.nan, .5])
    expect(np.array_equal(computed(lambda x: x.tanh(), x=x)[:5], [1, -1, 1, -1, np.nan], equal_nan=True))


@case
def indices_out_of_range_are_errors():
    graph = koine.Graph()
    ids, labels = graph.input("ids", "n", "int32"), graph.input("labels", "n", "int32")
    table = graph.parameter("table", "9,4")
    loss = graph.apply("embedding", table, ids).cross_entropy(labels)
    session = koine.Session(loss)
    trainer = koine.Trainer(loss)
    for call in (lambda **feeds: session.run(feeds), lambda **feeds: trainer.step(feeds)):
        call(ids=[0, 8], labels=[3, 0])
        with raises(koine.ArgumentError, "'ids'", "index 9", "element 1", "embedding", "0 to 8"):
            call(ids=[0, 9], labels=[3, 0])
        with raises(koine.ArgumentError, "'labels'", "index -1", "cross_entropy", "0 to 3"):
            call(ids=[0, 8], labels=[-1, 0])
        call(ids=[0, 8], labels=[3, 0])
    graph = koine.Graph()
    loss = graph.apply("cross_entropy_of_product", graph.parameter("x", "2,3"), graph.parameter("w", "5,3"), graph.input("labels", "2", "int32"))
    session = koine.Session(loss)
    session.run({"labels": [4, -100]})
    with raises(koine.ArgumentError, "'labels'", "index 5", "cross_entropy_of_product", "0 to 4"):
        session.run({"labels": [5, 0]})
    # Without an ignored class, no index is one; those that are computed are not checked, but give NaN.
    graph = koine.Graph()
    x, w, labels = graph.parameter("x", "2,3"), graph.parameter("w", "5,3"), graph.input("labels", "2", "int32")
    session = koine.Session(graph.apply("cross_entropy_of_product", x, w, labels - 1, ignored=2**32))
    expect(np.isfinite(session.run({"labels": [4, 1]})))
    for label in (-99, 0, -2**31 + 1, 2**31 - 1):
        expect(np.isnan(session.run({"labels": [4, label]})), f"the loss of class {label - 1}")


def loss_in_float64(x, w, labels, ignored):
    """The sum of the losses, the number of hits, and the gradients of the sum by x and w."""
    logits = x.astype(np.float64) @ w.astype(np.float64).T
    counted = labels != ignored
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    own = np.where(counted, labels, 0)
    loss = -np.log(shares[np.arange(len(own)), own])[counted].sum()
    slopes = (shares - (np.arange(w.shape[0]) == own[:, None])) * counted[:, None]
    return loss, (logits.argmax(1) == own)[counted].sum(), slopes @ w, slopes.T @ x


@case
def the_loss_of_a_product_is_computed_by_slices():
    """By limits that divide neither the rows nor the classes, and with all logits at a time; the same bits in each run."""
    for number in range(8):
        random = np.random.default_rng(number)
        rows, width, classes = (int(random.integers(1, most)) for most in (70, 20, 300))
        limit = int(random.integers(1, 2 * rows * classes))
        ignored = int(random.choice([-100, 0, classes - 1, 2**32]))  # the last is none
        x, w = (random.normal(size=(size, width)).astype(np.float32) for size in (rows, classes))
        labels = random.integers(0, classes, rows).astype(np.int32)
        labels[random.random(rows) < 0.3] = ignored if ignored < classes else 0
        labels[0] = classes // 2
        found = []
        for _ in range(2):
            graph = koine.Graph()
            states = graph.parameter("x", (rows, width)), graph.parameter("w", (classes, width))
            loss = graph.apply("cross_entropy_of_product", *states, graph.input("labels", (rows,), "int32"), limit=limit, ignored=ignored)
            hits = loss.result(1).rename("hits")
            trainer = koine.Trainer(loss, optimizer="sgd", learning_rate=1.0, extra=[hits])
            trainer.states["x"], trainer.states["w"] = x, w
            right = np.zeros((), np.float32)
            value = trainer.step(labels=labels, out={"hits": right})
            found.append([np.float32(value), right, x - trainer.states["x"], w - trainer.states["w"]])
        for one, other, wanted in zip(*found, loss_in_float64(x, w, labels, ignored)):
            expect(np.array_equal(one, other), "the bits differ")
            expect(np.allclose(one, wanted, rtol=1e-5, atol=2e-6 * max(1, np.abs(wanted).max())), f"{number}: {np.abs(one - wanted).max()}")


@case
def losses_of_many_classes_are_exact_in_16_bits():
    """Class indices and the logarithms of sums are not rounded to 16 bits, in which large indices are the same."""
    random = np.random.default_rng(7)
    rows, width, classes = 37, 48, 4105
    x, w = (random.normal(size=(size, width)).astype(np.float32) for size in (rows, classes))
    labels = random.integers(0, classes, rows).astype(np.int32)
    labels[0] = classes - 1
    total, _, dx, dw = loss_in_float64(x, w, labels, -100)
    for precision, most in (("bfloat16", 0.012), ("float16", 0.0015)):
        # Slices: one, several, and of parts of the rows; and all logits, with class weights.
        for limit in (rows * classes, 50000, 3000, 0):
            graph = koine.Graph()
            rounded = graph.parameter("x", (rows, width)) + graph.input("zero", (rows, width))  # 16 bits, since it depends on an input
            weight, given = graph.parameter("w", (classes, width)), graph.input("labels", (rows,), "int32")
            if limit:
                loss = graph.apply("cross_entropy_of_product", rounded, weight, given, limit=limit) / float(rows)
            else:
                logits = graph.apply("matmul", rounded, weight, transpose_b=1)
                loss = logits.cross_entropy(given, class_weights=np.ones(classes, np.float32))
            trainer = koine.Trainer(loss, optimizer="sgd", learning_rate=1.0, precision=precision)
            trainer.states["x"], trainer.states["w"] = x, w
            value = trainer.step(labels=labels, zero=np.zeros_like(x))
            found = value, x - trainer.states["x"], w - trainer.states["w"]
            errors = [np.linalg.norm(one - other) / np.linalg.norm(other) for one, other in zip(found, (total / rows, dx / rows, dw / rows))]
            expect(max(errors) < most, f"{precision}, at most {limit} logits: {errors}")
        graph = koine.Graph()
        logits = (graph.input("x", (rows, width)) @ graph.input("w", (width, classes))).cast(precision)
        loss = koine.ops.nll(logits.log_softmax(), graph.input("labels", (rows,), "int32"))
        found = float(koine.Session(loss.cast("float32")).run(x=x, w=w.T.copy(), labels=labels))
        expect(abs(found * rows / total - 1) < most, f"nll of {precision}: {found}, expected {total / rows}")


@case
def what_a_cast_drops_is_dropped_in_fused_kernels():
    """Between nodes of one kernel, too, where numbers are in variables of 32 bits."""
    numbers = np.array([300, -7, 182, 256, 40000, -40000], np.int32)
    for name in ("int8", "uint8", "int16", "uint16"):
        wanted = numbers.astype(name).astype(np.int32)
        expect_equal(computed(lambda x: x.cast(name).cast("int32") + 1, x=numbers).tolist(), (wanted + 1).tolist())
    small = numbers.astype(np.uint8)
    expect_equal(computed(lambda x: (x + x).cast("int32") * 2, x=small).tolist(), ((small + small).astype(np.int32) * 2).tolist())
    a, b = np.full((3, 5), 300, np.float32), np.full((5, 4), 1.2345, np.float32)
    for cast, wanted in (("float16", np.inf), ("bfloat16", 139264)):
        found = computed(lambda a, b: (a * 15.).matmul(b * 5.).cast(cast).cast("float32").relu() * 1., a=a, b=b)
        expect(np.allclose(found, wanted, rtol=1e-4), f"{found}, expected {wanted}")


@case
def operators_of_gradients_are_checked():
    x, dy = np.ones((2, 3, 5, 4), np.float32), np.ones((2, 6, 3, 2), np.float32)
    made = computed(lambda dy, x: dy.graph.apply("conv2d_weight", dy, x, size=[3, 3]), dy=dy, x=x)
    expect_equal((made.shape, made[0, 0, 0, 0]), ((6, 3, 3, 3), 12.0))
    y = np.float32([[0.25, 0.75]])
    expect(np.allclose(computed(lambda y, g: y.graph.apply("softmax_gradient", y, g), y=y, g=np.float32([[1, 0]])), [[0.1875, -0.1875]]))
    for build in (lambda dy, x: dy.graph.apply("conv2d_weight", dy, x, size=[2, 3]), lambda dy, x: dy.graph.apply("conv2d_weight", dy, x, size=[3, 3], padding=1),
                  lambda dy, x: dy.graph.apply("conv2d_weight", dy, x[:1], size=[3, 3]), lambda dy, x: dy.graph.apply("conv2d_data", dy, x[:, :, :3, :3], size=[5, 4]),
                  lambda dy, x: dy.graph.apply("conv2d_weight", dy, x, size=[3, 3], groups=2), lambda dy, x: dy.graph.apply("average_pool_data", dy, size=[9, 4]),
                  lambda dy, x: dy.graph.apply("average_pool_data", dy, size=[5, 4], output=[2, 2]),
                  lambda dy, x: dy.graph.apply("layer_norm_gradient", x, x, x[0, 0, 0], x[:, :, :, 0], x[:, :, 0, 0])):
        with raises(koine.ShapeError):
            computed(build, dy=dy, x=x)
    graph = koine.Graph()
    with raises(koine.ShapeError, "must be numbers"):
        graph.apply("softmax_gradient", graph.input("y", "batch,2"), graph.input("g", "batch,2"))


@case
def operators_have_several_results():
    x = np.float32([[3, 1, 2], [1, 5, 4]])
    graph = koine.Graph()
    value = graph.input("x", "batch,3")
    best, places = value.top_k(2, places=True)
    parts = value.split(1, [1, 2])
    session = koine.Session({"best": best, "places": places, "last": parts[1]})
    found = session.run(x=x)
    expect_equal({name: array.tolist() for name, array in found.items()},
                 {"best": [[3, 2], [5, 4]], "places": [[0, 2], [1, 2]], "last": [[1, 2], [5, 4]]})
    sequence, final, cells = graph.input("s", "batch,5,3").lstm(4, final=True, final_cells=True)
    expect_equal((sequence.shape, final.shape, cells.shape), (("batch", 5, 4), (1, "batch", 4), (1, "batch", 4)))


@case
def layers_take_params_as_keywords():
    graph = koine.Graph()
    x = graph.input("x", "batch,3,8,8")
    y = x.conv(16, 3, stride=2, padding=1, weight=("kaiming-normal", 1.4), bias=0.5, name="first").batch_norm(momentum=0.2)
    expect_equal(y.shape, ("batch", 16, 4, 4))
    expect_equal(y.max_pool([2, 4], stride=[1, 2]).shape, ("batch", 16, 3, 1))
    session = koine.Session(y)
    session.compile(x=np.empty((1, 3, 8, 8), np.float32))
    expect_equal(session.states["first.bias"].tolist(), [0.5] * 16)
    with raises(TypeError, "strides"):
        x.conv(16, 3, strides=2)
    with raises(ValueError, "there is no initializer kind 'kaiming'"):
        graph.parameter("w", (3, 3), init="kaiming")


@case
def errors_of_graphs_are_raised_where_they_are_made():
    graph = koine.Graph()
    x = graph.input("x", "batch,3")
    with raises(koine.ArgumentError, "another graph"):
        x + koine.Graph().input("x", "batch,3")
    with raises(TypeError, "at least one koine.Value"):
        ops.add(1, 2)
    with raises(TypeError, "no truth"):
        bool(x > 1)
    with raises(koine.ShapeError, "does not broadcast"):
        x + x.linear(4)
    with raises(koine.ShapeError, "does not broadcast"):
        koine.Session(x.relu())  # the graph keeps its error


@case
def results_have_the_shapes_of_each_run():
    """Also if the session has computed others in the meantime, and if a symbol's number does not come from an input."""
    graph = koine.Graph()
    x = graph.input("x", "batch,2")
    session = koine.Session({"twice": x * 2, "wide": koine.ops.expand(x.reshape("batch,1,2"), "batch,copies,2")})
    session.bind(copies=2)

    def check(batch, copies):
        given = np.arange(2 * batch, dtype=np.float32).reshape(batch, 2)
        found = session.run(x=given)
        expect_equal(found["twice"].tolist(), (2 * given).tolist())
        expect_equal(found["wide"].tolist(), np.repeat(given[:, None], copies, 1).tolist())

    for batch in (3, 3, 1, 3):
        check(batch, 2)
    session.start(x=np.zeros((5, 2), np.float32))
    check(3, 2)
    session.compile(x=np.zeros((4, 2), np.float32))
    check(3, 2)
    session.bind(copies=4)
    check(3, 4)
    with raises(koine.ShapeError, "'x' has the shape (3,3)"):
        session.run(x=np.zeros((3, 3), np.float32))
    check(3, 4)


@case
def any_operator_is_applied_by_name():
    x = np.float32([-1, 2])
    expect_equal(computed(lambda x: x.graph.apply("leaky_relu", x, slope=0.5), x=x).tolist(), [-0.5, 2.0])
    with raises(koine.KoineError, "leaky_rely"):
        computed(lambda x: x.graph.apply("leaky_rely", x), x=x)


@case
def custom_operators_are_computed_and_verified():
    bump = koine.Operator.pointwise("bump", "exp(-x / width)", ["-g * r / width"], attributes="width=0.5")
    expect(np.allclose(computed(lambda x: x.graph.apply(bump, x, width=2), x=np.float32([2, 4])), np.exp([-1, -2])))
    expect_equal(bump.verify(koine.default_context(), {"inputs": "3,7"})[1], 0)
    scaled = koine.Operator.kernel("twice", "kernel void twice(global const KN_T *x, global KN_T *y, KN_INDEX n) {"
                                   " const KN_INDEX i = get_global_id(0); if (i < n) y[i] = 2 * x[i]; }", "n", "n", "n")
    expect_equal(computed(lambda x: x.graph.apply(scaled, x), x=np.float32([1, 2])).tolist(), [2.0, 4.0])
    with raises(koine.KoineError, "bad"):
        koine.Operator.pointwise("bad", "x +")


@case
def gradients_and_references_of_kernels_are_functions_of_python():
    source = """kernel void squared(global const KN_T *x, global KN_T *y, KN_INDEX n, float factor) {
        const KN_INDEX i = get_global_id(0); if (i < n) y[i] = factor * x[i] * x[i]; }"""

    def reference(inputs, results, attributes):
        results[0][...] = attributes[0] * inputs[0] ** 2
    squared = koine.Operator.kernel("squared", source, "n", "n", "n", attributes="factor=3.0", reference=reference,
                                    gradient=lambda inputs, results, gradients: [gradients[0] * inputs[0] * 6.0])
    passed, failed = squared.verify(koine.default_context(), {"inputs": "17"})
    expect(passed > 0 and failed == 0, f"{passed} passed, {failed} failed")
    graph = koine.Graph()
    x, weight = graph.input("x", "4"), graph.parameter("w", "4", init=1.0)
    trainer = koine.Trainer(graph.apply(squared, x * weight).sum(), optimizer="sgd", learning_rate=0.1, momentum=0)
    squared.close()
    expect_equal(trainer.step(x=np.float32([1, 0, 0, 2]), count=1), 15.0)
    expect(np.allclose(trainer.states["w"], [1 - 0.6, 1, 1, 1 - 2.4], atol=1e-6), str(trainer.states["w"]))


@case
def graphs_are_inspected():
    graph = koine.Graph()
    with graph.scope("block"):
        y = graph.input("x", ("batch", 4)).linear(2, name="fc").output("y")
    expect_equal([value.name for value in graph.parameters], ["block.fc.weight", "block.fc.bias"])
    expect_equal([value.name for value in graph.inputs + graph.outputs], ["block.x", "block.y"])
    expect_equal((y.dtype, y.shape, y.rank), ("float32", ("batch", 2), 2))
    expect(graph.find("block.fc.bias") is not None and graph.find("nothing") is None)


@case
def plans_are_text_and_parts():
    graph = koine.Graph()
    session = koine.Session(graph.input("x", "batch,4").linear(3).relu().rename("y"))
    session.compile(x=np.empty((2, 4), np.float32))
    plan = session.plan()
    expect("matmul" in str(plan) and "<table>" in plan._repr_html_() and plan.info.peak_bytes > 0)
    expect_equal(len(plan.steps), plan.info.steps)
    expect(any("matmul" in step.label for step in plan.steps) and len(plan.passes) > 3)
    expect_equal(session.info("y"), ("float32", (2, 3)))


@case
def keywords_that_do_not_exist_are_refused():
    graph = koine.Graph()
    y = graph.input("x", "batch,4").relu()
    with raises(TypeError, "'fast_maths'; did you mean 'fast_math'?"):
        koine.Session(y, fast_maths=True)
    with raises(ValueError, "there is no precision 'float17'; did you mean 'float16'?"):
        koine.Session(y, precision="float17")


@case
def devices_are_joined_and_values_pinned():
    context = koine.Context("cpu")
    context.join("other", koine.Context("cpu"))
    expect_equal(list(context.devices), ["main", "other"])
    graph = koine.Graph()
    x = graph.input("x", "batch,3")
    with graph.pinned("other"):
        y = x.relu()
    expect_equal(graph.pins, ["other"])
    session = koine.Session(y * 2, context)
    expect_equal(session.run(x=[[-1, 0, 1]]).tolist(), [[0, 0, 2]])
    expect_equal({step.device for step in session.plan().steps if step.kernel != "copy"} >= {"main", "other"}, True)


@case
def devices_are_verified():
    begun = []
    passed, failed = koine.default_context().verify("relu,softmax", begin=begun.append, thoroughness=2)
    expect_equal(begun, ["relu", "softmax"])
    expect(passed > 0 and failed == 0, f"{passed} passed, {failed} failed")
    expect(len(koine.debug.verify_cases()) > 100)
    with raises(koine.NotFoundError):
        koine.default_context().verify("nothing")


@case
def contexts_say_what_they_are():
    context = koine.Context("cpu", timeline=True)
    expect(context.device.usable and context.capabilities.compute_units > 0 and "table" in context._repr_html_())
    session = koine.Session(koine.Graph().input("x", "batch").exp(), context)
    session.run(x=[1.0])
    expect(any("exp" in entry.label for entry in context.timeline(clear=True)) and context.timeline() == [])
    expect(context.counts.device_bytes > 0 and context.clock > 0)
    expect_equal(context.matrix_unit("float16"), "none" if context.capabilities.wide_vector else context.matrix_unit("float16"))
    expect_equal(context.matrix_unit_of("float16"), context.matrix_unit("float16"))
    expect_equal(context.matrix_unit_of("float64"), "none")
    with raises(koine.NoDeviceError, "nothing-like-it"):
        koine.Context("nothing-like-it")


run()
