#include "core/torch_pch.h"

#include "core/profile/profile.h"

#include "core/base/files.h"
#include "core/model/gpu_rows.h"
#include "core/profile/sums.h"

#include "linnet/kernels/attention_statistics.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <deque>
#include <limits>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSaveEvery = std::chrono::seconds(2);
constexpr std::int64_t kPieceTokens = 1024; // of one step between two checkpoints

// A GPU is given work before it is done with the last; no more than two layers ahead, so that progress is told as it is made
// and a stop is heeded soon.
class RunAhead {
public:
    explicit RunAhead(const at::Device& device) : m_device(device) {}
    void layerQueued() {
        if (!m_device.is_cuda())
            return;
        m_events.emplace_back(at::kCUDA).record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(m_device));
        if (m_events.size() > 2) {
            m_events.front().synchronize();
            m_events.pop_front();
        }
    }

private:
    at::Device m_device;
    std::deque<c10::Event> m_events;
};

// Tokens that go through the layers together: enough to keep the products large; streamed, enough that reading a layer costs
// little beside computing it; small enough that a stop loses little.
std::int64_t batchSequences(const Model& model, std::int64_t seqLen) {
    const std::int64_t tokens = model.device().is_cuda() ? 8192 : model.streamed() ? 4096 : kPieceTokens;
    return std::max<std::int64_t>(1, tokens / seqLen);
}

std::string cacheKey(const Model& model, const Profile& profile, const ProfileOptions& options) {
    const Json settings = {{"schema", profile.schema},       {"model", profile.modelHash},
                           {"data", profile.dataHash},       {"bins_per_octave", options.binsPerOctave},
                           {"device", model.device().str()}, {"dtype", at::toString(model.dtype())},
                           {"streamed", model.streamed()}};
    return hashBytes(settings.dump());
}

// One block of the model on a few sequences, which it may overwrite; its statistics go into `sums`, but a converted layer has none. `progress` gets the layer's
// share done.
at::Tensor profileBlock(const Model& model, std::int64_t index, const at::Tensor& hidden, int binsPerOctave, ProfileSums& sums,
                        const std::function<void(double)>& progress) {
    const auto layer = model.layer(index);
    progress(0);
    if (const auto* const mixer = mixerAt(model.mixers(), index))
        return runBlock(model, *layer, mixer, hidden);
    const auto qkv = queryKeyValue(model, *layer, attentionInput(model, *layer, hidden));
    progress(0);
    auto statistics = layerStatistics(model.config(), *layer, qkv, binsPerOctave, progress);
    sums.add(index, statistics);
    // The statistics' A V is the attention output: attention is not computed a second time.
    const auto heads = statistics.heads.to(model.device(), model.dtype());
    const auto& a = layer->attention;
    auto next = onGpuForInference(hidden) ? projectedOnto(hidden, heads, a.o, a.oBias, true) : hidden + outputProjection(*layer, heads);
    const auto step = kPieceTokens * (hidden.is_cuda() ? 8 : 1);
    for (std::int64_t from = 0; from < next.size(1); from += step) {
        progress(1);
        auto piece = next.narrow(1, from, std::min(step, next.size(1) - from));
        piece += feedForward(model, *layer, piece);
    }
    return next;
}

struct Run {
    const Model& model;
    const TokenWindows& windows;
    const ProfileOptions& options;
    const Control& control;
    std::filesystem::path partial; // "" = not kept

    ProfileSums batch(std::int64_t first, std::int64_t count, const ProfileSums& like) const {
        ProfileSums sums = ProfileSums(like.sum.size(0), like.sum.size(2), like.histogram.size(2), model.device());
        RunAhead ahead(model.device());
        const auto ids =
            at::from_blob(const_cast<TokenId*>(windows.ids.data()) + first * windows.seqLen, {count, windows.seqLen}, at::kInt)
                .to(model.device(), at::kLong);
        const auto layers = model.config().layers;
        auto hidden = model.embed(ids);
        for (std::int64_t index = 0; index < layers; ++index) {
            const auto detail = "layer " + std::to_string(index) + " of " + std::to_string(layers) + ", sequence " +
                                std::to_string(first) + " of " + std::to_string(windows.sequences);
            hidden = profileBlock(model, index, hidden, options.binsPerOctave, sums, [&](double fraction) {
                const double share = (static_cast<double>(index) + fraction) / static_cast<double>(layers);
                control.report("profile", static_cast<double>(first) + share * static_cast<double>(count),
                               static_cast<double>(windows.sequences), detail);
            });
            ahead.layerQueued();
        }
        return sums;
    }

