"""Oracle of tst_convert_*: tiny teachers and the closed-form starts of a layer in float64, from transformers and the papers' formulas.
models FOLDER                              FOLDER/{llama,qwen2,qwen3}/ with tokenizers, FOLDER/text.txt
start MODEL LAYER SEED IDS.json OUT        OUT: inputs of the layer and the expected layer as <preset>.<tensor>"""
import json
import math
import random
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

import tiny_teachers

KINDS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}


def models(folder):
    for kind, (config, cls) in KINDS.items():
        torch.manual_seed(len(kind))
        model = cls(config(vocab_size=300, hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=6,
                           num_key_value_heads=2, head_dim=8, max_position_embeddings=2048, rms_norm_eps=1e-5, initializer_range=0.12,
                           bos_token_id=0, eos_token_id=1, tie_word_embeddings=kind != "qwen3"))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name:
                    parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
                elif name.endswith("bias"):
                    parameter.add_(0.3 * torch.randn_like(parameter))
        model.save_pretrained(f"{folder}/{kind}")
        tiny_teachers.save_tokenizer(f"{folder}/{kind}", 300)
    draw = random.Random(5)
    words = " ".join(tiny_teachers.TEXT).split()
    with open(f"{folder}/text.txt", "w") as file:
        file.write(" ".join(draw.choice(words) for _ in range(4000)))


def least_squares_of_one(x):
    """The row w with the smallest mean (w x - 1)^2 + lambda w^2."""
    n, hidden = x.shape
    ridge = 1e-5 * x.square().mean()
    rows = torch.cat([x / math.sqrt(n), torch.eye(hidden, dtype=x.dtype) * ridge.sqrt()])
    target = torch.cat([torch.full((n, 1), 1 / math.sqrt(n), dtype=x.dtype), torch.zeros(hidden, 1, dtype=x.dtype)])
    return torch.linalg.lstsq(rows, target, driver="gelsd").solution[:, 0]


def readout(p, x, heads, dim):
    """o_t before the head norm, token by token (the convolution is the identity)."""
    q, k, v = (F.silu(x @ p[f"{n}_proj.weight"].T).unflatten(-1, (heads, dim)) for n in "qkv")
    q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * dim ** -0.5
    k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
    decay = torch.exp(-p["A_log"].exp() * F.softplus(x @ p["a_proj.weight"].T + p["dt_bias"]))
    beta = torch.sigmoid(x @ p["b_proj.weight"].T)
    state, out = x.new_zeros(x.shape[0], heads, dim, dim), []
    for t in range(x.shape[1]):
        state = state * decay[:, t, :, None, None]
        error = v[:, t] - torch.einsum("nhkv,nhk->nhv", state, k[:, t])
        state = state + torch.einsum("nh,nhk,nhv->nhkv", beta[:, t], k[:, t], error)
        out.append(torch.einsum("nhkv,nhk->nhv", state, q[:, t]))
    return torch.stack(out, 1)


