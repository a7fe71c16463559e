"""koine report: a report of a device, in spite of crashes and hangs.

usage: device_report.py KOINE HOUSE_TESTS [FAULTY]

FAULTY is preloaded for a driver that goes wrong in one kernel; without it those cases are skipped.
"""
import json
import os
import signal
import subprocess
import sys
import time

from koine import ENVIRONMENT, KOINE, Result, Skipped, case, children_of, expect, koine, run_cases, strict, write

FAULTY = sys.argv[3:4]
REPORT = "koine-report.txt"
PREDICTIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/gpu-lab/predictions.jsonl")


def environment(folder, kernel=None, way="crash"):
    """With a separate home, and a driver that goes wrong in that kernel."""
    if kernel and not FAULTY:
        raise Skipped("nothing is preloaded in this build")
    own = dict(ENVIRONMENT, HOME=os.path.join(folder, "home-of-tester"), USER="tester-of-koine")
    if kernel:
        own.update(LD_PRELOAD=os.path.abspath(FAULTY[0]), FAULT_KERNEL=kernel, FAULT_WAY=way)
    return own


def started(folder, *words, env=None):
    done = subprocess.run([KOINE, "report", *words], cwd=folder, env=env or environment(folder), capture_output=True, text=True)
    return Result(["report", *words], done.returncode, done.stdout, done.stderr)


def report(folder, *words, env=None):
    return started(folder, "--device", os.environ.get("KOINE_DEVICE", "0"), *words, env=env)


def lines(folder, name=REPORT):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().splitlines()


def ends(folder):
    """The end of each stage, in order."""
    return [tuple(line[3:].split(",")[0].rsplit(": ", 1)) for line in lines(folder) if line.startswith("-- ")]


@case
def stages_are_run_once(folder):
    report(folder, "--only", "softmax,sum").needs(0, out=("3 of 3 stages done, 0 failed", "--read koine-report.txt"), err="")
    found = lines(folder)
    expect(found[0] == "koine-report 1" and found[1].startswith("koine ") and ", --device " in found[1], f"found {found[:2]}")
    expect(ends(folder) == [("devices --measure", "done"), ("verify --smoke --operators sum", "done"),
                            ("verify --smoke --operators softmax", "done")], f"found {ends(folder)}")
    cases = [strict(line) for line in found if line.startswith('{"name": "')]
    expect(cases and all(one["right"] for one in cases), f"found {cases}")
    report(folder, "--only", "softmax,sum").needs(0, out="3 of 3 stages done", err="")
    expect(lines(folder) == found, "the second start repeated something")
    report(folder, "--only", "neg").needs(0, out="2 of 2 stages done", err="")
    expect(ends(folder)[3:] == [("verify --smoke --operators neg", "done")], f"found {ends(folder)}")
    started(folder, "--read", REPORT).needs(0, out=(" cases right, 0 wrong; 4 stages done", "measured: "), err="")


@case
def networks_are_timed(folder):
    write(folder, "other", "koine-report 1\nsomething else\n")
    report(folder, "--only", "mlp", "--output", "other").needs(1, out="", err=("'other' is not a report of this version", "--overwrite"))
    report(folder, "--only", "mlp", "--output", "other", "--overwrite", "--quiet").needs(0, out="4 of 4 stages done", err="")
    timed = [strict(line) for line in lines(folder, "other") if line.startswith('{"case": ')]
    expect([(one["case"], one["batch"], one["math"], one["precision"]) for one in timed] ==
           [("mlp", 512, "fast", "float32"), ("mlp", 512, "fast", "bfloat16"), ("mlp", 512, "exact", "float32")], f"found {timed}")
    started(folder, "--read", "other").needs(0, out=("training step", "mlp            float32, exact ", "mlp            bfloat16 ", "4 stages done"), err="")