    void all(ProfileSums& sums) const {
        auto saved = Clock::now();
        std::int64_t savedSequences = sums.sequences;
        const auto save = [&] {
            if (partial.empty() || savedSequences == sums.sequences)
                return;
            sums.save(partial);
            saved = Clock::now();
            savedSequences = sums.sequences;
        };
        const auto step = batchSequences(model, windows.seqLen);
        try {
            while (sums.sequences < windows.sequences) {
                const auto count = std::min(step, windows.sequences - sums.sequences);
                sums.merge(batch(sums.sequences, count, sums), count);
                if (Clock::now() - saved >= kSaveEvery)
                    save();
            }
        } catch (...) {
            save(); // the batch in progress is not among the sums
            throw;
        }
    }
};

// Smallest distance that `share` of the mass does not pass; see HeadProfile.
double quantile(const std::vector<double>& mass, const std::vector<double>& edges, double share) {
    double below = 0;
    for (std::size_t bin = 0; bin < mass.size(); ++bin) {
        if (std::isnan(mass[bin]))
            break;
        if (mass[bin] > 0 && below + mass[bin] >= share) {
            const double inside = std::clamp((share - below) / mass[bin], 0.0, 1.0);
            return edges[bin] + inside * (edges[bin + 1] - 1 - edges[bin]);
        }
        below += mass[bin];
    }
    return below > 0.5 ? edges.back() - 1 : std::numeric_limits<double>::quiet_NaN(); // rounding left the sum just short
}

std::vector<double> normalised(const at::Tensor& mass) {
    const auto shares = (mass / mass.sum()).contiguous();
    return {shares.const_data_ptr<double>(), shares.const_data_ptr<double>() + shares.numel()};
}

HeadProfile headProfile(const ProfileSums& sums, std::int64_t layer, std::int64_t head, const std::vector<double>& edges) {
    const auto n = static_cast<double>(sums.sequences);
    const auto measured = [&](Statistic which) {
        const double total = sums.sum[layer][which][head].item<double>(),
                     square = sums.square[layer][which][head].item<double>();
        const double mean = total / n;
        const double variance = std::max(0.0, square - total * mean) / (n - 1); // NaN with one sequence: 0 / 0
        return Measured{mean, std::sqrt(variance / n)};
    };
    HeadProfile profile;
    profile.distance = measured(kDistance);
    profile.distanceNoSink = measured(kDistanceNoSink);
    profile.entropy = measured(kEntropy);
    profile.concentrationAbsolute = 1 - measured(kEntropyRelative).mean;
    const auto share = [&](Statistic which, double& mean, double& se) { mean = measured(which).mean, se = measured(which).se; };
    share(kSinkMass, profile.sinkMass, profile.sinkSe);
    share(kPreviousMass, profile.previousMass, profile.previousSe);
    share(kSelfMass, profile.selfMass, profile.selfSe);
    const auto root = [&](Statistic which, double& rms, double& se) { // error of a square root, to first order
        rms = std::sqrt(measured(which).mean), se = measured(which).se / (2 * rms);
    };
    root(kPreSquare, profile.rmsPreO, profile.rmsPreOSe);
    root(kPostSquare, profile.rmsPostO, profile.rmsPostOSe);
    profile.histogram = normalised(sums.histogram[layer][head]);
    profile.histogramNoSink = normalised(sums.histogramNoSink[layer][head]);
    profile.p10 = quantile(profile.histogram, edges, 0.1);
    profile.p50 = quantile(profile.histogram, edges, 0.5);
    profile.p90 = quantile(profile.histogram, edges, 0.9);
    profile.medianNoSink = quantile(profile.histogramNoSink, edges, 0.5);
    return profile;
}