def naive(attention, config, layer, seed, fold_row, scrambled):
    heads, group, dim = config.num_attention_heads, config.num_attention_heads // config.num_key_value_heads, config.head_dim
    p = {}
    for n in "qkv":
        projection = getattr(attention, f"{n}_proj")
        w = projection.weight.detach()
        if projection.bias is not None:
            w = w + torch.outer(projection.bias.detach(), fold_row)
        norm = getattr(attention, f"{n}_norm", None)
        if norm is not None:
            w = w * norm.weight.detach().repeat(w.shape[0] // dim)[:, None]
        if n != "q":
            index = [j // group for j in range(heads * dim)] if scrambled else [(j // dim) // group * dim + j % dim for j in range(heads * dim)]
            w = w[index]
        p[f"{n}_proj.weight"] = w
        p[f"{n}_conv1d.weight"] = torch.tensor([0.0, 0, 0, 1]).double().repeat(heads * dim, 1)
    draws = torch.Generator().manual_seed(1000 * seed + layer)
    dt = torch.exp(torch.rand(heads, generator=draws) * (math.log(0.1) - math.log(1e-3)) + math.log(1e-3)).double()
    for n, rows in (("a", heads), ("b", heads), ("g", heads * dim)):
        p[f"{n}_proj.weight"] = (torch.randn(rows, config.hidden_size, generator=draws) * 0.02).double()
    p["A_log"] = (torch.rand(heads, generator=draws) * (16 - 1e-4) + 1e-4).log().double()
    p["dt_bias"] = dt + torch.log(-torch.expm1(-dt))
    p["o_norm.weight"] = torch.ones(dim).double()
    p["o_proj.weight"] = attention.o_proj.weight.detach()
    return p


def paper(p, x, y, A, released):
    """Taylor-Calibrate section 3, or what its released code does instead."""
    heads, dim = len(p["A_log"]), len(p["o_norm.weight"])
    if released:
        x, y, A = x[:4, :256], y[:4, :256], A[:4, :, :256, :256]
    T = x.shape[1]
    distance = (torch.arange(T)[:, None] - torch.arange(T)[None]).double()
    distance = distance.clamp_min(0.5) if released else distance.clamp_min(0)
    d = (A * distance).sum(-1).mean((0, 2))
    entropy = torch.special.entr(A).sum(-1).mean((0, 2))
    c = 1 - (entropy - entropy.min()) / (entropy.max() - entropy.min())
    p = dict(p)
    p["A_log"] = torch.zeros_like(p["A_log"])
    rate = (math.log(2) / d).clamp(1e-3, 5)
    p["dt_bias"] = torch.log(torch.expm1(rate))
    random_row = p["a_proj.weight"]
    p["a_proj.weight"] = torch.zeros_like(random_row)
    target = torch.special.logit(0.3 + 0.4 * c)
    rows = p["b_proj.weight"]
    scale = rows.abs().mean(1) * math.sqrt(x.shape[-1]) if released else (x @ rows.T).mean((0, 1))
    p["b_proj.weight"] = rows * (target / scale)[:, None]
    raw = readout(p if not released else p | {"a_proj.weight": random_row}, x, heads, dim) * (dim ** 0.5 if released else 1)
    y_heads = y.unflatten(-1, (heads, dim))
    sigma = ((raw * y_heads).sum((0, 1, 3)) / raw.square().sum((0, 1, 3))).clamp(0.1, 10)
    p["v_proj.weight"] = p["v_proj.weight"] * sigma.repeat_interleave(dim)[:, None]
    alpha = 0.01 * y.square().mean().sqrt() / F.silu(x @ p["v_proj.weight"].T).square().mean().sqrt()
    p["g_proj.weight"] = alpha * p["v_proj.weight"]
    if released:
        p["a_proj.weight"] = random_row
    return p | {"sigma": sigma}


def start(folder, layer, seed, ids, out):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    block, got, layer = model.model.layers[int(layer)], {}, int(layer)
    block.input_layernorm.register_forward_hook(lambda m, i, o: got.update(x=o.detach()))
    block.self_attn.o_proj.register_forward_hook(lambda m, i, o: got.update(heads=i[0].detach(), target=o.detach()))
    with torch.no_grad():
        A = model(torch.tensor(json.load(open(ids))), output_attentions=True).attentions[layer].double()
    x, y = got["x"], got["heads"]
    row = least_squares_of_one(x.flatten(0, 1))
    plain = naive(block.self_attn, model.config, layer, int(seed), row, False)
    expected = {"naive": plain, "paper": paper(plain, x, y, A, False),
                "reference": paper(naive(block.self_attn, model.config, layer, int(seed), row, True), x, y, A, True)}
    flat = {f"{preset}.{name}": value for preset, p in expected.items() for name, value in p.items()} | got
    save_file({name: value.float().contiguous() for name, value in flat.items()}, out)


if __name__ == "__main__":
    {"models": models, "start": start}[sys.argv[1]](*sys.argv[2:])
