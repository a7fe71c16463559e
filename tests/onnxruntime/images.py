"""Programs that edit images: darktable's and FFmpeg's calls of ONNX Runtime, with a denoiser and an upscaler exported from PyTorch.

usage: images.py HOUSE_FOLDER LIBRARY TOOLS_FOLDER

KOINE_ORT_LIBRARY names ONNX Runtime's own library, which must give the same images within 1e-4; without it, torch or onnx, the test is
skipped. Each library runs in processes of its own.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

if __name__ == "__main__" and not os.environ.get("KOINE_ORT_LIBRARY"):
    print("KOINE_ORT_LIBRARY is not set")
    sys.exit(77)
try:
    import numpy
    import onnx  # noqa: F401
    import torch
    from torch import nn
except ImportError as problem:
    print(problem)
    sys.exit(77)

sys.path[:0] = [sys.argv[1], sys.argv[3]]
import compare_interface  # noqa: E402
from report import run  # noqa: E402

LIBRARY = pathlib.Path(sys.argv[2]).resolve()
FLOAT, ARENA, DEFAULT = 1, ctypes.c_int(1), ctypes.c_int(0)


# ---- the networks ------------------------------------------------------------------------------------------


class Denoiser(nn.Module):
    """A small U-Net that subtracts the noise it finds."""

    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.middle, self.up = nn.Conv2d(32, 32, 3, padding=1), nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.norm, self.last = nn.BatchNorm2d(32), nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x):
        wide = torch.relu(self.first(x))
        deep = torch.relu(self.norm(self.middle(torch.relu(self.down(wide)))))
        return x - self.last(torch.cat([wide, torch.relu(self.up(deep))], 1))


class Upscaler(nn.Module):
    """Twice the size: sub-pixel convolution, added to an interpolated image."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 24, 5, padding=2), nn.Conv2d(24, 12, 3, padding=1)
        self.slope, self.shuffle = nn.PReLU(24), nn.PixelShuffle(2)

    def forward(self, x):
        larger = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return (larger + self.shuffle(self.second(self.slope(self.first(x))))).clamp(0, 1)


def export(folder):
    torch.manual_seed(3)
    for name, module, scale in (("denoiser", Denoiser(), 1), ("upscaler", Upscaler(), 2)):
        out = {2: "height", 3: "width"} if scale == 1 else {2: "more_height", 3: "more_width"}
        for kind, open_sizes in (("open", {"image": {2: "height", 3: "width"}, "result": out}), ("fixed", None)):
            torch.onnx.export(module.eval(), (torch.rand(1, 3, 48, 64),), str(folder / f"{name}-{kind}.onnx"), dynamo=False,
                              input_names=["image"], output_names=["result"], dynamic_axes=open_sizes)


def image(height, width, seed):
    return numpy.random.default_rng(seed).random((1, 3, height, width), numpy.float32)


# ---- the programs ------------------------------------------------------------------------------------------


def names_of(api, session, allocator, count, name):
    """Names as a C program reads them, each freed through the allocator's own function."""
    found = []
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(ctypes.c_void_p.from_address(allocator.value + 16).value)
    for i in range(api.made(count, session, kind=ctypes.c_size_t).value):
        text = api.made(name, session, i, allocator)
        found.append(ctypes.string_at(text.value))
        free(allocator, text)
    return found


def declared(api, session, position, get):
    """The element type and the sizes of an input or output."""
    info = api.made(get, session, position)
    tensor = api.made(55, info)
    kind = api.made(60, tensor, kind=ctypes.c_int).value
    rank = api.made(61, tensor, kind=ctypes.c_size_t).value
    sizes = (ctypes.c_int64 * rank)()
    api.call(62, tensor, sizes, rank)
    api.function(98, None, info)
    return kind, list(sizes)


def tensor_on(api, memory, array):
    sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
    return api.made(49, memory, array.ctypes.data_as(ctypes.c_void_p), array.nbytes, sizes, array.ndim, FLOAT)


def compute(api, session, name, value, output, result):
    api.call(9, session, None, (ctypes.c_char_p * 1)(name), (ctypes.c_void_p * 1)(value.value), 1, (ctypes.c_char_p * 1)(output), 1, result)


