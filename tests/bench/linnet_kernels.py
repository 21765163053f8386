"""liblinnet_kernels.so by ctypes, on torch tensors. With the emulated library (linnet_kernels_emulated_shared) the tensors are the CPU's.
The structs repeat kernels/include/linnet/kernels/*.h; a library that was laid out otherwise is refused."""
import ctypes
from ctypes import c_bool, c_float, c_int32, c_int64, c_size_t, c_void_p

import torch

PORTABLE, HOPPER = 1, 2
MEANS = ("distance", "distanceNoSink", "entropy", "entropyRelative", "sinkMass", "previousMass", "selfMass", "outputSquare")
INPUTS = ("q", "k", "v", "g", "beta", "scale")  # of Rule
DATA_TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class TokenStrides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("token", c_int64), ("head", c_int64)]


class RuleParams(ctypes.Structure):  # GatedDeltaRuleParams
    _fields_ = [
        ("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("g", c_void_p), ("beta", c_void_p),
        ("qStrides", TokenStrides), ("kStrides", TokenStrides), ("vStrides", TokenStrides),
        ("initialState", c_void_p), ("aLog", c_void_p), ("dtBias", c_void_p),
        ("betaIsLogit", c_bool), ("normalise", c_bool), ("normEps", c_float), ("scale", c_float),
        ("o", c_void_p), ("oStrides", TokenStrides), ("finalState", c_void_p),
        ("dO", c_void_p), ("doStrides", TokenStrides), ("dFinalState", c_void_p),
        ("dq", c_void_p), ("dk", c_void_p), ("dv", c_void_p), ("dg", c_void_p), ("dbeta", c_void_p),
        ("dInitialState", c_void_p), ("dALog", c_void_p), ("dDtBias", c_void_p),
        ("batch", c_int64), ("tokens", c_int64), ("heads", c_int64), ("kvHeads", c_int64), ("headDim", c_int64),
        ("sequenceStarts", c_void_p), ("sequences", c_int64),
        ("dataType", c_int32), ("path", c_int32), ("segmentChunks", c_int64),
        ("workspace", c_void_p), ("saved", c_void_p), ("stream", c_void_p)]


class RuleBytes(ctypes.Structure):  # GatedDeltaRuleBytes
    _fields_ = [("forwardWorkspace", c_size_t), ("backwardWorkspace", c_size_t), ("saved", c_size_t)]


class StatisticsParams(ctypes.Structure):  # AttentionStatisticsCudaParams
    _fields_ = [
        *((f"{x}{y}Stride", c_int64) for x in "qkv" for y in ("Batch", "Head", "Token")),
        ("batch", c_int64), ("heads", c_int64), ("kvHeads", c_int64), ("tokens", c_int64), ("headDim", c_int64), ("scale", c_float),
        ("sinkKeys", c_int32), ("skipRows", c_int32), ("binsPerOctave", c_int32),
        *((x, c_void_p) for x in (*MEANS, "histogram", "histogramNoSink", "q", "k", "v", "output", "sequenceStarts")),
        ("sequences", c_int64), ("maxTokens", c_int64), ("workspace", c_void_p), ("stream", c_void_p), ("dataType", c_int32)]


LAYOUT = ("qStrides", "initialState", "scale", "o", "dO", "dDtBias", "batch", "sequences", "dataType", "workspace", "stream")
STATISTICS_LAYOUT = ("batch", "scale", "binsPerOctave", "distance", "histogramNoSink", "q", "output", "sequenceStarts", "workspace",
                     "stream", "dataType")


class Refused(RuntimeError):
    """What a launch function answered."""


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.verify(path, "linnetStructLayout", RuleParams, LAYOUT)
        self.verify(path, "linnetStatisticsLayout", StatisticsParams, STATISTICS_LAYOUT)
        self.emulated = bool(self.library.linnetEmulated())
        self.device = torch.device("cpu" if self.emulated else "cuda")

    def verify(self, path, function, struct, members):
        numbers = (c_int64 * 64)()
        count = getattr(self.library, function)(numbers, 64)
        mine = [ctypes.sizeof(struct)] + [getattr(struct, name).offset for name in members]
        if list(numbers[:count]) != mine:
            raise SystemExit(f"{path}: {function} says {list(numbers[:count])}, {struct.__name__} here is {mine}: bring this script up to date")

    def call(self, name, *arguments):
        function = getattr(self.library, name)
        function.restype = ctypes.c_char_p
        error = function(*(ctypes.byref(a) for a in arguments))
        if error:
            raise Refused(error.decode())

    def room(self, count, poison):  # aligned to 1024 bytes
        memory = torch.empty(max(int(count), 1) + 1024, dtype=torch.uint8, device=self.device)
        if poison:
            memory.fill_(0xFF)
        start = -memory.data_ptr() % 1024
        return memory[start:start + int(count)]


def address(tensor):
    return None if tensor is None else tensor.data_ptr()


def strides(tensor):
    assert tensor.stride(3) == 1
    return TokenStrides(tensor.stride(0), tensor.stride(1), tensor.stride(2))


class Rule:
    """The gated delta rule on one set of tensors: forward() and backward() only queue work on the current stream, so that they can be
    captured in a graph; results are in .o, .final and .gradients. q [B, T, H, D], k and v [B, T, K, D], g and beta [B, T, H] float32."""

    def __init__(self, library, q, k, v, g, beta, scale, initial=None, final=False, d_o=None, d_final=None, fused=None, starts=None,
                 path=0, segment_chunks=0, poison=False, training=None):
        B, T, H, D = q.shape
        K = k.shape[2]
        training = d_o is not None if training is None else training
        self.library, self.keep = library, [q, k, v, g, beta, initial, d_o, d_final, starts]
        self.inputs = (q, k, v)
        p = self.params = RuleParams(
            q=address(q), k=address(k), v=address(v), g=address(g), beta=address(beta), qStrides=strides(q), kStrides=strides(k),
            vStrides=strides(v), initialState=address(initial), normEps=1e-6, scale=scale, batch=B, tokens=T, heads=H, kvHeads=K, headDim=D,
            sequenceStarts=address(starts), sequences=0 if starts is None else len(starts) - 1, dataType=DATA_TYPES[q.dtype], path=path,
            segmentChunks=segment_chunks)
        if fused:  # {"a_log": [H], "dt_bias": [H]}: gates, sigmoid and normalisation inside
            self.keep += fused.values()
            p.aLog, p.dtBias, p.betaIsLogit, p.normalise = address(fused["a_log"]), address(fused["dt_bias"]), True, True
        sequences = B if starts is None else len(starts) - 1
        self.o = self.like(q, (B, T, H, D), poison)
        p.o, p.oStrides = address(self.o), strides(self.o)
        self.final = self.like(g, (sequences, H, D, D), poison) if final else None
        p.finalState = address(self.final)
        self.gradients = {}
        if d_o is not None:
            p.dO, p.doStrides, p.dFinalState = address(d_o), strides(d_o), address(d_final)
            shapes = {"dq": (q, q.shape), "dk": (k, k.shape), "dv": (v, v.shape), "dg": (g, g.shape), "dbeta": (g, g.shape)}
            if initial is not None:
                shapes["dInitialState"] = (g, initial.shape)
            if fused:
                shapes["dALog"] = shapes["dDtBias"] = (g, (H,))
            for name, (like, shape) in shapes.items():
                self.gradients[name] = self.like(like, shape, poison)
                setattr(p, name, address(self.gradients[name]))
        self.bytes = RuleBytes()
        library.call("linnetGatedDeltaRuleBytes", p, self.bytes)
        self.workspace = library.room(max(self.bytes.forwardWorkspace, self.bytes.backwardWorkspace if training else 0), poison)
        p.workspace = address(self.workspace)
        if training:
            self.saved = library.room(self.bytes.saved, poison)
            p.saved = address(self.saved)

    @staticmethod
    def like(tensor, shape, poison):
        made = torch.empty(tuple(shape), dtype=tensor.dtype, device=tensor.device)
        return made.fill_(float("nan")) if poison else made

    def queue(self, name):
        self.params.stream = None if self.library.emulated else torch.cuda.current_stream().cuda_stream
        self.library.call(name, self.params)

    def forward(self):
        self.queue("linnetGatedDeltaRuleForward")

    def backward(self):
        self.queue("linnetGatedDeltaRuleBackward")

    def both(self):
        self.forward()
        self.backward()

    def step(self):  # tokens = 1; with `initial` and `final`
        self.queue("linnetGatedDeltaRuleStep")


class Statistics:
    """The attention statistics of q [B, H, T, D], k and v [B, K, T, D]: forward() queues the work, .means [8, B, H] and .histograms
    [2, B, H, bins] hold the results in the header's order."""

    def __init__(self, library, q, k, v, scale, bins_per_octave=2):
        B, H, T, D = q.shape
        self.library, self.keep = library, (q, k, v)
        p = self.params = StatisticsParams(batch=B, heads=H, kvHeads=k.shape[1], tokens=T, headDim=D, scale=scale, sinkKeys=4, skipRows=8,
                                           binsPerOctave=bins_per_octave, q=address(q), k=address(k), v=address(v),
                                           dataType=DATA_TYPES[q.dtype])
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            for place, stride in zip(("Batch", "Head", "Token"), tensor.stride()):
                setattr(p, f"{name}{place}Stride", stride)
        library.library.linnetDistanceBins.restype = c_int64
        bins = library.library.linnetDistanceBins(c_int64(T), bins_per_octave)
        self.means = torch.full((8, B, H), float("nan"), dtype=torch.float64, device=q.device)
        self.histograms = torch.full((2, B, H, bins), float("nan"), dtype=torch.float64, device=q.device)
        for i, name in enumerate(MEANS):
            setattr(p, name, address(self.means[i]))
        p.histogram, p.histogramNoSink = address(self.histograms[0]), address(self.histograms[1])
        library.library.linnetAttentionStatisticsWorkspace.restype = c_size_t
        self.workspace = library.room(library.library.linnetAttentionStatisticsWorkspace(ctypes.byref(p)), False)
        p.workspace = address(self.workspace)

    def forward(self):
        self.params.stream = None if self.library.emulated else torch.cuda.current_stream().cuda_stream
        self.library.call("linnetAttentionStatistics", self.params)
