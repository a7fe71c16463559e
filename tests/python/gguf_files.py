"""Language models written as GGUF files and folders, with merged adapters: the same logits, tokens and metadata; types of weights; errors.

usage: gguf_files.py HOUSE_FOLDER
"""
import json
import os
import struct
import tempfile

from package import case, expect, expect_equal, raises, run

import koine
import koine.io
import numpy as np

SIZES = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 7, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "max_position_embeddings": 16, "tie_word_embeddings": False}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 40,
          "rope_theta": 500.0}
KINDS = {"llama": ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True, "rope_parameters": LLAMA3}),
         "mistral": ("MistralForCausalLM", {"sliding_window": 16, "tie_word_embeddings": True}),
         "qwen2": ("Qwen2ForCausalLM", {}),
         "qwen3": ("Qwen3ForCausalLM", {"tie_word_embeddings": True}),
         "gemma2": ("Gemma2ForCausalLM", {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4, "query_pre_attn_scalar": 8,
                                          "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5, "tie_word_embeddings": True}),
         "gemma3_text": ("Gemma3ForCausalLM", {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4, "query_pre_attn_scalar": 8,
                                               "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 700.0},
                                                                   "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}}})}
TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 6: "Q5_0", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K", 30: "BF16"}


def write(path, name, content):
    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
        json.dump(content, file)


def config_of(kind, **more):
    name, own = KINDS[kind]
    activation = {} if "hidden_activation" in own else {"hidden_act": "silu"}
    return {"model_type": kind, "architectures": [name], "rms_norm_eps": 1e-5, **activation, **SIZES, **own, **more}


def weights_of(config):
    kind, random = config["model_type"], np.random.default_rng(5)
    width, hidden, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    made = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    if not config["tie_word_embeddings"]:
        made["lm_head.weight"] = (config["vocab_size"], width)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for part, rows, columns in (("self_attn.q_proj", q, width), ("self_attn.k_proj", kv, width), ("self_attn.v_proj", kv, width),
                                    ("self_attn.o_proj", width, q), ("mlp.gate_proj", hidden, width), ("mlp.up_proj", hidden, width),
                                    ("mlp.down_proj", width, hidden)):
            made[f"{layer}{part}.weight"] = (rows, columns)
            if kind == "llama" or (kind == "qwen2" and part[-6] in "qkv"):
                made[f"{layer}{part}.bias"] = (rows,)
        norms = {"input_layernorm": width, "post_attention_layernorm": width}
        if kind in ("qwen3", "gemma3_text"):
            norms.update({"self_attn.q_norm": head, "self_attn.k_norm": head})
        if "gemma" in kind:
            norms.update({"pre_feedforward_layernorm": width, "post_feedforward_layernorm": width})
        made.update({f"{layer}{norm}.weight": (size,) for norm, size in norms.items()})
    return {name: random.standard_normal(shape).astype(np.float32) * (1.6 * shape[-1] ** -0.5 if len(shape) > 1 else 0.2) + ("norm" in name and "gemma" not in kind)
            for name, shape in made.items()}


def make(path, kind, dtype=np.float32, change=None, **more):
    config = config_of(kind, **more)
    weights = {name: array.astype(dtype) for name, array in weights_of(config).items()}
    if change:
        change(weights)
    write(path, "config.json", config)
    koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
    return koine.Model(path)


def types_in(path):
    """The type of each tensor."""
    found = {}
    with open(path, "rb") as file:
        data = file.read()
    place = 24

    def take(form):
        nonlocal place
        values = struct.unpack_from("<" + form, data, place)
        place += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal place
        count = take("Q")
        place += count
        return data[place - count:place].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            kind, count = take("IQ")
            return [value(kind) for _ in range(count)]
        return take({0: "B", 4: "I", 5: "i", 6: "f", 7: "?"}[kind])

    tensors, pairs = struct.unpack_from("<QQ", data, 8)
    keys = {}
    for _ in range(pairs):
        key = text()
        keys[key] = value(take("I"))
    for _ in range(tensors):
        name = text()
        rank = take("I")
        shape = [take("Q") for _ in range(rank)]
        kind, offset = take("IQ")
        expect(offset % 32 == 0, name)
        found[name] = (TYPES[kind], shape)
    return keys, found


def logits(model):
    return model.predict(np.random.default_rng(3).integers(0, SIZES["vocab_size"], (2, 16)).astype(np.int32))


def near(found, expected, limit):
    worst = np.abs(found - expected).max() / np.abs(expected).max()
    expect(worst <= limit, f"logits differ by {worst}")


@case
def folders_become_files_with_the_same_logits():
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            model, file = make(path, kind), os.path.join(path, "model.gguf")
            model.save(file)
            near(logits(koine.Model(file)), logits(model), 1e-5)
            again = os.path.join(path, "again.gguf")
            koine.Model(file).save(again)
            with open(file, "rb") as one, open(again, "rb") as other:
                expect(one.read() == other.read(), f"{kind}: a file that is written again differs")


def config_in(path):
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        return json.load(file)


@case
def files_become_folders_with_the_same_weights():
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            model, file, made = make(path, kind), os.path.join(path, "model.gguf"), os.path.join(path, "made", "")
            model.save(file)
            koine.Model(file).save(made)
            before, after = (koine.io.load_safetensors(os.path.join(where, "model.safetensors")) for where in (path, made))
            expect_equal(set(after), set(before))
            for name in before:
                expect(np.allclose(after[name], before[name], rtol=0, atol=2e-7 if "gemma" in kind else 0), f"{kind}: {name}")
            near(logits(koine.Model(made)), logits(model), 1e-5)
            given, found = config_of(kind), config_in(made)
            expect_equal(found["model_type"], "llama" if kind == "mistral" else kind)
            for name in set(given) & set(found) - {"model_type", "architectures"}:
                expect_equal(found[name], given[name])
            if kind == "llama":
                expect_equal(({"rope_theta": found["rope_theta"], **found["rope_scaling"]}), LLAMA3)
            if kind == "gemma3_text":
                expect_equal((found["rope_theta"], found["rope_local_base_freq"], found["rope_scaling"]["factor"]), (700, 90, 2))
                expect_equal(found["layer_types"], 5 * ["sliding_attention"] + ["full_attention", "sliding_attention"])
            expect_equal(sorted(os.listdir(made)), ["config.json", "model.safetensors"])


@case
def folders_have_the_types_that_are_asked_for():
    for blocks, words, dtype in ((None, {}, np.float32), ("F16", {}, np.float16), ("Q8_0", {}, np.float32), ("Q8_0", {"weights": "float16"}, np.float16)):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            file, made = os.path.join(path, "model.gguf"), os.path.join(path, "made", "")
            make(path, "llama", intermediate_size=64).save(file, blocks=blocks)
            model = koine.Model(file)
            model.save(made, **words)
            weights = koine.io.load_safetensors(made + "model.safetensors")
            expect_equal({array.dtype for array in weights.values() if array.ndim > 1}, {np.dtype(dtype)})
            expect_equal({array.dtype for array in weights.values() if array.ndim == 1}, {np.dtype(np.float32)})
            expect_equal(config_in(made)["torch_dtype"], np.dtype(dtype).name)
            near(logits(koine.Model(made)), logits(model), 0.02 if words else 1e-5)
            with raises(koine.KoineError, "already exists"):
                model.save(made)


@case
def what_folders_cannot_express_is_an_error():
    def refuse(file, part, change=None, **words):
        made = os.path.join(path, "made", "")
        model = koine.Model(file)
        if change:
            model.states[change] = model.states[change] * np.linspace(1, 2, model.states[change].size, dtype=np.float32).reshape(model.states[change].shape)
        with raises(koine.KoineError, part):
            model.save(made, **words)
        expect(not os.path.exists(made + "config.json"), "the folder seems to be complete")

    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        file = os.path.join(path, "model.gguf")
        make(path, "llama").save(file)
        refuse(file, "Llama 3's rule", change="rope_freqs")
        refuse(file, "float64", weights="float64")
        with raises(koine.KoineError, "keep their types"):
            koine.Model(path).save(os.path.join(path, "made", ""), weights="float16")
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        file = os.path.join(path, "model.gguf")
        write(path, "tokenizer.json", scored(post_processor=None))
        make(path, "qwen3").save(file)
        with open(file, "rb") as stream:
            data = bytearray(stream.read())
        place = data.index(b"tokenizer.ggml.scores") + len("tokenizer.ggml.scores") + 16
        words = list(scored()["model"]["vocab"])
        one, other = (place + 4 * words.index(word) for word in ("ab", "bc"))
        data[other:other + 4] = data[one:one + 4]
        with open(file, "wb") as stream:
            stream.write(data)
        refuse(file, "same score")


@case
def numbers_of_16_bits_stay():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        model, file = make(path, "llama", np.float16), os.path.join(path, "model.gguf")
        model.save(file)
        keys, tensors = types_in(file)
        expect_equal({kind for kind, shape in tensors.values() if len(shape) > 1}, {"F16"})
        expect_equal({kind for kind, shape in tensors.values() if len(shape) == 1}, {"F32"})
        near(logits(koine.Model(file)), logits(model), 1e-5)
        expect_equal((keys["general.architecture"], keys["llama.block_count"], keys["llama.vocab_size"]), ("llama", 7, 300))
        expect_equal(tensors["blk.6.attn_k.weight"][1], [32, 16])
        expect_equal(tensors["rope_freqs.weight"], ("F32", [4]))


@case
def matrices_have_the_type_that_is_asked_for():
    large = {"hidden_size": 256, "intermediate_size": 288, "num_hidden_layers": 1}
    wide = {"blk.0.attn_q.weight", "blk.0.ffn_gate.weight", "blk.0.attn_v.weight"}
    for blocks, output, matrix, rest, limit in (("F32", "F32", "F32", "F32", 1e-5), ("F16", "F16", "F16", "F16", 0.02),
                                                ("BF16", "BF16", "BF16", "BF16", 0.1), ("Q8_0", "Q8_0", "Q8_0", "Q8_0", 0.1),
                                                ("Q5_0", "Q5_0", "Q5_0", "Q5_0", 0.5), ("Q4_0", "Q6_K", "Q4_0", "Q4_0", 0.8),
                                                ("Q4_K", "Q6_K", "Q4_K", "Q5_0", 0.8), ("Q6_K", "Q6_K", "Q6_K", "Q8_0", 0.2)):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            model, file = make(path, "qwen2", **large), os.path.join(path, "model.gguf")
            model.save(file, blocks=blocks)
            tensors = types_in(file)[1]
            for name in wide:
                expect_equal(tensors[name][0], matrix)
            expect_equal((tensors["output.weight"][0], tensors["blk.0.ffn_down.weight"][0]), (output, rest))
            expect_equal(tensors["blk.0.attn_q.bias"][0], "F32")
            near(logits(koine.Model(file)), logits(model), limit)
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        file = os.path.join(path, "model.gguf")
        make(path, "qwen3", intermediate_size=40).save(file, blocks="Q4_0")
        tensors = types_in(file)[1]
        expect_equal((tensors["token_embd.weight"][0], tensors["blk.0.ffn_down.weight"][0], tensors["blk.0.ffn_up.weight"][0]),
                     ("Q8_0", "F16", "Q4_0"))


@case
def changed_weights_are_written():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        small, large, last = (os.path.join(path, name) for name in ("small.gguf", "large.gguf", "last.gguf"))
        make(path, "llama").save(small, blocks="Q8_0")
        model = koine.Model(small)
        model.save(large)
        with open(small, "rb") as one, open(large, "rb") as other:
            expect(one.read() == other.read(), "a file that is written again differs")
        model.states["blk0.attn_q.weight"] = model.states["blk0.attn_q.weight"] * 1.5
        model.save(last)
        tensors = types_in(last)[1]
        expect_equal((tensors["blk.0.attn_q.weight"][0], tensors["blk.1.attn_q.weight"][0]), ("F16", "Q8_0"))
        near(logits(koine.Model(last)), logits(model), 0.02)


# ---- vocabularies ----------------------------------------------------------------------------------------------------


LETTER = "\u2581"
SPLIT = {"type": "Split", "pattern": {"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                                               r"|\s+(?!\S)|\s+"}, "behavior": "Isolated", "invert": False}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
TEXTS = ["ab abc 12 cab", " a", "", "b<end>a", "a  b\n\nc \u00e9 \U0001f600 it's I'LL"]


def byte_letters():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in kept]
    return [chr(byte if byte in kept else 256 + rest.index(byte)) for byte in range(256)]


def byte_level(**more):
    words = byte_letters() + ["ab", "\u0120a", "abc"]
    return {"version": "1.0", "added_tokens": [{"id": 290, "content": "<end>", "special": True, "normalized": False}],
            "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, BYTES]}, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)}, "merges": ["a b", "\u0120 a", "ab c"]}, **more}


def scored(**more):
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), LETTER, "a", "b", "c", "ab", LETTER + "a", LETTER + "ab", "bc"]
    merges = [["a", "b"], ["b", "c"], [LETTER, "a"], [LETTER + "a", "b"], [LETTER, "ab"]]
    added = [{"id": i, "content": word, "special": True, "normalized": False} for i, word in enumerate(words[:3])]
    return {"version": "1.0", "added_tokens": [*added, {"id": 280, "content": "<end>", "special": False, "normalized": False}],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": LETTER},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": LETTER}]},
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": LETTER}, "content": " "}, {"type": "ByteFallback"},
                                                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)}, "merges": merges, "unk_token": "<unk>", "fuse_unk": True,
                      "byte_fallback": True}, **more}


