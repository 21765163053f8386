"""Oracle of tst_convert_closed_form: the closed form of one layer in float64, token by token, by least squares on the tokens themselves.
closed_form_oracle.py CASES.json       each case names a safetensors file with inputs and teacher, options and choices; answers go beside it
Answers: residuals by head and option; of each choice the objective of the joint search, the whole layer and its relative error."""
import json
import math
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

SINKS, SKIPPED_ROWS = 4, 8


class Layer:
    def __init__(self, case, tensors):
        self.H, self.K, self.D, self.eps, self.case = case["heads"], case["kv_heads"], case["head_dim"], case["eps"], case
        self.t = {name: value.double() for name, value in tensors.items()}
        self.x, self.y = self.t["x"], self.t["target"]
        self.grid = slice(0, case["sequences"])
        flat = self.x.flatten(0, 1)
        self.mean = flat.mean(0)
        self.second = flat.T @ flat / len(flat)
        self.second += 1e-5 * self.second.diagonal().mean() * torch.eye(len(self.second))
        weighted = torch.linalg.inv(self.second) @ self.mean
        self.bias_row = weighted
        self.unit = weighted / (self.mean @ weighted)
        self.mass = self.distances()

    def teacher_rows(self, name):  # [heads, D, hidden], [heads, D] of q, k or v
        start, heads = {"q": (0, self.H), "k": (self.H, self.K), "v": (self.H + self.K, self.K)}[name]
        rows = slice(start * self.D, (start + heads) * self.D)
        bias = self.t["bias"][rows] if "bias" in self.t else torch.zeros(heads * self.D, dtype=torch.float64)
        return self.t["qkv"][rows].unflatten(0, (heads, self.D)), bias.unflatten(0, (heads, self.D))

    def angles(self, length):
        frequency = self.case["theta"] ** (-torch.arange(0, self.D, 2, dtype=torch.float64) / self.D)
        return torch.arange(length, dtype=torch.float64)[:, None] * frequency

    def distances(self):  # sink-free attention by distance, from the teacher's own softmax
        x = self.x[self.grid]
        T = x.shape[1]
        if T <= SKIPPED_ROWS:
            return None
        turn = torch.polar(torch.ones(T, self.D // 2, dtype=torch.float64), self.angles(T))[None, :, None]

        def rotated(name):
            w, b = self.teacher_rows(name)
            z = torch.einsum("ntx,hdx->nthd", x, w) + b
            if f"{name}_norm" in self.t:
                z = z / (z.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.t[f"{name}_norm"]
            first, second = z.chunk(2, -1)
            z = torch.complex(first, second) * turn
            return torch.cat([z.real, z.imag], -1)
        k = rotated("k")[:, :, [h * self.K // self.H for h in range(self.H)]]
        scores = torch.einsum("nthd,nshd->nhts", rotated("q"), k) / math.sqrt(self.D)
        A = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf).softmax(-1)[..., SINKS:]
        A = (A / A.sum(-1, keepdim=True))[:, :, SKIPPED_ROWS:]
        mass = torch.zeros(self.H, T, dtype=torch.float64)
        for row in range(T - SKIPPED_ROWS):
            for s in range(row + SKIPPED_ROWS - SINKS + 1):
                mass[:, row + SKIPPED_ROWS - SINKS - s] += A[:, :, row, s].sum(0)
        return mass / mass.sum(-1, keepdim=True)

    def head(self, h, o):
        """The parameters of head h started as option o says."""
        p = {}
        for name, index in (("q", h), ("k", h * self.K // self.H), ("v", h * self.K // self.H)):
            w, b = (part[index] for part in self.teacher_rows(name))
            if o["fold_bias"]:
                w = w + torch.outer(b, self.bias_row)
            if o["fold_qk_norm"] and f"{name}_norm" in self.t:
                w = w * self.t[f"{name}_norm"][:, None]
            p[name] = w
        if o["fold_rope"]:
            c = (self.mass[h][:, None] * torch.polar(torch.tensor(1.0).double(), self.angles(self.mass.shape[1]))).sum(0)[:, None]
            first, second = p["q"].chunk(2)
            turned = torch.complex(first, second) * c
            p["q"] = torch.cat([turned.real, turned.imag])
        if o["centred_keys"]:
            p["k"] = p["k"] - torch.outer(p["k"] @ self.mean, self.unit)
        prior = (p["q"] @ self.mean) @ p["k"] / math.sqrt(self.D)
        p["b"] = math.log(o["beta"] / (1 - o["beta"])) * self.unit + o["key_prior"] * (prior - (prior @ self.mean) * self.unit)
        p["q"], p["k"] = p["q"] * o["query_scale"], p["k"] * o["query_scale"]
        centred = p["v"] - torch.outer(p["v"] @ self.mean, self.unit)
        size = torch.einsum("dx,xy,dy->d", centred, self.second, centred).mean().sqrt()
        p["v"] = p["v"] * (self.case["value_rms"] / size) * (-1 if o["negated_values"] else 1)
        p["taps"] = torch.tensor([0.0, 0, 0, 1]).double()
        if o["histogram_taps"]:
            near = self.mass[h][:4].flip(0)
            p["taps"] = near / near.sum()
        p["rate"] = 1e-4 if o["half_life"] is None else max(math.log(2) / o["half_life"], 1e-4)
        return p

    def readouts(self, ps, x):
        """Of several heads [N, T, heads, D], one token after another."""
        def stream(name):
            return torch.einsum("ntx,hdx->nthd", x, torch.stack([p[name] for p in ps]))
        u = F.pad(stream("v"), (0, 0, 0, 0, 3, 0))
        taps = torch.stack([p["taps"] for p in ps])
        v = F.silu(sum(u[:, j:j + x.shape[1]] * taps[:, j][:, None] for j in range(4)))
        q, k = F.silu(stream("q")), F.silu(stream("k"))
        q, k = (z / (z.square().sum(-1, keepdim=True) + 1e-6).sqrt() for z in (q, k))
        beta = torch.sigmoid(torch.einsum("ntx,hx->nth", x, torch.stack([p["b"] for p in ps])))
        decay = torch.exp(-torch.tensor([p["rate"] for p in ps], dtype=torch.float64))
        S, out = torch.zeros(x.shape[0], len(ps), self.D, self.D, dtype=torch.float64), []
        for t in range(x.shape[1]):
            S = S * decay[:, None, None]
            error = v[:, t] - torch.einsum("nhkv,nhk->nhv", S, k[:, t])
            S = S + torch.einsum("nhk,nhv->nhkv", k[:, t] * beta[:, t, :, None], error)
            out.append(torch.einsum("nhkv,nhk->nhv", S, q[:, t]) / math.sqrt(self.D))
        o = torch.stack(out, 1)
        return o / (o.square().mean(-1, keepdim=True) + self.eps).sqrt()

    def residuals(self, h, options):
        y = self.t["heads"][self.grid].unflatten(-1, (self.H, self.D))[..., h, :].flatten(0, 1)
        W = self.t["o"].unflatten(-1, (self.H, self.D))[:, h]
        z = self.readouts([self.head(h, o) for o in options], self.x[self.grid]).flatten(0, 1)
        found = []
        for i in range(len(options)):
            penalty = (1e-4 * z[:, i].square().sum() / self.D).sqrt() * torch.eye(self.D, dtype=torch.float64)
            Q = torch.linalg.qr(torch.cat([z[:, i], penalty])).Q  # what a basis of the readouts leaves of y
            left = torch.cat([y, torch.zeros(self.D, self.D, dtype=torch.float64)])
            left = left - Q @ (Q.T @ left)
            found.append(((left @ W.T).square().sum() / (y @ W.T).square().sum()).item())
        return found

    def gated(self, choice, x, gate_rows=None):
        n = self.readouts([self.head(h, o) for h, o in enumerate(choice)], x)
        if gate_rows is None:
            level = torch.stack([torch.as_tensor(inverse_silu(value)) for value in self.case["levels"]])
            gate = F.silu(level[:, None] * (x @ self.unit)[..., None, None])
        else:
            gate = F.silu(x @ gate_rows.T).unflatten(-1, (self.H, self.D))
        return (n * gate).flatten(0, 1).flatten(1)

    def objective(self, choice, penalty):
        z, y = self.gated(choice, self.x[self.grid]), self.y[self.grid].flatten(0, 1)
        return ridge(z, y, penalty)[1]


def inverse_silu(y):
    low, high = 0.0, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / (1 + math.exp(-middle)) < y else (low, middle)
    return torch.tensor(low, dtype=torch.float64)


def ridge(z, y, penalty, toward=None):
    """[hidden, W] and the penalised squared error, by least squares on stacked rows."""
    toward = torch.zeros(y.shape[1], z.shape[1], dtype=torch.float64) if toward is None else toward
    left = y - z @ toward.T
    rows = torch.cat([z, math.sqrt(penalty) * torch.eye(z.shape[1], dtype=torch.float64)])
    full = torch.cat([left, torch.zeros(z.shape[1], y.shape[1], dtype=torch.float64)])
    W = torch.linalg.lstsq(rows, full, driver="gelsd").solution
    return toward + W.T, (full - rows @ W).square().sum().item()


def answer(case):
    tensors = load_file(case["file"])
    layer = Layer(case, tensors)
    result = {"residuals": [layer.residuals(h, options) for h, options in enumerate(case["options"])], "objectives": []}
    if case["choices"]:
        z = layer.gated(case["choices"][0], layer.x[layer.grid])
        penalty = (case["ridge"] * z.square().sum() / z.shape[1]).item()
        result["objectives"] = [layer.objective(choice, penalty) for choice in case["choices"]]
    z = layer.gated(case["chosen"], layer.x, layer.t.get("gate"))
    y = layer.y.flatten(0, 1)
    W = ridge(z, y, (case["output_ridge"] * z.square().sum() / z.shape[1]).item(), layer.t.get("toward"))[0]
    result["residual"] = ((y - z @ W.T).square().sum() / y.square().sum()).item()
    json.dump(result, open(case["file"] + ".json", "w"))
    ps = [layer.head(h, o) for h, o in enumerate(case["chosen"])]
    p = {f"{n}_proj.weight": torch.cat([p[n] for p in ps]) for n in "qkv"} | {
        "o_proj.weight": W, "b_proj.weight": torch.stack([p["b"] for p in ps]), "v_conv1d.weight": torch.cat([p["taps"].expand(layer.D, 4) for p in ps]),
        "dt_bias": torch.log(torch.expm1(torch.tensor([p["rate"] for p in ps])))}
    save_file({name: value.float().contiguous() for name, value in p.items()}, case["file"] + ".layer")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for one in json.load(open(sys.argv[1])):
        answer(one)
