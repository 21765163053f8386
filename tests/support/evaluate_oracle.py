"""What evaluation must find, from transformers in float64 and from lm-eval's rolling windows written out again.
evaluate_oracle.py tiny FOLDER OUT.json        two tiny models, one the other with noise, chunked numbers, KL, agreement, word perplexity
evaluate_oracle.py gguf FILE IDS.json OUT.json loss of a GGUF teacher on the windows in IDS.json"""
import json
import math
import re
import sys

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

import tiny_teachers

DOCUMENTS = ["The quick brown fox jumps over the lazy dog; a state is a sum of keys\u00a0and values.\n",
             "Linear attention has no cache.", "", "  two   words ",
             "A long document rolls through several windows, the last of which reaches back so that it is full.\tTabs count too."]


def log_probabilities(model, ids):
    with torch.no_grad():
        return model(ids).logits.double().log_softmax(-1)


def mean_and_error(per_position):
    means = per_position.mean(1)
    return means.mean().item(), (means.std() / len(means) ** 0.5).item()


def losses(log_p, ids):
    return -log_p[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]


def word_convention(model, tokenizer, length):
    total, words, count = 0.0, 0, 0
    for document in DOCUMENTS:
        words += len(re.split(r"\s+", document))
        tokens = tokenizer.encode(document, add_special_tokens=False).ids
        count += len(tokens)
        predicted = 0
        while predicted < len(tokens):
            scored = min(length, len(tokens) - predicted)
            end = predicted + scored
            read = ([model.config.bos_token_id] + tokens[:-1])[max(0, end - length):end]
            log_p = log_probabilities(model, torch.tensor([read]))[0]
            for i in range(scored):
                total += log_p[len(read) - scored + i, tokens[predicted + i]].item()
            predicted = end
    return dict(perplexity=math.exp(-total / words), loss=-total / count, words=words, tokens=count)


def tiny(folder, out):
    teacher = tiny_teachers.make("qwen3", folder + "/teacher", seed=1).double()
    student = tiny_teachers.make("qwen3", folder + "/student", seed=1, noise=0.02).double()  # its output head differs too
    ids = torch.randint(2, 300, (5, 40), generator=torch.Generator().manual_seed(5))
    t, s = log_probabilities(teacher, ids), log_probabilities(student, ids)
    loss, loss_se = mean_and_error(losses(s, ids))
    kl, kl_se = mean_and_error((t.exp() * (t - s)).sum(-1)[:, :-1])
    top1, top1_se = mean_and_error((t.argmax(-1) == s.argmax(-1)).double()[:, :-1])
    tokenizer = Tokenizer.from_file(folder + "/student/tokenizer.json")
    json.dump(dict(ids=ids.flatten().tolist(), loss=loss, loss_se=loss_se, kl=kl, kl_se=kl_se, top1=top1, top1_se=top1_se,
                   documents=DOCUMENTS, word=word_convention(student, tokenizer, 16)), open(out, "w"))


def gguf(file, ids_file, out):
    read = load_gguf_checkpoint(file)["config"]
    config = LlamaConfig(**{key: value for key, value in read.items() if key not in ("model_type", "architectures", "_model_name_or_path")})
    model = LlamaForCausalLM(config).eval()
    tensors = load_gguf_checkpoint(file, return_tensors=True, model_to_load=model)["tensors"]
    missing = set(model.load_state_dict(tensors, strict=False).missing_keys)
    assert missing <= {"lm_head.weight"}, missing
    if missing:
        model.lm_head.weight = model.model.embed_tokens.weight
    windows = json.load(open(ids_file))
    ids = torch.tensor(windows["ids"]).view(windows["sequences"], -1)
    loss, error = mean_and_error(losses(log_probabilities(model, ids), ids))
    json.dump(dict(loss=loss, loss_se=error), open(out, "w"))


if __name__ == "__main__":
    dict(tiny=tiny, gguf=gguf)[sys.argv[1]](*sys.argv[2:])
