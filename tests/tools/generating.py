"""koine generate with a language model in a GGUF file or a folder.

usage: generating.py KOINE HOUSE_TESTS
"""
import math
import os

from byte_model import TEXT, write, write_folder
from koine import case, expect, koine, run_cases


@case
def a_text_continues_to_its_end(folder):
    write(os.path.join(folder, "model.gguf"))
    koine("generate", "model.gguf", "--prompt", "ab", "--temperature", "0", folder=folder).needs(out=TEXT + "\n")
    koine("generate", "model.gguf", "--prompt", "ab", "--temperature", "0", "--length", "2", folder=folder).needs(out="abc \n")
    # Sixteen tokens of prompt and six more are more than a context of twelve.
    row = koine("generate", "model.gguf", "--prompt", "a" * 16, "--temperature", "0", "--context", "12", "--json",
                folder=folder).objects()[0]
    if row != {"prompt": "a" * 16, "text": TEXT[1:]}:
        raise AssertionError(row)


@case
def a_text_ends_before_a_stop_text(folder):
    write(os.path.join(folder, "model.gguf"))
    for stop, text in (("dé", "abc "), ("!!", TEXT), ("c", "ab"), ("b", TEXT)):  # the prompt does not count
        out = koine("generate", "model.gguf", "--prompt", "ab", "--temperature", "0", "--stop", stop, folder=folder).out
        expect(out == text + "\n", f"with --stop {stop}: {out!r}")
    koine("generate", "model.gguf", "--prompt", "ab", "--temperature", "0", "--stop", "é", "--json", folder=folder).needs(out='"text": "c d"')
    # A penalty so large that no byte that the text has is drawn again.
    out = koine("generate", "model.gguf", "--prompt", "abc d", "--temperature", "0", "--repetition", "1e9", "--length", "3", folder=folder).out
    expect(out.startswith("abc dé"), out)
    koine("generate", "model.gguf", "--prompt", "ab", "--temperature", "3", "--min-p", "1", folder=folder).needs(out=TEXT + "\n")
    for option, given in (("--min-p", "2"), ("--repetition", "0")):
        koine("generate", "model.gguf", option, given, folder=folder).needs(2, err=option)


@case
def activations_are_rounded(folder):
    write(os.path.join(folder, "model.gguf"))
    koine("convert", "model.gguf", "small.gguf", "--type", "Q8_0", folder=folder).needs(0)
    rounded = ("--activations", "int8")
    koine("generate", "small.gguf", "--prompt", "ab", "--temperature", "0", *rounded, folder=folder).needs(out=TEXT + "\n")
    for file, file_rounds in (("small.gguf", True), ("model.gguf", False)):
        plan = koine("plan", file, "--mode", "infer", "--batch", "1", "--set", "window=8", *rounded, folder=folder).needs(0).out
        expect(("kn_round_" in plan or "blocks_quads" in plan) == file_rounds, plan)


def talk(folder, lines, *options):
    path = os.path.join(folder, "lines.txt")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(lines)
    with open(path, encoding="utf-8") as file:
        return koine("generate", "model.gguf", "--chat", "--temperature", "0", *options, folder=folder, given=file)


@case
def a_conversation_is_answered(folder):
    write(os.path.join(folder, "model.gguf"))
    koine("generate", "model.gguf", "--chat", "--prompt", "xa", "--temperature", "0", folder=folder).needs(out=TEXT[1:] + "\n")
    koine("generate", "model.gguf", "--chat", "--system", "c", "--prompt", "xa", "--temperature", "0", folder=folder).needs(out=TEXT[1:] + "\n")
    found = talk(folder, "xd\n\nc\r\nb")
    found.needs(out="é!\n dé!\nc dé!\n")
    rows = talk(folder, "d\nc\n", "--json").objects()
    expect(rows == [{"prompt": "d", "text": "é!"}, {"prompt": "c", "text": " dé!"}], rows)
    koine("generate", "model.gguf", "--chat", "--prompt", "a" * 50, folder=folder).needs(1, err="the conversation has 52 tokens and the context 40")
    found = koine("generate", "model.gguf", "--chat", "--prompt", "a" * 34, "--temperature", "0", folder=folder)
    found.needs(out=TEXT[1:5], err="the conversation fills the context of 40 tokens")
    koine("generate", "model.gguf", "--system", "c", folder=folder).needs(2, err="--system is only for --chat")