@case
def the_most_informative_stages_come_first(folder):
    """A report that ends early has correctness in every precision, then that a network learns, then speed."""
    report(folder, "--minutes", "1e-9", "--only", "matmul,lenet,resnet50,tune,sum").needs(0)
    named = lines(folder)[-1][len("-- left out: "):].split(", ")
    expect(named[:3] == ["6 operators", "devices", "train lenet"], f"found {named}")
    at = {name: named.index(name) for name in ("bench resnet50 --batch 32", "bench lenet --batch 256", "bench lenet --batch 256 --math exact",
                                               "bench resnet50 --batch 32 --profile", "tune resnet18c")}
    expect(list(at.values()) == sorted(at.values()) and named[-1] == "tune resnet18c", f"found {named}")


@case
def a_crash_costs_one_stage(folder):
    env = environment(folder, "kn_softmax")
    found = report(folder, "--only", "softmax,neg", env=env).needs(1, out="2 of 3 stages done, 1 failed")
    expect("crashed  verify --smoke --operators softmax" in found.out, f"found {found}")
    expect(dict(ends(folder)) == {"devices --measure": "done", "verify --smoke --operators softmax": "crashed by Aborted",
                                  "verify --smoke --operators neg": "done"}, f"found {ends(folder)}")
    started(folder, "--read", REPORT).needs(0, out="verify --smoke --operators softmax: crashed by Aborted")
    before = lines(folder)
    report(folder, "--only", "softmax,neg").needs(1, out="1 failed")
    expect(lines(folder) == before, "a crash was tried again")


@case
def operators_share_processes(folder):
    """A crash costs only its operator, and every line is below the stage of its operator."""
    words = "neg,exp,log,sqrt,abs,sum,mean,softmax,tanh,transpose,relu,sin"
    starts = os.path.join(folder, "starts")
    env = dict(environment(folder, "kn_softmax"), FAULT_STARTS=starts)
    report(folder, "--only", words, env=env).needs(1, out="12 of 13 stages done, 1 failed")
    found = dict(ends(folder))
    expect(found == {name: "crashed by Aborted" if name.endswith(" softmax") else "done" for name in
                     ["devices --measure", *("verify --smoke --operators " + word for word in words.split(","))]}, f"found {found}")
    with open(starts, encoding="utf-8") as file:
        checked = [line.split("--operators ")[1].split()[0].split(",") for line in file if " verify " in line]
    # Three processes for twelve operators, and another one for those after softmax.
    crashed, = [part for part in checked if "softmax" in part]
    rest = crashed[crashed.index("softmax") + 1:]
    expect(len(checked) == 3 + bool(rest) and (not rest or rest in checked), f"found {checked}")
    expect({word for part in checked for word in part} == set(words.split(",")), f"found {checked}")
    stage = ""
    for line in lines(folder):
        stage = line[len("== verify --smoke --operators "):] if line.startswith("== verify") else stage
        if line.startswith('{"name": "') and stage:
            expect(strict(line)["name"].startswith(stage + "#"), f"{line} is below {stage}")


@case
def what_stopped_the_machine_among_others_is_found(folder):
    """Of stages that ran at the same time, any may have stopped it: each runs again on its own."""
    report(folder, "--only", "nothing").needs(0, out="1 of 1 stages done", err="")
    names = ["verify --smoke --operators " + word for word in ("neg", "sum", "relu")]
    with open(os.path.join(folder, REPORT), "a", encoding="utf-8") as file:
        file.write("".join(f"== {name}\n" for name in names) + f'== {names[0]}\n-- {names[0]}: done, 0.1 s\n== {names[2]}\n')
    started(folder, "--read", REPORT).needs(0, out=[f"{name}: no end" for name in names[1:]])
    report(folder, "--only", "neg,sum,relu").needs(0, out="4 of 4 stages done, 0 failed")
    found = ends(folder)[2:]
    expect(set(found[:2]) == {(name, "unclear") for name in names[1:]}, f"found {found}")
    expect(set(found[2:]) == {(name, "done") for name in names[1:]} and len(found) == 4, f"found {found}")
    with open(os.path.join(folder, REPORT), "a", encoding="utf-8") as file:
        file.write(f"== {names[0]}\n")
    report(folder, "--only", "neg,sum,relu").needs(1, out=("3 of 4 stages done, 1 failed", "lost     " + names[0]))


