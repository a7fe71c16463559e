"""Files that are broken in one way or another: each ends in an error that names it, or is left out and counted where that
was asked for; none in a crash, and none in silence.

usage: broken.py KOINE HOUSE_TESTS
"""
import gzip
import io
import struct
import tarfile
import zipfile

from koine import add, expect, koine, needs_headers, png, run_cases, wave, write_bytes

# A grey JPEG of 8 by 8 equal pixels: one quantization table, two Huffman tables with one code each.
JPEG = (b"\xff\xd8" + b"\xff\xdb\0\x43\0" + b"\1" * 64 + b"\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0" +
        b"\xff\xc4\0\x14\0\1" + b"\0" * 15 + b"\0" + b"\xff\xc4\0\x14\x10\1" + b"\0" * 15 + b"\0" +
        b"\xff\xda\0\x08\1\1\0\0\x3f\0" + b"\x3f\xff\xd9")


def picture(**more):
    return png([b"\1\2\3\4"] * 4, **more)


def sound(**more):
    return wave(b"\0\1" * 4, **more)


def idx(kind, shape, data):
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


def npy(kind="<f4", shape="(2, 3)", data=b"\0" * 24):
    head = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


LABELS = npy("<i8", "(2,)", struct.pack("<2q", 0, 1))


def zipped(*members, change=lambda file: file, how=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return change(file.getvalue())


def tarred(*members, cut=None):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()[:cut]


def encrypted(file):
    """The flag of encryption in the heads of all members, here and in the list at the end."""
    file = bytearray(file)
    for mark, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = file.find(mark)
        while place >= 0:
            file[place + at] |= 1
            place = file.find(mark, place + 4)
    return bytes(file)


def flipped(file, mark=b"\0" * 24):
    """A byte of a member changed, so that its checksum is wrong."""
    at = file.find(mark)
    return file[:at] + b"\1" + file[at + 1:]


def cifar(**files):
    return {f"c/{name}.bin": data for name, data in files.items()}


RECORD = b"\3" + b"\0" * 3072
PICTURES = {"p/a/1.png": picture(), "p/b/1.png": picture()}  # valid ones, so that some samples remain
SOUNDS = {"s/a/1.wav": sound(), "s/b/1.wav": sound()}
IMAGES, TAGS = "i/train-images-idx3-ubyte", "i/train-labels-idx1-ubyte"

# The files, by name; the --data argument; a part of the error; whether the sample can be skipped, or what is reported then.
CASES = {
    "JPEG that ends early": ({**PICTURES, "p/a/2.jpg": JPEG[:-3]}, "images:p", "p/a/2.jpg: ", True),
    "JPEG with a broken head": ({**PICTURES, "p/a/2.jpg": JPEG[:30] + b"\0" * 40}, "images:p", "p/a/2.jpg: ", True),
    "PNG with a wrong checksum": ({**PICTURES, "p/a/2.png": picture(wrong=1)}, "images:p", "p/a/2.png: ", True),
    "PNG that ends early": ({**PICTURES, "p/a/2.png": picture()[:-20]}, "images:p", "p/a/2.png: ", True),
    "PNG of a size beyond all": ({**PICTURES, "p/a/2.png": picture(width=1 << 30)}, "images:p", "p/a/2.png: ", True),
    "empty picture": ({**PICTURES, "p/a/2.png": b""}, "images:p", "p/a/2.png: ", True),
    "text called JPEG": ({**PICTURES, "p/a/2.jpg": b"hello\n"}, "images:p", "p/a/2.jpg: ", True),
    "folder without classes": ({"p/1.png": picture()}, "images:p", "0 folders; expected one per class", False),
    "folders without pictures": ({"p/a/1.txt": b"x", "p/b/2.txt": b"x"}, "images:p", "no .jpg, .jpeg or .png", False),
    "WAV with an odd head": ({**SOUNDS, "s/a/2.wav": b"RIFF....WAVEfmt \7"}, "wav:s", "s/a/2.wav: ", True),
    "WAV that is packed": ({**SOUNDS, "s/a/2.wav": sound(kind=7, bits=8)}, "wav:s", "s/a/2.wav: samples of format 7", True),
    "WAV that ends early": ({**SOUNDS, "s/a/2.wav": sound(size=80)}, "wav:s", "80 bytes of sound are declared, but 8 are present", True),
    "WAV of no channels": ({**SOUNDS, "s/a/2.wav": sound(channels=0)}, "wav:s", "s/a/2.wav: found 0 channels", True),
    "empty WAV": ({**SOUNDS, "s/a/2.wav": b""}, "wav:s", "s/a/2.wav: not a WAV file", True),
    "WAV in an archive": ({"s.zip": zipped(*[(k, v) for k, v in SOUNDS.items()], ("s/b/2.wav", b"RIFF"))}, "wav:s.zip",
                          "s/b/2.wav: not a WAV file", True),
    "tar that ends early": ({"p.tar": tarred(*PICTURES.items(), cut=1100)}, "images:p.tar", "p.tar: ", False),
    "tar.gz that ends early": ({"p.tar.gz": gzip.compress(tarred(*PICTURES.items()))[:-30]}, "images:p.tar.gz", "p.tar.gz: ", False),
    "zip that is encrypted": ({"p.zip": zipped(*PICTURES.items(), change=encrypted)}, "images:p.zip", "p.zip: ", False),
    "zip that ends early": ({"p.zip": zipped(*PICTURES.items())[:120]}, "images:p.zip", "p.zip: ", False),
    "archive that is none": ({"p.tar": b"no archive"}, "images:p.tar", "neither a folder nor a .tar", False),
    "CSV with uneven rows": ({"t.csv": b"a,b\n1,2\n3\n"}, "csv:t.csv,target=b", "t.csv", False),
    "CSV with an open quote": ({"t.csv": b"a,b\n1,\"2\n3,4\n"}, "csv:t.csv,target=b", "t.csv", False),
    "CSV without rows": ({"t.csv": b"a,b\n"}, "csv:t.csv,target=b", "t.csv", False),
    "empty CSV": ({"t.csv": b""}, "csv:t.csv,target=b", "t.csv", False),
    "CSV that is no text": ({"t.csv": b"a,b\n1,\xff\xfe\n2,x\n"}, "csv:t.csv,target=b", "line 2: found bytes that are not UTF-8", False),
    "CSV with numbers that are none": ({"t.csv": b"a,b\n1,nan\n2,inf\n3,1\n"}, "csv:t.csv,target=b,number", "t.csv", False),
    "idx that ends early": ({IMAGES: idx(8, (2, 2, 2), b"\0" * 7), TAGS: idx(8, (2,), b"\0\1")}, "idx:i", "needs 8 bytes", False),
    "idx with fewer labels": ({IMAGES: idx(8, (2, 2, 2), b"\0" * 8), TAGS: idx(8, (1,), b"\0")}, "idx:i", "samples", False),
    "idx with a broken gzip": ({IMAGES + ".gz": gzip.compress(idx(8, (2, 2, 2), b"\0" * 8))[:-9], TAGS: idx(8, (2,), b"\0\1")},
                               "idx:i", "train-images-idx3-ubyte.gz: ", False),
    "npy of objects": ({"x.npy": npy("|O"), "y.npy": LABELS}, "npy:x.npy,y.npy", "x.npy: ", False),
    "npy that ends early": ({"x.npy": npy(data=b"\0" * 23), "y.npy": LABELS}, "npy:x.npy,y.npy", "x.npy: ", False),
    "npz with a broken member": ({"a.npz": zipped(("x.npy", npy()), ("y.npy", LABELS), change=flipped)}, "npz:a.npz", "x.npy", False),
    "npz that ends early": ({"a.npz": zipped(("x.npy", npy()), ("y.npy", LABELS))[:-30]}, "npz:a.npz", "a.npz", False),
    "CIFAR of odd length": (cifar(train=b"\0" + RECORD[:-1]), "cifar100:c", "train.bin: ", False),
    "CIFAR with a class too many": (cifar(train=b"\0\x64" + RECORD[1:]), "cifar100:c", "100; expected", False),
    "text that is no UTF-8": ({"t.txt": b"abc\xff\xfedef" * 40}, "text:t.txt", "t.txt", False),
    "empty text": ({"t.txt": b""}, "text:t.txt", "t.txt", False),
}


def check(files, word, error, may_be_left_out):
    def run(folder):
        put(folder, files)
        found = koine("datasets", word, folder=folder)
        needs_headers(found).needs(1, out="", err=error)
        left = koine("datasets", word, "--on-bad-sample", "skip", "--json", folder=folder)
        if may_be_left_out:
            row = left.needs(0, err=("left out 1 that could not be read", error)).objects()[0]
            expect((row["samples"], row["left_out"]) == (2, 1), f"found {row}")
        else:
            left.needs(1, err=error)
    return run


# The same files without the damage: each file above is broken in one place only.
WHOLE = (
    ({**PICTURES, "p/a/2.jpg": JPEG}, "images:p", 3), (SOUNDS, "wav:s", 2),
    ({"p.tar": tarred(*PICTURES.items())}, "images:p.tar", 2), ({"p.zip": zipped(*PICTURES.items())}, "images:p.zip", 2),
    ({"p.tar.gz": gzip.compress(tarred(*PICTURES.items()))}, "images:p.tar.gz", 2), ({"s.tar": tarred(*SOUNDS.items())}, "wav:s.tar", 2),
    ({"t.csv": b"a,b\n1,2\n2,\"1\"\n"}, "csv:t.csv,target=b,number", 2),
    ({IMAGES: idx(8, (2, 2, 2), b"\0" * 8), TAGS: idx(8, (2,), b"\0\1")}, "idx:i", 2),
    ({"x.npy": npy(), "y.npy": LABELS}, "npy:x.npy,y.npy", 2), ({"a.npz": zipped(("x.npy", npy()), ("y.npy", LABELS))}, "npz:a.npz", 2),
    (cifar(train=b"\0" + RECORD), "cifar100:c", 1),
)


def put(folder, files):
    for name, data in files.items():
        write_bytes(folder, name, data)


def whole(files, word, samples):
    def run(folder):
        put(folder, files)
        found = needs_headers(koine("datasets", word, "--json", folder=folder))
        expect(found.needs(0).objects()[0]["samples"] == samples, f"{word}: {found}")
    return run


def one_class(folder):
    put(folder, {f"p/cat/{i}.png": picture() for i in range(3)})
    found = koine("train", "lenet", "--data", "images:p", folder=folder)
    needs_headers(found).needs(1, err="has only one class, 'cat': there is nothing to classify")


for row in WHOLE:
    add(f"whole files of {row[1]}", whole(*row))
add("folder with one class", one_class)
for name, what in CASES.items():
    add(name, check(*what))
run_cases()
