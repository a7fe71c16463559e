"""Compares models in Hugging Face folders with transformers: random weights, by architecture.

usage: compare.py [ARCHITECTURE …]

Needs torch and transformers, and the koine package. Each architecture is made at two sizes, saved, and opened by Koine. Logits must
agree within 2e-5 of the largest, for a whole window and token by token with the cache; 200 greedy tokens must be the same unless
transformers' own two best logits are nearly equal. Exits with 1 if something differs.
"""
import os
import sys
import tempfile

import numpy as np
import torch
import transformers

import koine
from koine._generate import _Writer

LIMIT, LENGTH, GREEDY = 2e-5, 48, 200
SMALL = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256)
LARGE = dict(vocab_size=331, hidden_size=128, intermediate_size=272, num_hidden_layers=7, num_attention_heads=8, max_position_embeddings=512)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
          "rope_theta": 500000.0}
LONG = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": None, "long_factor": None}}
T = transformers


def decoders():
    """(architecture, variant, configuration, settings for both sizes)"""
    yield "llama", "grouped", T.LlamaConfig, dict(num_key_value_heads=2)
    yield "llama", "llama3", T.LlamaConfig, dict(num_key_value_heads=1, rope_parameters=LLAMA3, tie_word_embeddings=True)
    yield "llama", "biases", T.LlamaConfig, dict(attention_bias=True, mlp_bias=True, head_dim=16)
    yield "llama", "linear", T.LlamaConfig, dict(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})
    yield "mistral", "window", T.MistralConfig, dict(num_key_value_heads=2, sliding_window=7)
    yield "mistral", "whole", T.MistralConfig, dict(num_key_value_heads=2, sliding_window=None, head_dim=32)
    yield "qwen2", "whole", T.Qwen2Config, dict(num_key_value_heads=2, tie_word_embeddings=True)
    yield "qwen2", "window", T.Qwen2Config, dict(num_key_value_heads=2, use_sliding_window=True, sliding_window=9, max_window_layers=1)
    yield "qwen3", "whole", T.Qwen3Config, dict(num_key_value_heads=2, head_dim=32)
    yield "gemma2", "windows", T.Gemma2Config, dict(num_key_value_heads=2, head_dim=32, sliding_window=5, query_pre_attn_scalar=24,
                                                    attn_logit_softcapping=2.0, final_logit_softcapping=3.0)
    yield "gemma2", "usual caps", T.Gemma2Config, dict(num_key_value_heads=4, head_dim=16, sliding_window=20, query_pre_attn_scalar=16)
    yield "gemma3_text", "windows", T.Gemma3TextConfig, dict(num_key_value_heads=1, head_dim=32, sliding_window=5, query_pre_attn_scalar=24)
    yield "smollm3", "whole", T.SmolLM3Config, dict(num_key_value_heads=2, no_rope_layer_interval=2)
    yield "llama", "yarn", T.LlamaConfig, dict(rope_parameters={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                                                                "rope_theta": 10000.0})
    yield "gpt2", "tied", T.GPT2Config, dict()
    yield "gpt_neox", "parallel", T.GPTNeoXConfig, dict(rotary_pct=0.5)
    yield "gpt_neox", "in turn", T.GPTNeoXConfig, dict(use_parallel_residual=False, hidden_act="gelu_new", rotary_pct=0.5)
    yield "phi3", "whole", T.Phi3Config, dict(num_key_value_heads=2)
    yield "phi3", "longrope", T.Phi3Config, dict(num_key_value_heads=2, original_max_position_embeddings=256, **LONG)
    yield "phi3", "partial", T.Phi3Config, dict(num_key_value_heads=1, rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                                                       "partial_rotary_factor": 0.5}, sliding_window=9)
    yield "smollm3", "window", T.SmolLM3Config, dict(num_key_value_heads=4, use_sliding_window=True, sliding_window=6, tie_word_embeddings=False)


