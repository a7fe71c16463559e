"""koine train: every model that has a name, for a few steps on data that fits it.

usage: zoo.py KOINE HOUSE_TESTS small|large
"""
import sys

from koine import add, case, expect, koine, run_cases, write

# name: data, samples in a batch, and whether it goes with the quick ones: what is cheap or trained nowhere else
MODELS = {
    "alexnet": ("shapes", 2, False),
    "alexnet2012": ("shapes", 2, False),
    "autoencoder": ("digits", 4, False),
    "char-gru": ("text", 2, False),
    "char-rnn": ("text", 2, False),
    "cifar-cnn": ("shapes", 4, False),
    "elman": ("text", 2, True),
    "gpt": ("text", 2, False),
    "keyword": ("tones", 4, True),
    "lenet": ("digits", 4, False),
    "linear": ("digits", 4, True),
    "lstm": ("text", 2, False),
    "mlp": ("digits", 4, False),
    "mobilenetv2": ("shapes", 2, False),
    "resnet18": ("shapes", 2, False),
    "resnet18c": ("shapes", 2, False),
    "resnet50": ("shapes", 2, False),
    "squeezenet": ("shapes", 2, False),
    "table": ("csv:rows.csv?target=sum", 4, False),
    "table-classes": ("csv:rows.csv?target=sign", 4, False),
    "unet": ("figures", 1, False),
    "vgg11": ("shapes", 1, False),
    "vgg11c": ("shapes", 2, False),
    "vit-tiny": ("shapes", 2, False),
    "wind": ("wind", 4, True),
}
SMALL = sys.argv[3] == "small"


@case
def all_are_here(folder):
    listed = [line.split()[0] for line in koine("models", folder=folder).needs(0).out.splitlines()]
    expect(sorted(listed) == sorted(MODELS), f"koine models lists {listed}, and this table has {sorted(MODELS)}")


@case
def data_that_does_not_fit(folder):
    koine("train", "lenet", "--data", "shapes", folder=folder).needs(
        1, out="", err=("(batch,3,32,32) in the data", "(batch,1,28,28)", "enlarged, never reduced"))
    koine("train", "unet", "--data", "shapes", folder=folder).needs(
        1, out="", err=("the data 'shapes' does not fit the model 'unet'", "`figures`"))
    koine("train", "gpt", "--data", "digits", folder=folder).needs(1, out="", err="text:FILE")


def trained(name):
    data, batch, _ = MODELS[name]

    def test(folder):
        rows = [(i * 7 % 13 - 6, i * 5 % 11 - 5) for i in range(2000)]
        write(folder, "rows.csv", "a,b,sum,sign\n" + "".join(
            f"{a},{b},{a + b},{'plus' if a + b > 0 else 'minus'}\n" for a, b in rows))
        found = koine("train", name, "--data", data, "--steps", "2", "--batch", str(batch), "--validation", "0.001",
                      "--json", "--quiet", folder=folder, time_limit=1800).objects()[0]
        expect(found["step"] == 2 and 0 < found["loss"] < 1000 and found["validation_loss"] > 0, f"found {found}")

    return test


for model, (_, _, small) in MODELS.items():
    if small == SMALL:
        add(model, trained(model))

run_cases()
