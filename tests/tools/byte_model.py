"""A language model in a GGUF file or a folder, whose tokens are bytes, and which continues every byte by one other."""
import json
import os
import struct

TEXT = "abc dé!"  # each byte is followed by the next one, and the last by the end
WIDTH, END = 288, 256


def letters():
    """GPT-2's printable characters for bytes."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + place) for place, byte in enumerate(others)}}


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(content):
    """The type and the bytes of a value."""
    if isinstance(content, bool):
        return struct.pack("<IB", 7, content)
    if isinstance(content, str):
        return struct.pack("<I", 8) + string(content)
    if isinstance(content, float):
        return struct.pack("<If", 6, content)
    if isinstance(content, list):
        kind = 8 if isinstance(content[0], str) else 5
        items = b"".join(string(one) if kind == 8 else struct.pack("<i", one) for one in content)
        return struct.pack("<IIQ", 9, kind, len(content)) + items
    return struct.pack("<II", 4, content)


TEMPLATE = "{% for m in messages %}<|endoftext|>{{ m.role[0] + m.content }}{% endfor %}"


def _tensors(endless=False):
    """By name: rows, 0 for a vector, and the bytes of (rows,WIDTH) in float32."""
    rows = [bytes(4 * WIDTH) for _ in range(END + 2)]
    one = struct.pack("<f", 1)
    table, output = list(rows), list(rows)
    data = TEXT.encode()
    for token in range(END):
        table[token] = bytes(4 * token) + one + bytes(4 * (WIDTH - token - 1))
    for before, after in zip(data, [*data[1:], data[0] if endless else END]):
        output[after] = table[before]
    # Other bytes end the text.
    output[END] = b"".join(one if token == data[-1] and not endless or token < END and token not in data else bytes(4) for token in range(WIDTH))
    ones, square = one * WIDTH, bytes(4 * WIDTH * WIDTH)
    made = {"token_embd.weight": (END + 2, b"".join(table)), "output.weight": (END + 2, b"".join(output)), "output_norm.weight": (0, ones),
            "blk.0.attn_norm.weight": (0, ones), "blk.0.ffn_norm.weight": (0, ones)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        made[f"blk.0.{name}.weight"] = (WIDTH, square)
    return made


NAMES = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def write_folder(path, vocabulary=True):
    """The same model as Hugging Face's libraries save it."""
    os.makedirs(path)
    header, data = {}, b""
    for name, (rows, content) in _tensors().items():
        part = name.split(".")[-2]
        theirs = ("" if part == "output" else "model.layers.0." if name.startswith("blk") else "model.") + NAMES[part] + ".weight"
        header[theirs] = {"dtype": "F32", "shape": [rows, WIDTH] if rows else [WIDTH], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    letter = letters()
    files = {"config.json": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "intermediate_size": WIDTH,
                             "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": END + 2, "max_position_embeddings": 40,
                             "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}}
    if vocabulary:
        files["tokenizer.json"] = {
            "added_tokens": [{"id": END, "content": "<|endoftext|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            "model": {"type": "BPE", "vocab": {**{letter[byte]: byte for byte in range(256)}, "qx": END + 1}, "merges": ["q x"]}}
        files["tokenizer_config.json"] = {"bos_token": "<|endoftext|>", "chat_template": TEMPLATE}
        files["generation_config.json"] = {"eos_token_id": [END]}
    for name, content in files.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            json.dump(content, file)


def write(path, vocabulary=True, context=40, endless=False):
    """endless: the text begins again after its end."""
    tensors = _tensors(endless)
    values = {"general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": WIDTH, "llama.feed_forward_length": WIDTH,
              "llama.context_length": context, "llama.attention.head_count": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5}
    if vocabulary:
        letter = letters()
        values.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
                       "tokenizer.ggml.tokens": [letter[byte] for byte in range(256)] + ["<|endoftext|>", "qx"],
                       "tokenizer.ggml.token_type": [1] * 256 + [3, 1], "tokenizer.ggml.merges": ["q x"],
                       "tokenizer.ggml.eos_token_id": END, "tokenizer.ggml.bos_token_id": END, "tokenizer.ggml.add_bos_token": False,
                       "tokenizer.chat_template": TEMPLATE})
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    header += b"".join(string(key) + value(content) for key, content in values.items())
    bodies = b""
    for name, (count, body) in tensors.items():
        sizes = [WIDTH, count] if count else [WIDTH]
        header += string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, len(bodies))
        bodies += body + bytes(-len(body) % 32)
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % 32) + bodies)
