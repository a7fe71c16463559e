"""Handles: closed in any order and at the end of the interpreter, forks, threads, and the library's absence.

usage: handles.py HOUSE_FOLDER
"""
import gc
import os
import threading
import time

from package import Skipped, case, expect, expect_equal, raises, run, script

import numpy as np  # noqa: E402

import koine  # noqa: E402


def parts():
    context = koine.Context("cpu")
    graph = koine.Graph()
    y = graph.input("x", "batch,3").linear(2)
    return context, graph, y, koine.Session(y, context)


@case
def handles_are_closed_in_any_order():
    x = np.ones((2, 3), np.float32)
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
        context, graph, _, session = parts()
        states, handles = session.states, (context, graph, session)
        for position in order:
            handles[position].close()
            handles[position].close()
            expect(handles[position].closed)
            if not session.closed:
                expect_equal(session.run(x=x).shape, (2, 2))
        with raises(koine.ClosedError, "this Session is closed"):
            session.run(x=x)
        states.close()
        expect(context._core.pointer is None and session._core.pointer is None, "something is still open")


@case
def what_nothing_refers_to_is_closed():
    context, graph, y, session = parts()
    cores = [context._core, graph._core, session._core]
    del context, graph, y, session
    gc.collect()
    expect_equal([core.pointer for core in cores], [None] * 3)
    with koine.Graph() as graph:
        core = graph._core
    expect(core.pointer is None)


@case
def a_cycle_is_closed():
    context, graph, y, session = parts()
    session.itself, context.session = [session, context], session
    core = context._core
    del context, graph, y, session
    gc.collect()
    expect(core.pointer is None)


@case
def the_end_of_the_interpreter_closes_the_rest():
    script("""
import koine, numpy as np, sys
context = koine.Context("cpu"); graph = koine.Graph(); y = graph.input("x", "batch,3").linear(2)
session = koine.Session(y, context); session.run(x=np.ones((2, 3)))
keep = [context, session, graph]; keep.append(keep)
sys.modules["kept"] = keep
class Late:
    def __del__(self): self.session.close()
late = Late(); late.session = session
""")


@case
def a_forked_child_is_refused():
    if not hasattr(os, "fork"):
        raise Skipped("this system has no fork")
    out = script("""
import os, threading, time, koine
context = koine.Context("cpu"); graph = koine.Graph(); session = koine.Session(graph.input("x", "batch,3").relu(), context)
# Another thread is in a call of the session.
threading.Thread(target=lambda: (session._core.lock.acquire(), time.sleep(2), session._core.lock.release())).start()
time.sleep(0.2)
child = os.fork()
if not child:
    for use in (lambda: session.run(x=[[1, 2, 3]]), lambda: graph.input("z", ""), lambda: context.device,
                lambda: koine.Context("cpu"), koine.devices, lambda: koine.Session(graph.inputs[0].relu(), context)):
        try:
            use()
            print("used", flush=True)
        except koine.ForkError as error:
            assert "spawn" in str(error)
    session.close(); context.close()
    del session, context
    print("child", flush=True)
    raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
session.run(x=[[1, 2, 3]])
print("parent")
""")
    expect_equal(out, "child\nparent\n")


@case
def a_fork_before_the_first_device_is_free():
    out = script("""
import os, koine
child = os.fork()
koine.Session(koine.Graph().input("x", "batch").relu(), koine.Context("cpu")).run(x=[1])
if child: assert os.waitpid(child, 0)[1] == 0; print("both")
""")
    expect_equal(out, "both\n")


@case
def the_interpreter_runs_while_the_device_works():
    """Another thread counts during a long run."""
    graph = koine.Graph()
    x = y = graph.input("x", "batch,512,512")
    for _ in range(8):
        y = y @ x
    session = koine.Session(y.sum())
    array = np.zeros((8, 512, 512), np.float32)
    session.run(x=array)
    counted, working = [0], [True]

    def count():
        while working[0]:
            counted[0] += 1
            time.sleep(0.0005)
    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    session.run(x=array)
    working[0] = False
    thread.join()
    expect(counted[0] > before + 2, f"the other thread counted from {before} to {counted[0]} only")


@case
def threads_have_their_sessions_on_one_context():
    context, wrong = koine.Context("cpu"), []

    def work(number):
        graph = koine.Graph()
        session = koine.Session(graph.input("x", "batch") * number, context)
        for turn in range(20):
            if session.run(x=[turn])[0] != turn * number:
                wrong.append((number, turn))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_equal(wrong, [])


