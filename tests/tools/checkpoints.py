"""koine train --checkpoints: whatever ends a training, it goes on to the same bits.

usage: checkpoints.py KOINE HOUSE_TESTS [KILLS]
"""
import os
import random
import resource
import signal
import subprocess
import sys
import time

from koine import ENVIRONMENT, KOINE
from koine import Skipped, bytes_of, case, expect, koine, lines_of, problem, read_safetensors, run_cases, train, write

# All state of a checkpoint: moments, averages, a schedule that follows the validation, patience.
FIXED = ["--batch", "8", "--validation", "0.2", "--epochs", "12", "--lr", "0.03", "--ema", "0.5", "--accumulate", "2",
         "--patience", "3", "--schedule", "plateau", "--plateau-patience", "1", "--plateau-threshold", "0.05"]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 20


def steps_in(folder):
    """The steps of the checkpoints in a folder, in order."""
    names = os.listdir(folder) if os.path.exists(folder) else []
    return sorted(int(name[5:-12]) for name in names if name.startswith("step-") and name.endswith(".safetensors"))


def path_of(folder, step):
    return os.path.join(folder, f"step-{step:012}.safetensors")


def same(folder, one, other):
    expect(bytes_of(os.path.join(folder, one)) == bytes_of(os.path.join(folder, other)),
           f"{one} and {other} have other bits")


@case
def killed_at_any_moment(folder):
    """SIGKILL during start, training, validation and writing."""
    train(folder, *FIXED, "--save", "whole", "--checkpoints", "one", "--quiet")
    moments, there, kills, begun = random.Random(7), os.path.join(folder, "two"), 0, 0
    while kills < KILLS:
        child = subprocess.Popen(
            [KOINE, "train", *problem(folder), *FIXED, "--save", "killed", "--checkpoints", "two",
             "--checkpoint-every", "1", "--resume", "auto", "--quiet"], cwd=folder, env=ENVIRONMENT,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # Some die at once, others so many steps and a moment later.
        wanted = (steps_in(there) or [0])[-1] + moments.choice((0, 1, 1, 2, 3))
        while (steps_in(there) or [0])[-1] < wanted and child.poll() is None:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.004)
        child.send_signal(signal.SIGKILL)
        _, err = child.communicate()
        expect("warning" not in err and "koine:" not in err, f"after {kills} kills: {err}")
        if child.returncode == 0:  # at its end before it was hit: once more from the beginning
            same(folder, "whole", "killed")
            for name in os.listdir(there):
                os.remove(os.path.join(there, name))
            begun += 1
        else:
            expect(child.returncode == -signal.SIGKILL, f"status {child.returncode}: {err}")
            kills += 1
    done = train(folder, *FIXED, "--save", "killed", "--checkpoints", "two", "--checkpoint-every", "5", "--resume", "auto")
    expect("resuming after step" in done.err or begun, f"it began anew: {done}")
    same(folder, "whole", "killed")
    same(folder, "one/best.safetensors", "two/best.safetensors")
    expect(not [name for name in os.listdir(there) if name.endswith(".tmp")], "temporary files are left")


@case
def as_pythons_safetensors_reads_them(folder):
    try:
        import numpy  # noqa: F401
        import safetensors
    except ImportError:
        raise Skipped("Python's safetensors and numpy are not installed")
    train(folder, *FIXED, "--checkpoints", "some", "--quiet")
    path = os.path.join(folder, "some", "best.safetensors")
    with safetensors.safe_open(path, framework="np") as file:
        about, names = file.metadata(), set(file.keys())
        found = {name: file.get_tensor(name) for name in names}
    own = read_safetensors(path)
    expect(names == set(own), f"found {sorted(names)} instead of {sorted(own)}")
    for name, (_, shape, numbers) in own.items():
        expect(list(found[name].shape) == shape and found[name].ravel().tolist() == list(numbers), f"{name} is {found[name]}")
    training = {"koine.training." + name for name in ("linear1.weight.average", "koine.step", "koine.fit", "koine.plateau")}
    expect(names >= training | {"linear1.weight", "logits.bias"}, f"found {names}")
    expect(about["koine.model"].startswith("koine 1\nmodel tiny\n") and about["train.data"] == "npy:x.npy,y.npy" and
           about["train.batch"] == "8", f"found {about}")


