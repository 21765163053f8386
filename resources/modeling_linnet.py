# Copyright (C) 2026 The Linnet authors. SPDX-License-Identifier: GPL-3.0-or-later
"""A Transformer some of whose layers are Gated DeltaNet or windowed attention, in plain PyTorch; written by Linnet.

Load with transformers.AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True). Softmax layers are the teacher's,
untouched. Needs torch and transformers (>= 4.45) only; on a GPU the kernels of flash-linear-attention are used where it is
installed. LINNET_FLA=0 in the environment, or "fla": false under "linnet" in config.json, keeps to plain PyTorch.
The cache (use_cache, past_key_values) is this file's own LinnetCache; generate makes it, a loop of your own gets it from the
first call. What the model can't compute raises: packed rows, 4D masks, attention weights, cutting back a linear layer's state.
"""

import functools
import importlib
import inspect
import math
import os

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class LinnetConfig(PretrainedConfig):
    model_type = "linnet"

    def __init__(self, linnet=None, **kwargs):
        self.linnet = linnet or {}
        self.tie_word_embeddings = kwargs.get("tie_word_embeddings", False)
        for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                    "num_key_value_heads", "head_dim", "rms_norm_eps", "max_position_embeddings"):
            if key in kwargs:
                setattr(self, key, kwargs[key])
        super().__init__(**kwargs)
        self.use_cache = kwargs.get("use_cache", True)


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def rotary_frequencies(rope, dim):
    inverse = 1.0 / rope["theta"] ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)
    if rope["type"] == "linear":
        return inverse / rope["factor"]
    if rope["type"] == "llama3":
        factor, low, high, original = (rope[k] for k in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
        length = 2 * math.pi / inverse
        smooth = (original / length - low) / (high - low)
        between = (1 - smooth) * inverse / factor + smooth * inverse
        return torch.where(length > original / low, inverse / factor, torch.where(length < original / high, inverse, between))
    return inverse


class Attention(nn.Module):
    """The teacher's softmax attention; `window` = [keys, sinks] limits what a token sees."""

    def __init__(self, config, window):
        super().__init__()
        c, meta = config, config.linnet
        self.heads, self.kv_heads, self.dim, self.window = c.num_attention_heads, c.num_key_value_heads, c.head_dim, window
        self.q_proj = nn.Linear(c.hidden_size, self.heads * self.dim, bias=meta["qkv_bias"])
        self.k_proj = nn.Linear(c.hidden_size, self.kv_heads * self.dim, bias=meta["qkv_bias"])
        self.v_proj = nn.Linear(c.hidden_size, self.kv_heads * self.dim, bias=meta["qkv_bias"])
        self.o_proj = nn.Linear(self.heads * self.dim, c.hidden_size, bias=meta["output_bias"])
        self.q_norm = RMSNorm(self.dim, c.rms_norm_eps) if meta["qk_norm"] else nn.Identity()
        self.k_norm = RMSNorm(self.dim, c.rms_norm_eps) if meta["qk_norm"] else nn.Identity()
        if window is not None:
            self.register_buffer("_window", torch.tensor(window), persistent=False)

    def forward(self, x, rotary, valid, state):
        B, T, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(B, T, self.heads, self.dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(B, T, self.kv_heads, self.dim)).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        cos, sin = rotary

        def turn(z):
            a, b = z.chunk(2, -1)
            return z * cos + torch.cat([-b, a], -1) * sin

        q, k = turn(q), turn(k)
        if state is not None:
            if state:
                k, v = torch.cat([state["k"], k], 2), torch.cat([state["v"], v], 2)
            state["k"], state["v"] = k, v
        S = k.shape[2]
        row = torch.arange(S - T, S, device=x.device)[:, None]
        key = torch.arange(S, device=x.device)[None]
        mask = (key <= row)[None, None]
        if self.window is not None:  # sinks are a sequence's first tokens, after its padding
            place = key if valid is None else (valid[:, :S].long().cumsum(-1) - 1)[:, None, None]
            mask = mask & ((row - key < self.window[0]) | (place < self.window[1]))
        if valid is not None:
            mask = mask & valid[:, None, None, :S]
            mask = mask | (row == key)[None, None]  # a padding row sees itself: no NaN
        r = self.heads // self.kv_heads
        o = F.scaled_dot_product_attention(q, k.repeat_interleave(r, 1), v.repeat_interleave(r, 1), attn_mask=mask)
        return self.o_proj(o.transpose(1, 2).reshape(B, T, -1))


def delta_rule(q, k, v, g, beta, S, chunk=64):
    """S_t = exp(g_t) (I - beta_t k_t k_t') S + beta_t k_t v_t', o_t = S_t' q_t, chunk by chunk. [B, H, T, D], gates [B, H, T]."""
    T, out = q.shape[2], []
    for start in range(0, T, chunk):
        Q, K, V, G, b = (z[:, :, start:start + chunk] for z in (q, k, v, g, beta))
        C = Q.shape[2]
        G = G.cumsum(-1)
        lower = torch.ones(C, C, dtype=torch.bool, device=q.device).tril()
        decay = (G[..., :, None] - G[..., None, :]).masked_fill(~lower, -math.inf).exp()
        kb = K * b[..., None]
        A = (kb @ K.transpose(-1, -2) * decay).tril(-1)
        rhs = V * b[..., None] - (kb * G.exp()[..., None]) @ S
        U = torch.linalg.solve_triangular(A, rhs, upper=False, unitriangular=True)
        out.append((Q * G.exp()[..., None]) @ S + (Q @ K.transpose(-1, -2) * decay) @ U)
        S = S * G[..., -1:, None].exp() + (K * (G[..., -1:] - G).exp()[..., None]).transpose(-1, -2) @ U
    return torch.cat(out, 2), S


@functools.cache
def fla_kernels():
    try:  # found when first needed: importing it takes seconds
        ops = importlib.import_module("fla.ops.gated_delta_rule")
        kernels = ops.chunk_gated_delta_rule, ops.fused_recurrent_gated_delta_rule
        known = [inspect.signature(kernel).parameters for kernel in kernels]
    except (ImportError, AttributeError):
        return None
    # the first releases had heads before tokens and no norm of q and k in the kernel
    fits = all("use_qk_l2norm_in_kernel" in names and not (names["head_first"].default if "head_first" in names else False) for names in known)
    return kernels if fits else None


def fused_rule(x, config):
    """FLA's kernel for x [B, T, hidden], or None: plain PyTorch. LINNET_FLA=1 asks for it on any device and in float32 too."""
    wish = os.environ.get("LINNET_FLA", "")
    if wish == "0" or not config.linnet.get("fla", True) or not (x.is_cuda or wish == "1") or fla_kernels() is None:
        return None
    chunk, step = fla_kernels()
    if x.shape[1] == 1 and not torch.is_grad_enabled():  # it has no backward pass
        return step
    return chunk if x.dtype != torch.float32 or wish == "1" else None  # it multiplies in TF32


class GatedDeltaNet(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.heads, self.dim = config.num_attention_heads, config.head_dim
        self.eps = config.linnet.get("head_norm_eps", {}).get(str(layer), config.rms_norm_eps)
        self.config = config
        width, hidden = self.heads * self.dim, config.hidden_size
        for name in ("q", "k", "v", "g"):
            setattr(self, f"{name}_proj", nn.Linear(hidden, width, bias=False))
        for name in ("q", "k", "v"):
            setattr(self, f"{name}_conv1d", nn.Conv1d(width, width, 4, groups=width, bias=False))
        self.a_proj = nn.Linear(hidden, self.heads, bias=False)
        self.b_proj = nn.Linear(hidden, self.heads, bias=False)
        self.A_log = nn.Parameter(torch.zeros(self.heads))
        self.dt_bias = nn.Parameter(torch.zeros(self.heads))
        self.o_norm = nn.Module()
        self.o_norm.weight = nn.Parameter(torch.ones(self.dim))
        self.o_proj = nn.Linear(width, hidden, bias=False)

    def forward(self, x, rotary, valid, state):
        B, T, _ = x.shape
        if valid is not None:
            x = x * valid[:, -T:, None].to(x.dtype)  # padding on the left leaves the state empty
        u = torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1).float().transpose(1, 2)
        past = state["conv"] if state else u.new_zeros(B, u.shape[1], 3)
        u = torch.cat([past, u], 2)
        taps = torch.cat([self.q_conv1d.weight, self.k_conv1d.weight, self.v_conv1d.weight]).float()
        y = F.silu(F.conv1d(u, taps, groups=u.shape[1])).view(B, 3, self.heads, self.dim, T)
        g = -self.A_log.float().exp() * F.softplus(self.a_proj(x).float() + self.dt_bias.float())
        beta = self.b_proj(x).float().sigmoid()
        S = state["S"] if state else None
        rule = fused_rule(x, self.config)
        if rule is not None:  # [B, T, H, D], gates [B, T, H], state [B, H, D, D] in float32
            q, k, v = y.permute(1, 0, 4, 2, 3).to(x.dtype).contiguous()
            o, S = rule(q=q, k=k, v=v, g=g, beta=beta, scale=self.dim ** -0.5, initial_state=S,
                        output_final_state=state is not None, use_qk_l2norm_in_kernel=True)
            o = o.float()
        else:
            q, k, v = y.permute(1, 0, 2, 4, 3)
            q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * self.dim ** -0.5
            k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
            S = q.new_zeros(B, self.heads, self.dim, self.dim) if S is None else S
            o, S = delta_rule(q, k, v, g.transpose(1, 2), beta.transpose(1, 2), S)
            o = o.transpose(1, 2)
        if state is not None:
            state["conv"], state["S"] = u[:, :, -3:], S
        o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + self.eps) * self.o_norm.weight.float()
        gate = F.silu(self.g_proj(x).float())
        return self.o_proj((o.reshape(B, T, -1) * gate).to(self.o_proj.weight.dtype))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        bias = config.linnet["mlp_bias"]
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=bias)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        meta = config.linnet
        window = meta.get("windows", {}).get(str(layer))
        linear = layer in meta["converted_layers"] and window is None
        self.mixer = "linear_attn" if linear else "self_attn"
        setattr(self, self.mixer, GatedDeltaNet(config, layer) if linear else Attention(config, window))
        if window is not None:
            self.register_buffer("sliding_window", torch.tensor(window, dtype=torch.float32))
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, h, rotary, valid, state):
        h = h + getattr(self, self.mixer)(self.input_layernorm(h), rotary, valid, state)
        return h + self.mlp(self.post_attention_layernorm(h))


