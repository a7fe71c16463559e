"""Hugging Face folders are compared with decoders and encoders written here in double precision; wrong folders are errors.

usage: folders.py HOUSE_FOLDER
"""
import contextlib
import json
import math
import os
import tempfile

from package import case, expect, expect_equal, raises, run

import koine
import koine.io
import numpy as np

WIDTH, HIDDEN, VOCABULARY, HEADS, KEYS, HEAD, LAYERS, LENGTH = 16, 24, 29, 4, 2, 8, 4, 12
SIZES = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "num_key_value_heads": KEYS, "head_dim": HEAD, "max_position_embeddings": LENGTH}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 40}


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as path:
        yield path


def write(path, name, content):
    with open(os.path.join(path, name), "w") as file:
        json.dump(content, file)


def config_of(kind, architecture, **more):
    return {"model_type": kind, "architectures": [architecture], "transformers_version": "5.0", "rms_norm_eps": 1e-5, **SIZES, **more}


# ---- weights ---------------------------------------------------------------------------------------------------------


def weights_of(config, biases=False, output_bias=False, hidden_bias=False, gemma=False, head_norms=False, tied=False):
    """All tensors by name: products around 0, norms around 1, or 0 for Gemma."""
    random = np.random.default_rng(7)
    made = {}

    def put(name, *shape):
        made[name] = random.standard_normal(shape).astype(np.float32) * (0.4 if len(shape) > 1 else 0.2)

    def norm(name, size):
        put(name + ".weight", size)
        made[name + ".weight"] += not gemma

    def product(name, rows, columns, bias):
        put(name + ".weight", rows, columns)
        if bias:
            put(name + ".bias", rows)

    put("model.embed_tokens.weight", VOCABULARY, WIDTH)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        norm(layer + "input_layernorm", WIDTH)
        norm(layer + "post_attention_layernorm", WIDTH)
        if gemma:
            norm(layer + "pre_feedforward_layernorm", WIDTH)
            norm(layer + "post_feedforward_layernorm", WIDTH)
        for part, rows in (("q", HEADS * HEAD), ("k", KEYS * HEAD), ("v", KEYS * HEAD)):
            product(f"{layer}self_attn.{part}_proj", rows, WIDTH, biases)
        if head_norms:
            norm(layer + "self_attn.q_norm", HEAD)
            norm(layer + "self_attn.k_norm", HEAD)
        product(layer + "self_attn.o_proj", WIDTH, HEADS * HEAD, output_bias)
        product(layer + "mlp.gate_proj", HIDDEN, WIDTH, hidden_bias)
        product(layer + "mlp.up_proj", HIDDEN, WIDTH, hidden_bias)
        product(layer + "mlp.down_proj", WIDTH, HIDDEN, hidden_bias)
    norm("model.norm", WIDTH)
    if not tied:
        put("lm_head.weight", VOCABULARY, WIDTH)
    return made


# ---- the decoder -----------------------------------------------------------------------------------------------------


