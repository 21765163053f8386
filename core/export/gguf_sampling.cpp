#include "core/torch_pch.h"

#include "core/export/gguf_sampling.h"

#include "core/export/hf_folder.h"

namespace linnet::core {

void addSamplingKeys(GgufMetadata& keys, const Model& model, std::vector<std::string>& notes) {
    const Json generation = teacherGeneration(model);
    const auto number = [&](const char* name) { return generation.contains(name) && generation[name].is_number() ? generation[name].get<double>() : 0; };
    const auto flag = generation.find("do_sample");
    if (flag == generation.end() || *flag != true)
        return; // the likeliest token each time: transformers' default, and no sampling key says it
    for (const auto& [theirs, ours] : {std::pair("temperature", "temp"), std::pair("top_p", "top_p"), std::pair("min_p", "min_p")})
        if (number(theirs) > 0)
            keys.emplace_back(std::string("general.sampling.") + ours, static_cast<float>(number(theirs)));
    if (const auto k = number("top_k"); k > 0 && k <= 1e9)
        keys.emplace_back("general.sampling.top_k", static_cast<std::uint32_t>(k));
    std::string dropped;
    for (const char* name : {"repetition_penalty", "typical_p", "epsilon_cutoff", "eta_cutoff", "no_repeat_ngram_size"})
        if (const auto value = number(name); value > 0 && value != 1)
            dropped += (dropped.empty() ? "" : ", ") + std::string(name) + " " + generation[name].dump();
    if (!dropped.empty())
        notes.push_back("the teacher's generation_config.json also asks for what llama.cpp has not or not so: " + dropped);
}

} // namespace linnet::core
