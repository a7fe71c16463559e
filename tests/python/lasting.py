"""Memory that stays level over a thousand objects, and processes that end in the middle of training.

usage: lasting.py HOUSE_FOLDER
"""
import os
import signal
import subprocess
import sys
import time

from package import case, expect, expect_equal, run, script

# The resident set after 100 and after 1,000 of what a function makes. The allocator's own habits are allowed 8 MB.
MEASURE = """
import gc, logging, sys
import numpy as np
import koine
logging.getLogger("koine").setLevel(logging.CRITICAL)
context = koine.Context("cpu")
x = np.ones((4, 6), np.float32)
images, labels = np.zeros((8, 28, 28), np.float32), np.arange(8)

def graph():
    made = koine.Graph()
    return made, made.input("x", "batch,6").linear(5, name="first").relu().linear(3, name="second")

def session():
    made, y = graph()
    return koine.Session(y, context).run(x=x)

def trainer():
    made, y = graph()
    koine.Trainer(y.mean([0, 1]), context, optimizer="adam").step(x=x)

def model():
    koine.Model("linear", context=context).predict(images)

def fit():
    koine.Model("linear", context=context).fit((images, labels), steps=1)

def pickled():
    import copy, pickle
    made = koine.Model("linear", context=context)
    made.fit((images, labels), steps=1)
    copy.deepcopy(pickle.loads(pickle.dumps(made))).predict(images)

def shared():
    made, y = graph()
    y.output("scores")
    one, two = koine.Model(made, context=context), koine.Model(made, context=context, seed=2)
    two.fit((x, [0, 1, 2, 0]), steps=1)
    one.predict(x)

def estimator():
    from koine.sklearn import Classifier
    import pickle
    pickle.loads(pickle.dumps(Classifier(epochs=1, context=context).fit(x, [0, 1, 1, 0]))).predict(x)

def failed():
    made, y = graph()
    for call in (lambda: koine.Session(y, context).run(x=x[:, :5]), lambda: y + made.input("z", "7"), lambda: koine.Model("nothing", context=context)):
        try:
            call()
        except koine.KoineError:
            pass

def dataset():
    made = koine.Dataset.from_arrays(x=np.zeros((64, 100), np.float32), y=np.arange(64))
    first, second = made.split(0.5)
    loader = first.loader(batch_size=8)
    loader.next()
    first.read("x")

def states():
    made = koine.States(context)
    made["a"] = np.ones((100, 100), np.float32)
    made["a"]

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

make = globals()[sys.argv[1]]
for number in range(1, 1001):
    make()
    if number == 100:
        before = resident()
print(before, resident())
"""


def level(name):
    def memory_stays():
        before, after = map(float, script(MEASURE, name, seconds=900).split())
        expect(after - before < 8, f"after 100 {before:.1f} MB are resident, after 1,000 {after:.1f} MB")
    memory_stays.__name__ = f"a_thousand_of_{name}_leave_no_memory"
    return memory_stays


if os.path.exists("/proc/self/statm"):
    for _name in ("session", "trainer", "model", "fit", "pickled", "shared", "estimator", "failed", "dataset", "states"):
        case(level(_name))


LONG = """
import os, sys, threading, time
import numpy as np
import koine
x, y = np.random.default_rng(1).normal(size=(4096, 28, 28)).astype(np.float32), np.arange(4096) % 10
model = koine.Model("mlp")
def told(step):
    if step.step == 3:
        print("training", flush=True)
thread = threading.Thread(target=lambda: model.fit((x, y), epochs=100000, on_step=told), daemon=True)
"""


@case
def the_interpreter_ends_while_a_thread_trains():
    """A daemon's training does not hold the process up, nor end it by a crash."""
    began = time.monotonic()
    out = script(LONG + """
thread.start()
time.sleep(5)
print("end", flush=True)
""")
    expect("end" in out, out)
    expect(time.monotonic() - began < 45, "it took long")


@case
def exit_in_a_callback_ends_the_process():
    child = subprocess.run([sys.executable, "-c", LONG + "model.fit((x, y), epochs=100000, on_step=lambda step: step.step < 3 or os._exit(5))"], timeout=50)
    expect_equal(child.returncode, 5)
    child = subprocess.run([sys.executable, "-c", LONG + "model.fit((x, y), epochs=100000, on_step=lambda step: step.step < 3 or sys.exit(6))"], timeout=50)
    expect_equal(child.returncode, 6)


@case
def a_signal_ends_the_process_while_it_trains():
    child = subprocess.Popen([sys.executable, "-c", LONG + "model.fit((x, y), epochs=100000, on_step=told)"], stdout=subprocess.PIPE, text=True)
    expect_equal(child.stdout.readline(), "training\n")
    child.send_signal(signal.SIGTERM)
    expect_equal(child.wait(timeout=20), -signal.SIGTERM)


@case
def a_child_forked_while_another_thread_trains_is_told():
    out = script(LONG + """
ready = threading.Event()
thread = threading.Thread(target=lambda: model.fit((x, y), epochs=100000, on_step=lambda step: ready.set() if step.step == 3 else not stop), daemon=True)
stop = []
thread.start()
ready.wait()
child = os.fork()
if not child:
    try:
        koine.Model("mlp")
    except koine.ForkError as error:
        print("told", "spawn" in str(error), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
stop.append(1)
thread.join()
print("parent", model.predict(x[:2]).shape)
""")
    expect_equal(out, "told True\nparent (2, 10)\n")


run()
