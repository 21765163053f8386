"""Oracle of tst_export_fla: what flash-linear-attention's own GatedDeltaNetForCausalLM (its modules, config, loading and cache) makes of a folder on the CPU.
fla_oracle.py FOLDER REQUEST.json OUT [own]  REQUEST: {"ids": [[..], ..] prompts, "text", "tokens" to make}; OUT.safetensors logits_<i>; OUT.json greedy tokens by its
                                             cache, without and of the left-padded batch, ids of the text, keys that were missing or unexpected
fla_oracle.py make FOLDER CONFIG.json        a random model of that configuration with a tokenizer, as FLA itself saves one
fla_oracle.py serve                          does both for JSON lists of arguments, a line each, and answers each with "linnet: done" or "linnet: " and what failed
Its kernels are Triton's and flash-attn's, for GPUs. The functions that launch them are replaced by plain float64 recurrences; with `own` its Triton
kernels run as they are, in Triton's interpreter (minutes for more than a tiny model), and only flash-attn is replaced."""
import json
import os
import sys
import traceback

if "own" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1" # read when triton is imported

import torch
import torch.nn.functional as F


def pieces(x, cu_seqlens):
    """[B, T, ..] one by one as (index, [T', ..]); the sequences of a packed row where there are cu_seqlens."""
    if cu_seqlens is None:
        return list(enumerate(x))
    ends = cu_seqlens.tolist()
    return [(n, x[0, a:b]) for n, (a, b) in enumerate(zip(ends, ends[1:]))]


def joined(parts, cu_seqlens):
    return torch.stack(parts) if cu_seqlens is None else torch.cat(parts)[None]


def rms(x, weight, eps):
    x = x.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.double()


def layer_norm_fwd(x, weight, bias, eps=1e-5, residual=None, out_dtype=None, residual_dtype=None, is_rms_norm=False, num_groups=1):
    assert is_rms_norm and num_groups == 1 and bias is None
    total = x if residual is None else x + residual
    return rms(total, weight, eps).to(x.dtype), None, None, total


def layer_norm_gated_fwd(x, g, weight, bias, activation="swish", eps=1e-5, residual=None, out_dtype=None, residual_dtype=None, is_rms_norm=False):
    assert is_rms_norm and bias is None and residual is None and activation in ("swish", "silu")
    return (rms(x, weight, eps) * F.silu(g.double())).to(x.dtype), None, None, x


def causal_conv1d_fwd(x, weight, bias, residual, initial_state=None, output_final_state=False, activation=None, cu_seqlens=None, **_):
    assert bias is None and residual is None and activation in ("silu", "swish")
    D, W = weight.shape
    outputs, states = [], []
    for n, piece in pieces(x, cu_seqlens):
        past = x.new_zeros(W, D) if initial_state is None else initial_state[n].T
        u = torch.cat([past, piece]).double()
        y = sum(u[len(u) - len(piece) - (W - 1 - tap):len(u) - (W - 1 - tap)] * weight[:, tap].double() for tap in range(W))
        outputs.append(F.silu(y).to(x.dtype))
        states.append(u[-W:].T.to(x.dtype))
    return joined(outputs, cu_seqlens), torch.stack(states) if output_final_state else None


def causal_conv1d_update(x, cache, residual=None, weight=None, bias=None, activation=None):
    rows = x.reshape(-1, x.shape[-1])
    cache.copy_(torch.cat([cache[:, :, 1:], rows[:, :, None]], -1))
    return F.silu((cache.double() * weight.double()).sum(-1)).to(x.dtype).view(x.shape), cache


def rotary_embedding_fwdbwd(x, cos, sin, seqlen_offsets=0, cu_seqlens=None, interleaved=False, inplace=False, conjugate=False, chunk_indices=None):
    assert not interleaved and not conjugate
    outputs = []
    for n, piece in pieces(x, cu_seqlens):
        first = int(seqlen_offsets[n]) if torch.is_tensor(seqlen_offsets) else seqlen_offsets
        at = torch.arange(first, first + len(piece))
        c, s = (table[at.clamp_min(0)][:, None].double() * (at >= 0)[:, None, None] for table in (cos, sin))  # padding before the start: zeros
        a, b = piece.double().chunk(2, -1)
        outputs.append(torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype))
    return joined(outputs, cu_seqlens)


def delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
               A_log=None, dt_bias=None, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None, **_):
    """arXiv 2412.06464 equation 10, token by token."""
    assert use_qk_l2norm_in_kernel and use_gate_in_kernel and use_beta_sigmoid_in_kernel and state_v_first
    D, outputs, states = q.shape[-1], [], []
    decay = torch.exp(-A_log.double().exp() * F.softplus(g.double() + dt_bias.double()))
    beta = beta.double().sigmoid() * (2 if allow_neg_eigval else 1)
    q, k = (z.double() / (z.double().square().sum(-1, keepdim=True) + 1e-6).sqrt() for z in (q, k))
    for n, Q in pieces(q * (scale or D ** -0.5), cu_seqlens):
        K, V, a, b = (dict(pieces(z, cu_seqlens))[n] for z in (k, v.double(), decay, beta))
        S = Q.new_zeros(Q.shape[1], V.shape[-1], D) if initial_state is None else initial_state[n].double()
        rows = []
        for t in range(len(Q)):
            S = S * a[t, :, None, None]
            S = S + (b[t, :, None] * (V[t] - torch.einsum("hvk,hk->hv", S, K[t])))[..., None] * K[t][:, None]
            rows.append(torch.einsum("hvk,hk->hv", S, Q[t]))
        outputs.append(torch.stack(rows).to(v.dtype))
        states.append(S.float())
    return joined(outputs, cu_seqlens), torch.stack(states) if output_final_state else None


def attend(q, k, v, window):
    """[T, H, D] queries at the end of [S, K, D] keys, causal; window (left, right) as flash-attn has it."""
    T, S, group = len(q), len(k), q.shape[1] // k.shape[1]
    k, v = (z.double().repeat_interleave(group, 1) for z in (k, v))
    scores = torch.einsum("thd,shd->hts", q.double(), k) * q.shape[-1] ** -0.5
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)[None]
    hidden = (distance < 0) | ((distance > window[0]) if window[0] >= 0 else torch.zeros_like(distance, dtype=torch.bool))
    return torch.einsum("hts,shd->thd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v).to(q.dtype)


def flash_attn_func(q, k, v, causal, window_size):
    assert causal
    return torch.stack([attend(*row, window_size) for row in zip(q, k, v)])


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal, window_size):
    assert causal
    a, b = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    return torch.cat([attend(q[a[n]:a[n + 1]], k[b[n]:b[n + 1]], v[b[n]:b[n + 1]], window_size) for n in range(len(a) - 1)])


class Index(int):
    def to(self, dtype):
        return self


def interpret():
    """What Triton 3.6's interpreter lacks: a driver to time variants with, loop ends from one-element arrays (NumPy refuses them), loop indices with .to()."""
    import triton.runtime.autotuner as autotuner
    import triton.runtime.interpreter as interpreter
    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched
    autotuner.Autotuner._bench = lambda self, *args, **kwargs: [1.0, 1.0, 1.0]
    import fla.ops.common.chunk_delta_h as chunks
    chunks.range = lambda *ends: map(Index, range(*map(int, ends)))


