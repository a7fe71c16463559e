"""koine train --devices: several workers on one model.

usage: workers.py KOINE HOUSE_TESTS
"""
import os
import re
import signal
import subprocess

from koine import (ENVIRONMENT, KOINE, Skipped, bytes_of, case, chosen_device, expect, koine, problem, read_safetensors,
                   run_cases, train, wait_for_steps)

DEVICE = str(chosen_device()["index"])
TWO, THREE = ",".join([DEVICE] * 2), ",".join([DEVICE] * 3)
HOW = ("--batch", "32", "--validation", "0.2", "--optimizer", "adam")


def file_of(folder, name):
    return bytes_of(os.path.join(folder, name))


@case
def one_file_however_many_devices(folder):
    train(folder, *HOW, "--epochs", "2", "--shards", "4", "--save", "one")
    train(folder, *HOW, "--epochs", "2", "--shards", "4", "--devices", TWO, "--save", "two",
          err=("and on ", "each batch is split into 4 shards"))
    train(folder, *HOW, "--epochs", "2", "--devices", THREE, "--shard-counts", "2,1,1", "--save", "three", "--log", "log",
          err="each batch is split into 4 shards, counts 2,1,1")
    expect(file_of(folder, "one") == file_of(folder, "two"), "two devices save different bits than one")
    expect(file_of(folder, "one") == file_of(folder, "three"), "three devices save different bits than one")


@case
def workers_of_one_cpu_take_parts_of_it(folder):
    one = chosen_device()
    if one["type"] != "CPU" or one["compute_units"] < 2:
        raise Skipped("the device is no CPU of several compute units")
    found = train(folder, *HOW, "--steps", "4", "--shards", "4", "--devices", TWO, "--save", "parts")
    half, units = (one["compute_units"] + 1) // 2, one["compute_units"]
    # Not every driver divides its device; PoCL's does. A launcher may have left this process fewer processors.
    expect(re.search(rf"this worker uses \d+ of the {units} compute units of ", found.err) or
           "Portable" not in one["platform"], f"expected {half} of {units} units: {found}")
    train(folder, *HOW, "--steps", "4", "--shards", "4", "--save", "whole")
    expect(file_of(folder, "parts") == file_of(folder, "whole"), "parts of the device compute different bits than all of it")


@case
def a_training_goes_on_with_another_number(folder):
    more = (*HOW, "--schedule", "constant")
    train(folder, *more, "--steps", "6", "--devices", TWO, "--shards", "4", "--save", "whole")
    train(folder, *more, "--steps", "3", "--devices", THREE, "--shards", "4", "--save", "part")
    train(folder, *more, "--steps", "6", "--resume", "part", "--save", "part", "--overwrite")
    expect(file_of(folder, "whole") == file_of(folder, "part"), "the resumed run differs from the uninterrupted run")
    found = train(folder, *more, "--steps", "8", "--resume", "part", "--devices", ",".join([DEVICE] * 5), status=1,
                  out="")
    expect("was trained with 4 shards, fewer than 5 devices" in found.err, f"found {found}")


@case
def parts_of_the_moments_make_the_same_files(folder):
    more = (*HOW, "--schedule", "constant", "--shards", "4", "--ema", "0.9")
    train(folder, *more, "--epochs", "2", "--patience", "1", "--save", "whole")
    train(folder, *more, "--epochs", "2", "--patience", "1", "--save", "parts", "--devices", THREE, "--shard-optimizer")
    expect(file_of(folder, "whole") == file_of(folder, "parts"), "parts of the moments make another file")
    train(folder, *more, "--steps", "3", "--checkpoints", "one", "--checkpoint-every", "1", "--save", "whole")
    train(folder, *more, "--steps", "3", "--checkpoints", "two", "--checkpoint-every", "1", "--save", "parts", "--devices", TWO,
          "--shard-optimizer")
    train(folder, *more, "--steps", "6", "--resume", "whole", "--save", "whole")
    train(folder, *more, "--steps", "6", "--resume", "parts", "--save", "parts", "--devices", THREE, "--shard-optimizer")
    for name in (*(os.path.join("one", name) for name in sorted(os.listdir(os.path.join(folder, "one")))), "whole"):
        other = name.replace("one", "two").replace("whole", "parts")
        expect(file_of(folder, name) == file_of(folder, other), f"{name} and {other} differ")