class LinnetCache:
    """One dictionary a layer: keys and values, or convolution inputs and the recurrent state; transformers' Cache as far as it goes."""

    is_compileable = False

    def __init__(self, layers):
        self.states, self.length = [{} for _ in range(layers)], 0

    def get_seq_length(self, layer_idx=0):
        return self.length

    @property
    def is_linear(self):
        return ["S" in state for state in self.states]

    @property
    def is_croppable(self):  # assisted generation and prompt lookup ask
        return not any(self.is_linear)

    def activate_past_recording(self):
        pass  # before crop: keys and values need no record

    def crop(self, length):
        """Keeps the first `length` tokens, or drops -length."""
        drop = max(self.length - length, 0) if length > 0 else -length
        if drop and not self.is_croppable:
            raise NotImplementedError("LinnetCache: the state of a linear layer can't be cut back, so neither can the cache (assisted generation, prompt lookup)")
        if drop:
            self._each(lambda z: z[:, :, :-drop])
            self.length -= drop

    def _each(self, change):
        self.states = [{name: change(z) for name, z in state.items()} for state in self.states]

    def reorder_cache(self, beam_idx):
        self._each(lambda z: z.index_select(0, beam_idx.to(z.device)))

    batch_select_indices = reorder_cache

    def batch_repeat_interleave(self, repeats):
        self._each(lambda z: z.repeat_interleave(repeats, 0))

    def reset(self):
        self.__init__(len(self.states))


CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"  # transformers 5.2x renamed it


class LinnetModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class LinnetForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = LinnetConfig
    base_model_prefix = "model"
    _no_split_modules = ["Block"]
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.model = LinnetModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        pass  # every weight comes from the file

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, value):
        self.model.embed_tokens = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False

    @property
    def _is_stateful(self):  # older releases ask this before assisted generation
        return any(layer.mixer == "linear_attn" for layer in self.model.layers)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        given = model_kwargs.pop("past_key_values", None)
        if model_kwargs.get(CACHE) is None and (given is not None or generation_config.use_cache):
            model_kwargs[CACHE] = given if given is not None else LinnetCache(self.config.num_hidden_layers)

    def _get_initial_cache_position(self, *args):  # older releases know the length of no cache but their own; nothing reads it here
        args[-1]["cache_position"] = torch.zeros(1, dtype=torch.long, device=self.device)
        return args[-1]

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, attention_mask=None, inputs_embeds=None, position_ids=None, cache=None,
                                      next_sequence_length=None, **kwargs):
        cache = cache if cache is not None else past_key_values
        seen = cache.get_seq_length() if cache is not None else 0
        inputs = {CACHE: cache, "attention_mask": attention_mask}
        if inputs_embeds is None:
            new = next_sequence_length or input_ids.shape[1] - seen  # all tokens came, or only what is not in the cache yet
            inputs["input_ids"] = input_ids[:, -new:] if new > 0 else input_ids
        elif cache is None:
            raise ValueError("inputs_embeds are continued with use_cache=True only")
        else:  # of the prompt; input_ids may hold no more than what followed
            inputs |= {"input_ids": input_ids[:, -1:]} if seen else {"inputs_embeds": inputs_embeds}
        if position_ids is not None:
            new = inputs_embeds if "inputs_embeds" in inputs else inputs["input_ids"]
            inputs["position_ids"] = position_ids[:, -new.shape[1]:]
        own = ("is_first_iteration", "labels", "cache_position")  # generate's
        return inputs | {name: value for name, value in kwargs.items() if name not in own}

    def _positions(self, position_ids, valid, seen, T, device):
        """[B or 1, T], of the keys' rotation: padding does not count."""
        if position_ids is None:
            return (valid.long().cumsum(-1) - 1).clamp_min(0)[:, -T:] if valid is not None else torch.arange(seen, seen + T, device=device)[None]
        if position_ids.dim() != 2 or position_ids.shape[1] != T:
            raise ValueError(f"position_ids: shape {list(position_ids.shape)}, [batch, {T}] was expected")
        apart = position_ids.diff(dim=-1) != 1
        if valid is not None:
            apart = apart & valid[:, -T:][:, :-1] & valid[:, -T:][:, 1:]  # padding has any
        if T > 1 and bool(apart.any()):
            raise ValueError("position_ids: each must be one more than the one before; rows packed with several sequences can't be told apart in linear layers")
        return position_ids

    def _valid(self, mask, seen, T):
        """Of the attention mask, [B, seen + T]; None where nothing is padding."""
        if mask is None:
            return None
        if mask.dim() != 2 or mask.shape[1] != seen + T:
            raise ValueError(f"attention_mask: shape {list(mask.shape)}, [batch, {seen + T}] was expected (one a token, those in the cache too)")
        valid = mask.bool()
        if bool(valid.all()):
            return None
        if self._is_stateful and bool((valid[:, 1:] & ~valid[:, :-1]).sum(-1).gt(1 - valid[:, 0].long()).any()):
            raise ValueError("attention_mask: padding between tokens would count in the state of linear layers; pad on the left")
        return valid

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                output_attentions=None, output_hidden_states=None, return_dict=None, logits_to_keep=0, num_logits_to_keep=0, cache=None):
        h = self.model.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        cache = cache if cache is not None else past_key_values
        if cache is not None and not isinstance(cache, LinnetCache):
            raise TypeError(f"past_key_values: {type(cache).__name__}; this model has a cache of its own, which the first call with use_cache=True returns")
        if output_attentions:
            raise ValueError("output_attentions: linear layers have no attention weights")
        if cache is None and (use_cache if use_cache is not None else self.config.use_cache and not self.training):
            cache = LinnetCache(len(self.model.layers))
        T, seen = h.shape[1], cache.length if cache is not None else 0
        valid = self._valid(attention_mask, seen, T)
        positions = self._positions(position_ids, valid, seen, T, h.device)
        angles = positions[..., None].float() * rotary_frequencies(self.config.linnet["rope"], self.config.head_dim).to(h.device)
        angles = torch.cat([angles, angles], -1)[:, None]
        rotary = angles.cos().to(h.dtype), angles.sin().to(h.dtype)
        hidden = () if output_hidden_states else None
        for i, layer in enumerate(self.model.layers):
            hidden = hidden + (h,) if output_hidden_states else None
            h = layer(h, rotary, valid, cache.states[i] if cache is not None else None)
        if cache is not None:
            cache.length = seen + T
        h = self.model.norm(h)
        keep = num_logits_to_keep if isinstance(logits_to_keep, int) and logits_to_keep == 0 else logits_to_keep
        logits = self.lm_head(h[:, slice(-keep if keep else None, None) if isinstance(keep, int) else keep])
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, hidden_states=hidden + (h,) if output_hidden_states else None,
                                        **{CACHE: cache if use_cache is not False else None})
        return output if return_dict is not False else output.to_tuple()