@case
def threads_may_share_a_session_in_turn():
    _, _, _, session = parts()
    wanted = session.run(x=np.ones((2, 3)))
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(session.run(x=np.ones((2, 3))), wanted):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_equal(wrong, [])


@case
def threads_may_share_a_model():
    """Batches of many sizes, and sessions that are made when they are first used."""
    x = np.random.default_rng(1).random((40, 1, 28, 28), np.float32)
    wanted = koine.Model("mlp").predict(x)
    model, wrong = koine.Model("mlp"), []

    def work(number):
        try:
            for turn in range(15):
                count = 1 + (7 * number + 3 * turn) % 40
                found = model.predict(x[:count], batch_size=1 + (number + turn) % 9)
                if not np.allclose(found, wanted[:count], atol=1e-5):
                    wrong.append((number, turn))
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}"[:200])
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_equal(wrong, [])


@case
def a_model_predicts_while_another_thread_trains_it():
    x, y = np.random.default_rng(1).random((64, 1, 28, 28), np.float32), np.arange(64) % 10
    model, wrong, working = koine.Model("mlp"), [], [True]

    def work():
        try:
            while working[0]:
                model.predict(x[:5])
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}"[:200])
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for data in ((x, y), lambda: iter([(x, y)] * 3)):
            model.fit(data, epochs=3, batch_size=16, on_epoch=lambda epoch: model.evaluate(x, y) and None)
    finally:
        working[0] = False
    for thread in threads:
        thread.join()
    expect_equal(wrong, [])


@case
def what_is_dropped_during_a_call_is_closed_after_it():
    from koine import _handle
    graph = koine.Graph()
    core = graph._core
    with _handle.quiet_callback():
        del graph
        expect(core.pointer is not None, "it was closed in a callback that must not call the library")
    _handle.close_late()
    expect(core.pointer is None)


@case
def what_is_dropped_while_cffi_has_its_lock_is_closed():
    """The collector may run there."""
    out = script("""
import koine
from koine._library import ffi
graph = koine.Graph()
core = graph._core
with ffi._lock:
    del graph
print(core.pointer)
""")
    expect_equal(out, "None\n")


@case
def what_shares_states_with_a_call_is_closed_after_it():
    from koine import _handle
    context, _, _, session = parts()
    other = koine.Graph()
    with _handle.busy(session._core.lock):
        session.close()
        other.close()
        expect(session._core.pointer is not None and other._core.pointer is None)
        _handle.close_late()
        expect(session._core.pointer is not None, "it was closed in the middle of a call")
    _handle.close_late()
    expect(session._core.pointer is None)


@case
def messages_go_to_logging():
    out = script("""
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s")
import koine
koine.Session(koine.Graph().input("x", "batch").relu(), koine.Context("cpu", cache_folder="/proc/nowhere")).run(x=[1])
""")
    expect("koine\n" in out, f"nothing was logged: {out!r}")


@case
def a_library_that_is_not_there_is_told():
    out = script("""
import os
os.environ["KOINE_LIBRARY"] = "/nowhere/libkoine.so"
os.environ["LD_LIBRARY_PATH"] = ""
try:
    import koine
    print(koine.debug.library_path)
except ImportError as error:
    print("KOINE_LIBRARY" in str(error), "/nowhere/libkoine.so" in str(error))
""")
    expect(out == "True True\n" or out.startswith("libkoine.so"), out)


@case
def a_library_of_another_version_is_refused():
    from koine import _declarations, _library
    major, minor, patch = _declarations.API_VERSION
    _library.check_version(10000 * major + 100 * minor + patch + 1)
    for number in (10000 * (major + 1), 100 * (minor - 1), *([100 * (minor + 1)] if major == 0 else [])):
        with raises(ImportError, "install the package of the library's version"):
            _library.check_version(number)


@case
def exceptions_carry_code_and_text():
    from koine._declarations import STATUS
    for name, code, message in STATUS[1:]:
        error = koine.errors.error_of(code, "a text")
        expect_equal((type(error).code, error.name, error.text, str(error)), (code, name, "a text", "a text"))
        expect(isinstance(error, koine.KoineError) and getattr(koine, type(error).__name__) is type(error))
        expect(message in str(koine.errors.error_of(code)))


run()
