"""Time of a forward against transformers on the same weights, both measured in turns.
bench_forward.py PATH_TO_bench_forward MODEL [--device cpu|cuda] [--threads 2] [--rounds 7] [--attention sdpa|eager]
MODEL: a GGUF file, a Hugging Face folder, or one of SHAPES below (random weights). The CPU runs float32, a GPU bfloat16.
Prints medians, on a GPU tokens per second too, and the ratio transformers / linnet in time (above 1: linnet is faster)."""
import argparse
import inspect
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

SHAPES = {
    "smollm2-135m": (LlamaConfig, dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                       num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True)),
    "qwen2.5-1.5b": (Qwen2Config, dict(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                                       num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True)),
    "qwen3-1.7b": (Qwen3Config, dict(vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, head_dim=128,
                                     num_attention_heads=16, num_key_value_heads=8, tie_word_embeddings=True)),
    "tiny": (Qwen2Config, dict(vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                               num_key_value_heads=2, tie_word_embeddings=True)),
}

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("model")
parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--attention", default="sdpa", choices=["sdpa", "eager"])
options = parser.parse_args()

torch.set_num_threads(options.threads)
gpu = options.device == "cuda"
dtype = torch.bfloat16 if gpu else torch.float32
temporary = tempfile.TemporaryDirectory()
path = pathlib.Path(options.model)
if options.model in SHAPES:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import tiny_teachers

    kind, sizes = SHAPES[options.model]
    torch.manual_seed(1)
    with torch.device(options.device):
        made = AutoModelForCausalLM.from_config(kind(**sizes, bos_token_id=0, eos_token_id=1, max_position_embeddings=32768), dtype=dtype)
    path = pathlib.Path(temporary.name)
    made.save_pretrained(path)
    tiny_teachers.save_tokenizer(str(path), min(300, sizes["vocab_size"]))
    del made
source = dict(gguf_file=path.name) if path.is_file() else {}
model = AutoModelForCausalLM.from_pretrained(str(path.parent if path.is_file() else path), **source, dtype=dtype,
                                             attn_implementation=options.attention).eval().to(options.device)
arguments = ["cuda", "bf16"] if gpu else []
child = subprocess.Popen([options.program, str(path), str(options.threads), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
assert child.stdout.readline().strip() == "ready"
cache_name = "past_key_values" if "past_key_values" in inspect.signature(model.forward).parameters else "cache"


def linnet(command):
    child.stdin.write(command + "\n")
    child.stdin.flush()
    return [float(number) for number in child.stdout.readline().split()]


def ids(batch, tokens):
    row = (torch.arange(batch * tokens) * 37 + 11).remainder(model.config.vocab_size)
    return row.view(batch, tokens).to(options.device)


@torch.inference_mode()
def milliseconds(work):
    if gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def forward(batch, tokens, logits, count=1):
    inputs, body = ids(batch, tokens), model if logits else model.model

    def work():
        for _ in range(count):
            body(input_ids=inputs, use_cache=False)
    return milliseconds(work) / count


def decode(tokens, count):
    with torch.inference_mode():
        out = model(ids(1, tokens), use_cache=True, logits_to_keep=1)

    def work():
        last = out
        for _ in range(count):
            following = last.logits[:, -1:].argmax(-1)
            last = model(following, **{cache_name: getattr(last, cache_name)}, use_cache=True)
    return milliseconds(work)


@torch.inference_mode()
def difference(tokens):
    theirs = model(ids(1, tokens), use_cache=False).logits[0, -1].float().cpu()
    ours = torch.tensor(linnet(f"logits {tokens}"))
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def compare(name, command, theirs, tokens):
    for _ in range(2 if gpu else 1):
        theirs()
        linnet(command)
    theirs_ms, linnet_ms = [], []
    for _ in range(options.rounds):
        theirs_ms.append(theirs())
        linnet_ms += linnet(command)
    a, b = statistics.median(theirs_ms), statistics.median(linnet_ms)
    speed = f"   tokens/s {tokens / a * 1e3:10.0f} / {tokens / b * 1e3:10.0f}" if gpu else ""
    best = f"(best {min(theirs_ms):.2f} / {min(linnet_ms):.2f})"
    print(f"{name:24} transformers {a:8.2f} ms   linnet {b:8.2f} ms{speed}   ratio {a / b:.2f}  {best}", flush=True)


machine = torch.cuda.get_device_name() if gpu else "cpu"
print(f"{options.model}, {machine}, {str(dtype).split('.')[1]}, transformers with {options.attention}; "
      f"last logits differ by {difference(200):.1e} of the largest")
if gpu:
    for batch, tokens in ((8, 512), (1, 2048), (1, 8192)):
        for logits in (False, True):
            compare(f"{batch} x {tokens}{' with logits' if logits else ''}", f"forward {batch} {tokens} {int(logits)} 5",
                    lambda: forward(batch, tokens, logits, 5), batch * tokens)
else:
    compare("prefill 512", "prefill 512", lambda: forward(1, 512, True), 512)
    compare("prefill 64", "prefill 64", lambda: forward(1, 64, True), 64)
compare("decode 64 after 128", "decode 128 64", lambda: decode(128, 64), 64)
if not gpu:
    growth, peak = linnet("memory")
    print(f"loading: resident growth {growth:.3f}, peak {peak:.3f} of the weights' bytes")
child.stdin.close()
child.wait()
