#!/usr/bin/env python3
"""Computes ONNX files with libkoine-onnxruntime and with `koine infer`: both must give the same bits.

usage: compare_interface.py LIBRARY KOINE [FOLDER] [--make] [--files TEXT] [--speed ORIGINAL]

FOLDER, or the environment variable KOINE_ORT_FILES, has the files, each as NAME.onnx beside NAME.npz with its inputs by name. --make adds
those that are missing: the networks of compare_networks.py and compare_models.py as every exporter of PyTorch writes them, models of the
package timm with random weights, and the files of tools/compare/onnx_files.py, whose packages are downloaded. This needs torch, timm, onnx
and onnxruntime; the comparison needs only NumPy. Files that both programs reject are listed, but are not differences.

--speed measures instead: the library and ONNX Runtime's own, ORIGINAL, run by turns in the same client, each in its own processes, with two
threads. The elements of each input are shuffled before each run, as inputs of programs change. A row has the times of the fastest run, how
many times as long the original takes, the time from the start of CreateSession to the end of the first run in a process (the second
process, whose kernels are in the cache), and the largest memory of the process.
"""

import argparse
import ctypes
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

# Models of timm, which are small enough for a processor, with the size of a picture.
TIMM = """resnet10t resnet26d seresnet50 resnext26ts ecaresnet26t regnetx_002 regnety_002 mobilenetv3_small_050 mobilenetv4_conv_small
efficientnet_lite0 tf_efficientnet_b0 ghostnet_050 hardcorenas_a mnasnet_small lcnet_050 tinynet_e shufflenetv2_x0_5 squeezenet1_1 densenet121
dla34 vgg11 convnext_atto convnextv2_atto vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 resmlp_12_224 gmlp_ti16_224 levit_128s
edgenext_xx_small mobilevit_xxs poolformer_s12 pit_ti_224 xcit_nano_12_p16_224 crossvit_tiny_240 swin_tiny_patch4_window7_224 repvgg_a0 rexnet_100
hrnet_w18_small selecsls42b inception_v4 xception41 cspdarknet53 darknet53 fbnetc_100 semnasnet_075 spnasnet_100 tf_mixnet_s visformer_tiny
efficientformer_l1 fastvit_t8 starnet_s1 repghostnet_050""".split()
SKIP = 77  # the exit status of a skipped test
THREADS = 2
LARGEST = 60 << 20  # bytes of a file; larger ones take minutes
FEW = 4  # elements of an input that may be sizes or choices, which stay as they are


# ---- the files ---------------------------------------------------------------------------------------------


def export_networks(folder):
    import compare_models
    import compare_networks
    import compare_torch
    import torch

    for network in compare_networks.NETWORKS + compare_models.MODELS:
        for exporter in ("script", "folded", "dynamo"):
            path = folder / f"{network.name}-{exporter}.onnx"
            if path.exists() or (exporter == "folded" and not network.folds):
                continue
            torch.manual_seed(7)
            module = compare_networks.fold(network.make()) if exporter == "folded" else network.make()
            x = network.data(numpy.random.default_rng(3), 16)[0]
            compare_torch.export(network, module, torch.from_numpy(x), exporter, path)
            numpy.savez(path.with_suffix(".npz"), images=x[:3])


def export_timm(folder):
    import timm
    import torch

    for name in TIMM:
        path = folder / f"{name}.onnx"
        if path.exists() or not timm.is_model(name):
            continue
        torch.manual_seed(7)
        module = timm.create_model(name).eval()
        size = module.default_cfg["input_size"]
        x = torch.rand(1, *size)
        try:
            torch.onnx.export(module, (x,), str(path), dynamo=False, input_names=["x"], output_names=["y"])
        except Exception as problem:  # an operator that the exporter lacks
            print(f"{name} was not exported: {str(problem).splitlines()[0]}", flush=True)
            path.unlink(missing_ok=True)
            continue
        numpy.savez(path.with_suffix(".npz"), x=x.numpy())


def copy_published(folder, wheels):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
    import onnx_files

    for name in onnx_files.files_of(wheels):
        path = folder / name.replace("/", "-")
        if not path.exists():
            numpy.savez(path.with_suffix(".npz"), **onnx_files.feeds_of(wheels, name))
            path.symlink_to((wheels / "files" / name).resolve())


def make_files(folder):
    folder.mkdir(parents=True, exist_ok=True)
    export_networks(folder)
    export_timm(folder)
    copy_published(folder, folder / "wheels")


