"""Errors of the gated delta rule, ||x - reference|| / ||reference|| against the token recurrence in float64 on the same (rounded) inputs:
ours, FLA's and those of the plain chunk form in the same dtype. The bar: ours at most twice the plain form's, and not above FLA's."""
import torch

import linnet_kernels
import rivals

NAMES = ("o", "final", "dq", "dk", "dv", "dg", "dbeta", "dInitialState")


def problem(device, dtype, B, T, H, K, D, decay=3.0, beta="uniform", keys="random", initial=True, seed=1):
    """decay: mean log decay of a chunk of 64 tokens, negated."""
    torch.manual_seed(seed)
    real = {"device": device, "dtype": torch.float32}
    unit = torch.nn.functional.normalize

    def keyed(shape):
        if keys == "random":
            return unit(torch.randn(shape, **real), dim=-1)
        return unit(unit(torch.randn(B, 1, shape[2], D, **real), dim=-1) + 0.02 * unit(torch.randn(shape, **real), dim=-1), dim=-1)

    q, k, v = keyed((B, T, H, D)).to(dtype), keyed((B, T, K, D)).to(dtype), torch.randn(B, T, K, D, **real).to(dtype)
    g = -decay / 64 * (0.5 + torch.rand(B, T, H, **real))
    write = torch.rand(B, T, H, **real) if beta == "uniform" else 1 - 0.01 * torch.rand(B, T, H, **real)
    state = torch.randn(B, H, D, D, **real) * (1.0 if initial else 0.0)
    d_o, d_final = torch.randn(B, T, H, D, **real).to(dtype), torch.randn(B, H, D, D, **real)
    return {"q": q, "k": k, "v": v, "g": g, "beta": write, "scale": D ** -0.5, "state": state, "d_o": d_o, "d_final": d_final}


def by_autograd(form, p, real=None):
    """Outputs and gradients of form(q, k, v, g, beta, scale, state), computed in the inputs' own dtypes or in `real`."""
    leaves = [p[name].to(real or p[name].dtype).detach().clone().requires_grad_() for name in ("q", "k", "v", "g", "beta", "state")]
    o, final = form(*leaves[:5], p["scale"], leaves[5])
    gradients = torch.autograd.grad([o, final], leaves, [p["d_o"].to(o.dtype), p["d_final"].to(final.dtype)])
    return dict(zip(NAMES, (o, final, *gradients)))


def ours(library, p, path):
    rule = linnet_kernels.Rule(library, *(p[name] for name in linnet_kernels.INPUTS), initial=p["state"], final=True, d_o=p["d_o"],
                               d_final=p["d_final"], path=path, poison=True)
    rule.both()
    return {"o": rule.o, "final": rule.final, **rule.gradients}


def relative(found, reference):
    out = {}
    for name in NAMES:
        if name in found:
            difference = (found[name].double() - reference[name]).norm().item()
            size = reference[name].norm().item()
            out[name] = difference / size if size > 0 else difference
    return out


CASES = {  # name: arguments of problem()
    "D64": {"D": 64}, "D96": {"D": 96}, "D128": {"D": 128}, "D256": {"D": 256},
    "D64 GQA 2": {"D": 64, "share": 2}, "D128 GQA 4": {"D": 128, "share": 4},
    "D64 f16": {"D": 64, "dtype": torch.float16},
    "D64 gate 0": {"D": 64, "decay": 0.0}, "D128 gate 0": {"D": 128, "decay": 0.0, "beta": "one"},
    "D64 decay -20": {"D": 64, "decay": 20.0}, "D128 decay -20": {"D": 128, "decay": 20.0},
    "D64 decay -300": {"D": 64, "decay": 300.0}, "D128 decay -300": {"D": 128, "decay": 300.0},
    "D64 twin keys": {"D": 64, "keys": "twins", "beta": "one"}, "D128 twin keys": {"D": 128, "keys": "twins", "beta": "one"},
    "D64 T1": {"D": 64, "T": 1, "B": 16}, "D64 T64": {"D": 64, "T": 64}, "D128 T65": {"D": 128, "T": 65},
}


def table(library, fla, only="", small=False):
    """Prints a line per case and method; returns the rows, and whether a method of ours failed or is above the bar."""
    rows = []
    print(f"\n{'errors':18}{'':10}" + "".join(f"{name[:10]:>11}" for name in NAMES))
    for name, given in CASES.items():
        if only and only not in name:
            continue
        shape = {"B": 1, "T": 130, "H": 4 if "share" in given else 2} if small else {"B": 2, "T": 300, "H": 4}
        shape |= {"dtype": torch.bfloat16, "share": 1} | given
        shape["K"] = shape["H"] // shape.pop("share")
        p = problem(library.device, **shape)
        reference = by_autograd(rivals.recurrence, p, torch.float64)
        methods = {"plain": lambda: by_autograd(rivals.chunk_form, p)}
        methods["portable"] = lambda: ours(library, p, linnet_kernels.PORTABLE)
        if not library.emulated:
            methods["hopper"] = lambda: ours(library, p, linnet_kernels.HOPPER)
        if fla:
            methods["FLA"] = lambda: by_autograd(lambda *inputs: fla.forward(*inputs, final=True), p)
        for method, compute in methods.items():
            row = {"op": "rule", "case": name, "method": method, **{key: str(value) for key, value in shape.items()}}
            try:
                row["errors"] = relative(compute(), reference)
                numbers = "".join(f"{row['errors'].get(n, float('nan')):11.2e}" for n in NAMES)
            except Exception as error:  # one failure leaves the table whole; parameters that a path does not take are none
                kind = "refused" if method == "hopper" and "gated delta rule: " in str(error) else "failed"
                row[kind] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
                numbers = "  " + row[kind]
            print(f"{name:18}{method:10}{numbers}", flush=True)
            rows.append(row)
    failures = judge(rows)
    for line in failures:
        print("  above the bar: " + line)
    print(f"{len(failures)} values above the bar")
    return rows, bool(failures) or any("failed" in row for row in rows if row["method"] in ("portable", "hopper"))


def judge(rows):
    by_case = {}
    for row in rows:
        by_case.setdefault(row["case"], {})[row["method"]] = row.get("errors", {})
    lines = []
    for case, methods in by_case.items():
        for mine in ("portable", "hopper"):
            for name, error in methods.get(mine, {}).items():
                plain, theirs = methods.get("plain", {}).get(name), methods.get("FLA", {}).get(name)
                if not error <= 2 * plain:
                    lines.append(f"{case} {mine} {name}: {error:.2e}, twice the plain form's is {2 * plain:.2e}")
                if theirs is not None and not error <= theirs:
                    lines.append(f"{case} {mine} {name}: {error:.2e}, FLA's is {theirs:.2e}")
    return lines
