"""Times of GPU work: a CUDA graph of one or more calls is replayed between CUDA events, and the median of the replays counts."""
import statistics
import time

import torch


def measured(call, repeats=20, device="cuda"):
    """Milliseconds of one call(), and "graph" or why not: work that can't be captured is queued call by call."""
    if device == "cpu":  # the emulated library: only that it runs
        begin = time.perf_counter()
        call()
        return (time.perf_counter() - begin) * 1e3, "wall"
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    once = spans(call, 3)
    inner = max(1, min(10, int(1.0 / max(statistics.median(once), 1e-3))))  # short calls share a replay, whose own start costs microseconds
    try:
        graph = captured(call, inner)
        run, way = graph.replay, "graph"
    except Exception as error:
        torch.cuda.synchronize()
        run, way = (lambda: [call() for _ in range(inner)]), f"events, no graph ({type(error).__name__})"
    run()
    torch.cuda.synchronize()
    return statistics.median(spans(run, repeats)) / inner, way


def captured(call, count):  # torch.cuda.graph would empty the allocator's cache and collect garbage before each capture: slow
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            for _ in range(count):
                call()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def spans(run, count):
    pairs = []
    for _ in range(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in pairs]


class Ceilings:
    """What this device does at best: bytes/s of a large copy (read and written bytes counted) and bf16 FLOP/s of a large product."""

    def __init__(self, device):
        self.copy, self.matmul = 4.3e12, 7.9e14  # an H200's; replaced by measured ones
        if device == "cpu":
            return
        source = torch.randn(1 << 29, device="cuda")
        target = torch.empty_like(source)
        self.copy = 2 * source.nbytes / (measured(lambda: torch.mul(source, 1.0, out=target))[0] * 1e-3)
        del source, target
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(a)
        self.matmul = 2 * 8192 ** 3 / (measured(lambda: torch.matmul(a, b, out=out))[0] * 1e-3)

    def floor(self, flop, bytes_):
        """Milliseconds."""
        return 1e3 * max(flop / self.matmul, bytes_ / self.copy)