# ---- the C interface ---------------------------------------------------------------------------------------

# By the numbers of the interface.
TYPES = dict(zip((1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13),
                 "float32 uint8 int8 uint16 int16 int32 int64 bool float16 float64 uint32 uint64".split()))


class Interface:
    """Functions by their index in the table."""

    def __init__(self, library):
        base = ctypes.CDLL(str(library)).OrtGetApiBase
        base.restype = ctypes.c_void_p
        get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(ctypes.c_void_p.from_address(base()).value)
        self.table = get(17)

    def function(self, index, result, *arguments):
        kinds = [ctypes.c_size_t if isinstance(one, int) else type(one) if isinstance(one, ctypes.c_int) else ctypes.c_void_p for one in arguments]
        made = ctypes.CFUNCTYPE(result, *kinds)(ctypes.c_void_p.from_address(self.table + 8 * index).value)
        return made(*arguments)

    def call(self, index, *arguments):
        """Calls a function that returns a status."""
        status = self.function(index, ctypes.c_void_p, *arguments)
        if status:
            raise RuntimeError(self.function(2, ctypes.c_char_p, ctypes.c_void_p(status)).decode())

    def made(self, index, *arguments, kind=ctypes.c_void_p):
        """What a function stores at its last argument."""
        result = kind()
        self.call(index, *arguments, ctypes.byref(result))
        return result

    def names(self, session, count, name):
        allocator = self.made(78)
        number = self.made(count, session, kind=ctypes.c_size_t).value
        return [self.made(name, session, i, allocator, kind=ctypes.c_char_p).value for i in range(number)]

    def tensor(self, array):
        number = next(number for number, name in TYPES.items() if name == array.dtype.name)
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        return self.made(49, self.made(69, 1, 0), array.ctypes.data_as(ctypes.c_void_p), array.nbytes, shape, array.ndim, number)

    def array(self, value):
        about = self.made(65, value)
        dtype = TYPES[self.made(60, about, kind=ctypes.c_int).value]
        rank = self.made(61, about, kind=ctypes.c_size_t).value
        shape = (ctypes.c_int64 * (rank + 1))()
        self.call(62, about, shape, rank)
        result = numpy.empty(tuple(shape[:rank]), dtype)
        if result.nbytes:
            ctypes.memmove(result.ctypes.data, self.made(51, value), result.nbytes)
        return result


def opened(library, path, feeds):
    """A function that runs the file, and gives the outputs by name."""
    api = Interface(library)
    settings = api.made(10)
    api.call(24, settings, ctypes.c_int(THREADS))
    session = api.made(7, api.made(3, 3, ctypes.c_char_p(b"compare")), ctypes.c_char_p(str(path).encode()), settings)
    wanted, outputs = [name.decode() for name in api.names(session, 30, 36)], api.names(session, 31, 37)
    arrays = [numpy.ascontiguousarray(feeds[name]) for name in wanted]
    values = (ctypes.c_void_p * len(wanted))(*[api.tensor(array).value for array in arrays])
    given = (ctypes.c_char_p * len(wanted))(*[name.encode() for name in wanted])
    names = (ctypes.c_char_p * len(outputs))(*outputs)

    def run():
        results = (ctypes.c_void_p * len(outputs))()
        api.call(9, session, None, given, values, len(wanted), names, len(outputs), results)
        found = {name.decode(): api.array(ctypes.c_void_p(value)) for name, value in zip(outputs, results)}
        for value in results:
            api.function(96, None, ctypes.c_void_p(value))
        return found

    run.keep = api, arrays  # the memory of the inputs
    return run


# ---- the comparison ----------------------------------------------------------------------------------------


def last_line(done):
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def infer(koine, path, feeds, names, folder):
    """The outputs by name, or the error."""
    given = []
    for number, (name, array) in enumerate(feeds.items()):
        numpy.save(folder / f"x{number}.npy", array)
        given.append(f"{name}={folder}/x{number}.npy")
    outputs = ",".join(f"{name}={folder}/y{number}.npy" for number, name in enumerate(names))
    done = subprocess.run([koine, "infer", path, "--input", ",".join(given), "--output", outputs, "--quiet"], capture_output=True, text=True)
    if done.returncode:
        return last_line(done)
    return {name: numpy.load(folder / f"y{number}.npy") for number, name in enumerate(names)}


