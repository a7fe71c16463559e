"""Compares LoRA fine-tuning with PyTorch and PEFT: losses of 20 steps, and the logits of adapters that either program trained.

usage: lora.py [MODEL.gguf]

Needs torch, transformers, peft and gguf, and the koine package. Small models with random weights are opened from folders and from GGUF
files, whose q and k have another order of rows in Llama. Losses must agree within 2e-5, logits within 2e-5 of the largest. With a file, such as
smollm2.gguf of `fetch`, five steps of that model are compared, too. Exits with 1 if something differs.
"""
import os
import sys
import tempfile

import gguf
import numpy as np
import peft
import torch
import transformers

import koine

LIMIT, STEPS, BATCH, LENGTH = 2e-5, 20, 3, 24
SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64)
T = transformers
# (architecture, configuration, its own settings, targets, settings of the adapter)
CASES = [
    ("llama", T.LlamaConfig, dict(num_key_value_heads=2), ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
     dict(r=4, lora_alpha=8)),
    ("llama", T.LlamaConfig, dict(num_key_value_heads=1, tie_word_embeddings=True), ["q_proj", "v_proj"], dict(r=8, lora_alpha=4, use_rslora=True)),
    ("qwen2", T.Qwen2Config, dict(num_key_value_heads=2), ["k_proj", "down_proj", "lm_head"], dict(r=3, lora_alpha=7)),
    ("qwen3", T.Qwen3Config, dict(num_key_value_heads=2, head_dim=16), ["q_proj", "k_proj"], dict(r=2, lora_alpha=16)),
    ("gemma2", T.Gemma2Config, dict(num_key_value_heads=2, head_dim=16, sliding_window=9, query_pre_attn_scalar=16, attn_logit_softcapping=2.0,
                                    final_logit_softcapping=3.0, attn_implementation="eager"),
     ["q_proj", "k_proj", "v_proj", "down_proj"], dict(r=4, lora_alpha=8)),
]
NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
GEMMA = {**NAMES, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
failed = False


def name_in_gguf(name, names):
    for theirs, own in (("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")):
        if name.startswith(theirs + "."):
            return own + name[len(theirs):]
    layer, part = name[len("model.layers."):].split(".", 1)
    stem, ending = part.rsplit(".", 1)
    return f"blk.{layer}.{names[stem]}.{ending}"


def alternate(rows, heads):
    """The rows of q or k as converters of llama.cpp write them."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path, architecture, network):
    config = network.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if architecture == "gemma2":
        writer.add_sliding_window(config.sliding_window)
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    for name, tensor in network.state_dict().items():
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        numbers = tensor.numpy()
        if architecture == "llama" and ".q_proj." in name:
            numbers = alternate(numbers, config.num_attention_heads)
        if architecture == "llama" and ".k_proj." in name:
            numbers = alternate(numbers, config.num_key_value_heads)
        if architecture == "gemma2" and "norm." in name:
            numbers = numbers + 1
        writer.add_tensor(name_in_gguf(name, GEMMA if architecture == "gemma2" else NAMES), np.ascontiguousarray(numbers))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def batches(steps, length, tokens):
    random = np.random.default_rng(1)
    return [random.integers(0, tokens, (BATCH, length + 1), np.int32) for _ in range(steps)]


def train_torch(network, data, rate):
    """Losses, with the network in evaluation mode: the adapters have no dropout."""
    optimizer = torch.optim.Adam([part for part in network.parameters() if part.requires_grad], lr=rate)
    losses = []
    for tokens in data:
        given = torch.tensor(tokens, dtype=torch.long)
        logits = network(input_ids=given[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), given[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_koine(model, data, rate):
    x, y = (np.concatenate([tokens[:, part] for tokens in data]) for part in (slice(None, -1), slice(1, None)))
    history = model.fit(x, np.ascontiguousarray(y), steps=len(data), batch_size=BATCH, learning_rate=rate, schedule="constant", shuffle=False,
                        validation_split=0, progress=False)
    return list(history.losses)


def difference(found, expected):
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())


def report(what, found, limit=LIMIT):
    global failed
    failed = failed or not found <= limit
    print(f"{what:64} {found:.2g}{'' if found <= limit else '  too much'}", flush=True)


def logits_of(network, tokens):
    with torch.no_grad():
        return network(input_ids=torch.tensor(tokens, dtype=torch.long)).logits.numpy()


def compare(label, path, network_of, targets, adapter, data, rate, folder, tokens):
    """network_of: creates the transformers model again."""
    first, mine = (os.path.join(folder, name) for name in ("first", "mine"))
    torch.manual_seed(2)
    network = peft.get_peft_model(network_of(), peft.LoraConfig(target_modules=targets, **adapter)).eval()
    network.save_pretrained(first, save_embedding_layers=False)
    model = koine.Model(path, adapter=first, window=tokens.shape[1], fast_math=False)
    expected, found = train_torch(network, data, rate), train_koine(model, data, rate)
    report(f"{label}: losses of {len(data)} steps ({expected[0]:.4f} to {expected[-1]:.4f})", difference(found, np.array(expected)))
    logits = logits_of(network, tokens)
    report(f"{label}: logits after training", difference(model.predict(tokens), logits), 20 * LIMIT)
    own = model.predict(tokens)
    model.save_adapter(mine)
    loaded = peft.PeftModel.from_pretrained(network_of(), mine).eval()
    report(f"{label}: logits of PEFT with Koine's adapter", difference(logits_of(loaded, tokens), own))
    network.save_pretrained(first, save_embedding_layers=False)
    report(f"{label}: logits of Koine with PEFT's adapter", difference(koine.Model(path, adapter=first, window=tokens.shape[1], fast_math=False).predict(tokens), logits))


def small(folder):
    for architecture, kind, more, targets, adapter in CASES:
        torch.manual_seed(1)
        network = T.AutoModelForCausalLM.from_config(kind(**SIZES, **more))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(3) if parameter.dim() > 1 else parameter.add_(torch.randn_like(parameter) * 0.3)
        whole, file = os.path.join(folder, "whole"), os.path.join(folder, "model.gguf")
        network.save_pretrained(whole)
        write_gguf(file, architecture, network)
        data = batches(STEPS, LENGTH, SIZES["vocab_size"])
        for path in (whole, file):
            label = f"{architecture}, {'GGUF file' if path == file else 'folder'}, {len(targets)} targets"
            compare(label, path, lambda: T.AutoModelForCausalLM.from_pretrained(whole, attn_implementation=more.get("attn_implementation")), targets, adapter, data, 1e-3, folder, data[0][:, :-1])


def large(path, folder):
    def network_of():
        return T.AutoModelForCausalLM.from_pretrained(os.path.dirname(path) or ".", gguf_file=os.path.basename(path), dtype=torch.float32)
    data = batches(5, 32, 40000)
    compare(os.path.basename(path), path, network_of, ["q_proj", "k_proj", "v_proj", "down_proj"], dict(r=8, lora_alpha=16), data, 1e-3, folder,
            data[0][:, :-1])


T.logging.set_verbosity_error()
with tempfile.TemporaryDirectory(prefix="koine-") as folder:
    small(folder)
    for path in sys.argv[1:]:
        large(path, folder)
sys.exit(failed)
