"""Oracle of tst_export_bundle: the student class of Taylor-Calibrate as its files describe it (src/distill_model/: tensor names, order of
operations), written here in plain PyTorch, token by token.
logits FOLDER IDS.json OUT                 OUT: logits_<i>; every tensor of the folder must have its place and none be missing
train FOLDER PARENT STEP IDS.json OUT EPS  PARENT/checkpoint-STEP: other weights, in shards, o_norm_eps EPS in its config (0: no such key); OUT as above
trainer FOLDER PARENT IDS.json OUT         transformers' own Trainer makes PARENT/checkpoint-1 and -2 of an exported folder; OUT of the last
yaml FILE OUT.json                         what PyYAML reads
tokens FILE.npy OUT.safetensors            what NumPy reads
launch FOLDER OUT.json                     FOLDER/launch.py over stand-ins of the project's classes"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class StudentConfig(PretrainedConfig):
    model_type = "student"

    def __init__(self, hidden_size=2048, num_heads=32, head_dim=None, **kwargs):
        self.hidden_size, self.num_heads = hidden_size, num_heads
        self.head_dim = head_dim if head_dim is not None else hidden_size // num_heads
        super().__init__(**kwargs)


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Softmax(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        for name, heads in (("q", c.num_heads), ("k", c.num_kv_heads), ("v", c.num_kv_heads)):
            setattr(self, name + "_proj", nn.Linear(c.hidden_size, heads * c.head_dim, bias=c.qkv_bias))
        self.o_proj = nn.Linear(c.num_heads * c.head_dim, c.hidden_size, bias=False)
        if c.qk_norm:
            self.q_norm, self.k_norm = Norm(c.head_dim, c.norm_eps), Norm(c.head_dim, c.norm_eps)

    def forward(self, x):
        c, T = self.c, x.shape[1]
        q, k, v = (p(x).unflatten(-1, (-1, c.head_dim)) for p in (self.q_proj, self.k_proj, self.v_proj))
        if c.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        angle = torch.arange(T)[:, None] * c.rope_theta ** (-torch.arange(0, c.head_dim, 2) / c.head_dim)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]

        def turn(z):
            a, b = z.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        q, k = turn(q), turn(k)
        k, v = (z.repeat_interleave(c.num_heads // c.num_kv_heads, 2) for z in (k, v))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * c.head_dim ** -0.5
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        return self.o_proj(torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v).flatten(-2))


class GatedDeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.dim, width = c.num_heads, c.head_dim, c.num_heads * c.head_dim
        for name, rows in (("q", width), ("k", width), ("v", width), ("g", width), ("a", c.num_heads), ("b", c.num_heads)):
            setattr(self, name + "_proj", nn.Linear(c.hidden_size, rows, bias=False))
        self.conv = {"gdn_v3": True, "gdn_v4": False}[c.student_name]
        if self.conv:
            for name in "qkv":
                setattr(self, name + "_conv1d", nn.Conv1d(width, width, 4, groups=width, padding=3, bias=False))
        self.A_log, self.dt_bias = nn.Parameter(torch.zeros(c.num_heads)), nn.Parameter(torch.zeros(c.num_heads))
        self.o_norm, self.o_proj = Norm(c.head_dim, c.o_norm_eps), nn.Linear(width, c.hidden_size, bias=False)

    def forward(self, x):
        parts = {}
        for name in "qkv":
            z = getattr(self, name + "_proj")(x)
            if self.conv:
                z = getattr(self, name + "_conv1d")(z.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
            parts[name] = F.silu(z).unflatten(-1, (self.heads, self.dim))
        q, k = (z / (z.square().sum(-1, keepdim=True) + 1e-6).sqrt() for z in (parts["q"], parts["k"]))
        decay = torch.exp(-self.A_log.exp() * F.softplus(self.a_proj(x) + self.dt_bias))
        beta = self.b_proj(x).sigmoid()
        state, out = x.new_zeros(x.shape[0], self.heads, self.dim, self.dim), []
        for t in range(x.shape[1]):
            state = state * decay[:, t, :, None, None]
            missing = parts["v"][:, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, t])
            state = state + torch.einsum("bh,bhk,bhv->bhkv", beta[:, t], k[:, t], missing)
            out.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]) * self.dim ** -0.5)
        gate = F.silu(self.g_proj(x).unflatten(-1, (self.heads, self.dim)))
        return self.o_proj((self.o_norm(torch.stack(out, 1)) * gate).flatten(-2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(c.hidden_size, c.intermediate_size, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.attn_norm, self.mlp_norm = Norm(c.hidden_size, c.norm_eps), Norm(c.hidden_size, c.norm_eps)
        self.attn = Softmax(c) if layer in c.keep_full_attention_layers else GatedDeltaNet(c)
        self.mlp = Mlp(c)

    def forward(self, h):
        h = h + self.attn(self.attn_norm(h))
        return h + self.mlp(self.mlp_norm(h))


class StudentForCausalLM(PreTrainedModel):
    config_class = StudentConfig
    base_model_prefix = "model"
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, c):
        super().__init__(c)
        self.model = nn.Module()
        self.model.embeddings = nn.Embedding(c.vocab_size, c.hidden_size)
        self.model.layers = nn.ModuleList(Block(c, i) for i in range(c.num_hidden_layers))
        self.model.norm = Norm(c.hidden_size, c.norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        pass

    def get_input_embeddings(self):
        return self.model.embeddings

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, ids):
        h = self.model.embeddings(ids)
        for layer in self.model.layers:
            h = layer(h)
        return self.lm_head(self.model.norm(h))


def load(folder):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    assert config["hidden_act"] == "swish" and config["architectures"] == ["StudentForCausalLM"], config
    config.setdefault("o_norm_eps", json.loads((folder / "bundle.json").read_text())["o_norm_eps"])
    model = StudentForCausalLM(StudentConfig(**config)).eval()
    index = folder / "model.safetensors.index.json"
    files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
    weights = {name: tensor.float() for file in files for name, tensor in load_file(folder / file).items()}
    told = model.load_state_dict(weights, strict=False)
    missing = set(told.missing_keys) - ({"lm_head.weight"} if config["tie_word_embeddings"] else set())
    assert not missing and not told.unexpected_keys, (missing, told.unexpected_keys)
    model.tie_weights()
    return model


@torch.no_grad()
def save_logits(model, ids, out):
    answers = [model(torch.tensor([row])) for row in json.load(open(ids))]
    save_file({f"logits_{i}": getattr(a, "logits", a)[0].float().contiguous() for i, a in enumerate(answers)}, out)


def train(folder, parent, step, ids, out, eps):
    model = load(folder)
    model.config.o_norm_eps = float(eps)
    torch.manual_seed(int(step))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * parameter.abs().mean() * torch.randn_like(parameter))
    for module in model.modules():
        if isinstance(module, GatedDeltaNet):
            module.o_norm.eps = float(eps) or 1e-5
    if not float(eps):
        del model.config.o_norm_eps
    model.save_pretrained(f"{parent}/checkpoint-{step}", max_shard_size="60KB")
    save_logits(model, ids, out)


def trainer(folder, parent, ids, out):
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32)
    torch.manual_seed(1)
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(2, 250, (8, 12))]
    arguments = TrainingArguments(output_dir=parent, max_steps=2, save_steps=1, per_device_train_batch_size=2, learning_rate=1e-2, use_cpu=True, report_to=[],
                                  disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=rows, data_collator=default_data_collator, processing_class=AutoTokenizer.from_pretrained(folder)).train()
    save_logits(model.eval(), ids, out)


STAND_INS = {"__init__.py": "", "student_layers.py": """
class Norm:
    eps = 1e-5
