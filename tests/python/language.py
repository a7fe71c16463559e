"""Weights of GGUF files have the bits of the gguf package, and adapters are trained on them; skipped where that is missing.

usage: language.py HOUSE_FOLDER
"""
import os
import tempfile

from package import case, end_without, expect, run

import koine

end_without("gguf", "the gguf package")

import gguf  # noqa: E402
import numpy as np  # noqa: E402

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL")
WIDTH = 256


def blocks(kind, rows, random):
    """Random bytes of a type, (rows,bytes), whose scales are numbers: no exponent of only ones."""
    size = gguf.GGML_QUANT_SIZES[kind][1] * (WIDTH // gguf.GGML_QUANT_SIZES[kind][0])
    while True:
        made = random.integers(0, 256, (rows, size), np.uint8)
        # Half-precision and single-precision scales are anywhere; a high byte with a small exponent is always a number.
        made = np.where(made & 0x7c == 0x7c, made & 0xbf, made).astype(np.uint8)
        if np.isfinite(gguf.quants.dequantize(made, kind)).all():
            return made


@case
def weights_are_dequantized_to_the_same_bits():
    random = np.random.default_rng(1)
    expected = {}
    with tempfile.TemporaryDirectory(prefix="koine-test-") as folder:
        path = os.path.join(folder, "model.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_block_count(len(TYPES))
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(WIDTH)
        writer.add_context_length(4)
        writer.add_head_count(2)
        writer.add_layer_norm_rms_eps(1e-5)

        def put(name, rows, kind):
            kind = getattr(gguf.GGMLQuantizationType, kind)
            made = blocks(kind, rows or 1, random)
            expected[name] = gguf.quants.dequantize(made, kind).astype(np.float32).reshape((rows, WIDTH) if rows else (WIDTH,))
            if kind == gguf.GGMLQuantizationType.F32:
                writer.add_tensor(name, expected[name])
            else:
                writer.add_tensor(name, made, raw_dtype=kind)

        put("token_embd.weight", 3, "Q6_K")
        put("output_norm.weight", 0, "F32")
        for layer, kind in enumerate(TYPES):
            put(f"blk.{layer}.attn_norm.weight", 0, "F32")
            put(f"blk.{layer}.ffn_norm.weight", 0, "F32")
            for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
                put(f"blk.{layer}.{part}.weight", WIDTH, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        model = koine.Model(path)
        found = {name: np.asarray(model.states[name]) for name in model.states}
        expect(len(found) == len(expected), f"{len(found)} weights; expected {len(expected)}")
        for name, array in expected.items():
            own = found[name.replace("blk.", "blk", 1)]
            expect(own.dtype == np.float32 and own.tobytes() == array.tobytes(), f"{name}: {own} expected {array}")


@case
def a_large_vocabulary_in_blocks_trains_as_dequantized():
    """The loss dequantizes some of its rows at a time."""
    rows, parts = 66000, ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    random = np.random.default_rng(2)
    weights = {"token_embd.weight": (rows, WIDTH), **{f"blk.0.{part}.weight": (WIDTH, WIDTH) for part in parts}}
    weights = {name: gguf.quants.quantize(random.normal(size=shape).astype(np.float32) * 0.2, gguf.GGMLQuantizationType.Q8_0)
               for name, shape in weights.items()}
    x = random.integers(0, rows, (6, 4)).astype(np.int32)
    x[0] = rows - 1
    losses = []
    with tempfile.TemporaryDirectory(prefix="koine-test-") as folder:
        for narrow in (True, False):
            path = os.path.join(folder, f"{narrow}.gguf")
            writer = gguf.GGUFWriter(path, "llama")
            writer.add_block_count(1)
            writer.add_embedding_length(WIDTH)
            writer.add_feed_forward_length(WIDTH)
            writer.add_context_length(4)
            writer.add_head_count(2)
            writer.add_layer_norm_rms_eps(1e-5)
            for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
                writer.add_tensor(name + ".weight", np.ones(WIDTH, np.float32))
            for name, made in weights.items():
                kind = gguf.GGMLQuantizationType.Q8_0
                if narrow:
                    writer.add_tensor(name, made, raw_dtype=kind)
                else:
                    writer.add_tensor(name, gguf.quants.dequantize(made, kind))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            model = koine.Model(path, lora=koine.Lora(rank=4, alpha=32), seed=1)
            history = model.fit(x, np.roll(x, 1, 1), steps=4, batch_size=6, learning_rate=0.02, validation_split=0, shuffle=False, progress=False)
            losses.append(np.array(history.losses))
    expect(losses[0][3] < losses[0][0] - 0.1 and np.allclose(*losses, rtol=1e-5), str(losses))


run()
