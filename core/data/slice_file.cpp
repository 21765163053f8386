// samples.safetensors of a run folder: the very tokens that were used.
#include "core/data/text_data.h"

#include "core/base/result.h"
#include "core/io/model_files.h"
#include "core/io/safetensors_writer.h"

#include <array>
#include <cmath>

namespace linnet::core {
namespace {

constexpr std::array<const char*, 4> kNames = {"calibration", "selection", "evaluation", "training"};

TokenWindows readSlice(const WeightSource& source, const TensorInfo& info, const std::string& file) {
    const auto refuse = [&](const std::string& found, const std::string& expected) {
        fail(ErrorCode::Malformed, file + ": tensor " + info.name + ": found " + found + ", expected " + expected,
             {{"file", file}, {"tensor", info.name}, {"found", found}, {"expected", expected}});
    };
    if (info.storedType != "I32")
        refuse("type " + info.storedType, "I32");
    if (info.shape.size() != 2 || info.shape[0] < 1 || info.shape[1] < 1)
        refuse(std::to_string(info.shape.size()) + " dimensions or an empty one", "[sequences, seq_len]");
    TokenWindows windows{{}, info.shape[0], info.shape[1]};
    // Weights are read as floats; those hold every token id exactly, up to 2^24 = 16.7 million.
    constexpr float kMaxId = 1 << 24;
    std::vector<float> values(static_cast<std::size_t>(windows.tokens()));
    source.read(info.name, DType::F32, values.data());
    windows.ids.reserve(values.size());
    for (const float value : values) {
        if (!(value >= 0 && value < kMaxId))
            refuse("token id " + std::to_string(std::llround(value)), "an id from 0");
        windows.ids.push_back(static_cast<TokenId>(value));
    }
    return windows;
}

} // namespace

void saveSlices(const std::filesystem::path& file, const Slices& slices) {
    const std::array<const TokenWindows*, 4> all = {&slices.calibration, &slices.selection, &slices.evaluation, &slices.training};
    std::vector<TensorToWrite> tensors;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i]->sequences > 0)
            tensors.push_back({kNames[i], "I32", {all[i]->sequences, all[i]->seqLen}});
    SafetensorsWriter writer(file, tensors);
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i]->sequences > 0)
            writer.write(kNames[i], all[i]->ids.data(), all[i]->ids.size() * sizeof(TokenId));
    writer.finish();
}

Slices loadSlices(const std::filesystem::path& file) {
    const auto source = openSafetensorsFile(file);
    Slices slices;
    const std::array<TokenWindows*, 4> all = {&slices.calibration, &slices.selection, &slices.evaluation, &slices.training};
    std::int64_t seqLen = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const TensorInfo* info = source->find(kNames[i]);
        if (!info)
            continue;
        *all[i] = readSlice(*source, *info, file.string());
        if (seqLen != 0 && all[i]->seqLen != seqLen)
            fail(ErrorCode::Malformed,
                 file.string() + ": tensor " + info->name + ": found seq_len " + std::to_string(all[i]->seqLen) +
                     ", expected " + std::to_string(seqLen) + " as in the slice before it",
                 {{"file", file.string()}, {"tensor", info->name}});
        seqLen = all[i]->seqLen;
    }
    if (seqLen == 0)
        fail(ErrorCode::Malformed, file.string() + ": found none of the tensors calibration, selection, evaluation, training",
             {{"file", file.string()}});
    for (auto* slice : all)
        slice->seqLen = seqLen; // an empty slice has its length too, as splitSlices gives it
    return slices;
}

} // namespace linnet::core
