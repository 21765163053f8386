"""Our CUDA kernels beside FLA and flash SDPA, in one process, by the same clock, with ratio columns (above 1: ours is faster).
bench_kernels.py --library liblinnet_kernels.so [--op rule,step,statistics] [--shapes small|issue|all] [--errors] [--wheels FOLDER]
The library is built by `ninja linnet_kernels_shared`. FLA comes from PyPI (fla-core, flash-linear-attention), or from a folder of wheels;
its Triton kernels are compiled and tuned for each D and number of heads first (--precompile N in N processes): a minute or more.
Without a GPU: --library liblinnet_kernels_emulated_shared.so --shapes tiny checks this script and the errors, and its times mean nothing.
Exit code 1: a value of the error table is above the bar."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import torch

import linnet_kernels
import rivals
import rule_errors
from timing import Ceilings, measured

SHAPES = [(1, 256), (4, 256), (8, 256), (1, 2048), (4, 2048), (1, 8192), (8, 4096), (1, 32768)]  # B, T
KV_HEADS = {9: 3, 12: 2, 16: 8, 32: 8, 2: 1}  # SmolLM2-135M, Qwen2.5-1.5B, Qwen3-0.6B, Llama-3.2-1B

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--library", required=True)
parser.add_argument("--op", default="rule,step,statistics")
parser.add_argument("--shapes", default="issue", choices=["tiny", "small", "issue", "all"])
parser.add_argument("--heads", default="", help="only these, e.g. 9,16")
parser.add_argument("--dims", default="", help="only these, e.g. 64")
parser.add_argument("--only", default="", help="only rows whose text holds this, e.g. 'T8192'")
parser.add_argument("--gqa", action="store_true", help="key/value heads of the models; FLA gets them expanded beforehand")
parser.add_argument("--fused", action="store_true", help="gate, sigmoid and L2 normalisation inside, for both")
parser.add_argument("--errors", action="store_true", help="error table after the times; FLA compiles for minutes more")
parser.add_argument("--no-fla", action="store_true")
parser.add_argument("--wheels", help="folder with FLA's wheels, where it isn't installed")
parser.add_argument("--precompile", type=int, default=8, help="processes that compile FLA's kernels beforehand; 0: none")
parser.add_argument("--seconds", type=float, default=0, help="no new row after this time")
parser.add_argument("--json", help="file to write")
parser.add_argument("--compile", help=argparse.SUPPRESS)  # a child of --precompile: DIMxHEADS
options = parser.parse_args()

began = time.monotonic()
library = linnet_kernels.Library(options.library)
device = library.device.type
rows = []


def selected():
    heads, dims, shapes = {"tiny": ([2], [64], [(1, 100)]), "small": ([9, 16], [64, 128], SHAPES[:4]),
                           "issue": ([9, 12, 16, 32], [64, 128], SHAPES),
                           "all": ([9, 12, 16, 24, 32], [64, 96, 128, 256], SHAPES)}[options.shapes]
    heads = [int(h) for h in options.heads.split(",")] if options.heads else heads
    dims = [int(d) for d in options.dims.split(",")] if options.dims else dims
    return heads, dims, shapes


def inputs(B, T, H, D, dtype=torch.bfloat16):
    K = KV_HEADS.get(H, H) if options.gqa else H
    p = rule_errors.problem(device, dtype, B, T, H, K, D, initial=False)
    fused = None
    if options.fused:
        fused = {"a_log": torch.zeros(H, device=device), "dt_bias": torch.full((H,), -3.0, device=device)}
        p["g"], p["beta"] = torch.randn_like(p["g"]), torch.randn_like(p["beta"])
    return p, fused, K


def attempt(call):
    """A time in ms and how it was taken, or None and why not: one failure leaves the table whole."""
    try:
        return measured(call, device=device)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:100]


def left():
    return not options.seconds or time.monotonic() - began < options.seconds


def emit(row, columns):
    rows.append(row)
    cells = "".join(f"{row[c]:>10.4g}" if isinstance(row.get(c), float) else f"{row.get(c) or '-':>10}" for c in columns)
    print(f"{row['shape']:34}{cells}  {row['note']}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


def head(title, columns):
    print(f"\n{title:34}" + "".join(f"{c:>10}" for c in columns), flush=True)


def finish(row, floor, ours, theirs, note):
    """ours: best of our paths; ratios above 1: ours is faster."""
    row["floor"] = floor
    times = [t for t in ours if t is not None]
    if times:
        row["of floor"] = floor / min(times)
        if theirs is not None:
            row["ratio"] = theirs / min(times)
    row["note"] = "; ".join(dict.fromkeys(text for text in note if text and text != "graph"))


RULE = ("portable", "hopper", "FLA", "floor", "ratio", "of floor", "TFLOP/s", "GB/s")


def rule_rows(fla, ceilings):
    heads, dims, shapes = selected()
    head("gated delta rule, ms", RULE)
    for D in dims:
        for H in heads:
            if device == "cuda":
                torch.cuda.empty_cache()  # graphs of the last rows kept pools of their own
            if fla and left():  # FLA keeps, for each D and H, what is best at the first shape that it meets: no tiny one
                p, fused, _ = inputs(*shapes[len(shapes) // 2], H, D)
                attempt(fla_calls(fla, p, fused)[1])
            for B, T in shapes:
                text = f"B{B} T{T} H{H} D{D}"
                if options.only not in text or not left():
                    continue
                p, fused, K = inputs(B, T, H, D)
                text += f"/{K}" if K != H else ""
                rule_pair(fla, ceilings, p, fused, K, text)


def fla_calls(fla, p, fused):
    heads = p["q"].shape[2]
    q, k, v = (rivals.repeated(p[name], heads).detach().clone().requires_grad_() for name in "qkv")
    g, beta = p["g"].clone().requires_grad_(), p["beta"].clone().requires_grad_()
    leaves = [q, k, v, g, beta]

    def forward():
        with torch.no_grad():
            return fla.forward(q, k, v, g, beta, p["scale"], fused=fused)

    def both():
        o, _ = fla.forward(q, k, v, g, beta, p["scale"], fused=fused)
        return torch.autograd.grad(o, leaves, p["d_o"])

    return forward, both


def rule_pair(fla, ceilings, p, fused, K, text):
    B, T, H, D = p["q"].shape
    C, tokens = 64, B * T * H
    flop = 2 * tokens * (5 * C * D + C * C / 3 + 3 * D * D), 2 * tokens * (15 * C * D + 8 * D * D + 2 * C * C)
    share = (2 * H + 2 * K) / (4 * H)  # of q, k, v, o bytes
    bytes_ = tokens * (8 * D * share + 8), tokens * (14 * D * share + 16)
    work = [("forward", flop[0], bytes_[0]), ("forward+backward", sum(flop), sum(bytes_))]
    theirs = fla_calls(fla, p, fused) if fla else (None, None)
    for i, (kind, operations, moved) in enumerate(work):
        row, notes = {"op": "rule", "shape": f"{text} {kind}"}, []
        for name, path in (("portable", linnet_kernels.PORTABLE), ("hopper", linnet_kernels.HOPPER)):
            if name == "hopper" and library.emulated:
                continue

            def ours():
                rule = linnet_kernels.Rule(library, *(p[name] for name in linnet_kernels.INPUTS), fused=fused, path=path,
                                           d_o=p["d_o"] if i else None)
                return attempt(rule.both if i else rule.forward)

            try:
                row[name], way = ours()
            except Exception as error:
                row[name], way = None, f"{error}"[:100]
            notes.append(way if way == "graph" else f"{name}: {way}")
        if theirs[i]:
            row["FLA"], way = attempt(theirs[i])
            notes.append(way if way == "graph" else f"FLA: {way}")
        finish(row, ceilings.floor(operations, moved), (row.get("portable"), row.get("hopper")), row.get("FLA"), notes)
        best = min((t for t in (row.get("portable"), row.get("hopper")) if t), default=None)
        if best:
            row["TFLOP/s"], row["GB/s"] = operations / best / 1e9, moved / best / 1e6
        emit(row, RULE)


STEP = ("ours", "FLA", "floor", "ratio", "of floor", "GB/s")


def step_rows(fla, ceilings):
    heads, dims, _ = selected()
    head("gated delta rule, one token, ms", STEP)
    for D in dims:
        for H in heads:
            for B in (1,) if options.shapes == "tiny" else (1, 8, 64, 256):
                text = f"B{B} H{H} D{D} step"
                if options.only not in text or not left():
                    continue
                p = rule_errors.problem(device, torch.bfloat16, B, 1, H, H, D)
                row, notes = {"op": "step", "shape": text}, []
                try:
                    rule = linnet_kernels.Rule(library, *(p[name] for name in linnet_kernels.INPUTS), initial=p["state"], final=True)
                    row["ours"], way = attempt(rule.step)
                except Exception as error:
                    row["ours"], way = None, f"{error}"[:100]
                notes.append(way)
                if fla:
                    with torch.no_grad():
                        row["FLA"], way = attempt(lambda: fla.step(p["q"], p["k"], p["v"], p["g"], p["beta"], p["scale"], p["state"]))
                    notes.append(way if way == "graph" else f"FLA: {way}")
                moved = B * H * (8 * D * D + 8 * D + 8)
                finish(row, ceilings.floor(B * H * 8 * D * D, moved), (row["ours"],), row.get("FLA"), notes)
                if row["ours"]:
                    row["GB/s"] = moved / row["ours"] / 1e6
                emit(row, STEP)


STATISTICS = ("ours", "SDPA", "floor", "ratio", "of floor", "TFLOP/s")


def statistics_rows(_, ceilings):
    """ratio 0.67 or more is the aim: at most 1.5 x the flash forward, which computes the output alone."""
    head("attention statistics, ms", STATISTICS)
    for H, K, D in ((9, 3, 64), (32, 8, 64), (12, 2, 128), (32, 8, 128)):
        for T in (100,) if options.shapes == "tiny" else (2048, 8192, 32768):
            text = f"B1 T{T} H{H}/{K} D{D} statistics"
            if options.only not in text or not left():
                continue
            torch.manual_seed(1)
            q, k, v = (torch.randn(1, n, T, D, device=device, dtype=torch.bfloat16) for n in (H, K, K))
            row, notes = {"op": "statistics", "shape": text}, []
            try:
                row["ours"], way = attempt(linnet_kernels.Statistics(library, q, k, v, D ** -0.5).forward)
            except Exception as error:
                row["ours"], way = None, f"{error}"[:100]
            notes.append(way)
            if not library.emulated:
                row["SDPA"], way = attempt(lambda: rivals.flash(q, k, v))
                notes.append(way if way == "graph" else f"SDPA: {way}")
            flop, moved = 2 * T * T * D * H, 2 * T * D * (H + 2 * K)
            finish(row, ceilings.floor(flop, moved), (row["ours"],), row.get("SDPA"), notes)
            if row["ours"]:
                row["TFLOP/s"] = flop / row["ours"] / 1e9
            emit(row, STATISTICS)


def precompile():
    """FLA's kernels for every D and H in processes of their own: they are compiled on one core each, and their tuning, done side by
    side, is thrown away."""
    heads, dims, _ = selected()
    waiting = [f"{D}x{H}" for D in dims for H in heads]
    running, start = [], time.monotonic()
    while waiting or running:
        while waiting and len(running) < options.precompile:
            command = [sys.executable, __file__, *sys.argv[1:], "--compile", waiting.pop(0)]
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                            env={**os.environ, "FLA_CACHE_RESULTS": "0"}))
        time.sleep(0.2)
        running = [child for child in running if child.poll() is None]
    print(f"FLA's kernels compiled in {time.monotonic() - start:.0f} s", flush=True)


def compile_one(fla):
    D, H = (int(n) for n in options.compile.split("x"))
    for B in (1, 4):
        p, fused, _ = inputs(B, 256, H, D)
        for call in fla_calls(fla, p, fused):
            call()
    torch.cuda.synchronize()


about = {"torch": torch.__version__, "device": "emulated" if library.emulated else torch.cuda.get_device_name(), "fused": options.fused,
         "gqa": options.gqa}
fla = None
if not options.no_fla and not library.emulated:
    try:
        fla = rivals.Fla(options.wheels)
        about |= {"fla": fla.version, "triton": fla.triton, "fla_guard_switched_off": fla.guarded}
    except Exception as error:
        print(f"no FLA: {type(error).__name__}: {error}", flush=True)
if options.compile:
    compile_one(fla)
    sys.exit()
operations = options.op.split(",")
if fla and options.precompile and {"rule", "step"} & set(operations):
    precompile()
ceilings = Ceilings(device)
about |= {"copy_gb_per_s": ceilings.copy / 1e9, "matmul_bf16_tflop_per_s": ceilings.matmul / 1e12}
print(", ".join(f"{key} {value:.0f}" if isinstance(value, float) else f"{key} {value}" for key, value in about.items()), flush=True)
for name, measure in (("rule", rule_rows), ("step", step_rows), ("statistics", statistics_rows)):
    if name in operations:
        measure(fla, ceilings)
failed = False
if options.errors:  # last: FLA compiles anew for each of its shapes, on one core
    found, failed = rule_errors.table(library, fla, options.only, small=library.emulated)
    rows += found
if options.json:
    pathlib.Path(options.json).write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
sys.exit(1 if failed else 0)
