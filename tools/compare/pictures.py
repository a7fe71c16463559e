"""The image pipeline alone, without training: Koine and PyTorch's DataLoader with torchvision.

usage: pictures.py FOLDER [--koine KOINE] [--size N] [--batch N] [--workers N] [--rounds N] [--json FILE]

FOLDER holds a folder for each class, or train/ with such. Both sides cut the middle square out of each picture, scale it to
the size, flip half of them, move them by up to four pixels and give float32 batches (N,3,size,size) in a shuffled order.
PyTorch decodes anew in each epoch, with its workers running on from one to the next, and its best epoch after the first counts.
Koine decodes when the data is opened, with a thread for each core, and keeps bytes: its first epoch, opening included, is what
is compared, and the epochs after it are reported as well. Both run on as many cores as there are workers, in turn, and ratios are
made within a round.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def torch_worker(options):
    """One process: prints an object with the seconds of each epoch."""
    import torch
    import torchvision
    from torchvision import transforms
    torch.set_num_threads(1)
    change = transforms.Compose([transforms.Resize(options.size), transforms.CenterCrop(options.size),
                                 transforms.RandomHorizontalFlip(), transforms.RandomCrop(options.size, padding=4),
                                 transforms.ToTensor()])
    data = torchvision.datasets.ImageFolder(options.folder, change)
    loader = torch.utils.data.DataLoader(data, options.batch, shuffle=True, num_workers=options.workers,
                                         persistent_workers=True)
    epochs, samples = [], 0
    for _ in range(3):
        begin, samples = time.perf_counter(), 0
        for pictures, labels in loader:
            samples += len(labels)
        epochs.append(time.perf_counter() - begin)
    print(json.dumps({"samples": samples, "epochs_s": epochs, "torch": torch.__version__,
                      "torchvision": torchvision.__version__}))


def ask(command, cores):
    """The last line of a program on some of the cores, as an object."""
    done = subprocess.run(command, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores) if cores else None)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def one_round(options, cores):
    koine = ask([options.koine, "datasets", f"images:{options.folder},size={options.size}", "--augment", "flip,crop=4",
                 "--batch", str(options.batch), "--workers", str(options.workers), "--json"], cores)
    torch = ask([sys.executable, os.path.abspath(__file__), options.folder, "--as-torch", "--size", str(options.size),
                 "--batch", str(options.batch), "--workers", str(options.workers)], cores)
    if koine["samples"] != torch["samples"]:
        sys.exit(f"Koine read {koine['samples']} pictures, PyTorch {torch['samples']}")
    samples = koine["samples"]
    row = {"samples": samples, "koine_first": samples / (koine["opening_s"] + koine["first_epoch_s"]),
           "koine_later": samples / koine["later_epoch_s"], "torch_first": samples / torch["epochs_s"][0],
           "torch": samples / min(torch["epochs_s"][1:]), "versions": [torch["torch"], torch["torchvision"]]}
    row["ratio"] = row["koine_first"] / row["torch"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--koine", default=os.path.join(HERE, "../../build/tools/koine"))
    parser.add_argument("--size", type=int, default=32, help="pixels per side (32)")
    parser.add_argument("--batch", type=int, default=64, help="samples per batch (64)")
    parser.add_argument("--workers", type=int, default=2, help="PyTorch processes, Koine threads, and cores for both (2)")
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds (3)")
    parser.add_argument("--json", help="file for raw results")
    parser.add_argument("--as-torch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = os.path.join(options.folder, "train")
    options.folder = parts if os.path.isdir(parts) else options.folder
    if options.as_torch:
        return torch_worker(options)
    cores = sorted(os.sched_getaffinity(0))[:options.workers] if hasattr(os, "sched_setaffinity") else []
    rows = []
    for number in range(options.rounds):
        row = one_round(options, cores)
        rows.append(row)
        print(f"round {number + 1}, {row['samples']} pictures: Koine {row['koine_first']:.0f} a second including decoding, "
              f"{row['koine_later']:.0f} later; PyTorch {row['torch']:.0f}; {row['ratio']:.2f} times as fast", flush=True)
    print(f"median: {statistics.median(row['ratio'] for row in rows):.2f} times as fast as torch "
          f"{rows[0]['versions'][0]}, torchvision {rows[0]['versions'][1]}, with {options.workers} workers")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