class GatedDeltaNetStudentV3:
    def __init__(self, config, layer_idx):
        self.o_norm = Norm()
class GatedDeltaNetStudentV4(GatedDeltaNetStudentV3):
    def __init__(self, config, layer_idx):
        self.o_norm, self.layer_idx = Norm(), layer_idx
""", "modeling_distilled_student.py": """
from distill_model.student_layers import GatedDeltaNetStudentV4, Norm
class Rotary:
    def __init__(self, dim, base):
        self.dim, self.base = dim, base
class Attention:
    def __init__(self, config):
        self.q_norm, self.k_norm, self.rotary = Norm(), Norm(), Rotary(config.hidden_size // config.num_heads, config.rope_theta)
class StudentBlock:
    def __init__(self, config, layer_idx):
        self.attn = Attention(config) if layer_idx in config.keep_full_attention_layers else GatedDeltaNetStudentV4(config, layer_idx)
"""}
SCRIPT = """
import json, sys, types
from distill_model.modeling_distilled_student import StudentBlock
config = types.SimpleNamespace(**json.load(open(sys.argv[1])))
kept = StudentBlock(config, config.keep_full_attention_layers[0]).attn
linear = StudentBlock(config, next(l for l in range(99) if l not in config.keep_full_attention_layers)).attn
json.dump({"o_norm": linear.o_norm.eps, "q_norm": kept.q_norm.eps, "k_norm": kept.k_norm.eps, "rotary": kept.rotary.dim, "base": kept.rotary.base,
           "config": config.o_norm_eps, "arguments": sys.argv[2:], "name": __name__}, open(sys.argv[2], "w"))
"""


def launch(folder, out):
    clone = pathlib.Path(tempfile.mkdtemp())
    for name, text in STAND_INS.items():
        (clone / "distill_model").mkdir(exist_ok=True)
        (clone / "distill_model" / name).write_text(text)
    (clone / "script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, f"{folder}/launch.py", str(clone / "script.py"), f"{folder}/config.json", out], check=True,
                   env=os.environ | {"PYTHONPATH": str(clone)})


def yaml_json(file, out):
    import yaml
    json.dump(yaml.safe_load(open(file)), open(out, "w"))


def tokens(file, out):
    import numpy
    ids = numpy.load(file)
    assert ids.dtype == numpy.uint32 and ids.ndim == 1, ids.dtype
    save_file({"ids": torch.from_numpy(ids.astype("float32"))}, out)


what, *arguments = sys.argv[1:]
{"logits": lambda folder, ids, out: save_logits(load(folder), ids, out), "train": train, "trainer": trainer, "yaml": yaml_json, "tokens": tokens, "launch": launch}[what](*arguments)
