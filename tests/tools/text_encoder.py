"""An encoder of texts in a folder, of one layer that only normalizes."""
import json
import math
import os
import struct

WIDTH, POSITIONS, LONGEST = 4, 40, 20
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]


def table(rows, factor):
    return [[factor * math.cos(3 * row + column * column) for column in range(WIDTH)] for row in range(rows)]


TOKENS, PLACES, TYPES = table(len(WORDS), 1), table(POSITIONS, 0.5), table(2, 0.25)
SHAPES = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH), "attention.self.value": (WIDTH, WIDTH),
          "attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (8, WIDTH), "output.dense": (WIDTH, 8)}


def write(path, pooled=True, last_bias=0.0):
    """The products of the layer are 0."""
    os.makedirs(os.path.join(path, "1_Pooling"))
    weights = {"embeddings.word_embeddings.weight": TOKENS, "embeddings.position_embeddings.weight": PLACES,
               "embeddings.token_type_embeddings.weight": TYPES}
    for name, (rows, columns) in SHAPES.items():
        weights[f"encoder.layer.0.{name}.weight"] = [[0.0] * columns] * rows
        weights[f"encoder.layer.0.{name}.bias"] = [0.0] * rows
    for name in ("embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"):
        weights[name + ".weight"], weights[name + ".bias"] = [1.0] * WIDTH, [0.0] * WIDTH
    weights["encoder.layer.0.output.LayerNorm.bias"] = [last_bias] * WIDTH
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
