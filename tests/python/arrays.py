"""Arrays: types, shapes and memory, and what is refused.

usage: arrays.py HOUSE_FOLDER
"""
from package import case, expect, expect_equal, raises, run

import numpy as np  # noqa: E402

import koine  # noqa: E402
from koine import _arrays  # noqa: E402
from koine._library import ffi, lib  # noqa: E402


def place(array):
    return array.__array_interface__["data"][0]


def doubled():
    return koine.Session(koine.Graph().input("x", "batch,3") * 2)


class Spy:
    """The library, noting the addresses that kn_session_run is given."""

    def __init__(self):
        self.feeds, self.fetches = [], []

    def __getattr__(self, name):
        return getattr(lib, name)

    def kn_session_run(self, session, feeds, feed_count, fetches, fetch_count):
        self.feeds += [int(ffi.cast("uintptr_t", feeds[i].data)) for i in range(feed_count)]
        self.fetches += [int(ffi.cast("uintptr_t", fetches[i].data)) for i in range(fetch_count)]
        return lib.kn_session_run(session, feeds, feed_count, fetches, fetch_count)


@case
def contiguous_float32_goes_in_and_out_without_a_copy():
    from koine import session as module
    session, spy = doubled(), Spy()
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    out = np.empty((4, 3), np.float32)
    module.lib = spy
    try:
        expect(session.run(x=x, out=out) is out)
        made = session.run(x=x)
        session.run(x=np.asfortranarray(x))
    finally:
        module.lib = lib
    expect_equal(spy.feeds[:2], [place(x), place(x)])
    expect_equal(spy.fetches[:2], [place(out), place(made)])
    expect(spy.feeds[2] != place(x), "a Fortran-ordered array was read in place")
    expect((out == 2 * x).all() and (made == out).all())


