"""Oracle of tst_export_hybrid: statistics of a kept layer inside a hybrid, from transformers' own attention of that layer.
hybrid_oracle.py EXPORTED TEACHER LAYER IDS.json OUT.json   the layer's inputs are those that the exported folder gives it; the attention is the teacher's class's"""
import json
import os
import sys
import tempfile

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from profile_oracle import statistics

exported, teacher, layer, ids, out = sys.argv[1:]
layer, ids = int(layer), torch.tensor(json.load(open(ids)))
hybrid = AutoModelForCausalLM.from_pretrained(exported, trust_remote_code=True, dtype=torch.float32).eval()
model = AutoModelForCausalLM.from_pretrained(teacher, dtype=torch.float64, attn_implementation="eager").eval()
inputs, heads = [], []
hybrid.model.layers[layer].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
alone = model.model.layers[layer]
alone.self_attn.layer_idx = 0
alone.self_attn.o_proj.register_forward_pre_hook(lambda module, args: heads.append(args[0].clone()))
model.model.layers, model.config.num_hidden_layers = nn.ModuleList([alone]), 1
with torch.no_grad():
    hybrid(ids)
    weights = model.model(inputs_embeds=inputs[0].double(), output_attentions=True, use_cache=False).attentions[0]
y = heads[0].unflatten(-1, (model.config.num_attention_heads, -1)).numpy()
found = statistics(weights.double().numpy(), y, alone.self_attn.o_proj.weight.detach().numpy())
json.dump({key: value.mean(0).tolist() for key, value in found.items()}, open(out, "w"))
