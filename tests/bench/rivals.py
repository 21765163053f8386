"""What the kernels are compared with: the token recurrence in float64, a plain chunk form in torch, FLA, flash SDPA."""
import os
import pathlib
import sys
import tempfile
import zipfile

import torch


def repeated(x, heads):  # [B, T, K, D] -> [B, T, H, D]
    return x if heads == x.shape[2] else x.repeat_interleave(heads // x.shape[2], dim=2)


def recurrence(q, k, v, g, beta, scale, state):
    """S = exp(g) (I - beta k k^T) S + beta k v^T ; o = scale S^T q, token by token, in the dtype given. Returns o [B, T, H, D] and S."""
    heads = q.shape[2]
    k, v = repeated(k, heads), repeated(v, heads)
    outputs = []
    for t in range(q.shape[1]):
        key, write = k[:, t, :, :, None], beta[:, t, :, None, None]
        state = state * g[:, t].exp()[..., None, None]
        state = state + write * key * (v[:, t, :, None] - key.transpose(-1, -2) @ state)
        outputs.append(scale * (q[:, t, :, None] @ state)[:, :, 0])
    return torch.stack(outputs, 1), state


def chunk_form(q, k, v, g, beta, scale, state, chunk=64):
    """The plain chunk form: products in q's dtype, gates, triangular solve and carried state in float32. What "twice the error of the plain
    form in the same dtype" refers to."""
    B, T, H, D = q.shape
    dtype, count = q.dtype, (T + chunk - 1) // chunk

    def chunks(x):
        x = torch.nn.functional.pad(x, (0, 0) * (x.dim() - 2) + (0, count * chunk - T))
        return x.unflatten(1, (count, chunk)).movedim(3, 1)  # [B, H, N, C, ...]

    q, k, v, g, beta = chunks(q), chunks(repeated(k, H)), chunks(repeated(v, H)), chunks(g.float()), chunks(beta.float())
    sums = g.cumsum(-1)
    lower = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    gamma = (sums[..., :, None] - sums[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    A = (beta[..., None] * (k @ k.mT).float() * gamma).tril(-1)
    unit = torch.eye(chunk, device=q.device)
    T_ = torch.linalg.solve_triangular(unit + A, unit.expand_as(A), upper=False, unitriangular=True).to(dtype)
    U = T_ @ (beta[..., None] * v.float()).to(dtype)
    W = T_ @ (beta[..., None] * sums.exp()[..., None] * k.float()).to(dtype)
    P = (scale * (q @ k.mT).float() * gamma).to(dtype)
    Q = (scale * sums.exp()[..., None] * q.float()).to(dtype)
    tail = ((sums[..., -1:] - sums).exp()[..., None] * k.float()).to(dtype)
    outputs, state = [], state.float()
    for n in range(count):
        written = U[:, :, n] - W[:, :, n] @ state.to(dtype)
        outputs.append(Q[:, :, n] @ state.to(dtype) + P[:, :, n] @ written)
        state = state * sums[:, :, n, -1, None, None].exp() + (tail[:, :, n].mT @ written).float()
    return torch.stack(outputs, 2).movedim(1, 3).flatten(1, 2)[:, :T], state


class Fla:
    """flash-linear-attention from PyPI: installed, or from a folder of its wheels. Its guard against a Triton defect on Hopper (issue 640:
    the gated backward may be wrong with Triton 3.4 to 3.7.0) is switched off, for timing: the time is that of the kernel all the same."""

    def __init__(self, wheels=None):
        for wheel in sorted(pathlib.Path(wheels).glob("*.whl")) if wheels else []:  # Triton reads sources, so not from the zip
            if not any(wheel.name.startswith(name) for name in ("fla_core", "flash_linear_attention", "einops")):
                continue
            folder = pathlib.Path(tempfile.gettempdir()) / "linnet-bench-wheels" / wheel.stem
            if not folder.exists():
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(folder)
            sys.path.insert(0, str(folder))
        os.environ.setdefault("FLA_TILELANG", "0")
        import triton
        import triton.testing
        slow = triton.testing.do_bench  # tuning: 30 ms a candidate instead of 125; the choice of a config needs no more
        triton.testing.do_bench = lambda call, **options: slow(call, **{**options, "warmup": 5, "rep": 20})
        import fla
        import fla.ops.common.chunk_o as chunk_o
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
        self.guarded = chunk_o.IS_NVIDIA_HOPPER and chunk_o.TRITON_ABOVE_3_4_0 and not chunk_o.TRITON_ABOVE_3_7_1
        chunk_o.TRITON_ABOVE_3_7_1 = True
        self.version, self.triton = fla.__version__, triton.__version__
        self.chunk, self.recurrent = chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

    def options(self, fused):
        if not fused:
            return {}
        return {"use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True, "A_log": fused["a_log"], "dt_bias": fused["dt_bias"],
                "use_beta_sigmoid_in_kernel": True}

    def forward(self, q, k, v, g, beta, scale, initial=None, final=False, fused=None):
        heads = q.shape[2]
        return self.chunk(q, repeated(k, heads), repeated(v, heads), g, beta, scale=scale, initial_state=initial, output_final_state=final,
                          **self.options(fused))

    def step(self, q, k, v, g, beta, scale, initial):
        return self.recurrent(q, k, v, g, beta, scale=scale, initial_state=initial, output_final_state=True)


def flash(q, k, v):
    """torch's flash attention on [B, H, T, D], causal, key/value heads shared."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