def photo_editor(library, path, x, scale):
    """As darktable: sizes are fixed by name, providers are looked up by their functions, results go into its memory where the sizes are known."""
    api = compare_interface.Interface(library)
    environment = api.made(3, ctypes.c_int(2), ctypes.c_char_p(b"editor"))
    options = api.made(10)
    api.call(24, options, ctypes.c_int(0))
    api.call(23, options, ctypes.c_int(99))
    for symbol, size in ((b"height", x.shape[2]), (b"width", x.shape[3]), (b"nothing", 7)):
        api.call(124, options, ctypes.c_char_p(symbol), size)
    loaded = ctypes.CDLL(str(library))
    for provider in ("CUDA", "MIGraphX", "ROCM"):
        if hasattr(loaded, f"OrtSessionOptionsAppendExecutionProvider_{provider}"):
            raise RuntimeError(f"the library exports a function for {provider}")
    session = api.made(7, environment, ctypes.c_char_p(str(path).encode()), options)
    api.function(100, None, options)
    memory, allocator = api.made(69, ARENA, DEFAULT), api.made(78)
    (name,), (output,) = names_of(api, session, allocator, 30, 36), names_of(api, session, allocator, 31, 37)
    if declared(api, session, 0, 33) != (FLOAT, list(x.shape)):
        raise RuntimeError(f"the input is {declared(api, session, 0, 33)}")
    kind, sizes = declared(api, session, 0, 34)
    own = numpy.zeros((1, 3, scale * x.shape[2], scale * x.shape[3]), numpy.float32)
    value = tensor_on(api, memory, x)
    known = all(size > 0 for size in sizes)
    result = (ctypes.c_void_p * 1)(tensor_on(api, memory, own).value if known else None)
    compute(api, session, name, value, output, result)
    if not known:
        about = api.made(65, ctypes.c_void_p(result[0]))
        rank = api.made(61, about, kind=ctypes.c_size_t).value
        found = (ctypes.c_int64 * rank)()
        api.call(62, about, found, rank)
        if list(found) != list(own.shape) or api.made(64, about, kind=ctypes.c_size_t).value != own.size:
            raise RuntimeError(f"the result is {list(found)}")
        ctypes.memmove(own.ctypes.data, api.made(51, ctypes.c_void_p(result[0])), own.nbytes)
        api.function(99, None, about)
    for freed, function in ((value, 96), (ctypes.c_void_p(result[0]), 96), (session, 95), (memory, 94)):
        api.function(function, None, freed)
    return [own]


def video_filter(library, path, frames):
    """As FFmpeg: an environment for each filter, a new tensor for each frame, results in the library's memory."""
    api = compare_interface.Interface(library)
    environment = api.made(3, ctypes.c_int(2), ctypes.c_char_p(b"filter"))
    options = api.made(10)
    api.call(24, options, ctypes.c_int(2))
    api.call(13, options, ctypes.c_int(0))
    api.call(23, options, ctypes.c_int(99))
    session = api.made(7, environment, ctypes.c_char_p(str(path).encode()), options)
    api.function(100, None, options)
    allocator = api.made(78)
    results = []
    (name,) = names_of(api, session, allocator, 30, 36)
    if declared(api, session, 0, 33)[1][:2] != [1, 3]:
        raise RuntimeError(f"the input is {declared(api, session, 0, 33)}")
    for frame in frames:
        memory = api.made(69, ARENA, DEFAULT)
        value = tensor_on(api, memory, frame)
        api.function(94, None, memory)
        (output,) = names_of(api, session, allocator, 31, 37)
        result = (ctypes.c_void_p * 1)()
        compute(api, session, name, value, output, result)
        results.append(api.array(ctypes.c_void_p(result[0])))
        api.function(96, None, value)
        api.function(96, None, ctypes.c_void_p(result[0]))
    api.function(95, None, session)
    api.function(92, None, environment)
    return results


def work(folder):
    """Writes the images of one library."""
    results = {}
    for name, scale in (("denoiser", 1), ("upscaler", 2)):
        for kind in ("open", "fixed"):
            path = folder / f"{name}-{kind}.onnx"
            for number, size in enumerate(((48, 64),) if kind == "fixed" else ((48, 64), (32, 80))):
                results[f"{name}, {kind}, photo {number}"] = photo_editor(LIBRARY, path, image(*size, number), scale)
        frames = [image(*size, seed) for seed, size in enumerate(((48, 64), (48, 64), (40, 56), (48, 64)))]
        results[f"{name}, video"] = video_filter(LIBRARY, folder / f"{name}-open.onnx", frames)
    numpy.savez(folder / "results.npz", **{f"{key} {i}": array for key, arrays in results.items() for i, array in enumerate(arrays)})


def images():
    bad = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(folder)
        found = {}
        for library in (os.environ["KOINE_ORT_LIBRARY"], LIBRARY):
            done = subprocess.run([sys.executable, __file__, sys.argv[1], str(library), sys.argv[3], str(folder)], capture_output=True, text=True)
            if done.returncode:
                return [f"{library}: {done.returncode}"] + done.stderr.splitlines()[-20:]
            found[library] = dict(numpy.load(folder / "results.npz"))
        expected, own = found.values()
        for key, array in expected.items():
            if key not in own or own[key].shape != array.shape:
                bad.append(f"{key}: missing, or of a different shape")
            elif not numpy.abs(own[key] - array).max() <= 1e-4:
                bad.append(f"{key}: differs by up to {numpy.abs(own[key] - array).max()}")
        if len(expected) < 14:
            bad.append(f"only {len(expected)} images")
    return bad


if len(sys.argv) > 4:
    work(pathlib.Path(sys.argv[4]))
else:
    run([("images", images)])