@case
def gradients_may_travel_in_16_bits(folder):
    more = (*HOW, "--steps", "4", "--gradient-type", "bfloat16")
    train(folder, *more, "--shards", "4", "--save", "one")
    train(folder, *more, "--devices", THREE, "--shard-counts", "1,2,1", "--save", "three")
    expect(file_of(folder, "one") == file_of(folder, "three"), "three devices save different bits than one")
    train(folder, *more, status=2, out="", err="give --devices or --shards")
    train(folder, *more, "--devices", TWO, "--all-reduce", "mpi", status=2, out="", err="--all-reduce mpi needs several processes")


@case
def the_plan_tells_the_memory_of_one_of_several(folder):
    def moments(*more):
        found = koine("plan", "mlp", "--optimizer", "adamw", "--json", *more).needs().objects()[0]
        return found["moment_bytes"], found["exchange_bytes"]
    whole, all_of_it, part = moments(), moments("--ranks", "4"), moments("--ranks", "4", "--shard-optimizer")
    expect(whole[0] == all_of_it[0] and not whole[1] and all_of_it[1] > 0, f"found {whole}, {all_of_it}")
    expect(abs(part[0] / whole[0] - 0.25) < 0.25 * 0.05, f"found {part} of {whole}")
    koine("plan", "mlp", "--shard-optimizer").needs(2, out="", err="--shard-optimizer needs --ranks")
    train(folder, *HOW, "--shard-optimizer", status=2, out="", err="--shard-optimizer splits")


@case
def the_default_is_a_shard_for_each(folder):
    train(folder, *HOW, "--steps", "2", "--devices", TWO, err="each batch is split into 2 shards")
    train(folder, *HOW, "--steps", "2", "--devices", THREE, err="each batch is split into 16 shards")


@case
def different_devices_are_dealt_by_speed(folder):
    devices = [one for one in koine("devices", "--json").objects() if one["usable"]]
    other = next((one for one in devices if one["name"] != devices[0]["name"]), None)
    if not other:
        raise Skipped("there are no two devices of different kinds")
    found = train(folder, *HOW, "--steps", "3", "--devices", f"{devices[0]['index']},{other['index']}")
    dealt = re.search(r"each batch is split into 16 shards, counts (\d+),(\d+)$", found.err, flags=re.M)
    expect(dealt and int(dealt[1]) + int(dealt[2]) == 16 or "is left out" in found.err, f"found {found}")
    more = (*HOW, "--devices", f"{devices[0]['index']},{other['index']}")
    train(folder, *more, "--steps", "3", "--shard-counts", "13,3", "--save", "kept")
    train(folder, *more, "--steps", "4", "--resume", "kept", "--save", "kept",
          err=("the shard counts are those of 'kept'", "16 shards, counts 13,3"))
    found = train(folder, *HOW, "--devices", f"{other['index']},{devices[0]['index']}", "--steps", "5", "--resume", "kept",
                  "--save", "kept")
    expect("the shard counts are those of" not in found.err, f"other devices take the deal: {found}")


@case
def norms_over_all_devices(folder):
    more = (*HOW, "--steps", "2", "--sync-batch-norm")
    train(folder, *more, "--devices", TWO, err="each batch is split into 2 shards")
    for devices, complaint in (
            (("--shards", "4"), "expected as many shards as workers"),
            (("--devices", THREE), "there are 3; expected 2, 4, 8 and so on"),
            (("--devices", TWO, "--shards", "4"), "and as many --shards, or none given")):
        train(folder, *more, *devices, status=1, out="", err=complaint)


# Ten steps an epoch.
ALONE = ("--batch", "8", "--validation", "0.2", "--optimizer", "adam", "--schedule", "constant")