def angles(base, scaling=None, rotated=HEAD):
    """(LENGTH,rotated/2): of the pairs in the first elements of a head."""
    rates = base ** -(np.arange(0, rotated, 2) / rotated)
    if scaling and scaling.get("rope_type") == "linear":
        rates = rates / scaling["factor"]
    elif scaling and "short_factor" in scaling:
        rates = rates / scaling["short_factor"]
    elif scaling and scaling["rope_type"] == "yarn":
        def pair(turns):
            return rotated * math.log(scaling["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), rotated - 1)
        share = np.clip((np.arange(rotated // 2) - low) / (high - low), 0, 1)
        rates = rates / scaling["factor"] * share + rates * (1 - share)
    elif scaling:
        lengths = 2 * math.pi / rates
        low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
        share = np.clip((scaling["original_max_position_embeddings"] / lengths - low) / (high - low), 0, 1)
        rates = (1 - share) * rates / factor + share * rates
    return np.arange(LENGTH)[:, None] * rates


def rotate(x, angle, factor=1.0):
    half = angle.shape[1]
    a, b, cos, sin = x[..., :half], x[..., half:2 * half], factor * np.cos(angle)[:, None], factor * np.sin(angle)[:, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * half:]], -1)


def capped(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def decode(weights, tokens, angle, windows=(None,) * LAYERS, rotated=(True,) * LAYERS, gemma=False, sliding_angle=None, scale=HEAD ** -0.5, factor=1.0,
           softcap=None, output_softcap=None):
    """(length,VOCABULARY) for the length of `tokens`: angle: of layers without a window; windows: by layer, or None."""
    length = len(tokens)
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * (w[name + ".weight"] + gemma)

    def product(x, name):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)

    def activation(x):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) if gemma else x / (1 + np.exp(-x))

    distance = np.arange(length)[:, None] - np.arange(length)
    h = w["model.embed_tokens.weight"][tokens] * (math.sqrt(WIDTH) if gemma else 1)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        x = norm(h, layer + "input_layernorm")
        q, k, v = (product(x, f"{layer}self_attn.{part}_proj").reshape(length, -1, HEAD) for part in "qkv")
        if layer + "self_attn.q_norm.weight" in w:
            q, k = norm(q, layer + "self_attn.q_norm"), norm(k, layer + "self_attn.k_norm")
        if rotated[i]:
            turn = angle if windows[i] is None or sliding_angle is None else sliding_angle
            q, k = rotate(q, turn[:length], factor), rotate(k, turn[:length], factor)
        k, v = np.repeat(k, HEADS // KEYS, 1), np.repeat(v, HEADS // KEYS, 1)
        scores = capped(np.einsum("qhd,khd->hqk", q, k) * scale, softcap)
        hidden = (distance < 0) | (distance >= (windows[i] or length))
        powers = np.exp(np.where(hidden, -np.inf, scores) - np.where(hidden, -np.inf, scores).max(-1, keepdims=True))
        x = product(np.einsum("hqk,khd->qhd", powers / powers.sum(-1, keepdims=True), v).reshape(length, -1), layer + "self_attn.o_proj")
        h = h + (norm(x, layer + "post_attention_layernorm") if gemma else x)
        x = norm(h, layer + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"))
        x = product(activation(product(x, layer + "mlp.gate_proj")) * product(x, layer + "mlp.up_proj"), layer + "mlp.down_proj")
        h = h + (norm(x, layer + "post_feedforward_layernorm") if gemma else x)
    return capped(norm(h, "model.norm") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T, output_softcap)


def compare(config, weights, decoder=None, **more):
    tokens = np.random.default_rng(3).integers(0, VOCABULARY, LENGTH)
    with folder() as path:
        write(path, "config.json", config)
        koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
        found = koine.Model(path).predict(tokens[None].astype(np.int32))[0]
    expected = (decoder or decode)(weights, tokens, **more)
    worst = np.abs(found - expected).max() / np.abs(expected).max()
    expect(worst < 1e-5, f"logits differ by {worst}")


@case
def llama_with_biases_and_scaled_rotations():
    config = config_of("llama", "LlamaForCausalLM", hidden_act="silu", attention_bias=True, mlp_bias=True,
                       rope_parameters={**LLAMA3, "rope_theta": 500.0})
    compare(config, weights_of(config, biases=True, output_bias=True, hidden_bias=True), angle=angles(500.0, LLAMA3))


@case
def llama_as_older_libraries_describe_it():
    config = config_of("llama", "LlamaForCausalLM", hidden_act="silu", rope_theta=300.0, rope_scaling={"type": "linear", "factor": 2.0}, tie_word_embeddings=True,
                       torch_dtype="float32", pretraining_tp=1, rope_interleaved=False)
    weights = weights_of(config, tied=True)
    compare(config, weights, angle=angles(300.0, {"rope_type": "linear", "factor": 2.0}))


@case
def mistral_with_a_window():
    config = config_of("mistral", "MistralForCausalLM", hidden_act="silu", sliding_window=5)
    compare(config, weights_of(config), angle=angles(10000.0), windows=(5,) * LAYERS)


@case
def qwen2_with_windows_in_late_layers():
    config = config_of("qwen2", "Qwen2ForCausalLM", hidden_act="silu", use_sliding_window=True, sliding_window=3, max_window_layers=2)
    compare(config, weights_of(config, biases=True), angle=angles(10000.0), windows=(None, None, 3, 3))


@case
def qwen3_normalizes_heads():
    config = config_of("qwen3", "Qwen3ForCausalLM", hidden_act="silu", use_sliding_window=False, sliding_window=3, max_window_layers=2,
                       layer_types=["full_attention"] * LAYERS)
    compare(config, weights_of(config, head_norms=True), angle=angles(10000.0))


@case
def gemma2_limits_scores_and_logits():
    config = config_of("gemma2", "Gemma2ForCausalLM", hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", sliding_window=4,
                       query_pre_attn_scalar=3, rope_theta=700.0, cache_implementation="hybrid", attn_logit_softcapping=1.5)
    weights, more = weights_of(config, gemma=True, tied=True), dict(gemma=True, scale=3 ** -0.5, windows=(4, None, 4, None), angle=angles(700.0))
    compare({**config, "final_logit_softcapping": 3.0}, weights, softcap=1.5, output_softcap=3.0, **more)
    compare(config, weights, softcap=1.5, output_softcap=30.0, **more)
    compare({**config, "attn_logit_softcapping": None, "final_logit_softcapping": None}, weights, **more)
    types = ["full_attention", "full_attention", "sliding_attention", "full_attention"]
    compare({**config, "layer_types": types}, weights, softcap=1.5, output_softcap=30.0, **{**more, "windows": (None, None, 4, None)})
    refuse({**config, "attn_logit_softcapping": -1.0}, None, "attn_logit_softcapping", "expected")
    refuse({**config, "sliding_window_pattern": 3}, None, "sliding_window_pattern")


ALPHABET = {"model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate("abcdefghijklmnopqrst")}, "merges": []},
            "added_tokens": [{"id": 20, "content": "<e>", "special": True}]}
PARTS_OF_LAYERS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "ffn_up": "mlp.up_proj"}


@case
def packed_texts_have_the_loss_and_the_gradient_of_separate_ones():
    config = config_of("gemma2", "Gemma2ForCausalLM", hidden_activation="gelu_pytorch_tanh", sliding_window=3, query_pre_attn_scalar=3, rope_theta=700.0,
                       attn_logit_softcapping=1.5, final_logit_softcapping=3.0)
    weights, random, rate = weights_of(config, gemma=True, tied=True), np.random.default_rng(4), 0.25
    texts = ["".join(random.choice(list(ALPHABET["model"]["vocab"]), size)) for size in (7, 2, 11, 4, 1, 5, 12, 3)]
    names = {f"blk{i}.{own}.weight": f"model.layers.{i}.{part}.weight" for i in range(LAYERS) for own, part in PARTS_OF_LAYERS.items()}
    names["token_embd.weight"] = "model.embed_tokens.weight"

    def loss(now):
        """In double precision, of separate texts."""
        total, count = 0.0, 0
        for text in texts:
            tokens = np.array([ord(letter) - ord("a") for letter in text] + [20])
            scores = decode(now, tokens[:-1], angles(700.0), gemma=True, scale=3 ** -0.5, windows=(3, None) * 2, softcap=1.5, output_softcap=3.0)
            most = scores.max(-1)
            total += (most + np.log(np.exp(scores - most[:, None]).sum(-1)) - scores[np.arange(len(text)), tokens[1:]]).sum()
            count += len(text)
        return total / count

    with folder() as path:
        write(path, "config.json", config)
        write(path, "tokenizer.json", ALPHABET)
        write(path, "tokenizer_config.json", {"eos_token": "<e>"})
        koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
        with open(os.path.join(path, "texts.jsonl"), "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        model, tokens = koine.Model(path), np.arange(LENGTH, dtype=np.int32)[None]
        before, logits = {name: model.states[name] for name in names}, model.predict(tokens)
        packed = f"jsonl:{path}/texts.jsonl,pack"
        found = model.evaluate(packed, batch_size=2).loss
        expect(abs(found - loss(weights)) < 1e-5 * found, f"evaluate() finds a loss of {found}, not {loss(weights)}")
        rows = koine.load_dataset(f"{packed},length={LENGTH}", tokenizer=path)
        outputs, x, first, seen = model.predict(rows, batch_size=2), rows.read("x"), rows.read("first"), 0
        for row, begin in zip(*np.nonzero(first == np.arange(LENGTH))):
            size = int((first[row] == begin).sum())
            single = np.zeros((1, LENGTH), np.int32)
            single[0, :size] = x[row, begin:begin + size]
            expect(np.allclose(outputs[row, begin:begin + size], model.predict(single)[0, :size], atol=1e-4), f"the text at {begin} of row {row} has other logits")
            seen += 1
        expect(seen >= len(texts), f"{seen} texts")
        history = model.fit(f"jsonl:{path}/texts.jsonl,pack", optimizer="sgd", momentum=0, learning_rate=rate, schedule="constant", steps=1, batch_size=4,
                            validation_split=0, progress=False)
        expected = loss(weights)
        expect(abs(history.losses[0] - expected) < 1e-5 * expected, f"the loss is {history.losses[0]}, not {expected}")
        slopes = {name: (before[name].astype(np.float64) - model.states[name]) / rate for name in names}
        for names_now in (["token_embd.weight"], [name for name in names if "attn" in name], [name for name in names if "ffn" in name]):
            direction = {name: random.standard_normal(before[name].shape) for name in names_now}
            ends = [loss({**weights, **{names[name]: weights[names[name]].astype(np.float64) + step * direction[name] for name in names_now}})
                    for step in (-1e-5, 1e-5)]
            found, slope = sum((slopes[name] * direction[name]).sum() for name in names_now), (ends[1] - ends[0]) / 2e-5
            expect(abs(found - slope) < 2e-5 * max(1, abs(slope)), f"{names_now[0]}: the slope is {found}, not {slope}")
        expect_equal([value.name for value in model.inputs], ["x"])
        for name, values in before.items():
            model.states[name] = values
        expect(np.array_equal(model.predict(tokens)[0], logits[0]) or len(names) < len(model.weights), "the model is not as before")
        write(path, "config.json", {**GPT2, "n_positions": LENGTH, "n_inner": HIDDEN})
        gpt2 = as_gpt2(plain_weights(HIDDEN, LENGTH))
        koine.io.save_safetensors(os.path.join(path, "model.safetensors"), gpt2)
        with raises(koine.KoineError, "several samples in a row", "table of positions"):
            koine.Model(path).fit(f"jsonl:{path}/texts.jsonl,pack", steps=1, progress=False)


@case
def gemma3_with_local_rotations():
    config = config_of("gemma3_text", "Gemma3ForCausalLM", hidden_activation="gelu_pytorch_tanh", sliding_window=4, query_pre_attn_scalar=20,
                       rope_parameters={"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 700.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}},
                       layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"], _sliding_window_pattern=6)
    compare(config, weights_of(config, gemma=True, head_norms=True, tied=True), gemma=True, scale=20 ** -0.5, windows=(4, None, 4, 4),
            angle=angles(700.0, {"rope_type": "linear", "factor": 2.0}), sliding_angle=angles(90.0))


@case
def gemma3_as_older_libraries_describe_it():
    config = config_of("gemma3_text", "Gemma3ForCausalLM", hidden_activation="gelu_pytorch_tanh", sliding_window=4, query_pre_attn_scalar=20,
                       rope_theta=700.0, rope_local_base_freq=90.0, sliding_window_pattern=2)
    compare(config, weights_of(config, gemma=True, head_norms=True, tied=True), gemma=True, scale=20 ** -0.5, windows=(4, None, 4, None),
            angle=angles(700.0), sliding_angle=angles(90.0))


@case
def smollm3_leaves_layers_unrotated():
    config = config_of("smollm3", "SmolLM3ForCausalLM", hidden_act="silu", no_rope_layers=[1, 0, 1, 0], use_sliding_window=True, sliding_window=6,
                       tie_word_embeddings=False, rope_theta=2e6)
    compare(config, weights_of(config), angle=angles(2e6), windows=(None, 6, None, 6), rotated=(True, False, True, False))


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40}


@case
def yarn_scales_rotations_and_scores():
    config = config_of("llama", "LlamaForCausalLM", hidden_act="silu", rope_parameters={**YARN, "rope_theta": 20.0})
    compare(config, weights_of(config), angle=angles(20.0, YARN), scale=HEAD ** -0.5 * (0.1 * math.log(4) + 1) ** 2)


def fused(weights):
    """As Phi 3 stores them."""
    made = dict(weights)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for name, parts in ((layer + "self_attn.qkv_proj", [f"{layer}self_attn.{part}_proj" for part in "qkv"]),
                            (layer + "mlp.gate_up_proj", [layer + "mlp.gate_proj", layer + "mlp.up_proj"])):
            made[name + ".weight"] = np.concatenate([made.pop(part + ".weight") for part in parts])
    return made


PHI3 = config_of("phi3", "Phi3ForCausalLM", hidden_act="silu", original_max_position_embeddings=LENGTH, embd_pdrop=0.0, resid_pdrop=0.0)


@case
def phi3_stores_products_together():
    weights = weights_of(PHI3)
    compare({**PHI3, "sliding_window": 7}, fused(weights), lambda _, tokens: decode(weights, tokens, angles(10000.0), windows=(7,) * LAYERS))
    partial = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}
    compare({**PHI3, "rope_parameters": partial}, fused(weights), lambda _, tokens: decode(weights, tokens, angles(100.0, rotated=HEAD // 2)))
    short = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [9.0] * 4}
    scale = HEAD ** -0.5 * (1 + math.log(4) / math.log(LENGTH))
    compare({**PHI3, "rope_scaling": short, "max_position_embeddings": 4 * LENGTH}, fused(weights),
            lambda _, tokens: decode(weights, tokens, angles(10000.0, short), scale=scale))
    name = "model.layers.0.self_attn.qkv_proj.weight"
    refuse(PHI3, {**fused(weights), name: np.zeros((HEADS * HEAD, WIDTH), np.float32)}, name, "rows")
    refuse({**PHI3, "rope_scaling": {**short, "short_factor": [1.0]}}, None, "short_factor")
    # The factor of sines and cosines applies only to elements that are rotated.
    factor = math.sqrt(1 + math.log(4) / math.log(LENGTH))
    half = {**short, "short_factor": [1.0, 2.0]}
    compare({**PHI3, "rope_scaling": half, "partial_rotary_factor": 0.5, "max_position_embeddings": 4 * LENGTH, "attention_bias": False}, fused(weights),
            lambda _, tokens: decode(weights, tokens, angles(10000.0, half, HEAD // 2), factor=factor))
    with folder() as path:
        write(path, "config.json", {**PHI3, "rope_scaling": short, "max_position_embeddings": 4 * LENGTH})
        with raises(koine.KoineError, "window", "longrope"):
            koine.Model(path, window=LENGTH + 1)


# ---- GPT-2 and GPT-NeoX ----------------------------------------------------------------------------------------------

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": 2, "n_head": 2, "n_inner": None,
        "n_positions": LENGTH + 3, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "summary_type": "cls_index", "resid_pdrop": 0.1}
NEOX = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": HIDDEN, "max_position_embeddings": LENGTH, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
        "rotary_pct": 0.5, "rotary_emb_base": 50, "use_parallel_residual": True}


def plain_weights(hidden, positions):
    """By short names; matrices are (rows,columns), and q, k and v are apart."""
    random = np.random.default_rng(11)
    shapes = {"table": (VOCABULARY, WIDTH), "positions": (positions, WIDTH), "last": (VOCABULARY, WIDTH), "end": (WIDTH,)}
    for i in range(2):
        shapes.update({f"{i}.{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "out")})
        shapes.update({f"{i}.one": (WIDTH,), f"{i}.two": (WIDTH,), f"{i}.up": (hidden, WIDTH), f"{i}.down": (WIDTH, hidden)})
    made = {name: random.standard_normal(shape).astype(np.float32) * 0.4 + (len(shape) == 1) for name, shape in shapes.items()}
    made.update({name + ".bias": random.standard_normal(len(array)).astype(np.float32) * 0.3 for name, array in list(made.items()) if "." in name or name == "end"})
    return made


def decode_plain(weights, tokens, last, parallel=False, angle=None):
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name] + w[name + ".bias"]

    def product(x, name):
        return x @ w[name].T + w[name + ".bias"]

    h = w["table"][tokens]
    if angle is None:
        h = h + w["positions"][:LENGTH]
    hidden = np.arange(LENGTH)[:, None] < np.arange(LENGTH)
    for i in range(2):
        x = norm(h, f"{i}.one")
        q, k, v = (product(x, f"{i}.{part}").reshape(LENGTH, 2, -1) for part in "qkv")
        if angle is not None:
            q, k = rotate(q, angle), rotate(k, angle)
        scores = np.where(hidden, -np.inf, np.einsum("qhd,khd->hqk", q, k) / math.sqrt(WIDTH // 2))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        attended = h + product(np.einsum("hqk,khd->qhd", powers / powers.sum(-1, keepdims=True), v).reshape(LENGTH, WIDTH), f"{i}.out")
        x = product(norm(h if parallel else attended, f"{i}.two"), f"{i}.up")
        x = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
        h = attended + product(x, f"{i}.down")
    return norm(h, "end") @ w[last].T


def as_gpt2(w):
    """Matrices are (columns,rows)."""
    made = {"wte.weight": w["table"], "wpe.weight": w["positions"], "ln_f.weight": w["end"], "ln_f.bias": w["end.bias"]}
    for i in range(2):
        parts = {"attn.c_attn": ("q", "k", "v"), "attn.c_proj": ("out",), "mlp.c_fc": ("up",), "mlp.c_proj": ("down",)}
        for name, own in parts.items():
            made[f"h.{i}.{name}.weight"] = np.ascontiguousarray(np.concatenate([w[f"{i}.{part}"] for part in own]).T)
            made[f"h.{i}.{name}.bias"] = np.concatenate([w[f"{i}.{part}.bias"] for part in own])
        for name, own in (("ln_1", "one"), ("ln_2", "two")):
            made[f"h.{i}.{name}.weight"], made[f"h.{i}.{name}.bias"] = w[f"{i}.{own}"], w[f"{i}.{own}.bias"]
        made[f"h.{i}.attn.bias"] = np.ones((1, 1, LENGTH, LENGTH), np.uint8)
    return made


def as_neox(w):
    """q, k and v are together, by head."""
    made = {"gpt_neox.embed_in.weight": w["table"], "embed_out.weight": w["last"]}
    made["gpt_neox.final_layer_norm.weight"], made["gpt_neox.final_layer_norm.bias"] = w["end"], w["end.bias"]
    for i in range(2):
        layer = f"gpt_neox.layers.{i}."
        for kind, ending in (("", ".weight"), (".bias", ".bias")):
            heads = np.stack([w[f"{i}.{part}{kind}"].reshape(2, WIDTH // 2, -1) for part in "qkv"], 1)
            made[layer + "attention.query_key_value" + ending] = heads.reshape((3 * WIDTH, WIDTH) if not kind else 3 * WIDTH)
            for name, own in (("attention.dense", "out"), ("mlp.dense_h_to_4h", "up"), ("mlp.dense_4h_to_h", "down"), ("input_layernorm", "one"),
                              ("post_attention_layernorm", "two")):
                made[layer + name + ending] = w[f"{i}.{own}{kind}"]
    return made


@case
def gpt2_adds_positions():
    w = plain_weights(4 * WIDTH, LENGTH + 3)
    with folder() as path:
        write(path, "config.json", GPT2)
        koine.io.save_safetensors(os.path.join(path, "model.safetensors"), as_gpt2(w))
        tokens = np.random.default_rng(3).integers(0, VOCABULARY, LENGTH)
        found = koine.Model(path, window=LENGTH).predict(tokens[None].astype(np.int32))[0]
    expected = decode_plain(w, tokens, "table")
    expect(np.abs(found - expected).max() < 1e-5 * np.abs(expected).max(), f"logits differ by {np.abs(found - expected).max()}")
    refuse({**GPT2, "scale_attn_by_inverse_layer_idx": True}, None, "scale_attn_by_inverse_layer_idx")
    refuse({**GPT2, "scale_attn_weights": False}, None, "scale_attn_weights")
    refuse({**GPT2, "n_head": 3}, None, "n_head", "divisor")
    refuse(GPT2, {**as_gpt2(w), "h.0.attn.c_attn.weight": np.zeros((3 * WIDTH, WIDTH), np.float32)}, "c_attn", "rows")
    refuse(GPT2, {**as_gpt2(w), "h.1.mlp.c_fc.weight": np.zeros(4 * WIDTH, np.float32)}, "blk1.ffn_up.weight", load=True)


@case
def gpt_neox_rotates_a_part_of_heads():
    w = plain_weights(HIDDEN, LENGTH)
    for parallel in (True, False):
        compare({**NEOX, "use_parallel_residual": parallel}, as_neox(w),
                lambda _, tokens: decode_plain(w, tokens, "last", parallel, angles(50.0, rotated=4)))
    refuse({**NEOX, "rotary_pct": 0.4}, None, "rotary_pct", "even")
    refuse({**NEOX, "attention_bias": False}, None, "attention_bias")
    name = "gpt_neox.layers.1.attention.query_key_value.bias"
    refuse(NEOX, {**as_neox(w), name: np.zeros(WIDTH, np.float32)}, name, "rows")


@case
def adapters_of_products_without_names_in_peft_are_not_written():
    plain, wide = plain_weights(HIDDEN, LENGTH), plain_weights(4 * WIDTH, LENGTH + 3)
    for config, weights, targets, refused in ((PHI3, fused(weights_of(PHI3)), ["attn_output", "ffn_down"], ["attn_q", "ffn_up"]),
                                              (GPT2, as_gpt2(wide), [], ["attn_q", "attn_output"]), (NEOX, as_neox(plain), [], ["ffn_up", "output"])):
        with folder() as path:
            write(path, "config.json", config)
            koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
            for target in targets + refused:
                model = koine.Model(path, lora=koine.Lora(rank=2, targets=[target]))
                model.predict(np.zeros((1, model.settings["window"]), np.int32))
                there = os.path.join(path, target)
                with raises(koine.KoineError, target, "has no name of its own") if target in refused else contextlib.nullcontext():
                    model.save_adapter(there)
                expect_equal(os.path.exists(os.path.join(there, "adapter_model.safetensors")), target in targets)


# ---- files -----------------------------------------------------------------------------------------------------------

LLAMA = config_of("llama", "LlamaForCausalLM", hidden_act="silu")


@case
def parts_are_read_by_their_index():
    weights = weights_of(LLAMA)
    tokens = np.arange(LENGTH, dtype=np.int32)[None]
    parts = {"model-00001-of-00002.safetensors": {}, "model-00002-of-00002.safetensors": {}}
    for i, name in enumerate(weights):
        parts[sorted(parts)[i % 2]][name] = weights[name]
    with folder() as path:
        write(path, "config.json", LLAMA)
        koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
        expected = koine.Model(path).predict(tokens)
        os.remove(os.path.join(path, "model.safetensors"))
        for part, arrays in parts.items():
            koine.io.save_safetensors(os.path.join(path, part), arrays)
        index = {name: part for part, arrays in parts.items() for name in arrays}
        write(path, "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": index})
        model = koine.Model(path + "/")
        expect_equal(model.name, os.path.basename(path))
        expect(np.array_equal(model.predict(tokens), expected), "parts give different logits")
        first = next(iter(index))
        for name in ("../model.safetensors", "/tmp/model.safetensors", "", "sub/model.safetensors", ".hidden", 3, None, ["a"]):
            write(path, "model.safetensors.index.json", {"weight_map": {**index, first: name}})
            with raises(koine.KoineError, "weight_map", "same folder", first):
                koine.Model(path)
        write(path, "model.safetensors.index.json", {"weight_map": {**index, first: sorted(parts)[1]}})
        with raises(koine.KoineError, "model.safetensors.index.json", first, "is not in"):
            koine.Model(path)
        write(path, "model.safetensors.index.json", {"weight_map": {**index, first: "missing.safetensors"}})
        with raises(koine.KoineError, "missing.safetensors"):
            koine.Model(path)
        for root in ({}, [], {"weight_map": []}, {"weight_map": None}):
            write(path, "model.safetensors.index.json", root)
            with raises(koine.KoineError, "model.safetensors.index.json"):
                koine.Model(path)


@case
def half_precision_weights_are_loaded():
    weights = {name: array.astype(np.float16) for name, array in weights_of(LLAMA).items()}
    tokens = np.arange(LENGTH)
    with folder() as path:
        write(path, "config.json", LLAMA)
        koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
        found = koine.Model(path).predict(tokens[None].astype(np.int32))[0]
    expected = decode(weights, tokens, angle=angles(10000.0))
    expect(np.abs(found - expected).max() < 1e-5 * np.abs(expected).max(), "logits differ")


def refuse(config, weights, *parts, load=False):
    with folder() as path:
        write(path, "config.json", config)
        if weights is not None:
            koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)
        with raises(koine.KoineError, *parts):
            model = koine.Model(path)
            if load:
                model.predict(np.zeros((1, model.settings["window"]), np.int32))


@case
def folders_without_a_model_are_errors():
    with folder() as path:
        with raises(koine.KoineError, path, "config.json"):
            koine.Model(path)
        with open(os.path.join(path, "config.json"), "w") as file:
            file.write("{\"model_type\": \"llama\"")
        with raises(koine.KoineError, "config.json"):
            koine.Model(path)
    refuse([], None, "config.json", "an array", "an object")
    refuse(LLAMA, None, "model.safetensors", "safetensors")
    refuse({}, None, "model_type", "missing", "gemma3_text")
    refuse({"model_type": "mamba"}, None, "model_type", "'mamba'", "llama")
    refuse({**LLAMA, "architectures": ["LlamaForSequenceClassification"]}, None, "LlamaForSequenceClassification", "LlamaForCausalLM")


@case
def settings_that_would_change_results_are_errors():
    for name in SIZES:
        if name in ("head_dim", "num_key_value_heads"):
            continue
        refuse({key: value for key, value in LLAMA.items() if key != name}, None, name, "is missing")
    for name in SIZES:
        for value in (0, -1, 2 ** 40, 10 ** 30, 1.5, "8", [], {}, True):
            refuse({**LLAMA, name: value}, None, f'"{name}"', "expected")
    refuse({**LLAMA, "num_key_value_heads": 3}, None, "num_key_value_heads", "divisor")
    refuse({**LLAMA, "head_dim": 7}, None, "head_dim", "even")
    refuse({**LLAMA, "hidden_act": "quick_gelu"}, None, "hidden_act", "quick_gelu")
    refuse({**LLAMA, "hidden_act": None}, None, "hidden_act", "is missing")
    refuse({**LLAMA, "tie_word_embeddings": "no"}, None, "tie_word_embeddings", "true or false")
    refuse({**LLAMA, "rms_norm_eps": -1}, None, "rms_norm_eps")
    refuse({**LLAMA, "quantization_config": {"bits": 4}}, None, "quantization_config", "is not supported")
    refuse({**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 2}}, None, "rope_scaling.rope_type", "'dynamic'")
    refuse({**LLAMA, "rope_scaling": {"type": "linear"}}, None, "rope_scaling.factor", "is missing")
    refuse({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2, "mscale": 3}}, None, "rope_scaling.mscale")
    refuse({**LLAMA, "rope_scaling": 3}, None, "rope_scaling", "an object")
    refuse({**LLAMA, "rope_parameters": {**LLAMA3, "high_freq_factor": 1.0}}, None, "high_freq_factor")
    refuse({**LLAMA, "rope_parameters": {"partial_rotary_factor": 0.5}}, None, "partial_rotary_factor")
    gemma = config_of("gemma3_text", "Gemma3ForCausalLM", hidden_activation="gelu_pytorch_tanh")
    refuse({**gemma, "final_logit_softcapping": "high"}, None, "final_logit_softcapping")
    refuse({**gemma, "use_bidirectional_attention": True}, None, "use_bidirectional_attention")
    refuse({**gemma, "layer_types": ["full_attention"]}, None, "layer_types")
    refuse({**gemma, "layer_types": ["chunked_attention"] * LAYERS}, None, "layer_types")
    refuse({**gemma, "sliding_window": None}, None, "sliding_window", "missing")
    refuse({**gemma, "rope_parameters": {"full_attention": {}, "other": {}}}, None, "rope_parameters.other")
    smollm = config_of("smollm3", "SmolLM3ForCausalLM", hidden_act="silu")
    refuse({**smollm, "no_rope_layers": [1, 0]}, None, "no_rope_layers")
    refuse({**smollm, "no_rope_layers": [1, 0, 2, 1]}, None, "no_rope_layers")


@case
def tensors_that_do_not_fit_are_errors():
    weights = weights_of(LLAMA)
    name = "model.layers.1.mlp.up_proj.weight"
    refuse(LLAMA, {key: array for key, array in weights.items() if key != name}, name, "missing")
    refuse(LLAMA, {**weights, "model.layers.0.mlp.experts.weight": np.zeros(3, np.float32)}, "experts", "not used")
    refuse(LLAMA, {**weights, "model.layers.9.input_layernorm.weight": np.ones(WIDTH, np.float32)}, "layers.9", "not used")
    refuse(LLAMA, {**weights, name: np.zeros((3, 5), np.float32)}, "blk1.ffn_up.weight", "(3, 5)", load=True)
    refuse(LLAMA, {**weights, name: np.zeros((HIDDEN, WIDTH), np.int32)}, name, "int32")
    refuse({**LLAMA, "num_hidden_layers": LAYERS + 1}, weights, f"model.layers.{LAYERS}.", "missing")
    refuse({**LLAMA, "vocab_size": VOCABULARY + 1}, weights, "token_embd.weight", load=True)



# ---- encoders --------------------------------------------------------------------------------------------------------

POSITIONS, TYPES, WORDS = 40, 2, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "##d", "e"]
BERT = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_hidden_layers": 2, "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS, "type_vocab_size": TYPES, "hidden_act": "gelu",
        "layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "hidden_dropout_prob": 0.1, "use_cache": True}
PARTS = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value", "out": "attention.output.dense",
         "norm": "attention.output.LayerNorm", "up": "intermediate.dense", "down": "output.dense", "last": "output.LayerNorm"}
DISTILBERT_PARTS = {"query": "attention.q_lin", "key": "attention.k_lin", "value": "attention.v_lin", "out": "attention.out_lin",
                    "norm": "sa_layer_norm", "up": "ffn.lin1", "down": "ffn.lin2", "last": "output_layer_norm"}


def encoder_weights(layer="encoder.layer.", parts=PARTS, types=TYPES, prefix=""):
    random = np.random.default_rng(5)
    shapes = {"embeddings.word_embeddings.weight": (VOCABULARY, WIDTH), "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
              "embeddings.LayerNorm.weight": (WIDTH,), "embeddings.LayerNorm.bias": (WIDTH,)}
    if types:
        shapes["embeddings.token_type_embeddings.weight"] = (types, WIDTH)
    for i in range(2):
        for part, name in parts.items():
            rows, columns = (HIDDEN if part == "up" else WIDTH), (HIDDEN if part == "down" else WIDTH)
            shapes[f"{layer}{i}.{name}.weight"] = (WIDTH,) if part in ("norm", "last") else (rows, columns)
            shapes[f"{layer}{i}.{name}.bias"] = (rows,)
    return {prefix + name: (random.standard_normal(shape) * 0.4 + (name.endswith("Norm.weight") or "norm.weight" in name)).astype(np.float32)
            for name, shape in shapes.items()}


def encode(weights, tokens, layer="encoder.layer.", parts=PARTS, first=0):
    """(len(tokens),WIDTH)"""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    count = len(tokens)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def product(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    h = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][first:first + count]
    if "embeddings.token_type_embeddings.weight" in w:
        h = h + w["embeddings.token_type_embeddings.weight"][0]
    h = norm(h, "embeddings.LayerNorm")
    for i in range(2):
        name = {part: f"{layer}{i}.{theirs}" for part, theirs in parts.items()}
        q, k, v = (product(h, name[part]).reshape(count, HEADS, -1) for part in ("query", "key", "value"))
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(WIDTH // HEADS)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        x = np.einsum("hqk,khd->qhd", powers / powers.sum(-1, keepdims=True), v).reshape(count, WIDTH)
        h = norm(product(x, name["out"]) + h, name["norm"])
        x = product(h, name["up"])
        x = np.vectorize(lambda number: number * 0.5 * (1 + math.erf(number / math.sqrt(2))))(x)
        h = norm(product(x, name["down"]) + h, name["last"])
    return h


def write_modules(path, pooling="pooling_mode_mean_tokens", normalize=True, length=20, place="1_Pooling"):
    write(path, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                 {"idx": 1, "name": "1", "path": place, "type": "sentence_transformers.models.Pooling"},
                                 *[{"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}] * normalize])
    os.makedirs(os.path.join(path, place), exist_ok=True)
    write(path, place + "/config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False,
                                         "pooling_mode_max_tokens": False, pooling: True})
    write(path, "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})


def write_encoder(path, config, weights):
    write(path, "config.json", config)
    koine.io.save_safetensors(os.path.join(path, "model.safetensors"), weights)


def compare_tokens(config, weights, plain, window=POSITIONS, decoder=encode, **more):
    """Texts of 1, 5 and 9 tokens, with padding that must be masked."""
    tokens = np.random.default_rng(3).integers(1, VOCABULARY, (3, window)).astype(np.int32)
    lengths = np.array([1, 5, 9], np.int32)
    with folder() as path:
        write_encoder(path, config, weights)
        model = koine.Model(path)
        expect_equal(model.settings["window"], window)
        found = model.predict({"x": tokens, "length": lengths})
    for row, text, length in zip(found, tokens, lengths):
        expected = decoder(plain, text[:length], **more)
        expect(np.abs(row[:length] - expected).max() < 1e-5, f"vectors of {length} tokens differ by {np.abs(row[:length] - expected).max()}")


@case
def bert_gives_a_vector_for_each_token():
    weights = encoder_weights()
    extra = {"pooler.dense.weight": np.ones((WIDTH, WIDTH), np.float32), "embeddings.position_ids": np.arange(POSITIONS)[None]}
    compare_tokens(BERT, {**weights, **extra}, weights)


@case
def roberta_counts_positions_from_the_padding():
    weights = encoder_weights(types=1)
    compare_tokens({**BERT, "model_type": "roberta", "architectures": ["RobertaModel"], "type_vocab_size": 1, "pad_token_id": 1},
                   {"roberta." + name: array for name, array in weights.items()}, weights, POSITIONS - 2, first=2)


@case
def distilbert_has_no_types_of_tokens():
    weights = encoder_weights("transformer.layer.", DISTILBERT_PARTS, 0)
    config = {"model_type": "distilbert", "architectures": ["DistilBertModel"], "vocab_size": VOCABULARY, "dim": WIDTH, "hidden_dim": HIDDEN,
              "n_layers": 2, "n_heads": HEADS, "max_position_embeddings": POSITIONS, "activation": "gelu", "layer_norm_eps": 1e-5,
              "sinusoidal_pos_embds": False}
    compare_tokens(config, weights, weights, layer="transformer.layer.", parts=DISTILBERT_PARTS)


MODERN = {"model_type": "modernbert", "architectures": ["ModernBertModel"], "vocab_size": VOCABULARY, "hidden_size": WIDTH,
          "intermediate_size": HIDDEN, "num_hidden_layers": 5, "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS,
          "hidden_activation": "gelu", "norm_eps": 1e-5, "local_attention": 5, "embedding_dropout": 0.1}


def modern_weights(biases=False):
    random, shapes = np.random.default_rng(8), {"embeddings.tok_embeddings": (VOCABULARY, WIDTH), "embeddings.norm": (WIDTH,), "final_norm": (WIDTH,)}
    for i in range(5):
        shapes.update({f"layers.{i}.{name}": shape for name, shape in {
            "attn_norm": (WIDTH,), "attn.Wqkv": (3 * WIDTH, WIDTH), "attn.Wo": (WIDTH, WIDTH), "mlp_norm": (WIDTH,),
            "mlp.Wi": (2 * HIDDEN, WIDTH), "mlp.Wo": (WIDTH, HIDDEN)}.items() if i or name != "attn_norm"})
    made = {name + ".weight": random.standard_normal(shape) * 0.4 + ("norm" in name) for name, shape in shapes.items()}
    if biases:
        made.update({name + ".bias": random.standard_normal(shape[0]) * 0.4 for name, shape in shapes.items() if "tok_" not in name})
    return {name: array.astype(np.float32) for name, array in made.items()}


def encode_modern(weights, tokens, sliding, bases=(160000.0, 10000.0)):
    """(len(tokens),WIDTH)"""
    w, count, head = {name: array.astype(np.float64) for name, array in weights.items()}, len(tokens), WIDTH // HEADS

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w.get(name + ".bias", 0)

    def product(x, name):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)

    h = norm(w["embeddings.tok_embeddings.weight"][tokens], "embeddings.norm")
    distance = np.abs(np.arange(count)[:, None] - np.arange(count))
    for i, slides in enumerate(sliding):
        layer = f"layers.{i}."
        x = product(norm(h, layer + "attn_norm") if i else h, layer + "attn.Wqkv").reshape(count, 3, HEADS, head)
        angle = np.arange(count)[:, None] * bases[slides] ** -(np.arange(0, head, 2) / head)
        q, k = rotate(x[:, 0], angle), rotate(x[:, 1], angle)
        scores = np.where((distance > 2) & slides, -np.inf, np.einsum("qhd,khd->hqk", q, k) / math.sqrt(head))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        x = np.einsum("hqk,khd->qhd", powers / powers.sum(-1, keepdims=True), x[:, 2]).reshape(count, WIDTH)
        h = h + product(x, layer + "attn.Wo")
        gate, up = np.split(product(norm(h, layer + "mlp_norm"), layer + "mlp.Wi"), 2, -1)
        gate = np.vectorize(lambda number: number * 0.5 * (1 + math.erf(number / math.sqrt(2))))(gate)
        h = h + product(gate * up, layer + "mlp.Wo")
    return norm(h, "final_norm")


@case
def modernbert_sees_tokens_near_by():
    rope = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 700.0},
                                "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}}}
    types = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    head = {"head.dense.weight": np.ones((WIDTH, WIDTH), np.float32)}
    for config, biases, decoder in ((MODERN, False, {"sliding": (0, 1, 1, 0, 1)}),
                                    ({**MODERN, "global_rope_theta": 300.0, "local_rope_theta": 70.0, "global_attn_every_n_layers": 2}, False,
                                     {"sliding": (0, 1, 0, 1, 0), "bases": (300.0, 70.0)}),
                                    ({**MODERN, **rope, "layer_types": types, "norm_bias": True, "attention_bias": True, "mlp_bias": True}, True,
                                     {"sliding": (1, 0, 1, 1, 0), "bases": (700.0, 90.0)})):
        weights = modern_weights(biases)
        compare_tokens(config, {**{"model." + name: array for name, array in weights.items()}, **head}, weights, decoder=encode_modern, **decoder)
    refuse({**MODERN, "layer_types": types[1:]}, modern_weights(), "layer_types")
    refuse({**MODERN, "num_attention_heads": 3}, modern_weights(), "num_attention_heads")
    refuse({**MODERN, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, modern_weights(), "rope")
    refuse({**MODERN, "hidden_size": 2 * WIDTH}, modern_weights(), "rows")


@case
def texts_become_vectors():
    weights = encoder_weights()
    tokenizer = {"added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, "decoder": None,
                 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                           "vocab": {word: i for i, word in enumerate(WORDS)}}}
    texts = {"a": [2, 4, 3], "": [2, 3], "bd c zz": [2, 5, 7, 6, 1, 3], "e " * 17: [2, *[8] * 17, 3], "a b " * 30: [2, *[4, 5] * 9, 3]}
    for pooling, normalize, place in (("pooling_mode_mean_tokens", True, "1_Pooling"), ("pooling_mode_cls_token", False, "pool")):
        with folder() as path:
            # A class with a head is an encoder here: only vectors of tokens are used.
            write_encoder(path, {**BERT, "architectures": ["BertForMaskedLM"]},
                          {**{"bert." + name: array for name, array in weights.items()}, "cls.predictions.bias": np.zeros(VOCABULARY, np.float32)})
            write(path, "tokenizer.json", tokenizer)
            write_modules(path, pooling, normalize, place=place)
            model = koine.Model(path)
            expect_equal(model.settings["window"], 20)
            found = model.embed(list(texts), batch_size=3)
            one = model.embed("bd c zz")
            copy = os.path.join(path, "copy") + "/"
            model.save(copy)
            expect(np.array_equal(koine.Model(copy).embed("bd c zz"), one), "a written folder computes another vector")
            expect_equal(model.embed([]).shape, (0, WIDTH))
            write(path, "tokenizer.json", {**tokenizer, "post_processor": None})
            with raises(koine.KoineError, "text 1 has no tokens"):
                koine.Model(path).embed(["a", ""])
        for row, tokens in zip(found, texts.values()):
            vectors = encode(weights, tokens)
            expected = vectors.mean(0) if pooling == "pooling_mode_mean_tokens" else vectors[0]
            expected = expected / np.linalg.norm(expected) if normalize else expected
            expect(np.abs(row - expected).max() < 1e-5, f"a vector of {len(tokens)} tokens differs by {np.abs(row - expected).max()}")
        expect(one.shape == (WIDTH,) and np.abs(one - found[2]).max() < 1e-5, "one text has a different vector")
    with folder() as path:
        write_encoder(path, BERT, weights)
        with raises(koine.KoineError, "modules.json"):
            koine.Model(path).embed("a")


@case
def encoders_that_compute_something_else_are_errors():
    for name in ("max_position_embeddings", "num_attention_heads", "hidden_size"):
        refuse({key: value for key, value in BERT.items() if key != name}, None, name, "is missing")
        refuse({**BERT, name: -3}, None, name, "expected")
    refuse({**BERT, "num_attention_heads": 5}, None, "num_attention_heads", "divisor")
    refuse({**BERT, "position_embedding_type": "relative_key"}, None, "position_embedding_type")
    refuse({**BERT, "is_decoder": True}, None, "is_decoder")
    refuse({**BERT, "architectures": ["BertForMaskedLM"]}, None, "BertForMaskedLM", "BertModel")
    refuse({**BERT, "model_type": "roberta", "architectures": ["RobertaModel"], "pad_token_id": POSITIONS}, None, "pad_token_id")
    refuse({**BERT, "embedding_size": 3}, None, "embedding_size")

    def wrong(name, content, *parts):
        with folder() as path:
            write_encoder(path, BERT, encoder_weights())
            write_modules(path)
            write(path, name, content)
            with raises(koine.KoineError, name.split("/")[-1], *parts):
                koine.Model(path)

    pooling = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
    transformer = {"type": "sentence_transformers.models.Transformer", "path": ""}
    for content in ({}, [], [transformer], [transformer, {**pooling, "path": "../1_Pooling"}], [transformer, {**pooling, "path": "/tmp"}], [pooling],
                    [transformer, pooling, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}], ["Transformer"], [{**transformer, "path": "sub"}],
                    [transformer, pooling, {**pooling, "type": "Normalize"}, {"type": "Normalize"}], [{"path": ""}]):
        wrong("modules.json", content)
    wrong("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "pooling_mode_max_tokens")
    wrong("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "pooling_mode_mean_tokens")
    wrong("1_Pooling/config.json", {}, "pooling_mode_mean_tokens")
    wrong("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode": "mean"}, '"pooling_mode"')
    wrong("sentence_bert_config.json", {"max_seq_length": POSITIONS + 1}, "max_seq_length")
    wrong("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case")
    wrong("config_sentence_transformers.json", {"default_prompt_name": "query"}, "default_prompt_name")


run()