@case
def vocabularies_have_the_same_tokens():
    for made in (byte_level(), scored()):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            write(path, "tokenizer.json", made)
            end = "</s>" if "<s>" in made["model"]["vocab"] else "<end>"
            write(path, "tokenizer_config.json", {"eos_token": end, "bos_token": "<s>", "unk_token": "<unk>", "chat_template": "{{ messages }}"})
            model, file = make(path, "llama"), os.path.join(path, "model.gguf")
            model.save(file)
            first, second = koine.Vocabulary(path), koine.Vocabulary(file)
            expect_equal(len(second), 300)
            for text in TEXTS:
                expect_equal(list(second.encode(text)), list(first.encode(text)))
                expect_equal(second.decode(second.encode(text)), first.decode(first.encode(text)))
            keys = types_in(file)[0]
            expect_equal(keys["tokenizer.chat_template"], "{{ messages }}")
            expect_equal(keys["tokenizer.ggml.eos_token_id"], made["model"]["vocab"].get(end, 290))
            expect_equal((keys["tokenizer.ggml.tokens"][299], keys["tokenizer.ggml.token_type"][299]), ("[PAD299]", 5))
            expect_equal(keys["tokenizer.ggml.add_bos_token"], end == "</s>")
            expect_equal(keys["tokenizer.ggml.pre"], "default" if end == "</s>" else "qwen2")
            # From the file to a folder, and to a file again.
            folder, again = os.path.join(path, "folder", ""), os.path.join(path, "again.gguf")
            koine.Model(file).save(folder)
            third = koine.Vocabulary(folder)
            for text in TEXTS:
                expect_equal(list(third.encode(text)), list(second.encode(text)))
                expect_equal(third.decode(third.encode(text)), second.decode(second.encode(text)))
            expect_equal([third.is_special(i) for i in range(300)], [second.is_special(i) for i in range(300)])
            koine.Model(folder).save(again)
            found = types_in(again)[0]
            for name in set(keys) - {"general.name", "tokenizer.ggml.token_type"}:  # unused tokens become normal ones
                expect(found[name] == keys[name], name)
            with open(folder + "tokenizer_config.json", encoding="utf-8") as stream:
                settings = json.load(stream)
            expect_equal((settings.get("bos_token"), settings["eos_token"]), ("<s>" if end == "</s>" else None, end))
            with open(folder + "generation_config.json", encoding="utf-8") as stream:
                expect_equal(json.load(stream)["eos_token_id"], [keys["tokenizer.ggml.eos_token_id"]])