@case
def workers_make_steps_alone(folder):
    more = (*ALONE, "--sync-every", "3", "--devices", TWO)
    train(folder, *more, "--steps", "12", "--save", "whole", "--log", "log", err="each batch is split into 2 shards")
    train(folder, *more, "--steps", "12", "--save", "again")
    expect(file_of(folder, "whole") == file_of(folder, "again"), "the same training has other bits")
    train(folder, *more, "--steps", "6", "--save", "part")
    train(folder, *more, "--steps", "12", "--resume", "part", "--save", "part")
    expect(file_of(folder, "whole") == file_of(folder, "part"), "the resumed run differs from the uninterrupted run")
    names = read_safetensors(os.path.join(folder, "whole"))
    for wanted in ("koine.training.linear1.weight.outer", "koine.training.koine.worker.1.linear1.weight.moment1"):
        expect(wanted in names, f"no {wanted} in {sorted(names)}")
    # Other numbers of workers, and other rounds.
    train(folder, *ALONE, "--sync-every", "3", "--devices", THREE, "--steps", "14", "--resume",
          "part", "--save", "part", "--shards", "4", err="was trained with workers 2, and now it is 3")
    train(folder, *ALONE, "--steps", "16", "--resume", "part", "--save", "part",
          err="was trained with sync-every 3, and now it is 0")
    expect(not any("worker" in name for name in read_safetensors(os.path.join(folder, "part"))), "moments of others stay")
    train(folder, *ALONE, "--sync-every", "3", "--devices", TWO, "--steps", "18", "--resume", "part", "--save", "part",
          err="was trained with sync-every 0, and now it is 3")


@case
def checkpoints_wait_for_the_end_of_a_round(folder):
    more = (*ALONE, "--sync-every", "4", "--devices", TWO, "--checkpoints", "kept",
            "--checkpoint-every", "3", "--keep", "20")
    train(folder, *more, "--steps", "9", "--save", "part")
    kept = sorted(int(name[5:-12]) for name in os.listdir(os.path.join(folder, "kept")) if name.startswith("step-"))
    expect(kept == [4, 8, 9], f"found {kept}")
    train(folder, *more, "--steps", "14", "--resume", "auto", "--save", "part", "--overwrite", err="resuming after step 9")


@case
def what_each_step_exchanges_is_refused(folder):
    for more, status, complaint in (
            (("--shard-optimizer",), 2, "shard_optimizer concerns the exchange"),
            (("--sync-batch-norm",), 2, "sync_batch_norm concerns the exchange"), (("--gradient-type", "bfloat16"), 2, "gradient_dtype concerns the exchange"),
            (("--accumulate", "2"), 2, "expected a multiple of that, such as 4"),
            (("--outer-rate", "-1"), 2, "expected a number of at least 0"),
            (("--outer-momentum", "1"), 2, "expected a number of at least 0 and below 1")):
        train(folder, *HOW, "--devices", TWO, "--sync-every", "3", *more, status=status, out="", err=complaint)
    train(folder, *HOW, "--devices", TWO, "--outer-rate", "1", status=2, out="", err="--outer-rate needs --sync-every")


@case
def ctrl_c_stops_all(folder):
    child = subprocess.Popen([KOINE, "train", *problem(folder), "--steps", "100000", "--devices", TWO, "--log", "log"],
                             cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)
    wait_for_steps(folder, child, 3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    expect(child.returncode == 0 and "stopped after" in out, f"status {child.returncode}: {out}{err}")
    expect("repeat the command with --resume tiny.safetensors" in err, f"found {err}")


@case
def a_loss_that_is_not_finite_ends_all(folder):
    train(folder, "--optimizer", "sgd", "--lr", "1e30", "--steps", "50", "--devices", TWO, status=1, out="",
          err="Nothing was saved")


@case
def mistakes(folder):
    for more, complaint in (
            (("--devices", f"{DEVICE},,"), "expected devices with commas between"),
            (("--devices", TWO, "--device", DEVICE), "--devices and --device exclude each other"),
            (("--devices", TWO, "--pin", "x=y"), "--devices and --pin exclude each other"),
            (("--devices", TWO, "--check"), "--devices and --check exclude each other"),
            (("--devices", TWO, "--shard-counts", "1,2,1"), "3 numbers for 2 devices"),
            (("--devices", TWO, "--shard-counts", "1,a"), "expected the number of shards of each device, such as 13,3"),
            (("--devices", TWO, "--shard-counts", "1,2"), "expected a power of two"),
            (("--devices", TWO, "--shard-counts", "1,3", "--shards", "8"), "assigns 4 shards, but --shards is 8"),
            (("--devices", THREE, "--shards", "2"), "expected at least one for each of 3 devices"),
            (("--shards", "128", "--batch", "64"), "at most 64, the samples of a batch"),
            (("--shards", "3"), "expected a power of two"),
            (("--shard-counts", "1,1"), "--shard-counts needs --devices"),
            (("--shards", "2", "--in-sequence"), "omit one of them")):
        train(folder, *more, status=2, out="", err=complaint)
    found = train(folder, "--devices", f"{DEVICE},999", status=1, out="")
    expect('no OpenCL device matches "999"' in found.err, f"found {found}")


run_cases()
