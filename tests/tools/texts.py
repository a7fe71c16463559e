"""koine infer with texts: an encoder in a folder gives the vector of each.

usage: texts.py KOINE HOUSE_TESTS
"""
import json
import math
import os
import struct

from koine import case, expect, koine, run_cases

WIDTH, POSITIONS, LONGEST = 4, 40, 20
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]


def table(rows, factor):
    return [[factor * math.cos(3 * row + column * column) for column in range(WIDTH)] for row in range(rows)]


TOKENS, PLACES, TYPES = table(len(WORDS), 1), table(POSITIONS, 0.5), table(2, 0.25)
SHAPES = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH), "attention.self.value": (WIDTH, WIDTH),
          "attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (8, WIDTH), "output.dense": (WIDTH, 8)}


def write(path, pooled=True):
    """An encoder of one layer, whose products are 0, so that it only normalizes."""
    os.makedirs(os.path.join(path, "1_Pooling"))
    weights = {"embeddings.word_embeddings.weight": TOKENS, "embeddings.position_embeddings.weight": PLACES,
               "embeddings.token_type_embeddings.weight": TYPES}
    for name, (rows, columns) in SHAPES.items():
        weights[f"encoder.layer.0.{name}.weight"] = [[0.0] * columns] * rows
        weights[f"encoder.layer.0.{name}.bias"] = [0.0] * rows
    for name in ("embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"):
        weights[name + ".weight"], weights[name + ".bias"] = [1.0] * WIDTH, [0.0] * WIDTH
    header, data = {}, b""
    for name, array in weights.items():
        rows = array if isinstance(array[0], list) else [array]
        content = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
        shape = [len(rows), len(rows[0])] if rows is array else [len(array)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    files = {"config.json": {"model_type": "bert", "vocab_size": len(WORDS), "hidden_size": WIDTH, "intermediate_size": 8, "num_hidden_layers": 1,
                             "num_attention_heads": 2, "max_position_embeddings": POSITIONS, "hidden_act": "gelu"},
             "tokenizer.json": {"pre_tokenizer": {"type": "WhitespaceSplit"},
                                "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
                                "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                                          "vocab": {word: i for i, word in enumerate(WORDS)}}}}
    if pooled:
        files["modules.json"] = [{"type": "models.Transformer", "path": ""}, {"type": "models.Pooling", "path": "1_Pooling"},
                                 {"type": "models.Normalize", "path": "2_Normalize"}]
        files["1_Pooling/config.json"] = {"pooling_mode_mean_tokens": True}
        files["sentence_bert_config.json"] = {"max_seq_length": LONGEST}
    for name, content in files.items():
        with open(os.path.join(path, name), "w") as file:
            json.dump(content, file)


def vector(text):
    tokens = [2, *[WORDS.index(word) if word in WORDS else 1 for word in text.split()][:LONGEST - 2], 3]
    total = [0.0] * WIDTH
    for place, token in enumerate(tokens):
        row = [TOKENS[token][i] + PLACES[place][i] + TYPES[0][i] for i in range(WIDTH)]
        for _ in range(3):
            middle = sum(row) / WIDTH
            size = math.sqrt(sum((x - middle) ** 2 for x in row) / WIDTH)
            row = [(x - middle) / size for x in row]
        total = [a + b for a, b in zip(total, row)]
    size = math.sqrt(sum(x * x for x in total))
    return [x / size for x in total]


def check(found, texts):
    expect(len(found) == len(texts), found)
    for row, text in zip(found, texts):
        worst = max(abs(float(a) - b) for a, b in zip(row, vector(text)))
        expect(len(row) == WIDTH and worst < 1e-5, f"'{text}': {row}, expected {vector(text)}")


@case
def texts_have_vectors(folder):
    write(os.path.join(folder, "encoder"))
    texts = ["a b b", "", "b zz a", "a " * 30]
    with open(os.path.join(folder, "texts.txt"), "w", newline="") as file:
        file.write("a b b\n\nb zz a\r\n" + "a " * 30)
    koine("infer", "encoder", "texts.txt", "--output", "found.csv", folder=folder).needs()
    with open(os.path.join(folder, "found.csv")) as file:
        rows = [line.split(",") for line in file.read().split()]
    check(rows[1:], texts)
    # A short window, and a batch smaller than the number of texts.
    koine("infer", "encoder/", "texts.txt", "texts.txt", "--batch", "3", "--output", "more.csv", folder=folder).needs()
    with open(os.path.join(folder, "more.csv")) as file:
        check([line.split(",") for line in file.read().split()][1:], texts + texts)
    koine("infer", "encoder", "--text", "b a", "--output", "one.csv", folder=folder).needs()
    with open(os.path.join(folder, "one.csv")) as file:
        check([line.split(",") for line in file.read().split()][1:], ["b a"])
    koine("models", "encoder", folder=folder).needs(out="input   length int32 (batch)")
    koine("plan", "encoder", folder=folder).needs(out="blk0.attn_q")


@case
def texts_need_an_encoder(folder):
    write(os.path.join(folder, "encoder"), pooled=False)
    koine("infer", "encoder", "--text", "a", folder=folder).needs(1, err="modules.json")
    os.remove(os.path.join(folder, "encoder", "tokenizer.json"))
    koine("infer", "encoder", "--text", "a", "x.npy", folder=folder).needs(2, err="--text and files exclude each other")
    write(os.path.join(folder, "other"))
    open(os.path.join(folder, "empty.txt"), "w").close()
    koine("infer", "other", "empty.txt", folder=folder).needs(1, err="no lines")
    koine("infer", "other", "missing.txt", folder=folder).needs(1, err="missing.txt")
    os.remove(os.path.join(folder, "other", "tokenizer.json"))
    koine("infer", "other", "--text", "a", folder=folder).needs(1, err="tokenizer.json")


run_cases()