@case
def which_are_kept(folder):
    few = ["--batch", "25", "--validation", "0.25", "--schedule", "constant"]
    train(folder, "--steps", "7", *few, "--checkpoints", "all", "--checkpoint-every", "2", "--keep", "9")
    expect(steps_in(os.path.join(folder, "all")) == [2, 4, 6, 7], f"found {steps_in(os.path.join(folder, 'all'))}")
    train(folder, "--steps", "7", *few, "--checkpoints", "two", "--checkpoint-every", "1", "--keep", "2")
    expect(steps_in(os.path.join(folder, "two")) == [6, 7], f"found {steps_in(os.path.join(folder, 'two'))}")
    train(folder, "--epochs", "2", *few, "--checkpoints", "epochs")
    expect(steps_in(os.path.join(folder, "epochs")) == [3, 6], "one for each epoch")
    train(folder, "--steps", "3", *few, "--checkpoints", "time", "--checkpoint-every", "2h")
    expect(steps_in(os.path.join(folder, "time")) == [3], "only the last")
    same(folder, "all/step-000000000006.safetensors", "two/step-000000000006.safetensors")
    koine("eval", "all/best.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(0, out="loss")
    train(folder, "--steps", "9", *few, "--checkpoints", "two", status=1, out="", err="already has 2 checkpoints: ")


@case
def without_a_model_on_the_command_line(folder):
    problem(folder)
    more = ["train", "--data", "npy:x.npy,y.npy", "--checkpoints", "some", "--resume", "auto", "--steps"]
    koine(*more, "2", folder=folder).needs(2, out="", err="needs a model, since there is no checkpoint")
    train(folder, "--steps", "1", "--checkpoints", "some", "--resume", "auto", err="no checkpoint in 'some' yet")
    koine(*more, "2", folder=folder).needs(0, out="done after 2 steps", err="resuming after step 1")
    koine(*more, "2", folder=folder).needs(0, out="nothing to do: 2 steps were already done")
    write(folder, "other.koine", "koine 1\ninput x 6\nlinear 9\nlogits = linear 3\n")
    koine("train", "other.koine", *more[1:], "3", folder=folder).needs(1, out="", err="linear1.weight")
    expect(steps_in(os.path.join(folder, "some")) == [1, 2], "checkpoints of another model were touched")


@case
def a_damaged_one_is_left_out(folder):
    fixed = ["--batch", "10", "--schedule", "constant", "--quiet"]
    train(folder, "--steps", "8", *fixed, "--save", "whole", "--checkpoints", "other", "--log", "whole.log")
    train(folder, "--steps", "6", *fixed, "--checkpoints", "some", "--checkpoint-every", "2")
    some, newest = os.path.join(folder, "some"), path_of(os.path.join(folder, "some"), 6)
    data = bytearray(bytes_of(newest))
    data[-30] ^= 4
    with open(newest, "wb") as file:
        file.write(data)
    train(folder, "--steps", "8", *fixed, "--save", "part", "--checkpoints", "some", "--resume", "auto", "--log", "part.log",
          err=("warning: skipped a damaged checkpoint", "checksum", "step-000000000006.safetensors"))
    same(folder, "whole", "part")
    expect(os.path.exists(newest + ".damaged"), "the damaged one is gone")
    ends = [lines_of(os.path.join(folder, name))[-1] for name in ("whole.log", "part.log")]
    expect(ends[0] == ends[1] and ends[0]["train_accuracy"] > 0, f"means of the epoch: {ends}")
    for name in os.listdir(some):
        if name.endswith(".safetensors"):
            os.truncate(os.path.join(some, name), 100)
    train(folder, "--steps", "8", *fixed, "--save", "part", "--checkpoints", "some", "--resume", "auto",
          err="warning: no checkpoint in 'some' is whole; starting from the beginning")
    same(folder, "whole", "part")


@case
def a_full_disk(folder):
    """No file may grow beyond what compiled kernels need: the checkpoint before is what it was."""
    fixed = ["--batch", "10", "--schedule", "constant", "--checkpoints", "some"]
    some, data = os.path.join(folder, "some"), problem(folder)
    write(folder, "tiny.koine", "koine 1\nmodel tiny\ninput x 6\nlinear 100000\nlogits = linear 3\n")
    koine("train", *data, *fixed, "--steps", "3", folder=folder).needs(0)
    before = bytes_of(path_of(some, 3))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000000, 4000000))
    found = koine("train", *data, *fixed, "--resume", "auto", "--steps", "5", "--checkpoint-every", "1", folder=folder,
                  preexec_fn=limit, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found.needs(1, out="", err=("no checkpoint after step 4: ", "File too large", "training continues",
                                "no checkpoint after step 5: "))
    expect(bytes_of(path_of(some, 3)) == before, "the checkpoint before was touched")
    left = sorted(os.listdir(some))
    expect(left == ["step-000000000003.safetensors"], f"found {left}")
    koine("train", *data, *fixed, "--resume", "auto", "--steps", "5", folder=folder).needs(0, err="resuming after step 3")


@case
def folders_that_cannot_be_written(folder):
    write(folder, "file", "")
    for name in ("file", "/proc", "/proc/nowhere"):
        train(folder, "--checkpoints", name, status=1, out="", err="koine: --checkpoints: cannot ")


@case
def what_makes_no_sense(folder):
    for more, message in ((["--keep", "2"], "--keep needs a folder"),
                          (["--checkpoint-every", "3"], "--checkpoint-every needs a folder"),
                          (["--resume", "auto"], "--resume auto needs a folder"),
                          (["--checkpoints", "c", "--keep", "0"], "--keep is 0"),
                          (["--checkpoints", "c", "--checkpoint-every", "0"], "--checkpoint-every is '0'"),
                          (["--checkpoints", "c", "--checkpoint-every", "2.5"], "--checkpoint-every is '2.5'"),
                          (["--checkpoints", "c", "--checkpoint-every", "3 days"], "--checkpoint-every is '3 days'"),
                          (["--checkpoints", "c", "--checkpoint-every", "nans"], "--checkpoint-every is 'nans'")):
        train(folder, *more, status=2, out="", err=message)
    expect(not os.path.exists(os.path.join(folder, "c")), "a folder was made")


run_cases()