def import_fla(own=False):
    import fla.layers.attn as attn
    import fla.layers.gated_deltanet as layer
    import fla.models
    import fla.modules.activations.ops as activations
    import fla.modules.causal_conv1d.ops as convolution
    import fla.modules.norm.fused_norm_gate as gated
    import fla.modules.norm.layernorm as norm
    import fla.modules.rotary.ops as rotary
    attn.flash_attn_func, attn.flash_attn_varlen_func = flash_attn_func, flash_attn_varlen_func
    if own:
        interpret()
        return fla.models
    norm.layer_norm_fwd, gated.layer_norm_gated_fwd = layer_norm_fwd, layer_norm_gated_fwd
    convolution.causal_conv1d_fwd, convolution.causal_conv1d_update = causal_conv1d_fwd, causal_conv1d_update
    activations.swiglu_fwd = lambda x, y, output_contiguous=False: F.silu(x) * y
    rotary.rotary_embedding_fwdbwd = rotary_embedding_fwdbwd
    layer.chunk_gated_delta_rule = layer.fused_recurrent_gated_delta_rule = delta_rule
    return fla.models


def run(folder, request, out, own=None):
    import_fla(own == "own")
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer
    request = json.load(open(request))
    model, loading = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    model.eval()
    prompts = [torch.tensor([ids]) for ids in request["ids"]]

    def greedy(ids, mask, cache):
        """By FLA's cache or without; not by generate(), which since transformers 5.2x hands the cache over under a name that FLA 0.6 does not know."""
        new, past, text = [], None, ids
        for _ in range(request["tokens"]):
            result = model(text if past is None else text[:, -1:], attention_mask=mask, past_key_values=past, use_cache=cache)
            past = result.past_key_values if cache else None
            new.append(result.logits[:, -1].argmax(-1, keepdim=True))
            text, mask = torch.cat([text, new[-1]], 1), torch.cat([mask, torch.ones_like(new[-1])], 1)
        return [row[:row.index(1) + 1] if 1 in row else row for row in torch.cat(new, 1).tolist()]

    with torch.no_grad():
        logits = {f"logits_{i}": model(ids).logits[0].contiguous() for i, ids in enumerate(prompts)}
        answers = {"cached": [greedy(ids, torch.ones_like(ids), True)[0] for ids in prompts]}
        if not own:
            answers["uncached"] = [greedy(ids, torch.ones_like(ids), False)[0] for ids in prompts]
            generated = [model.generate(ids, max_new_tokens=request["tokens"], do_sample=False, pad_token_id=0)[0, ids.shape[1]:].tolist() for ids in prompts]
            answers["generate"] = [row[:row.index(1) + 1] if 1 in row else row for row in generated]
            longest = max(ids.shape[1] for ids in prompts)
            left = [torch.zeros(1, longest - ids.shape[1], dtype=torch.long) for ids in prompts]
            mask = torch.cat([torch.cat([pad, torch.ones_like(ids)], 1) for pad, ids in zip(left, prompts)])
            answers["batch"] = greedy(torch.cat([torch.cat([pad, ids], 1) for pad, ids in zip(left, prompts)]), mask, True)
    answers["text_ids"] = AutoTokenizer.from_pretrained(folder)(request["text"])["input_ids"]
    answers["class"], answers["eos"] = type(model).__name__, model.generation_config.eos_token_id
    answers["loading"] = sorted(str(key) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in loading[kind])
    save_file(logits, out + ".safetensors")
    json.dump(answers, open(out + ".json", "w"))


def make(folder, config):
    import tiny_teachers
    models = import_fla()
    torch.manual_seed(11)
    config = json.load(open(config))
    model = models.GatedDeltaNetForCausalLM(models.GatedDeltaNetConfig(**config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif "A_log" not in name and "dt_bias" not in name:
                parameter.normal_(0, 0.3 if "conv" in name else 0.12)
    model.save_pretrained(folder)
    tiny_teachers.save_tokenizer(folder, config["vocab_size"])


def serve():
    for line in sys.stdin:
        try:
            call(json.loads(line))
            print("linnet: done", flush=True)
        except Exception as error:
            print("linnet:", " ".join(traceback.format_exception(error)).replace("\n", " | ")[-2000:], flush=True)


def call(arguments):
    {"make": make, "serve": serve}.get(arguments[0], lambda *rest: run(arguments[0], *rest))(*arguments[1:])


if __name__ == "__main__":
    call(sys.argv[1:])
