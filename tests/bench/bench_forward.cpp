// bench_forward MODEL THREADS: answers lines of standard input with milliseconds, so that bench_forward.py can measure this and
// transformers in turns on the same machine. "prefill T": logits of T tokens; "decode T N": N greedy tokens after a prompt of T
// (decoding alone); "memory": resident growth and peak while loading, over the weights' bytes.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/model/cache.h"
#include "core/model/model.h"

#include <c10/core/InferenceMode.h>

#include <chrono>
#include <iostream>

using namespace linnet::core;

namespace {

double milliseconds(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

at::Tensor prompt(const Model& model, std::int64_t tokens) {
    return (at::arange(tokens, at::kLong) * 37 + 11).remainder(model.config().vocabSize).unsqueeze(0);
}

double prefill(const Model& model, std::int64_t tokens) {
    const at::Tensor ids = prompt(model, tokens);
    return milliseconds([&] { model.logits(forwardHidden(model, model.mixers(), ids)); });
}

double decode(const Model& model, std::int64_t tokens, std::int64_t count) {
    Cache cache(model);
    at::Tensor next = model.logits(forwardHidden(model, model.mixers(), prompt(model, tokens), {}, &cache).narrow(1, -1, 1)).argmax(-1);
    return milliseconds([&] {
        for (std::int64_t i = 0; i < count; ++i)
            next = model.logits(forwardHidden(model, model.mixers(), next, {}, &cache)).argmax(-1);
    });
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: bench_forward MODEL THREADS\n";
        return 2;
    }
    const auto before = static_cast<double>(residentMemoryBytes());
    RunOptions options;
    options.device = "cpu";
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
    std::int64_t tokens = 0, count = 0;
    for (std::string command; std::cin >> command;) {
        if (command == "prefill" && std::cin >> tokens)
            std::cout << prefill(**model, tokens) << std::endl;
        else if (command == "decode" && std::cin >> tokens >> count)
            std::cout << decode(**model, tokens, count) << std::endl;
        else if (command == "memory")
            std::cout << growth << ' ' << peak << std::endl;
    }
    return 0;
}