def encoders():
    """The same for encoders, whose texts have different lengths."""
    yield "modernbert", "windows", T.ModernBertConfig, dict(local_attention=10)
    yield "modernbert", "biases", T.ModernBertConfig, dict(local_attention=7, norm_bias=True, attention_bias=True, mlp_bias=True,
                                                           layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    yield "bert", "types", T.BertConfig, dict()


def disturb(model):
    """Norms and biases are initialized to ones and zeros, which would hide mistakes."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            else:
                parameter.mul_(3)


def difference(found, expected):
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def whole(model, network, tokens):
    with torch.no_grad():
        expected = network(input_ids=torch.tensor(tokens)).logits.numpy()
    window = model.inputs[0].shape[1]
    x = np.zeros((len(tokens), window), np.int32)
    x[:, :LENGTH] = tokens
    return difference(model.predict(x)[:, :LENGTH], expected)


def greedy(model, network, tokens):
    """The largest difference of cached logits, and the number of tokens that are the same."""
    writer, text, worst, past = _Writer(model), list(tokens), 0.0, None
    given = torch.tensor([text])
    for step in range(GREEDY):
        with torch.no_grad():
            made = network(input_ids=given, past_key_values=past, use_cache=True)
        expected, past = made.logits[0, -1].numpy(), made.past_key_values
        found = writer.logits(text)
        worst = max(worst, difference(found, expected))
        token = int(expected.argmax())
        best = np.sort(expected)[-2:]
        if int(found.argmax()) != token and best[1] - best[0] > 1e-4 * np.abs(expected).max():
            return worst, step
        text.append(token)
        given = torch.tensor([[token]])
    return worst, GREEDY


def compare(folder, kind, config, **settings):
    torch.manual_seed(1)
    if kind == "gpt2":
        names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "max_position_embeddings": "n_positions",
                 "intermediate_size": "n_inner"}
        settings = {names.get(name, name): value for name, value in settings.items()}
    rope = settings.get("rope_parameters", {})
    if "short_factor" in rope:
        pairs = settings["hidden_size"] // settings["num_attention_heads"] // 2
        settings["rope_parameters"] = {**rope, "short_factor": [1 + 0.3 * i for i in range(pairs)], "long_factor": [2.0] * pairs,
                                       "original_max_position_embeddings": 256}
        settings["max_position_embeddings"] = 1024
    network = T.AutoModelForCausalLM.from_config(config(**settings, bos_token_id=1, eos_token_id=2, pad_token_id=0), dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    disturb(network)
    network.save_pretrained(folder)
    tokens = np.random.default_rng(2).integers(3, settings["vocab_size"], (2, LENGTH))
    model = koine.Model(folder, fast_math=False)
    first = whole(model, network, tokens)
    second, same = greedy(model, network, tokens[0])
    return first, second, same


def compare_encoder(folder, config, settings):
    """The largest difference of the vectors of tokens."""
    torch.manual_seed(1)
    if "layer_types" in settings:
        settings = {**settings, "layer_types": (settings["layer_types"] * 3)[:settings["num_hidden_layers"]]}
    network = T.AutoModel.from_config(config(**settings, bos_token_id=1, eos_token_id=2, pad_token_id=0), dtype=torch.float32,
                                      attn_implementation="eager").eval()
    disturb(network)
    network.save_pretrained(folder)
    lengths = np.array([LENGTH, LENGTH // 3, 1], np.int32)
    model = koine.Model(folder, window=LENGTH, fast_math=False)
    tokens = np.random.default_rng(2).integers(3, settings["vocab_size"], (3, LENGTH)).astype(np.int32)
    mask = np.arange(LENGTH) < lengths[:, None]
    with torch.no_grad():
        expected = network(input_ids=torch.tensor(tokens).long(), attention_mask=torch.tensor(mask).long()).last_hidden_state.numpy()
    return difference(model.predict({"x": tokens, "length": lengths})[mask], expected[mask])


def main(wanted):
    failed = 0
    for kind, variant, config, more in encoders():
        for size, settings in (("small", SMALL), ("large", LARGE)) if not wanted or kind in wanted else ():
            with tempfile.TemporaryDirectory(prefix="koine-") as folder:
                found = compare_encoder(os.path.join(folder, "model"), config, {**settings, **more})
            failed += not found <= LIMIT
            print(f"{kind:12} {variant:8} {size}: vectors {found:.1e} {'' if found <= LIMIT else 'DIFFER'}", flush=True)
    for kind, variant, config, more in decoders():
        if wanted and kind not in wanted:
            continue
        for size, settings in (("small", SMALL), ("large", LARGE)):
            with tempfile.TemporaryDirectory(prefix="koine-") as folder:
                first, second, same = compare(os.path.join(folder, "model"), kind, config, **{**settings, **more})
            fine = first <= LIMIT and second <= LIMIT and same == GREEDY
            failed += not fine
            print(f"{kind:12} {variant:8} {size}: logits {first:.1e}, with a cache {second:.1e}, {same} tokens {'' if fine else 'DIFFER'}", flush=True)
    return failed > 0


sys.exit(main(sys.argv[1:]))
