"""Files made and read by other implementations (gguf, safetensors, torch, transformers) for the readers' tests.

io_oracle.py quantised OUT.gguf OUT.json     one tensor of each type; the SHA-256 of gguf.dequantize's float32
io_oracle.py tiny OUT.gguf                   a tiny Llama with biases and mixed types, random weights
io_oracle.py transformers IN.gguf OUT.json   SHA-256 of each tensor and the configuration as transformers load them
io_oracle.py fp8 FOLDER                      FP8 folder; the SHA-256 of the decoded weights in expected.json
io_oracle.py floats FOLDER                   all float16, bfloat16 and awkward float32 values; conversions by torch
io_oracle.py read IN.safetensors OUT.json    what safetensors finds in a file: dtype, shape, SHA-256, metadata
"""
import hashlib
import json
import os
import sys

import numpy as np


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def dump(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out)


def random_blocks(rng, kind, rows, blocks):
    """Random valid bytes: every code occurs, scales are ordinary half floats (no NaN, which has no one bit pattern)."""
    import gguf
    size = gguf.GGML_QUANT_SIZES[kind][1]
    data = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    halves = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}.get(kind.name, [0])
    if kind.name in ("Q4_1", "Q5_1"):
        halves = [0, 2]
    for at in halves:
        scale = rng.normal(0, 0.05, (rows, blocks)).astype(np.float16)
        scale[0, 0] = np.float16(6e-8)  # a subnormal
        data[:, :, at:at + 2] = scale.view(np.uint8).reshape(rows, blocks, 2)
    return data.reshape(rows, blocks * size)