@case
def wrong_results_are_printed_once(folder):
    """Stages that ran at the same time: the end of one follows the end of another."""
    stages = ["verify --smoke --operators " + word for word in ("neg", "sum")]
    wrong = '{"name": "neg#0 plain", "right": false, "error": 9, "seconds": 0.1, "message": "element 3 is 1 instead of 2"}'
    write(folder, REPORT, f"koine-report 1\nkoine 0.1.0, --device 0\n== {stages[1]}\n== {stages[0]}\n{wrong}\n"
                          f"-- {stages[1]}: done, 1.0 s\n-- {stages[0]}: failed, 1.0 s\n")
    found = started(folder, "--read", REPORT).needs(0, out=("wrong    neg#0 plain: element 3", "0 cases right, 1 wrong; 1 stages done"))
    expect(stages[0] not in found.out, f"found {found}")


@case
def only_the_last_time_of_a_stage_is_printed(folder):
    stages = ["verify --smoke --operators " + word for word in ("neg", "sum", "exp")]
    wrong = '{"name": "neg#0 plain", "right": false, "error": 9, "seconds": 0.1, "message": "element 3 is 1 instead of 2"}'
    right = '{"name": "neg#1 plain", "right": true, "error": 0, "seconds": 0.1, "message": ""}'
    write(folder, REPORT, f"koine-report 1\nkoine 0.1.0, --device 0\n== {stages[0]}\n{wrong}\n! koine: lost\n-- {stages[0]}: interrupted, 1.0 s\n"
                          f"== {stages[0]}\n{right}\n-- {stages[0]}: done, 1.0 s\n== {stages[2]}\n\n-- {stages[2]}: unclear\n"
                          f"== {stages[1]}\n{wrong.replace('neg', 'sum')}\n-- {stages[1]}: failed, 1.0 s\n"
                          f"== {stages[2]}\n! koine: no memory\n-- {stages[2]}: failed, 1.0 s\n")
    found = started(folder, "--read", REPORT).needs(0, out=("1 cases right, 1 wrong; 1 stages done", f"{stages[2]}: failed", f"{stages[2]}: koine: no memory"))
    expect(not any(text in found.out for text in ("interrupted", "lost", "unclear", "neg#0", stages[1])), f"found {found}")


@case
def a_speed_that_was_not_measured(folder):
    device = '{"name": "A", "platform": "B", "version": "C", "driver": "D", "compute_units": 4, "memory_bytes": 9, "chosen": true}'
    timed = '{"case": "gpt", "math": "fast", "precision": "float32", "batch": 9, "median_ms": 2, "gflops": 3}'
    write(folder, REPORT, f"koine-report 1\nkoine 0.1.0, --device 0\n== devices --measure\n{device}\n-- devices --measure: done, 1.0 s\n"
                          f"== bench gpt --batch 9\n{timed}\n-- bench gpt --batch 9: done, 1.0 s\n")
    found = started(folder, "--read", REPORT).needs(0, out=("its speed could not be measured", "gpt "), err="")
    expect("nan" not in found.out, f"found {found}")


@case
def what_a_device_has_not_is_no_failure(folder):
    """TF32 on a CPU."""
    found = report(folder, "--only", "tf32").needs(0, out=("1 of 4 stages done, 0 failed, 3 not available on this device",), err="")
    expect(any(line.startswith("-- verify") and "tf32: not available, " in line for line in lines(folder)), f"found {lines(folder)}")
    report(folder, "--only", "tf32").needs(0, out=found.out, err="")
    started(folder, "--read", REPORT).needs(0, out=("verify --quick --operators conv2d --precision tf32: not available", "0 cases right, 0 wrong; 1 stages done"), err="")
    koine("verify", "--operators", "matmul", "--precision", "tf32").needs(1, out="", err="has none of these kernels for tf32")


@case
def a_hang_costs_one_stage(folder):
    env = environment(folder, "kn_softmax", "hang")
    found = report(folder, "--only", "softmax,neg", "--timeout", "4", env=env).needs(1, out="2 of 3 stages done, 1 failed")
    expect("stopped  verify --smoke --operators softmax" in found.out, f"found {found}")
    expect(("verify --smoke --operators neg", "done") in ends(folder), f"found {ends(folder)}")


