"""Oracle of tst_export_*: what transformers makes of exported folders.
export_oracle.py (FOLDER REQUEST.json OUT)..  REQUEST: {"ids": [[..], ..] prompts, "text", "cache": false where it can have none, "dtype": "bfloat16", "greedy": false: logits alone, "save": a folder to save
                                              it to}; OUT.safetensors logits_<i>; OUT.json greedy tokens with and without cache, of the left-padded batch, ids of the text"""
import json
import os
import sys
import tempfile

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()
sys.modules["fla"] = None  # transformers takes its GPU kernels wherever it is installed, on a CPU too

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def greedy(model, ids, mask, **options):
    new = model.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False, pad_token_id=0, **options)[:, ids.shape[1]:]
    return [row[:row.tolist().index(1) + 1].tolist() if 1 in row.tolist() else row.tolist() for row in new]


def continued(model, prompts, cache):
    answers = {name: [greedy(model, ids, torch.ones_like(ids), use_cache=use)[0] for ids in prompts] for name, use in (("cached", cache), ("uncached", False))}
    longest = max(ids.shape[1] for ids in prompts)
    left = [torch.zeros(1, longest - ids.shape[1], dtype=torch.long) for ids in prompts]
    batch = torch.cat([torch.cat([pad, ids], 1) for pad, ids in zip(left, prompts)])
    mask = torch.cat([torch.cat([pad, torch.ones_like(ids)], 1) for pad, ids in zip(left, prompts)])
    answers["batch"], answers["batch_uncached"] = greedy(model, batch, mask, use_cache=cache), greedy(model, batch, mask, use_cache=False)
    padded = model(batch, attention_mask=mask).logits
    return answers, {f"padded_{i}": padded[i, longest - ids.shape[1]:].float().contiguous() for i, ids in enumerate(prompts)}


@torch.no_grad()
def answer(folder, request, out):
    request = json.load(open(request))
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=getattr(torch, request.get("dtype", "float32"))).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    if "save" in request:
        model.save_pretrained(request["save"])
        tokenizer.save_pretrained(request["save"])
    prompts = [torch.tensor([ids]) for ids in request["ids"]]
    logits, answers = {f"logits_{i}": model(ids).logits[0].float().contiguous() for i, ids in enumerate(prompts)}, {}
    if request.get("greedy", True):
        answers, padded = continued(model, prompts, request.get("cache", True))
        logits |= padded
    answers["text_ids"] = tokenizer(request["text"])["input_ids"]
    answers["class"], answers["eos"] = type(model).__name__, model.generation_config.eos_token_id
    save_file(logits, out + ".safetensors")
    json.dump(answers, open(out + ".json", "w"))


for at in range(1, len(sys.argv), 3):
    answer(*sys.argv[at:at + 3])