@case
def other_vocabularies_are_errors():
    def refuse(made, part):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            write(path, "tokenizer.json", made)
            model, file = make(path, "llama"), os.path.join(path, "model.gguf")
            with raises(koine.KoineError, "tokenizer.json", part):
                model.save(file)
            expect(not os.path.exists(file), "a part of a file is left")

    model = scored()["model"]
    refuse(byte_level(pre_tokenizer=BYTES), "pre-tokenizer")
    refuse(byte_level(normalizer={"type": "Lowercase"}), "normalizer")
    refuse(scored(normalizer=None), "normalizer")
    refuse(scored(model={**model, "merges": model["merges"][:4]}), "no merge")
    refuse(scored(model={**model, "merges": [model["merges"][i] for i in (0, 2, 3, 1, 4)]}), "different priorities")
    refuse(scored(model={**model, "byte_fallback": False}), "byte fallback")
    refuse({"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}, "BPE")
    long = scored()
    long["added_tokens"].append({"id": 300, "content": "<more>", "special": True})
    refuse(long, "301 tokens")


# ---- merged adapters -------------------------------------------------------------------------------------------------


def adapted(path, to, **lora):
    """A model whose adapter has random matrices, saved as `to`."""
    model, random = koine.Model(path, lora=koine.Lora(**lora)), np.random.default_rng(11)
    logits(model)
    for name in list(model.states):
        if name.endswith((".lora_a", ".lora_b")):
            model.states[name] = random.standard_normal(model.states[name].shape).astype(np.float32) * 0.1
    model.save_adapter(to)
    return logits(model)


@case
def merged_models_compute_what_adapters_do():
    for kind, lora in (("llama", {"rank": 3, "alpha": 5}), ("qwen3", {"rank": 2, "rank_stabilized": True}),
                       ("gemma3_text", {"rank": 4, "targets": "attn_q,ffn_down"})):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            def place(name):
                return os.path.join(path, name)
            make(path, kind)
            expected = adapted(path, place("adapter"), **lora)
            expect(np.abs(expected - logits(koine.Model(path))).max() > 1e-3 * np.abs(expected).max(), "the adapter does nothing")
            model = koine.Model(path)
            model.merge_adapter(place("adapter"))
            near(logits(model), expected, 1e-5)
            for name in ("merged/", "merged.gguf", "merged.safetensors"):
                model.save(place(name))
                near(logits(koine.Model(place(name))), expected, 1e-5)
            # The same adapter, for a file whose q and k have other rows in Llama.
            koine.Model(path).save(place("model.gguf"))
            model = koine.Model(place("model.gguf"))
            model.merge_adapter(place("adapter"))
            near(logits(model), expected, 1e-5)
            model.save(place("folder/"))
            near(logits(koine.Model(place("folder/"))), expected, 1e-5)


@case
def dora_adapters_are_merged():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        def place(name):
            return os.path.join(path, name)
        make(path, "llama").save(place("model.gguf"))
        before, random, tensors = koine.io.load_safetensors(place("model.safetensors")), np.random.default_rng(8), {}
        weights = dict(before)
        for name in [name[:-len(".weight")] for name in before if name.endswith(("q_proj.weight", "down_proj.weight"))]:
            units, inputs = before[f"{name}.weight"].shape
            a, b = (random.standard_normal(shape).astype(np.float32) * 0.2 for shape in ((3, inputs), (units, 3)))
            lengths = random.uniform(0.5, 2, units).astype(np.float32)
            whole = before[f"{name}.weight"] + 6 / 3 * b.astype(np.float64) @ a
            weights[f"{name}.weight"] = (lengths[:, None] * whole / np.linalg.norm(whole, axis=1, keepdims=True)).astype(np.float32)
            tensors.update({f"base_model.model.{name}.{part}": array for part, array in
                            (("lora_A.weight", a), ("lora_B.weight", b), ("lora_magnitude_vector", lengths))})
        for name in ("adapter", "expected"):
            os.mkdir(place(name))
        write(place("expected"), "config.json", config_of("llama"))
        koine.io.save_safetensors(place("expected/model.safetensors"), weights)
        expected = logits(koine.Model(place("expected")))

        def save(dora, tensors):
            write(place("adapter"), "adapter_config.json", {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "use_dora": dora})
            koine.io.save_safetensors(place("adapter/adapter_model.safetensors"), tensors)

        save(True, tensors)
        for name in ("", "model.gguf"):
            model = koine.Model(place(name))
            model.merge_adapter(place("adapter"))
            near(logits(model), expected, 1e-5)
            with raises(koine.KoineError, "can only be merged"):
                koine.Model(place(name), adapter=place("adapter"))
        model = koine.Model(path)
        for dora, given, part in ((False, tensors, "lora_magnitude_vector"), (True, {name: array for name, array in tensors.items() if array.ndim == 2}, "0 magnitudes"),
                                  (True, {name: array[:5] if array.ndim == 1 else array for name, array in tensors.items()}, "5 magnitudes"),
                                  (True, {name: array * np.float32(np.nan) if array.ndim == 1 else array for name, array in tensors.items()}, "not finite")):
            save(dora, given)
            with raises(koine.KoineError, part):
                model.merge_adapter(place("adapter"))


@case
def folders_keep_what_did_not_change():
    for kind, dtype in (("llama", np.float16), ("gemma3_text", np.float32)):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            made, name = os.path.join(path, "made") + "/", "model.layers.2.mlp.up_proj.weight"
            write(path, "tokenizer.json", byte_level())
            model = make(path, kind, dtype)
            model.states["blk2.ffn_up.weight"] = model.states["blk2.ffn_up.weight"] * 2
            if kind == "gemma3_text":
                model.states["blk1.attn_norm.weight"] = model.states["blk1.attn_norm.weight"] * 2
            model.save(made)
            before, after = (koine.io.load_safetensors(os.path.join(where, "model.safetensors")) for where in (path, made))
            expect_equal(set(before), set(after))
            for own in before:
                expect_equal(after[own].dtype, before[own].dtype)
                if own == "model.layers.1.input_layernorm.weight" and kind == "gemma3_text":
                    expect(np.allclose(after[own], 2 * before[own] + 1, atol=1e-6), own)
                else:
                    expect(np.array_equal(after[own], before[own] * (2 if own == name else 1)), own)
            expect_equal(sorted(os.listdir(made)), ["config.json", "model.safetensors", "tokenizer.json"])
            with raises(koine.KoineError, "already exists"):
                model.save(made)
            if dtype == np.float16:
                broken = os.path.join(path, "broken") + "/"
                model.states["blk2.ffn_up.weight"] = model.states["blk2.ffn_up.weight"] * 1e9
                with raises(koine.KoineError, "'blk2.ffn_up.weight'", "too large for float16"):
                    model.save(broken)
                expect(not os.path.exists(os.path.join(broken, "model.safetensors")), "incomplete weights")


@case
def adapters_that_do_not_fit_are_not_merged():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        adapter, other = os.path.join(path, "adapter"), os.path.join(path, "other")
        make(path, "qwen3", tie_word_embeddings=False)
        adapted(path, adapter, rank=2, targets="output")
        make(path, "qwen3")
        model = koine.Model(path)
        logits(model)
        before = dict(model.states)
        with raises(koine.KoineError, "'output'", "no such linear layer"):
            model.merge_adapter(adapter)
        with raises(koine.KoineError, "has an adapter"):
            koine.Model(path, lora=koine.Lora(rank=2)).merge_adapter(adapter)
        with raises(koine.KoineError, "has an adapter"):
            koine.Model(path, lora=koine.Lora(rank=2)).save(os.path.join(path, "x.gguf"))
        os.mkdir(other)
        make(other, "qwen3", intermediate_size=64)
        adapted(other, adapter, rank=2, targets="attn_v,ffn_up")
        with raises(koine.KoineError, "64 units", "48"):
            model.merge_adapter(adapter)
        expect(all(np.array_equal(model.states[name], before[name]) for name in before), "weights were changed")
        with raises(koine.KoineError, "neither from a Hugging Face folder"):
            koine.Model("gpt").save(os.path.join(path, "gpt/"))


@case
def shared_weights_are_not_merged():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        adapter, text = os.path.join(path, "adapter.safetensors"), "koine 1\ninput x 4\na = linear 4 bias=no\nrelu\nb = linear 4 bias=no"
        x, plain, shared = np.eye(4, dtype=np.float32), koine.Model(text), koine.Model(text + " share=a")
        before, expected = plain.predict(x), shared.predict(x)
        model = koine.Model(text, lora=koine.Lora(rank=2, targets="a"))
        model.predict(x)
        for name in ("a.weight", "b.weight"):
            model.states[name] = plain.states[name]
        model.states["a.lora_b"] = np.ones((4, 2), np.float32)
        model.save(adapter)
        plain.merge_adapter(adapter)
        near(plain.predict(x), model.predict(x), 1e-6)
        expect(not np.array_equal(plain.predict(x), before), "nothing was merged")
        with raises(koine.KoineError, "shares its weight"):
            shared.merge_adapter(adapter)
        expect(np.array_equal(shared.predict(x), expected), "weights were changed")


# ---- errors ----------------------------------------------------------------------------------------------------------


@case
def what_files_cannot_express_is_an_error():
    def refuse(part, kind="llama", blocks=None, **more):
        with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
            model, file = make(path, kind, **more), os.path.join(path, "model.gguf")
            with raises(koine.KoineError, part):
                model.save(file, blocks=blocks)
            expect(not os.path.exists(file), "a part of a file is left")

    def enlarge(weights):
        weights["model.layers.0.mlp.up_proj.weight"][3, 5] = 7e4

    def spoil(weights):
        weights["model.layers.0.mlp.up_proj.weight"][3, 5] = np.nan

    refuse("window", "mistral", sliding_window=8)
    refuse("windows", "gemma3_text", sliding_window_pattern=2)
    refuse("attention scores", "gemma3_text", query_pre_attn_scalar=24)
    refuse("activation", "qwen3", hidden_act="gelu")
    refuse("softcap", "gemma2", final_logit_softcapping=None)
    refuse("softcap", "gemma3_text", attn_logit_softcapping=20.0)
    refuse("Q3_K", blocks="Q3_K")
    refuse("F16", blocks="F16", change=enlarge)
    refuse("blk0.ffn_up.weight", blocks="Q8_0", change=spoil)
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        with raises(koine.KoineError, "GGUF"):
            koine.Model("gpt").save(os.path.join(path, "gpt.gguf"))
        # What another kind of file has is not ignored.
        for name, words in (("gpt.safetensors", {"blocks": "Q8_0"}), ("gpt/", {"blocks": "Q8_0"}), ("gpt.gguf", {"weights": "float16"}),
                            ("gpt/", {"metadata": {"a": "b"}})):
            with raises(ValueError, next(iter(words))):
                koine.Model("gpt").save(os.path.join(path, name), **words)


run()
