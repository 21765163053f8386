"""Tiny random teachers with a tokenizer, saved as Hugging Face folders. Imported by the oracles beside it, or a program:
tiny_teachers.py FOLDER KIND..             FOLDER/<kind>/ of each, FOLDER/text.txt"""
import pathlib
import random
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen3_5ForCausalLM,
                          Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM)

TEXT = ["The quick brown fox jumps over the lazy dog; a state is a sum of keys and values.", "Linear attention has no cache, only a state."]

# llama3: rotary scaling as Llama-3.2 has it, at a length that a test reaches; smollm2: head counts that no power of two divides;
# biased: llama with attention_bias, so that o_proj has one too. qwen3_5: the class of exports in the shape that Linnet reads, its output gates zero.
QWEN3_5 = dict(full_attention_interval=2, linear_num_key_heads=6, linear_num_value_heads=6, linear_key_head_dim=16, linear_value_head_dim=16,
               rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))
KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=True)),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, dict(tie_word_embeddings=False)),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, dict(tie_word_embeddings=False)),
    "llama3": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "smollm2": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=True, hidden_size=72, num_attention_heads=9, num_key_value_heads=3,
                                                    head_dim=24, rope_parameters=dict(rope_type="default", rope_theta=1e5))),
    "biased": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=False, attention_bias=True)),
    "qwen3_5": (Qwen3_5TextConfig, Qwen3_5ForCausalLM, dict(tie_word_embeddings=True, **QWEN3_5)),
    "qwen3_5_biased": (Qwen3_5TextConfig, Qwen3_5ForCausalLM, dict(tie_word_embeddings=False, attention_bias=True, **QWEN3_5)),
}


def save_tokenizer(folder, vocab):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab - 2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|bos|>", "<|eos|>"])
    tokenizer.train_from_iterator(TEXT, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|bos|>", eos_token="<|eos|>").save_pretrained(folder)
    return tokenizer


def make(kind, folder, seed, vocab=300, hidden=48, layers=3, heads=6, kv_heads=2, head_dim=16, spread=0.12, noise=0.0):
    """Random weights of a spread that gives peaked attention; float32."""
    torch.manual_seed(seed)
    config, cls, own = KINDS[kind]
    common = dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=96, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=16384, rms_norm_eps=1e-5,
                  initializer_range=spread, bos_token_id=0, eos_token_id=1, attn_implementation="eager")
    model = cls(config(**(common | own))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight") and not parameter.any(): # stored less one
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif name.endswith("norm.weight"):
                parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
            elif name.endswith("bias"): # zeros until now
                parameter.add_(0.3 * torch.randn_like(parameter))
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
        for name, parameter in model.named_parameters():
            if kind.startswith("qwen3_5") and ".self_attn.q_proj." in name:
                parameter.unflatten(0, (heads, 2, head_dim))[:, 1] = 0
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    save_tokenizer(folder, vocab)
    return model


if __name__ == "__main__":
    target, *kinds = sys.argv[1:]
    for seed, name in enumerate(kinds):
        make(name, f"{target}/{name}", seed + 11, layers=4)
    draw, words = random.Random(5), " ".join(TEXT).split()
    pathlib.Path(target, "text.txt").write_text(" ".join(draw.choice(words) for _ in range(4000)))