@case
def it_continues_after_what_stopped_the_machine(folder):
    env = environment(folder, "kn_softmax", "hang")
    command = [KOINE, "report", "--device", os.environ.get("KOINE_DEVICE", "0"), "--only", "softmax,log_softmax"]
    child = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = os.path.join(folder, REPORT)
    for _ in range(600):
        if os.path.exists(path) and lines(folder)[-1:] == ["== verify --smoke --operators softmax"]:
            break
        time.sleep(0.1)
    time.sleep(0.5)
    stages = children_of(child.pid)
    child.kill()
    child.wait()
    # A stage is a separate process group, which the end of its parent does not end.
    for stage in stages:
        os.killpg(stage, signal.SIGKILL)
    expect(len(stages) == 1, f"{len(stages)} stages ran")
    found = report(folder, "--only", "softmax,log_softmax").needs(1, out=("2 of 3 stages done, 1 failed", "lost     verify --smoke --operators softmax"))
    expect(("verify --smoke --operators log_softmax", "done") in ends(folder), f"found {ends(folder)}: {found}")


@case
def what_the_time_left_out_is_named(folder):
    report(folder, "--only", "sum,neg,mlp", "--minutes", "1e-9").needs(0, out=("left out: 2 operators, devices, bench mlp --batch 512, bench mlp --batch 512 --precision bfloat16, bench mlp --batch 512 --math exact; the same", "0 of 6 stages"), err="")
    started(folder, "--read", REPORT).needs(0, out="0 stages done; left out: 2 operators, devices, bench mlp --batch 512")
    report(folder, "--only", "sum,neg").needs(0, out="3 of 3 stages done")
    found = started(folder, "--read", REPORT).needs(0, out="3 stages done")
    expect("left out" not in found.out, f"found {found}")


@case
def many_networks_are_counted(folder):
    """The file names each of them."""
    report(folder, "--only", "sum,lenet,mlp,tune", "--minutes", "1e-9").needs(0, out="left out: 1 operators, devices, train lenet, 7 timings of networks, tune resnet18c; the same", err="")
    started(folder, "--read", REPORT).needs(0, out="0 stages done; left out: 1 operators, devices, train lenet, 7 timings of networks, tune resnet18c")
    expect("bench mlp --batch 512 --math exact" in lines(folder)[-1], f"found {lines(folder)[-1]}")


@case
def warnings_of_every_process_are_printed_once(folder):
    stages = [f"verify --quick --operators {word}" for word in ("matmul", "conv2d", "attention")]
    write(folder, REPORT, "koine-report 1\nkoine 0.1.0, --device 0\n" +
          "".join(f"== {stage}\n! driver: a warning\n! driver: about {stage}\n-- {stage}: done, 1.0 s\n" for stage in stages))
    found = started(folder, "--read", REPORT).needs(0, out=[f"{stages[0]}: driver: a warning (and 2 more times)", *(f"{stage}: driver: about {stage}\n" for stage in stages)])
    expect(found.out.count("a warning") == 1, f"found {found}")


@case
def interrupted_stages_run_again(folder):
    env = environment(folder, "kn_softmax", "hang")
    command = [KOINE, "report", "--device", os.environ.get("KOINE_DEVICE", "0"), "--only", "softmax"]
    child = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if os.path.exists(os.path.join(folder, REPORT)) and lines(folder)[-1:] == ["== verify --smoke --operators softmax"]:
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    expect(child.returncode == 0 and "left out: 1 operators" in out, f"found {out} {err}")
    expect("koine: ending the report; press Ctrl-C again to stop at once" in err, f"found {err}")
    report(folder, "--only", "softmax").needs(0, out="2 of 2 stages done, 0 failed")


@case
def no_names_of_files_and_users(folder):
    report(folder, "--only", "sum").needs(0)
    env = environment(folder)
    env["KOINE_KERNEL_DIR"] = os.path.join(env["HOME"], "kernels-of-tester-of-koine")
    report(folder, "--only", "neg", env=env).needs(1, out="no operator is right; koine doctor checks")
    text = "\n".join(lines(folder))
    expect("~/kernels-of-USER" in text, f"nothing was there to hide: {text}")
    expect(folder not in text and "tester" not in text, f"found {text}")


