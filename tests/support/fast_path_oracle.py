"""Oracle of the hf folder's fast path (tst_export_fla): resources/modeling_linnet.py with FLA's kernels against itself in plain PyTorch, on the CPU.
fast_path_oracle.py FOLDER REQUEST.json OUT.json   REQUEST: {"ids": [[..], ..] prompts}
The kernels are FLA's own Triton ones, in Triton's interpreter."""
import functools
import inspect
import json
import os
import sys
import tempfile

os.environ["HF_MODULES_CACHE"], os.environ["TRITON_INTERPRET"] = tempfile.mkdtemp(), "1"

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import fla_oracle

fla_oracle.interpret()
import fla.ops.gated_delta_rule as ops

calls = []


def recorded(name, real):
    known = inspect.signature(real).parameters

    @functools.wraps(real)
    def call(**given):
        assert set(given) <= set(known), f"{name} takes no {set(given) - set(known)}"
        q, k, v, g, beta, S = (given[key] for key in ("q", "k", "v", "g", "beta", "initial_state"))
        B, T, H, D = q.shape
        assert k.shape == v.shape == q.shape and g.shape == beta.shape == (B, T, H) and bool((g <= 0).all()) and bool(((beta > 0) & (beta < 1)).all())
        assert q.is_contiguous() and (S is None or (S.shape == (B, H, D, D) and S.dtype == torch.float32)) and given["scale"] == D ** -0.5
        calls.append([name, B, T, H, D, S is not None])
        return real(**given)
    return call


def record(name, attribute):
    setattr(ops, attribute, recorded(name, getattr(ops, attribute)))


record("step", "fused_recurrent_gated_delta_rule")
record("chunk", "chunk_gated_delta_rule")


def answers(folder, prompts, wish, **changes):
    os.environ["LINNET_FLA"] = wish
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    config.linnet.update(changes)
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, trust_remote_code=True, dtype=torch.float32).eval()
    longest = max(len(ids) for ids in prompts)
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    calls.clear()
    with torch.no_grad():
        logits = model(ids, attention_mask=mask).logits[mask.bool()]
        tokens = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0)[:, longest:].tolist()
    return logits, tokens, list(calls)


folder, request, out = sys.argv[1:]
prompts = json.load(open(request))["ids"]
plain, tokens, none = answers(folder, prompts, "0")
logits, fast_tokens, made = answers(folder, prompts, "1")
_, _, off = answers(folder, prompts, "1", fla=False)
_, _, default = answers(folder, prompts, "")  # no GPU here
json.dump({"error": float((logits - plain).abs().max() / plain.abs().max()), "tokens": tokens, "fast_tokens": fast_tokens, "calls": made,
           "calls_when_off": none + off + default}, open(out, "w"))
