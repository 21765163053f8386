// bench_forward MODEL THREADS [DEVICE DTYPE]: answers lines of standard input with milliseconds, so that bench_forward.py can measure
// this and transformers in turns on the same machine. "prefill T": logits of T tokens; "decode T N": N greedy tokens after a prompt of
// T (decoding alone); "forward B T L N": one of N forwards of B sequences of T tokens, with all their logits where L is 1; "memory":
// resident growth and peak while loading, over the weights' bytes; "logits T": those of the last of T tokens, on one line.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/model/cache.h"
#include "core/model/model.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <iostream>

using namespace linnet::core;

namespace {

void finishQueued(const at::Device& device) {
    if (device.is_cuda())
        c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(device.index());
}

double milliseconds(const Model& model, const std::function<void()>& work) {
    finishQueued(model.device());
    const auto start = std::chrono::steady_clock::now();
    work();
    finishQueued(model.device());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

at::Tensor prompt(const Model& model, std::int64_t tokens) {
    return (at::arange(tokens, at::kLong) * 37 + 11).remainder(model.config().vocabSize).unsqueeze(0).to(model.device());
}

double prefill(const Model& model, std::int64_t tokens) {
    const at::Tensor ids = prompt(model, tokens);
    return milliseconds(model, [&] { model.logits(forwardHidden(model, model.mixers(), ids)); });
}

double forwards(const Model& model, std::int64_t batch, std::int64_t tokens, bool logits, std::int64_t count) {
    const at::Tensor ids = prompt(model, batch * tokens).view({batch, tokens});
    const double ms = milliseconds(model, [&] {
        for (std::int64_t i = 0; i < count; ++i)
            if (const at::Tensor hidden = forwardHidden(model, model.mixers(), ids); logits)
                model.logits(hidden);
    });
    return ms / static_cast<double>(count);
}

void printLogits(const Model& model, std::int64_t tokens) {
    const at::Tensor hidden = forwardHidden(model, model.mixers(), prompt(model, tokens)).select(1, -1);
    const at::Tensor logits = model.logits(hidden).to(at::kCPU, at::kFloat).contiguous();
    for (std::int64_t i = 0; i < logits.numel(); ++i)
        std::cout << logits.const_data_ptr<float>()[i] << ' ';
    std::cout << std::endl;
}

double decode(const Model& model, std::int64_t tokens, std::int64_t count) {
    Cache cache(model);
    at::Tensor next = model.logits(forwardHidden(model, model.mixers(), prompt(model, tokens), {}, &cache).narrow(1, -1, 1)).argmax(-1);
    return milliseconds(model, [&] {
        for (std::int64_t i = 0; i < count; ++i)
            next = model.logits(forwardHidden(model, model.mixers(), next, {}, &cache)).argmax(-1);
    });
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3 && argc != 5) {
        std::cerr << "usage: bench_forward MODEL THREADS [DEVICE DTYPE]\n";
        return 2;
    }
    const auto before = static_cast<double>(residentMemoryBytes());
    RunOptions options;
    options.device = argc == 5 ? argv[3] : "cpu";
    options.dtype = argc == 5 ? argv[4] : "";
    options.threads = std::atoi(argv[2]);
    const auto model = openModel(argv[1], options);
    if (!model) {
        std::cerr << model.error().message << '\n';
        return 1;
    }
    const auto weights = static_cast<double>(modelInfo(**model).weightBytes);
    const double growth = (static_cast<double>(residentMemoryBytes()) - before) / weights;
    const double peak = (static_cast<double>(peakResidentMemoryBytes()) - before) / weights;
    const c10::InferenceMode inference;
    std::cout << "ready" << std::endl;
    std::int64_t batch = 0, tokens = 0, logits = 0, count = 0;
    for (std::string command; std::cin >> command;) {
        if (command == "prefill" && std::cin >> tokens)
            std::cout << prefill(**model, tokens) << std::endl;
        else if (command == "decode" && std::cin >> tokens >> count)
            std::cout << decode(**model, tokens, count) << std::endl;
        else if (command == "forward" && std::cin >> batch >> tokens >> logits >> count)
            std::cout << forwards(**model, batch, tokens, logits == 1, count) << std::endl;
        else if (command == "logits" && std::cin >> tokens)
            printLogits(**model, tokens);
        else if (command == "memory")
            std::cout << growth << ' ' << peak << std::endl;
    }
    return 0;
}