@case
def files_without_a_vocabulary_are_refused(folder):
    write(os.path.join(folder, "model.gguf"), vocabulary=False)
    koine("generate", "model.gguf", "--prompt", "ab", folder=folder).needs(1, err="tokenizer.ggml")
    write_folder(os.path.join(folder, "model"), vocabulary=False)
    koine("generate", "model", "--prompt", "ab", folder=folder).needs(1, err="tokenizer.json")


@case
def a_folder_is_a_model(folder):
    write_folder(os.path.join(folder, "model"))
    for name in ("model", "model/", "./model"):
        koine("generate", name, "--prompt", "ab", "--temperature", "0", folder=folder).needs(out=TEXT + "\n")
    koine("generate", "model", "--chat", "--prompt", "xa", "--temperature", "0", folder=folder).needs(out=TEXT[1:] + "\n")
    koine("tokens", "model", "--text", "ab", "--ids", folder=folder).needs(out="97\n98\n")
    koine("models", "model", folder=folder).needs(out="model: 730080 parameters")
    koine("plan", "model", folder=folder).needs(out="blk0.ffn_up")
    os.mkdir(os.path.join(folder, "empty"))
    koine("plan", "empty", folder=folder).needs(1, err="config.json")


@case
def adapters_are_trained_and_used(folder):
    """The layers of this model are zeros, so that only an adapter of the output has an effect: that b follows a, and a follows b."""
    write(os.path.join(folder, "model.gguf"))
    write_folder(os.path.join(folder, "model"))
    with open(os.path.join(folder, "ab.txt"), "w", encoding="utf-8") as file:
        file.write("ab" * 300)
    with open(os.path.join(folder, "talk.jsonl"), "w", encoding="utf-8") as file:
        file.write('{"prompt": "xa", "completion": "c d"}\n' * 4)
    train = ["--lora", "rank=8,alpha=8,targets=output", "--batch", "4", "--steps", "60", "--lr", "0.05", "--validation", "0"]
    words = ["--prompt", "a", "--temperature", "0", "--length", "4"]
    koine("generate", "model.gguf", *words, folder=folder).needs(out="abc d\n")
    for model in ("model.gguf", "model"):
        for saved in ("poems", "poems.safetensors", *(["poems.gguf"] if model == "model.gguf" else [])):
            koine("train", model, "--data", "text:ab.txt", *train, "--save", saved, "--overwrite", folder=folder).needs(
                0, out=f"saved to {saved}")
            for base in ("model.gguf", "model")[:1 if saved.endswith(".gguf") else 2]:
                koine("generate", base, *words, "--adapter", saved, folder=folder).needs(out="ababa\n")
    koine("train", "model.gguf", "--data", "chat:talk.jsonl", *train, "--save", "talk", folder=folder).needs(0)
    koine("generate", "model.gguf", "--prompt", "xa", "--adapter", "talk", "--temperature", "0", folder=folder).needs(out="xac d\n")
    found = koine("eval", "model.gguf", "--adapter", "talk", "--data", "chat:talk.jsonl", "--length", "20", "--json", folder=folder).objects()[0]
    expect(found["loss"] < 0.5, f"the loss of the answers is {found['loss']}")
    expect(abs(found["perplexity"] - math.exp(found["loss"])) < 1e-3 and "classes" not in found, f"found {found}")
    koine("train", "model.gguf", "--data", "text:ab.txt", *train, "--init", "poems", "--save", "more", folder=folder).needs(
        0, err="loaded the adapter poems")
    koine("train", "model.gguf", "--data", "text:ab.txt", *train, "--save", "poems", folder=folder).needs(1, err="'poems' has an adapter")
    koine("train", "model", "--data", "text:ab.txt", *train, "--save", "x.gguf", folder=folder).needs(
        0, out="saved to x.gguf.safetensors", err="needs a model from a GGUF file")


run_cases()
