"""Per-head statistics from transformers' own attention weights (eager, float64): profile_oracle.py KIND FOLDER SEQUENCES SEQ_LEN OUT.json"""
import json
import sys

import numpy as np
import torch

import tiny_teachers


def attention_of(model, ids):
    """[layers][N, H, T, T] weights and [layers][N, T, H, D] head outputs (the input of o_proj), float64."""
    outputs = []
    hooks = [layer.self_attn.o_proj.register_forward_pre_hook(lambda module, args: outputs.append(args[0].clone()))
             for layer in model.model.layers]
    with torch.no_grad():
        weights = model(ids, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    heads = model.config.num_attention_heads
    return [w.double().numpy() for w in weights], [y.unflatten(-1, (heads, -1)).double().numpy() for y in outputs]


def by_distance(a):
    """mass of rows by distance, summed over the rows: [.., T, T] -> [.., T]"""
    t = a.shape[-1]
    return np.stack([np.trace(a, offset=-d, axis1=-2, axis2=-1) for d in range(t)], -1)


def statistics(a, y, o):
    """a [N, H, T, T], y [N, T, H, D], o [hidden, H D]: per sequence [N, H] values and [N, H, T] histograms"""
    n, h, t, _ = a.shape
    delta = np.arange(t)[:, None] - np.arange(t)[None]
    entropy = -np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0).sum(-1)
    free = a.copy()
    free[..., :4] = 0
    free = free[:, :, 8:] / free[:, :, 8:].sum(-1, keepdims=True)
    padded = np.concatenate([np.zeros((n, h, 8, t)), free], 2)
    projected = np.einsum("nthd,chd->nthc", y, o.reshape(o.shape[0], h, -1))
    return dict(
        distance=(a * delta).sum(-1).mean(-1), distance_no_sink=(free * delta[8:]).sum(-1).mean(-1), entropy=entropy.mean(-1),
        relative=(entropy[..., 1:] / np.log(np.arange(2, t + 1))).mean(-1), sink=a[..., :4].sum((-1)).mean(-1),
        previous=np.diagonal(a, -1, 2, 3).mean(-1), self=np.diagonal(a, 0, 2, 3).mean(-1),
        pre=(y ** 2).mean((1, 3)), post=(projected ** 2).mean((1, 3)),
        histogram=by_distance(a) / t, histogram_no_sink=by_distance(padded) / (t - 8))


def main(kind, folder, sequences, seq_len, out):
    model = tiny_teachers.make(kind, folder, seed=7).double()
    ids = torch.from_numpy(np.random.default_rng(3).integers(2, model.config.vocab_size, (int(sequences), int(seq_len))))
    weights, outputs = attention_of(model, ids)
    layers = []
    for layer, a, y in zip(model.model.layers, weights, outputs):
        s = statistics(a, y, layer.self_attn.o_proj.weight.detach().numpy())
        layers.append({key: dict(mean=value.mean(0).tolist(), se=(value.std(0, ddof=1) / len(value) ** 0.5).tolist())
                       for key, value in s.items()})
    json.dump(dict(ids=ids.flatten().tolist(), layers=layers), open(out, "w"))


if __name__ == "__main__":
    main(*sys.argv[1:])
