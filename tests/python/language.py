"""Weights of GGUF files have the bits of the gguf package; skipped where that is missing.

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


run()