void finish(Profile& profile, const ProfileSums& sums, const Mixers& converted) {
    profile.layers.clear();
    for (std::int64_t layer = 0; layer < sums.sum.size(0); ++layer) {
        auto& heads = profile.layers.emplace_back();
        if (converted.contains(layer))
            continue;
        for (std::int64_t head = 0; head < sums.sum.size(2); ++head)
            heads.push_back(headProfile(sums, layer, head, profile.edges));
        const auto [low, high] =
            std::minmax_element(heads.begin(), heads.end(),
                                [](const HeadProfile& a, const HeadProfile& b) { return a.entropy.mean < b.entropy.mean; });
        const double least = low->entropy.mean, span = std::max(high->entropy.mean - least, 1e-3);
        for (auto& head : heads)
            head.concentrationLayer = 1 - (head.entropy.mean - least) / span;
    }
}

void refuseUnprofilable(const Model& model, const TokenWindows& windows) {
    const auto name = model.files().path.string();
    if (std::ssize(model.mixers()) == model.config().layers)
        fail(ErrorCode::Unsupported, name + ": every layer is converted, none has attention weights to profile; profile its teacher instead", {{"file", name}});
    if (windows.sequences < 1 || windows.seqLen < 1)
        fail(ErrorCode::Usage, "a profile needs at least one sequence of one token, got " + std::to_string(windows.sequences) +
                                   " of " + std::to_string(windows.seqLen));
    for (const TokenId id : windows.ids)
        if (id < 0 || id >= model.config().vocabSize)
            fail(ErrorCode::Usage, "token id " + std::to_string(id) + " is outside the vocabulary of " + name + " (" +
                                       std::to_string(model.config().vocabSize) + " tokens)");
}

std::optional<Profile> cached(const std::filesystem::path& file, const Control& control) {
    if (!std::filesystem::is_regular_file(file))
        return std::nullopt;
    try {
        return profileFromJson(readJsonFile(file), file.string());
    } catch (const Failure& failure) {
        control.log("the cached profile is not used: " + failure.error.message);
        return std::nullopt;
    }
}

} // namespace

Result<Profile> profileModel(const Model& model, const TokenWindows& windows, const ProfileOptions& options,
                             const Control& control) {
    return guarded([&] {
        refuseUnprofilable(model, windows);
        const at::NoGradGuard noGrad;
        const auto& config = model.config();
        Profile profile;
        const auto path = model.files().path.lexically_normal();
        profile.modelName = (path.has_filename() ? path : path.parent_path()).filename().string();
        profile.modelHash = model.hash();
        profile.dataHash = windows.hash();
        profile.tokens = windows.tokens(), profile.sequences = windows.sequences, profile.seqLen = windows.seqLen;
        profile.kvHeads = config.kvHeads;
        for (const auto edge : kernels::distanceEdges(windows.seqLen, options.binsPerOctave))
            profile.edges.push_back(static_cast<double>(edge));

        ProfileSums sums(config.layers, config.heads, static_cast<std::int64_t>(profile.edges.size()) - 1);
        std::filesystem::path finished, partial;
        if (!options.cacheFolder.empty()) {
            std::filesystem::create_directories(options.cacheFolder);
            const auto stem = "profile_" + cacheKey(model, profile, options);
            finished = options.cacheFolder / (stem + ".json");
            partial = options.cacheFolder / (stem + ".partial");
            if (auto known = cached(finished, control)) {
                known->modelName = profile.modelName; // the content counts, the file may have been renamed
                return *known;
            }
            if (options.measure && sums.load(partial))
                control.log("profile: goes on at sequence " + std::to_string(sums.sequences) + " of " +
                            std::to_string(windows.sequences));
        }
        if (!options.measure)
            fail(ErrorCode::NotFound, "no profile of this model and text is in the cache", {{"file", finished.string()}});
        Run{model, windows, options, control, partial}.all(sums);
        finish(profile, sums, model.mixers());
        if (!finished.empty()) {
            writeFileAtomically(finished, profileToJson(profile).dump());
            std::filesystem::remove(partial);
        }
        control.report("profile", static_cast<double>(windows.sequences), static_cast<double>(windows.sequences), "done");
        return profile;
    });
}

} // namespace linnet::core