def difference(found, expected):
    for name, array in expected.items():
        own = found[name]
        if (own.shape, own.dtype) != (array.shape, array.dtype):
            return f"{name} is {own.dtype} {own.shape}, but {array.dtype} {array.shape} from koine infer"
        if own.tobytes() != array.tobytes():
            far = numpy.abs(own.astype(numpy.float64) - array.astype(numpy.float64))
            return f"{name}: {numpy.count_nonzero(far)} of {far.size} elements differ, by up to {far.max():.2g}"
    return None


def compare(options, path):
    """("same" or "refused" or "different", why)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words = [sys.executable, __file__, options.library, options.koine, options.folder, "--one", path, "--results", folder / "own.npz"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        feeds = dict(numpy.load(path.with_suffix(".npz")))
        if done.returncode:
            import onnx

            names = [output.name for output in onnx.load(str(path), load_external_data=False).graph.output]
            other = infer(options.koine, path, feeds, names, folder)
            return ("refused" if isinstance(other, str) else "different"), last_line(done)
        own = dict(numpy.load(folder / "own.npz"))
        other = infer(options.koine, path, feeds, list(own), folder)
        if isinstance(other, str):
            return "different", f"koine infer refuses it: {other}"
        wrong = difference(own, other)
        return ("different", wrong) if wrong else ("same", "")


# ---- speed -------------------------------------------------------------------------------------------------


def measure(library, path, feeds, seconds):
    """Prints the times in ms: of the start, and of the fastest run; and the largest memory in MB."""
    start = time.perf_counter()
    run, generator = opened(library, path, feeds), numpy.random.default_rng(1)
    run()
    first, best = time.perf_counter() - start, math.inf
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or best == math.inf:
        for array in run.keep[1]:
            if array.size > FEW:
                generator.shuffle(array.reshape(-1))
        before = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - before)
    peak = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps([1000 * first, 1000 * best, int(peak.split()[1]) / 1024]))


def speed(options, path):
    found = {options.library: [], options.speed: []}
    for turn in range(1 + options.rounds):
        for library, rows in found.items():
            words = [sys.executable, __file__, library, options.koine, options.folder, "--one", path, "--speed", options.speed]
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
            if done.returncode:
                return f"{library.name}: {last_line(done)}", None
            if turn:  # the first fills the cache of kernels
                rows.append(json.loads(done.stdout.splitlines()[-1]))
    own, other = ([min(column) for column in zip(*rows)] for rows in found.values())
    return f"{own[1]:.3g} | {other[1]:.3g} | {other[1] / own[1]:.2f} | {own[0]:.0f} | {other[0]:.0f} | {own[2]:.0f} | {other[2]:.0f}", other[1] / own[1]


def compare_speed(options, paths):
    ratios = []
    print("| file | Koine (ms) | original (ms) | ratio | start (ms) | original | memory (MB) | original |\n|---|---|---|---|---|---|---|---|")
    for path in paths:
        row, ratio = speed(options, path)
        ratios += [ratio] if ratio else []
        print(f"| {path.name} | {row} |", flush=True)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}, of {len(ratios)} files; "
              f"load average {os.getloadavg()[0]:.1f}")
    return len(ratios) == len(paths)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("koine", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=os.environ.get("KOINE_ORT_FILES"))
    parser.add_argument("--make", action="store_true", help="add the files that are missing")
    parser.add_argument("--files", default="", help="only files whose name contains one of these texts, separated by commas")
    parser.add_argument("--speed", type=pathlib.Path, metavar="ORIGINAL", help="measure beside this library instead")
    parser.add_argument("--rounds", type=int, default=3, help="alternating processes of each library, with --speed (3)")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.folder:
        print("KOINE_ORT_FILES is not set")
        sys.exit(SKIP)
    if options.one:
        feeds = dict(numpy.load(options.one.with_suffix(".npz")))
        if options.speed:
            measure(options.library, options.one, feeds, 1.0)
        else:
            numpy.savez(options.results, **opened(options.library, options.one, feeds)())
        return True
    if options.make:
        make_files(options.folder)
    paths = sorted(options.folder.glob("*.onnx"), key=lambda path: (path.stat().st_size, path.name))
    paths = [path for path in paths if any(text in path.name for text in options.files.split(",")) and path.stat().st_size <= LARGEST]
    if options.speed:
        return compare_speed(options, paths)
    counts = {"same": 0, "refused": 0, "different": 0}
    for path in paths:
        verdict, why = compare(options, path)
        counts[verdict] += 1
        print(f"{path.name}: {verdict}{': ' + why if why else ''}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return counts["different"] == 0


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