def quantised(out, expected):
    import gguf
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(out, "none")
    hashes = {}
    kinds = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
    for name in kinds:
        kind = gguf.GGMLQuantizationType[name]
        values = rng.normal(0, 1, (6, 512)).astype(np.float32)
        parts = {}
        if not name.endswith("_K"):
            parts["quantised"] = gguf.quantize(values, kind)
        if name.startswith("Q"):
            parts["random"] = random_blocks(rng, kind, 6, 512 // gguf.GGML_QUANT_SIZES[kind][0])
        for part, data in parts.items():
            writer.add_tensor(f"{name}.{part}", data, raw_dtype=kind)
            decoded = gguf.dequantize(data.view(np.float16) if name == "F16" else data, kind).astype(np.float32).reshape(6, 512)
            hashes[f"{name}.{part}"] = sha(decoded)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    dump(expected, hashes)


def tiny(out):
    import gguf
    rng = np.random.default_rng(2)
    hidden, heads, kv, middle, vocab, layers = 64, 4, 2, 96, 40, 2
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(middle)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(50000.0)
    writer.add_vocab_size(vocab)

    def add(name, *shape, kind="F32"):
        kind = gguf.GGMLQuantizationType[kind]
        stored = gguf.quantize(rng.normal(0, 1, shape).astype(np.float32), kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        return gguf.dequantize(stored, kind).astype(np.float32).reshape(shape)

    add("token_embd.weight", vocab, hidden, kind="Q8_0")
    add("output.weight", vocab, hidden, kind="F16")
    add("output_norm.weight", hidden)
    width = hidden // heads
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{i}.{name}.weight", hidden)
        for name, rows, columns, kind in (("attn_q", heads * width, hidden, "Q4_0"), ("attn_k", kv * width, hidden, "BF16"),
                                          ("attn_v", kv * width, hidden, "Q5_1"), ("attn_output", hidden, heads * width, "Q5_0"),
                                          ("ffn_gate", middle, hidden, "Q4_1"), ("ffn_up", middle, hidden, "F32"),
                                          ("ffn_down", hidden, middle, "Q8_0")):
            weight = add(f"blk.{i}.{name}.weight", rows, columns, kind=kind)
            if name.startswith("attn"):  # transformers drop these biases: a copy of column 0 shows that they follow the rows
                writer.add_tensor(f"blk.{i}.{name}.bias", np.ascontiguousarray(weight[:, 0]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def transformers_view(path, out):
    import torch
    from transformers import AutoConfig
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    from transformers import AutoModelForCausalLM
    folder, name = os.path.split(path)
    config = AutoConfig.from_pretrained(folder, gguf_file=name)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=empty)["tensors"]
    dump(out, {"tensors": {k: sha(v.to(torch.float32).numpy()) for k, v in tensors.items()},
               "config": {k: getattr(config, k, None) for k in (
                   "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size",
                   "vocab_size", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "bos_token_id", "eos_token_id")},
               "theta": (getattr(config, "rope_parameters", None) or {}).get("rope_theta", getattr(config, "rope_theta", None))})


def fp8(folder):
    import torch
    from safetensors.torch import save_file
    torch.manual_seed(3)
    tensors, expected = {}, {}
    for name, rows, columns, scale_type in (("a.weight", 300, 200, torch.float32), ("b.weight", 128, 256, torch.bfloat16)):
        weight = torch.randn(rows, columns) * 40
        weight = weight.to(torch.float8_e4m3fn)
        weight.view(torch.uint8)[0, :127] = torch.arange(127, dtype=torch.uint8)  # every value but NaN, both signs
        weight.view(torch.uint8)[1, :127] = torch.arange(128, 255, dtype=torch.uint8)
        scale = (torch.rand(-(-rows // 128), -(-columns // 128)) * 0.01 + 0.001).to(scale_type)
        wide = scale.to(torch.float32).repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
        decoded = weight.to(torch.float32) * wide
        tensors[name], tensors[name + "_scale_inv"] = weight, scale
        expected[name] = {"f32": sha(decoded.numpy()), "bf16": sha(decoded.to(torch.bfloat16).view(torch.int16).numpy())}
    tensors["plain.weight"] = torch.randn(5, 7).to(torch.bfloat16)
    expected["plain.weight"] = {"f32": sha(tensors["plain.weight"].to(torch.float32).numpy()),
                                "bf16": sha(tensors["plain.weight"].view(torch.int16).numpy())}
    save_file(tensors, os.path.join(folder, "model.safetensors"))
    dump(os.path.join(folder, "config.json"), {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})
    dump(os.path.join(folder, "expected.json"), expected)


def floats(folder):
    import torch
    from safetensors.torch import save_file
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 1 << 32, 200000, dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint32)
    # every bfloat16 with each interesting low half: exact, below, at and above the tie
    ties = np.concatenate([(halves << 16) | low for low in (0, 1, 0x7fff, 0x8000, 0x8001, 0xffff)])
    # every float16 as float32, and its ties
    as_float = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    half_ties = np.concatenate([as_float + low for low in (0, 1, 0xfff, 0x1000, 0x1001, 0x1fff)]).astype(np.uint32)
    values = np.concatenate([bits, ties, half_ties]).view(np.float32)
    values = torch.from_numpy(np.where(np.isnan(values), np.float32(0), values))
    every = torch.from_numpy(np.arange(-(1 << 15), 1 << 15, dtype=np.int16))
    sources = {"f32": values, "f16": every.view(torch.float16), "bf16": every.view(torch.bfloat16)}
    sources = {k: torch.where(torch.isnan(v), torch.zeros_like(v), v) for k, v in sources.items()}
    save_file(sources, os.path.join(folder, "floats.safetensors"))
    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    words = {"f32": torch.int32, "f16": torch.int16, "bf16": torch.int16}
    dump(os.path.join(folder, "expected.json"),
         {a: {b: sha(sources[a].to(torch.float32).to(kinds[b]).view(words[b]).numpy()) for b in kinds} for a in sources})


def read(path, out):
    import torch
    from safetensors import safe_open
    found = {}
    with safe_open(path, "pt") as source:
        metadata = source.metadata()
        for name in source.keys():
            tensor = source.get_tensor(name)
            words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
            found[name] = {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "sha": sha(tensor.contiguous().view(words).numpy())}
    dump(out, {"tensors": found, "metadata": metadata})


if __name__ == "__main__":
    {"quantised": quantised, "tiny": tiny, "transformers": transformers_view, "fp8": fp8, "floats": floats,
     "read": read}[sys.argv[1]](*sys.argv[2:])
