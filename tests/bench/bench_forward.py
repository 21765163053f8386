"""Time of a forward against transformers' eager model: same file, threads and float32, both measured in turns.
bench_forward.py PATH_TO_bench_forward MODEL.gguf [--threads 2] [--rounds 7] [--attention sdpa]
Prints medians in ms and the ratio transformers / linnet (above 1: linnet is faster)."""
import argparse
import pathlib
import statistics
import subprocess
import time

import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("model")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--attention", default="sdpa", choices=["sdpa", "eager"])
options = parser.parse_args()

torch.set_num_threads(options.threads)
file = pathlib.Path(options.model)
model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32,
                                             attn_implementation=options.attention).eval()
child = subprocess.Popen([options.program, options.model, str(options.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert child.stdout.readline().strip() == "ready"


def linnet(command):
    child.stdin.write(command + "\n")
    child.stdin.flush()
    return [float(number) for number in child.stdout.readline().split()]


def ids(tokens):
    return (torch.arange(tokens) * 37 + 11).remainder(model.config.vocab_size)[None]


@torch.inference_mode()
def prefill(tokens):
    start = time.perf_counter()
    model(ids(tokens), use_cache=False)
    return (time.perf_counter() - start) * 1e3


@torch.inference_mode()
def decode(tokens, count):
    out = model(ids(tokens), use_cache=True, logits_to_keep=1)
    following = out.logits.argmax(-1)
    start = time.perf_counter()
    for _ in range(count):
        out = model(following, cache=out.cache, use_cache=True)
        following = out.logits.argmax(-1)
    return (time.perf_counter() - start) * 1e3


for name, command, theirs in (("prefill 512", "prefill 512", lambda: prefill(512)), ("prefill 64", "prefill 64", lambda: prefill(64)),
                            ("decode 64 after 128", "decode 128 64", lambda: decode(128, 64))):
    theirs()
    linnet(command)
    theirs_ms, linnet_ms = [], []
    for _ in range(options.rounds):
        theirs_ms.append(theirs())
        linnet_ms += linnet(command)
    a, b = statistics.median(theirs_ms), statistics.median(linnet_ms)
    print(f"{name:22} transformers {a:8.1f} ms   linnet {b:8.1f} ms   ratio {a / b:.2f}  (best {min(theirs_ms):.1f} / {min(linnet_ms):.1f})")
growth, peak = linnet("memory")
print(f"loading: resident growth {growth:.3f}, peak {peak:.3f} of the weights' bytes")
child.stdin.close()
child.wait()
