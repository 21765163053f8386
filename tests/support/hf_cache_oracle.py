"""Oracle of the hf folder's cache (tst_export_hf): one prompt and a left-padded batch, whole against in pieces, by generate and by hand.
hf_cache_oracle.py FOLDER REQUEST.json OUT   REQUEST: {"ids": [..] a prompt, "teacher": a folder of a class of transformers' own, or null};
OUT.safetensors logits of the whole prompt, each way; OUT.json greedy tokens, each way; what was refused, with the message"""
import copy
import json
import os
import sys
import tempfile

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()
sys.modules["fla"] = None

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, DynamicCache

folder, request, out = sys.argv[1:]
request = json.load(open(request))
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32).eval()
ids, pad = torch.tensor([request["ids"]]), 3
short = ids[:, 2:]  # beside it in a batch, padded on the left
batch = torch.cat([torch.cat([torch.zeros(1, pad, dtype=torch.long), ids], 1), torch.cat([torch.zeros(1, pad + 2, dtype=torch.long), short], 1)])
mask = torch.cat([torch.cat([torch.zeros(1, n, dtype=torch.long), torch.ones(1, batch.shape[1] - n, dtype=torch.long)], 1) for n in (pad, pad + 2)])


def cache_of(output):
    return output.cache if "cache" in type(output).__dataclass_fields__ else output.past_key_values


def pieces(tokens, sizes, mask=None, positions=False):
    cache, at, rows = None, 0, []
    for size in sizes:
        more = {"position_ids": torch.arange(at, at + size)[None]} if positions else {}
        output = model(tokens[:, at:at + size], attention_mask=None if mask is None else mask[:, :at + size], past_key_values=cache, use_cache=True, **more)
        cache, at = cache_of(output), at + size
        rows.append(output.logits)
        assert cache.get_seq_length() == at
    assert at == tokens.shape[1]
    return torch.cat(rows, 1)


def refusal(**given):
    try:
        model(**({"input_ids": ids} | given))
    except (ValueError, TypeError, NotImplementedError) as error:
        return str(error)
    return None


def greedy(tokens=ids, **options):
    return model.generate(tokens, max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=None, **options)[:, tokens.shape[1] if tokens is not None else 0:].tolist()


with torch.no_grad():
    n, width = ids.shape[1], batch.shape[1]
    padded = {"padded": pieces(batch, [width], mask), "padded_chunks": pieces(batch, [4, 1, width - 5], mask), "padded_steps": pieces(batch, [1] * width, mask)}
    logits = {"whole": model(ids, use_cache=False).logits, "cached": model(ids, use_cache=True).logits, "chunks": pieces(ids, [3, 1, n - 4]), "steps": pieces(ids, [1] * n),
              "positions": pieces(ids, [4, n - 4], positions=True), "kept": torch.cat([model(ids[:, :-3]).logits, model(ids, logits_to_keep=3).logits], 1),
              "kept_old": torch.cat([model(ids[:, :-1]).logits, model(ids, num_logits_to_keep=1).logits], 1), "embedded": model(inputs_embeds=model.get_input_embeddings()(ids)).logits}
    logits = {name: z[0] for name, z in logits.items()} | {f"{name}_0": z[0, pad:] for name, z in padded.items()}
    shorter = {"short": model(short).logits[0]} | {f"{name}_1": z[1, pad + 2:] for name, z in padded.items()}

    first = model(ids[:, :-1], use_cache=True)
    branch = copy.deepcopy(cache_of(first))  # two ways on from one prefix
    other, again = (model(token, past_key_values=cache).logits for token, cache in ((ids[:, -2:-1], branch), (ids[:, -1:], cache_of(first))))
    logits["branch"] = torch.cat([first.logits, again], 1)[0]
    assert not torch.equal(other, again)

    embeds = model.get_input_embeddings()(ids)
    chat = model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=None, return_dict_in_generate=True)
    tokens = {"cached": greedy(), "uncached": greedy(use_cache=False), "embedded": greedy(None, inputs_embeds=embeds, attention_mask=torch.ones_like(ids)),
              "continued": [chat.sequences[0, n:].tolist() + model.generate(chat.sequences, past_key_values=cache_of(chat), max_new_tokens=8, do_sample=False, pad_token_id=0,
                                                                               eos_token_id=None)[0, n + 4:].tolist()]}
    beams = {name: model.generate(batch, attention_mask=mask, max_new_tokens=10, num_beams=4, num_return_sequences=2, do_sample=False, pad_token_id=0, use_cache=use).tolist()
             for name, use in (("cached", True), ("uncached", False))}
    hidden = model(ids, output_hidden_states=True).hidden_states
    seen = [float((model.lm_head(hidden[-1]) - model(ids).logits).abs().max()), float((hidden[0] - embeds).abs().max())]
    if request["teacher"]:
        real = AutoModelForCausalLM.from_pretrained(request["teacher"], dtype=torch.float32).eval()(ids, output_hidden_states=True).hidden_states
        assert len(real) == len(hidden)
        seen += [float((a - b).abs().max() / b.abs().max()) for a, b in zip(hidden, real)]
    holes = torch.ones_like(ids)
    holes[:, 4] = 0
    refused = {"packed": refusal(position_ids=torch.tensor([[0, 1, 2, 3] + list(range(n - 4))])), "cache": refusal(past_key_values=DynamicCache()), "attentions": refusal(output_attentions=True),
               "mask": refusal(attention_mask=torch.ones(1, 1, n, n)), "short mask": refusal(attention_mask=torch.ones(1, n - 1)), "holes": refusal(attention_mask=holes),
               "unknown": refusal(cu_seq_lens_q=torch.tensor([0, 4, n]))}
    try:
        tokens["lookup"] = greedy(prompt_lookup_num_tokens=3)
    except ValueError as error:
        refused["lookup"] = str(error)
    try:
        cache = cache_of(model(ids, use_cache=True))
        cache.crop(-2)
        logits["cropped"] = torch.cat([model(ids[:, :-2]).logits, model(ids[:, -2:], past_key_values=cache).logits], 1)[0]
    except NotImplementedError as error:
        refused["crop"] = str(error)
    none = [cache_of(model(ids, use_cache=False)) is None, cache_of(model(ids)) is not None, cache_of(model.train()(ids)) is None, model.config.use_cache]

save_file({name: z.contiguous().clone() for name, z in (logits | shorter).items()}, out + ".safetensors")
json.dump({"tokens": tokens, "beams": beams, "hidden": seen, "refused": refused, "none": none}, open(out + ".json", "w"))