class Exported:
    """Another library's array, of which DLPack's protocol is all that there is."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **more):
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.device, 0


@case
def dlpack_is_read_in_place():
    from koine import session as module
    session, spy, x = doubled(), Spy(), np.arange(12, dtype=np.float32).reshape(4, 3)
    if not hasattr(np, "from_dlpack"):
        return
    module.lib = spy
    try:
        made = session.run(x=Exported(x))
    finally:
        module.lib = lib
    expect_equal(spy.feeds[:1], [place(x)])
    expect((made == 2 * x).all() and (np.from_dlpack(made) == made).all(), "results give their memory by it, too")
    expect((session.run(x=Exported(x[:, ::-1])) == 2 * x[:, ::-1]).all(), "with steps it is copied")
    with raises(koine.ArgumentError, "Exported", "DLPack type 2", "copy it"):
        session.run(x=Exported(x, 2))


@case
def any_order_of_memory_is_read():
    session, x = doubled(), np.arange(24, dtype=np.float32).reshape(8, 3)
    for array in (np.asfortranarray(x), x[::-1], x[::2], np.flip(x, 1), x.astype(">f4"), x.tolist(), np.broadcast_to(x[:1], (8, 3))):
        expect((session.run(x=array) == 2 * np.asarray(array, np.float32)).all(), repr(array))


@case
def read_only_arrays_are_read_and_not_written():
    session, x = doubled(), np.ones((2, 3), np.float32)
    x.flags.writeable = False
    expect((session.run(x=x) == 2).all())
    with raises(koine.ArgumentError, "read-only"):
        session.run(x=np.ones((2, 3)), out=x)


@case
def empty_arrays_give_empty_results():
    expect_equal(doubled().run(x=np.zeros((0, 3), np.float32)).shape, (0, 3))


@case
def scalars_are_fed():
    graph = koine.Graph()
    expect_equal(float(koine.Session(graph.input("x", "") + 1).run(x=2)), 3.0)


@case
def wrong_shapes_are_refused_with_code_and_text():
    session = doubled()
    for array in (np.ones((2, 4)), np.ones(3), np.ones((1, 2, 3)), np.ones(())):
        with raises(koine.ShapeError, "'x' has the shape (", "expected (batch,3)") as caught:
            session.run(x=array)
        expect_equal((caught.error.code, caught.error.name), (3, "KN_ERROR_SHAPE"))
        expect(isinstance(caught.error, ValueError))
    with raises(koine.ShapeError, "out of"):
        session.run(x=np.ones((2, 3)), out=np.empty((3, 2), np.float32))
    with raises(koine.DtypeError, "out of"):
        session.run(x=np.ones((2, 3)), out=np.empty((2, 3)))
    with raises(koine.NotFoundError, "no input 'y'"):
        session.run(y=np.ones((2, 3)))


@case
def symbols_agree_between_inputs():
    graph = koine.Graph()
    session = koine.Session(graph.input("a", "batch,2") + graph.input("b", "batch,2"))
    expect_equal(session.run(a=np.ones((5, 2)), b=np.ones((5, 2))).shape, (5, 2))
    with raises(koine.ShapeError, "'b' has 4 for 'batch'"):
        session.run(a=np.ones((5, 2)), b=np.ones((4, 2)))


@case
def two_symbols_of_one_input_are_bound_by_its_shape():
    graph = koine.Graph()
    session = koine.Session(graph.input("x", "batch,length") * 2)
    for shape in ((2, 6), (6, 2), (3, 4)):
        expect_equal(session.run(x=np.ones(shape)).shape, shape)


@case
def every_type_goes_through():
    from koine._declarations import WORDS
    for name, number in WORDS["kn_dtype"].items():
        kind = _arrays.numpy_type(number)
        bits = np.arange(12).reshape(4, 3) % 2
        array = bits.astype(kind)
        found = koine.Session(koine.Graph().input("x", "batch,3", name).reshape("-1")).run(x=array)
        expect_equal((found.dtype, found.tobytes()), (kind, array.tobytes()))
        expect_equal(_arrays.type_number(name), number)


@case
def types_are_converted_where_the_meaning_stays():
    session = doubled()
    for kind in ("float64", "float16", "int64", "uint8", "bool"):
        expect_equal(session.run(x=np.ones((2, 3), kind)).dtype, np.dtype("float32"))
    graph = koine.Graph()
    numbers = koine.Session(graph.input("n", "batch", "int32").cast("float32"))
    expect_equal(numbers.run(n=[1, 2, 3]).tolist(), [1.0, 2.0, 3.0])
    with raises(koine.DtypeError, "'n' is float64, expected int32"):
        numbers.run(n=[1.5])
    with raises(koine.DtypeError, "has numbers outside of int32"):
        numbers.run(n=[2**40])
    with raises(koine.DtypeError, "'x'"):
        session.run(x=np.array([["a", "b", "c"]]))


@case
def refused_arrays_leave_all_as_it_was():
    graph = koine.Graph()
    x, kind = graph.input("x", "batch,2"), graph.input("kind", "batch", "int32")
    trainer = koine.Trainer(x.linear(3, name="fc").cross_entropy(kind), optimizer="sgd", learning_rate=0.5)
    good = {"x": np.ones((4, 2), np.float32), "kind": np.arange(4) % 3}
    trainer.step(good)
    states = trainer.states
    before = {name: array.copy() for name, array in states.items()}
    for name, array in (("x", np.ones((4, 3))), ("x", np.ones((3, 2))), ("x", np.ones((4, 2), complex)), ("x", np.array([["a", "b"]] * 4)), ("x", None),
                        ("x", [[1, 2], [3]]), ("kind", np.ones(4)), ("kind", np.full(4, 2**31)), ("kind", np.full(4, -2**31 - 1)), ("kind", np.full(4, 2**63, np.uint64)),
                        ("kind", np.zeros((4, 1), int)), ("more", np.ones(4))):
        try:
            trainer.step({**good, name: array})
        except (koine.KoineError, TypeError, ValueError):
            continue
        raise AssertionError(f"'{name}' was taken as {array!r}")
    for name, array in (("fc.weight", np.ones((2, 3))), ("fc.weight", np.ones(6)), ("fc.weight", np.ones((3, 2), complex)), ("fc.bias", "text"), ("fc.bias", np.ones(0))):
        try:
            states[name] = array
        except (koine.KoineError, TypeError, ValueError):
            continue
        raise AssertionError(f"the state '{name}' was taken as {array!r}")
    expect_equal(trainer.steps, 1)
    for name, array in states.items():
        expect(np.array_equal(array, before[name]), f"the state '{name}' changed")
    session = doubled()
    out = np.full((2, 3), 7, np.float32)
    for wrong in (np.ones((2, 4)), np.ones((3, 3))):
        try:
            session.run(x=wrong, out=out)
        except koine.ShapeError:
            continue
        raise AssertionError("another shape was taken")
    expect((out == 7).all() and (session.run(x=np.ones((2, 3)), out=out) == 2).all())


@case
def parameters_without_elements_are_trained():
    graph = koine.Graph()
    none = graph.parameter("none", "0,3", init=0.0)
    trainer = koine.Trainer(graph.input("x", "batch").mean([0]) + none.sum([0, 1]), optimizer="adam")
    expect_equal([trainer.step(x=[1, 2]) for _ in range(3)], [1.5] * 3)
    late = [trainer.step(x=[1, 2], late=True) for _ in range(3)]
    expect(np.isnan(late[0]) and late[1:] == [1.5] * 2)
    with raises(ValueError, "late excludes"):
        trainer.step(x=[1, 2], late=True, wait=False)
    expect_equal(trainer.states["none"].shape, (0, 3))


@case
def states_are_arrays_by_name():
    graph = koine.Graph()
    session = koine.Session(graph.input("x", "batch,2").linear(3, name="fc"))
    session.states["fc.weight"] = np.ones((3, 2))
    session.compile(x=[[0, 0]])
    expect_equal(sorted(session.states), ["fc.bias", "fc.weight"])
    session.states["fc.bias"] = [1, 2, 3]
    expect_equal(session.run(x=[[1, 2]]).tolist(), [[4.0, 5.0, 6.0]])
    expect_equal(session.states["fc.bias"].tolist(), [1.0, 2.0, 3.0])
    for wanted in (True, False):
        expect_equal(session.states.refresh("fc.bias", [4, 5, 6]), wanted)
        expect_equal(session.states["fc.bias"].tolist(), [4.0, 5.0, 6.0])
    session.states["fc.bias"] = [1, 2, 3]
    expect_equal(session.states.refresh("fc.bias", [4, 5, 6]), True)
    session.states["fc.bias"] = [1, 2, 3]
    with raises(koine.ShapeError, "'fc.bias'"):
        session.states["fc.bias"] = [1, 2]
    with raises(KeyError, "nothing"):
        session.states["nothing"]


@case
def tensors_of_other_programs_are_taken():
    class Tensor:
        """What a tensor of PyTorch looks like."""

        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        cpu = detach

        def numpy(self):
            return self.array
    x = np.ones((2, 3), np.float32)
    expect(_arrays.as_array(Tensor(x)) is x)
    expect((doubled().run(x=Tensor(x)) == 2).all())


@case
def contents_of_states():
    """What contents() returned, also the bits of a type that NumPy lacks; anything else is refused."""
    states, copy = koine.States.on_host(), koine.States.on_host()
    states.fill({"bits": ("bfloat16", np.uint16([[0x3f80, 0x4000]])), "count": ("uint32", np.uint32(7))})
    copy.fill(states.contents())
    expect_equal(copy.contents()["bits"][1].tobytes(), np.uint16([0x3f80, 0x4000]).tobytes())
    expect_equal(copy["count"].shape, ())
    for wrong, word in ((np.zeros(3), "ndarray"), ([1], "list"), ({"a": np.zeros(3)}, "'a'"), ({"a": ("float32",)}, "'a'"),
                        ({"a": ("float32", object())}, "'a'"), ({"a": ("int32", np.float32([1]))}, "'a'")):
        with raises(koine.KoineError, word):
            copy.fill(wrong)


run()
