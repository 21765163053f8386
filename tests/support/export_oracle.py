"""Oracle of tst_export_hf: what transformers makes of an exported folder.
export_oracle.py FOLDER REQUEST.json OUT   REQUEST: {"ids": [[..], ..] prompts, "text", "cache": false where it can have none, "dtype": "bfloat16", "save": a folder to save it to}; OUT.safetensors logits_<i>; OUT.json
                                           greedy tokens with and without cache, of the left-padded batch, ids of the text"""
import json
import os
import sys
import tempfile

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()
sys.modules["fla"] = None  # transformers takes its GPU kernels wherever it is installed, on a CPU too

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, request, out = sys.argv[1:]
request = json.load(open(request))
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=getattr(torch, request.get("dtype", "float32"))).eval()
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
if "save" in request:
    model.save_pretrained(request["save"])
    tokenizer.save_pretrained(request["save"])
prompts = [torch.tensor([ids]) for ids in request["ids"]]


def greedy(ids, mask, **options):
    new = model.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False, pad_token_id=0, **options)[:, ids.shape[1]:]
    return [row[:row.tolist().index(1) + 1].tolist() if 1 in row.tolist() else row.tolist() for row in new]


with torch.no_grad():
    logits = {f"logits_{i}": model(ids).logits[0].float().contiguous() for i, ids in enumerate(prompts)}
    answers = {name: [greedy(ids, torch.ones_like(ids), use_cache=cache)[0] for ids in prompts] for name, cache in (("cached", request.get("cache", True)), ("uncached", False))}
    longest = max(ids.shape[1] for ids in prompts)
    left = [torch.zeros(1, longest - ids.shape[1], dtype=torch.long) for ids in prompts]
    batch = torch.cat([torch.cat([pad, ids], 1) for pad, ids in zip(left, prompts)])
    mask = torch.cat([torch.cat([pad, torch.ones_like(ids)], 1) for pad, ids in zip(left, prompts)])
    answers["batch"], answers["batch_uncached"] = greedy(batch, mask, use_cache=request.get("cache", True)), greedy(batch, mask, use_cache=False)
    padded = model(batch, attention_mask=mask).logits
    logits |= {f"padded_{i}": padded[i, longest - ids.shape[1]:].float().contiguous() for i, ids in enumerate(prompts)}
answers["text_ids"] = tokenizer(request["text"])["input_ids"]
answers["class"], answers["eos"] = type(model).__name__, model.generation_config.eos_token_id
save_file(logits, out + ".safetensors")
json.dump(answers, open(out + ".json", "w"))
