"""llama.cpp itself (PyPI's xllamacpp) on a .gguf: what it makes of token prompts and of texts.
llama_oracle.py FILE.gguf REQUEST.json OUT   REQUEST: {"ids": [[..], ..] prompts, "tokens": how many to add greedily (less the end of text), "positions": how many of the last positions of
                                             a prompt to give log-probabilities of (0: none), "vocab", "texts": [..], "messages": [{"role", "content"}, ..]}
OUT.safetensors: log_probabilities_<i> [positions, vocab]; OUT.json: greedy [[..], ..], text_ids [[..], ..], chat text, version"""
import json
import math
import sys
import urllib.request

import numpy
import xllamacpp
from safetensors.numpy import save_file

file, request, out = sys.argv[1:]
request = json.load(open(request))
params = xllamacpp.CommonParams()
params.model.path = file
params.n_ctx, params.n_parallel, params.n_gpu_layers, params.cpuparams.n_threads = 512, 1, 0, 2
params.warmup, params.cache_ram_mib, params.verbosity = False, 0, 0
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(params)


def ask(path, body):
    post = urllib.request.Request(server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(post, timeout=60))


def complete(ids, tokens, **options):
    return ask("/completion", {"prompt": ids, "n_predict": tokens, "temperature": 0, "cache_prompt": False, **options})


any_token = ask("/tokenize", {"content": "a"})["tokens"][0] # a step that yields no whole character would hold its probabilities back


def log_probabilities(ids):
    row = numpy.full([request["vocab"]], -math.inf, numpy.float32)
    answer = complete(ids, 1, n_probs=request["vocab"], logit_bias=[[any_token, 1e6]]) # the bias is the sampler's, not theirs
    for entry in answer["completion_probabilities"][0]["top_logprobs"]:
        row[entry["id"]] = entry["logprob"]
    return row


rows = {}
answers = {"version": xllamacpp.__version__, "greedy": [], "text_ids": []}
for i, ids in enumerate(request["ids"]):
    answers["greedy"].append(complete(ids, request["tokens"], return_tokens=True)["tokens"])
    last = range(max(1, len(ids) - request["positions"] + 1), len(ids) + 1)
    if request["positions"]:
        rows[f"log_probabilities_{i}"] = numpy.stack([log_probabilities(ids[:end]) for end in last])
for text in request.get("texts", []):
    answers["text_ids"].append(ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"])
if "messages" in request:
    answers["chat"] = ask("/apply-template", {"messages": request["messages"]})["prompt"]
if "props" in request:
    answers["props"] = json.load(urllib.request.urlopen(server.listening_address + "/props", timeout=60))
save_file(rows, out + ".safetensors")
json.dump(answers, open(out + ".json", "w"))
