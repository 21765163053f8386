"""Tiny random teachers with a tokenizer, saved as Hugging Face folders. Imported by the oracles beside it."""
import pathlib

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

TEXT = ["The quick brown fox jumps over the lazy dog; a state is a sum of keys and values.", "Linear attention has no cache, only a state."]


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
    common = dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=96, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=16384, rms_norm_eps=1e-5,
                  initializer_range=spread, bos_token_id=0, eos_token_id=1, attn_implementation="eager")
    config, cls = (LlamaConfig, LlamaForCausalLM) if kind == "llama" else (Qwen3Config, Qwen3ForCausalLM)
    model = cls(config(tie_word_embeddings=kind == "llama", **common)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    save_tokenizer(folder, vocab)
    return model
