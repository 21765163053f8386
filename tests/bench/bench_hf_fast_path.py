"""The hf folder's two paths on a GPU: plain PyTorch (LINNET_FLA=0) against flash-linear-attention's kernels, the same folder and text.
bench_hf_fast_path.py FOLDER [--dtype bf16|f32] [--prompt 4096] [--tokens 128] [--batch 1] [--rounds 5] [--json OUT]
FOLDER: an export of format hf; or "tiny" or "smollm2-135m" for one of that shape with random weights, two of three layers Gated DeltaNet.
Prints the largest logit difference (of the largest logit), in how many greedy tokens the paths agree, and tokens per second of prefill and decoding as a
ratio fast / plain (above 1: the kernels are faster), each path measured in turns and its median taken."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import time

os.environ.setdefault("HF_MODULES_CACHE", tempfile.mkdtemp())

import torch
from transformers import AutoModelForCausalLM

SHAPES = {  # hidden, intermediate, layers, heads, kv_heads, vocabulary
    "tiny": (128, 256, 3, 4, 2, 512),
    "smollm2-135m": (576, 1536, 30, 9, 3, 49152),
}


def made_up(shape, folder):
    hidden, inner, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    here = pathlib.Path(__file__).resolve().parent
    shutil.copy(here.parent.parent / "resources" / "modeling_linnet.py", folder)
    config = {"model_type": "linnet", "architectures": ["LinnetForCausalLM"], "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": hidden // heads, "rms_norm_eps": 1e-5,
              "max_position_embeddings": 32768, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1,
              "auto_map": {"AutoConfig": "modeling_linnet.LinnetConfig", "AutoModelForCausalLM": "modeling_linnet.LinnetForCausalLM"},
              "linnet": {"teacher_type": "llama", "mixer": "gated_delta_net", "converted_layers": [l for l in range(layers) if l % 3], "windows": {}, "qk_norm": False,
                         "qkv_bias": False, "output_bias": False, "mlp_bias": False, "rope": {"type": "default", "theta": 10000.0}}}
    pathlib.Path(folder, "config.json").write_text(json.dumps(config))
    from transformers import AutoConfig
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder, trust_remote_code=True), trust_remote_code=True)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3 if "conv1d" in name else parameter.shape[1] ** -0.5)
            elif "norm" not in name:
                parameter.uniform_(-4, 0)
    model.save_pretrained(folder)
    return folder


def seconds(call):
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begin = time.perf_counter()
    result = call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    temporary = tempfile.TemporaryDirectory()
    folder = made_up(options.folder, temporary.name) if options.folder in SHAPES else options.folder
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=torch.bfloat16 if options.dtype == "bf16" else torch.float32)
    model = model.eval().to(options.device)
    code = __import__(type(model).__module__, fromlist=["fused_rule"])
    probe = torch.zeros(1, 1, 1, device=options.device)
    with torch.no_grad():
        os.environ.pop("LINNET_FLA", None)
        if code.fused_rule(probe, model.config) is None:
            raise SystemExit("the fast path is off here: it needs a GPU and flash-linear-attention (pip install flash-linear-attention)")
        generator = torch.Generator().manual_seed(7)
        ids = torch.randint(2, model.config.vocab_size, (options.batch, options.prompt), generator=generator).to(options.device)

        def path(name):
            os.environ["LINNET_FLA"] = "0" if name == "plain" else ""
        def prefill():
            return model(ids, logits_to_keep=64).logits.float()
        def generated(tokens):
            return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)[:, ids.shape[1]:]

        times = {name: {"prefill": [], "first": [], "all": []} for name in ("plain", "fast")}
        logits, tokens = {}, {}
        for turn in range(options.rounds + 1):
            for name, spent in times.items():
                path(name)
                took = [seconds(prefill), seconds(lambda: generated(1)), seconds(lambda: generated(options.tokens))]
                logits[name], tokens[name] = took[0][1], took[2][1]
                if turn:  # the first compiles kernels
                    for kind, (second, _) in zip(spent, took):
                        spent[kind].append(second)
    rate = {}
    for name, spent in times.items():
        prefilled, first, all_ = (statistics.median(spent[kind]) for kind in ("prefill", "first", "all"))
        rate[name] = {"prefill": ids.numel() / prefilled, "decode": options.batch * (options.tokens - 1) / (all_ - first) if all_ > first else float("nan")}
    same = (tokens["plain"] == tokens["fast"]).long().cumprod(-1).sum(-1)
    result = {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", "dtype": options.dtype, "prompt": options.prompt, "batch": options.batch,
              "logit_difference": float((logits["fast"] - logits["plain"]).abs().max() / logits["plain"].abs().max()),
              "top1_agreement": float((logits["fast"].argmax(-1) == logits["plain"].argmax(-1)).float().mean()),
              "greedy_same": same.tolist(), "greedy_tokens": options.tokens,
              "tokens_per_second": rate, "ratio": {kind: rate["fast"][kind] / rate["plain"][kind] for kind in ("prefill", "decode")}}
    print(json.dumps(result, indent=1))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