@case
def a_device_that_is_not_there(folder):
    started(folder, "--device", "no-such-device").needs(1, out="", err=("'no-such-device' cannot be opened", "koine devices"))
    expect(not os.path.exists(os.path.join(folder, REPORT)), "an empty report was left")
    started(folder, "--minutes", "0").needs(2, out="", err="--minutes is 0")
    started(folder, "--read", "nothing").needs(1, out="", err="'nothing' cannot be read")
    started(folder, "--read", KOINE).needs(1, out="", err="is not a koine report")


@case
def predictions_are_printed_too(folder):
    write(folder, "h200.txt", """koine-report 1
koine 0.1.0, --device gpu
== devices --measure
{"name": "NVIDIA H200", "platform": "NVIDIA CUDA", "version": "OpenCL 3.0 CUDA", "driver": "570", "compute_units": 132, "memory_bytes": 150754820096, "chosen": true, "gflops": 60000, "gb_s": 4300}
-- devices --measure: done, 1.0 s
== verify --smoke --operators conv2d
{"name": "conv2d#0 implicit", "right": true, "error": 0.1, "seconds": 0.1, "message": ""}
{"name": "conv2d#1 implicit", "right": false, "error": 9, "seconds": 0.1, "message": "element 3 is 1 instead of 2"}
-- verify --smoke --operators conv2d: failed, 1.0 s
== bench resnet50 --batch 32 --seconds 1
{"case": "resnet50", "mode": "train", "math": "fast", "precision": "float32", "batch": 32, "device": "NVIDIA H200", "median_ms": 40.5, "gflops": 18000}
{"case": "resnet50", "mode": "train", "math": "exact", "precision": "float32", "batch": 32, "device": "NVIDIA H200", "median_ms": 50.5, "gflops": 12000}
{"case": "resnet50", "mode": "train", "math": "fast", "precision": "bfloat16", "batch": 32, "device": "NVIDIA H200", "median_ms": 9.5, "gflops": 36000}
-- bench resnet50 --batch 32 --seconds 1: done, 9.0 s
== tune resnet18c --seconds 60
{"shape": "matmul float32 4,4; 4,4", "kernel": "tiled:8x8x16/8x8", "end": "crashed", "message": "Segmentation fault"}
{"shape": "matmul float32 4,4; 4,4", "nodes": 2, "kernel": "plain", "us": 10, "untuned": "tiled", "untuned_us": 20}
{"tuned": 1, "faster": 1, "refused": 1, "known": 0, "left_out": 3, "us": 20, "untuned_us": 40}
-- tune resnet18c --seconds 60: done, 9.0 s
== bench gpt --profile --seconds 2
""")
    found = started(folder, "--read", "h200.txt").needs(0, out=("NVIDIA H200, NVIDIA CUDA", "wrong    conv2d#1 implicit: element 3", "1 cases right, 1 wrong; 3 stages done",
                                                     "crashed  matmul float32 4,4; 4,4: tiled:8x8x16/8x8", "tune resnet18c --seconds 60: 1 shapes, 3 left out, 1 with another kernel: 0.02 ms together instead of 0.04",
                                                     "bench gpt --profile --seconds 2: no end"), err="")
    rows = {line[14:30].strip(): line[30:].split() for line in found.out.splitlines() if line.startswith("resnet50")}
    expect([rows[way][:2] + rows[way][3:4] for way in ("float32", "float32, exact", "bfloat16")] == [["32", "40.5", "30"], ["32", "50.5", "20"], ["32", "9.5", "60"]], f"found {rows}")
    with open(PREDICTIONS, encoding="utf-8") as file:
        predicted = {(line["math"], line["precision"]): line["seconds"] for line in map(json.loads, file) if (line["model"], line["device"]) == ("resnet50", "NVIDIA H200")}
    for way, key in (("float32", ("fast", "float32")), ("float32, exact", ("exact", "float32")), ("bfloat16", ("fast", "bfloat16"))):
        expect(abs(float(rows[way][5]) - 1e3 * predicted[key]) < 0.01, f"found {rows[way]}, where {predicted[key]} s are predicted")


run_cases()
