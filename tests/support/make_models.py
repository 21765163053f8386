"""Tiny random teachers of every supported kind with transformers' answers, for tests/core/tst_model_*.cpp.
make_models.py tiny FOLDER [NAME..]           FOLDER/<name>/ (a model folder), <name>.safetensors (its logits), <name>.json (ids)
make_models.py real GGUF IDS.json OUT.safetensors   logits of a GGUF teacher, loaded by transformers, in float32"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

import tiny_teachers

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
LLAMA, QWEN2, QWEN3 = (LlamaConfig, LlamaForCausalLM), (Qwen2Config, Qwen2ForCausalLM), (Qwen3Config, Qwen3ForCausalLM)
# name: classes, settings, changes to the stored files
MODELS = {
    "llama": (LLAMA, {}, {}),
    "llama_llama3": (LLAMA, {"rope_parameters": LLAMA3, "max_position_embeddings": 512}, {}),
    "llama_linear": (LLAMA, {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}, {}),
    "llama_bias": (LLAMA, {"head_dim": 24, "num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True}, {}),
    "llama_mha_odd": (LLAMA, {"num_key_value_heads": 4, "vocab_size": 331, "tie_word_embeddings": True}, {}),
    "llama_old_keys": (LLAMA, {"rope_parameters": LLAMA3, "max_position_embeddings": 512}, {"old_keys": True}),
    "qwen2_tied": (QWEN2, {"tie_word_embeddings": True}, {}),
    "qwen2_sharded": (QWEN2, {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}, {"shard": "60KB"}),
    "qwen3": (QWEN3, {"head_dim": 32}, {}),
    "qwen3_bf16": (QWEN3, {"head_dim": 32, "tie_word_embeddings": True}, {"dtype": torch.bfloat16}),
    "qwen3_old_keys": (QWEN3, {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}, {"old_keys": True}),
}


def old_keys(file):
    """As transformers before version 5 wrote it."""
    config = json.loads(file.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    file.write_text(json.dumps(config, indent=2))


def make(folder, name, classes, settings, changes):
    torch.manual_seed(sum(name.encode()))
    config = dict(vocab_size=320, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.15, bos_token_id=0,
                  eos_token_id=1, tie_word_embeddings=False) | settings
    model = classes[1](classes[0](attn_implementation="eager", **config)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("norm.weight"):
                parameter.mul_(1 + 0.3 * torch.randn_like(parameter))
            elif key.endswith("bias"):
                parameter.add_(0.3 * torch.randn_like(parameter))
    model = model.to(changes.get("dtype", torch.float32))
    model.save_pretrained(folder / name, max_shard_size=changes.get("shard", "50GB"))
    tiny_teachers.save_tokenizer(str(folder / name), 300)
    if changes.get("old_keys"):
        old_keys(folder / name / "config.json")
    # read again: a cast of the model would also round its rotary frequencies
    return AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32, attn_implementation="eager").eval()


def answers(model, folder, name):
    vocab = model.config.vocab_size
    ids = torch.randint(2, vocab, (3, 33), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        logits = {f"logits_{t}": model(ids[:1, :t]).logits[0].contiguous() for t in (1, 7, 33)}
        logits["batch"] = model(ids).logits.contiguous()
        greedy = model.generate(ids[:1, :7], max_new_tokens=24, do_sample=False, attention_mask=torch.ones(1, 7, dtype=torch.long),
                                pad_token_id=0)[0, 7:]
    save_file(logits, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps({"ids": ids.tolist(), "greedy": greedy.tolist()}))


def tiny(out, *names):
    folder = pathlib.Path(out)
    for name in names or MODELS:
        answers(make(folder, name, *MODELS[name]), folder, name)


def real(gguf, ids, out):
    file = pathlib.Path(gguf)
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32).eval()
    with torch.no_grad():
        save_file({"logits": model(torch.tensor([json.loads(pathlib.Path(ids).read_text())])).logits[0].contiguous()}, out)


if __name__ == "__main__":
    {"tiny": tiny, "real": real}[sys.argv[1]](*sys.argv[2:])
