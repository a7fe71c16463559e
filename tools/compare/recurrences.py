"""Recurrent layers (LSTM, GRU, RNN) in Koine, PyTorch and ONNX Runtime.

usage: recurrences.py [--cells lstm,gru,rnn] [--directions 1,2] [--batches 1,8,64] [--units 64,256,1024]
                      [--lengths 20,100,500] [--mode infer|train] [--peers torch,onnx] [--rounds N] [--seconds S]
                      [--threads N] [--json FILE]

Every combination is a row: one layer with as many inputs as units, x of shape (batch,length,units). The programs have the same
weights and must compute the same results. In each round they run one after the other, each in its own process, and ratios are
computed within the round; a row has their median over the rounds. A ratio above 1 means that Koine is faster. CPU is the
processor time of a run, of all threads, which other programs on the machine affect less.

train: the loss (the mean square of the results), its gradient, and an update by SGD, in Koine by koine.torch.train_step. Without
ONNX Runtime.

Needs the Python package of Koine (build/tools/python in PYTHONPATH), PyTorch, onnx and ONNX Runtime.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import tempfile

import worker

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
# ONNX's order of gates, by PyTorch's positions.
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
FEWEST_RUNS = 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="lstm,gru,rnn")
    parser.add_argument("--directions", default="1,2")
    parser.add_argument("--batches", default="1,8,64")
    parser.add_argument("--units", default="64,256,1024")
    parser.add_argument("--lengths", default="20,100,500")
    parser.add_argument("--mode", choices=("infer", "train"), default="infer", help="(infer)")
    parser.add_argument("--peers", default="torch,onnx", help="torch, onnx or both (both)")
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds (3)")
    parser.add_argument("--seconds", type=float, default=0.1, help="minimum time per measurement (0.1)")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of each program (2)")
    parser.add_argument("--json", default="", help="file for the measurements")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- the programs: each returns a function that computes y (batch,length,directions*units), or the loss ----


def layer_of(case):
    """The layer and x in PyTorch, the same in every process."""
    import torch

    torch.manual_seed(1)
    make = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[case["cell"]]
    layer = make(case["units"], case["units"], batch_first=True, bidirectional=case["directions"] == 2)
    return layer, torch.randn(case["batch"], case["length"], case["units"])


def first_result(layer):
    import torch

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)[0]

    return First()


def loss_of(y):
    return (y * y).mean()


def in_torch(case):
    import torch

    layer, x = layer_of(case)
    if case["mode"] == "infer":

        def run():
            with torch.inference_mode():
                return layer(x)[0].numpy()

        return run
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(layer(x)[0])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def in_koine(case):
    import koine
    import torch

    layer, x = layer_of(case)
    if case["mode"] == "train":
        step = koine.torch.train_step(
            first_result(layer), lambda y, target: loss_of(y), torch.optim.SGD(layer.parameters(), lr=0.01)
        )
        target = torch.zeros(1)
        return lambda: step(x, target).item()
    units, x = case["units"], x.numpy()
    graph = koine.Graph()
    given = graph.input("x", f"{case['batch']},{case['length']},{units}")
    session = koine.Session(getattr(given, case["cell"])(units, name="layer", bidirectional=case["directions"] == 2))
    for name, weight in layer.named_parameters():
        session.states["layer." + name.replace("_l0", "")] = weight.detach().numpy()
    return lambda: session.run(x=x)


def in_onnx(case):
    import numpy
    import onnx
    import onnxruntime

    layer, x = layer_of(case)
    units, gates = case["units"], GATES[case["cell"]]
    parameters = {name: weight.detach().numpy() for name, weight in layer.named_parameters()}

    def reordered(array):
        return numpy.concatenate([numpy.split(array, gates)[gate] for gate in ORDERS[case["cell"]]])

    def stacked(kinds):
        ends = ("", "_reverse")[: case["directions"]]
        return numpy.stack([numpy.concatenate([reordered(parameters[kind + "_l0" + end]) for kind in kinds]) for end in ends])

    weights = {"w": stacked(["weight_ih"]), "r": stacked(["weight_hh"]), "b": stacked(["bias_ih", "bias_hh"])}
    more = {"linear_before_reset": 1} if case["cell"] == "gru" else {}
    node = onnx.helper.make_node(
        case["cell"].upper(),
        ["x", "w", "r", "b"],
        ["y"],
        hidden_size=units,
        direction="bidirectional" if case["directions"] == 2 else "forward",
        **more,
    )
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "layer",
        [onnx.helper.make_tensor_value_info("x", kind, [case["length"], case["batch"], units])],
        [onnx.helper.make_tensor_value_info("y", kind, [case["length"], case["directions"], case["batch"], units])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = case["threads"], 1
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(model, file.name)
        session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
    feeds = {"x": numpy.ascontiguousarray(x.numpy().transpose(1, 0, 2))}
    shape = (case["batch"], case["length"], case["directions"] * units)
    return lambda: session.run(None, feeds)[0].transpose(2, 0, 1, 3).reshape(shape)


PROGRAMS = {"koine": in_koine, "torch": in_torch, "onnx": in_onnx}


# ---- a program's process: a line with a case per measurement ---------------------------------------------------


def serve(program):
    stream = worker.own_output()
    current, run = None, None
    for line in sys.stdin:
        case = json.loads(line)
        if program != "onnx" and current is None:
            import torch

            torch.set_num_threads(case["threads"])
        if case != current:
            run, current = PROGRAMS[program](case), case
            result = [float(run()) for _ in range(FEWEST_RUNS)] if case["mode"] == "train" else run()
            if case["mode"] == "infer":
                import numpy

                numpy.save(os.path.join(case["folder"], program + ".npy"), result)
                result = []
            run()
        worker.tell(
            stream,
            **worker.measured(run, case["seconds"], FEWEST_RUNS),
            losses=result if case["mode"] == "train" else [],
        )


def measured_round(programs, case):
    found = {name: program.measure(case) for name, program in programs.items()}
    for name, one in found.items():
        if "problem" in one:
            sys.exit(f"recurrences.py: {name}: {one['problem']}")
    return found


def check(case, found):
    """All programs must compute the same."""
    import numpy

    expected, others = "torch" if "torch" in found else "koine", [name for name in found if name != "torch"]
    if case["mode"] == "train":
        values = {name: numpy.array(one["losses"]) for name, one in found.items()}
    else:
        values = {name: numpy.load(os.path.join(case["folder"], name + ".npy")) for name in found}
    for name in others:
        if not numpy.allclose(values[name], values[expected], rtol=1e-3, atol=1e-4):
            far = numpy.abs(values[name] - values[expected]).max()
            sys.exit(f"recurrences.py: {name} and {expected} compute different results, by {far:.3g}: {case}")


def ratios(rounds, peer, measure):
    return statistics.median(one[peer][measure] / one["koine"][measure] for one in rounds)


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main(options):
    peers = [peer for peer in options.peers.split(",") if peer != "onnx" or options.mode == "infer"]
    lists = (options.cells, options.directions, options.batches, options.units, options.lengths)
    programs = {name: worker.Program(__file__, ["--serve", name], options.threads) for name in ["koine", *peers]}
    print("| cell | directions | batch | units | length | Koine ms | " + "".join(f"{peer} | CPU | " for peer in peers))
    print("|" + "---|" * (6 + 2 * len(peers)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for cell, directions, batch, units, length in itertools.product(*(words.split(",") for words in lists)):
            case = {
                "cell": cell,
                "directions": int(directions),
                "batch": int(batch),
                "units": int(units),
                "length": int(length),
                "mode": options.mode,
                "seconds": options.seconds,
                "threads": options.threads,
                "folder": folder,
            }
            rounds = []
            for number in range(options.rounds):
                rounds.append(measured_round(programs, case))
                if number == 0:
                    check(case, rounds[0])
            row = {name: {key: ratios(rounds, name, key) for key in ("median_ms", "best_ms", "cpu_ms")} for name in peers}
            rows.append({**case, "ratios": row, "rounds": rounds})
            shown = "".join(f"{row[peer]['median_ms']:.2f} | {row[peer]['cpu_ms']:.2f} | " for peer in peers)
            koine = statistics.median(one["koine"]["median_ms"] for one in rounds)
            print(f"| {cell} | {directions} | {batch} | {units} | {length} | {koine:.3f} | {shown}", flush=True)
    for program in programs.values():
        program.close()
    for peer in peers:
        for key, words in (("median_ms", "time"), ("cpu_ms", "processor time")):
            found = [row["ratios"][peer][key] for row in rows]
            print(f"{peer}, {words}: geometric mean {mean(found):.2f}, least {min(found):.2f}, of {len(found)} rows")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    given = arguments()
    if given.serve:
        serve(given.serve)
    else:
        main(given)
