#include "app/models/layer_choice.h"

#include "app/models/session.h"

#include <QLocale>
#include <algorithm>

namespace linnet::app {
namespace {

constexpr std::int64_t kCacheTokens = 32768;

std::vector<std::int64_t> others(const std::vector<std::int64_t>& kept, std::int64_t layers) {
    std::vector<std::int64_t> result;
    for (std::int64_t l = 0; l < layers; ++l)
        if (!std::binary_search(kept.begin(), kept.end(), l))
            result.push_back(l);
    return result;
}

QString bytes(double count) {
    return QLocale::c().formattedDataSize(qRound64(count), count < 1e6 ? 0 : 1, QLocale::DataSizeSIFormat);
}

// KV cache of the kept layers plus the state of the converted ones: [heads, headDim, headDim] float32 and what the short
// convolutions remember of q, k and v.
double cacheBytes(const core::ModelInfo& teacher, std::int64_t converted) {
    const auto& c = teacher.config;
    const auto softmax = std::max<std::int64_t>(1, std::count(teacher.layerKinds.begin(), teacher.layerKinds.end(), "softmax"));
    const double layer = static_cast<double>(teacher.cacheBytesPerToken) / static_cast<double>(softmax) * kCacheTokens;
    const auto width = c.heads * c.headDim;
    return layer * static_cast<double>(softmax - converted) + static_cast<double>(converted * (width * c.headDim + 3 * 3 * width)) * 4;
}

} // namespace

std::optional<std::vector<std::int64_t>> convertedLayers(Session& session) {
    if (auto decided = session.recipe()->converted())
        return decided;
    const auto& recipe = session.recipe()->recipe();
    const auto* ranking = session.ranking();
    const auto layers = session.recipe()->layers();
    if (!ranking || recipe.keep.kind != core::KeepRule::Kind::Method || recipe.keep.method != ranking->method || static_cast<int>(ranking->ranking.size()) != layers)
        return std::nullopt;
    std::vector<std::int64_t> order;
    for (const auto& each : ranking->ranking)
        order.push_back(each.layer);
    const auto kept = core::guarded([&] { return core::keepByRanking(order, recipe.keep.count, recipe.never, recipe.always); });
    return kept ? std::optional(others(*kept, layers)) : std::nullopt;
}

QString layerSummary(Session& session) {
    const auto layers = convertedLayers(session);
    const auto& teacher = *session.teacher();
    const auto& keep = session.recipe()->recipe().keep;
    const bool method = keep.kind == core::KeepRule::Kind::Method;
    const auto total = teacher.config.layers;
    if (!layers && !method)
        return Session::tr("The layer choice %1 does not fit this teacher of %2 layers.").arg(QString::fromStdString(keep.text()).toHtmlEscaped()).arg(total);
    const auto count = layers ? static_cast<std::int64_t>(layers->size()) : std::max<std::int64_t>(0, total - keep.count);
    auto text = Session::tr("<b>%1 of %2 layers converted</b>, %3 softmax kept, cache at 32k: %4 → %5")
                    .arg(count).arg(total).arg(total - count).arg(bytes(cacheBytes(teacher, 0)), bytes(cacheBytes(teacher, count)));
    if (!layers)
        text += Session::tr("; the %1 cheapest layers, measured when the run starts").arg(count);
    return text;
}

} // namespace linnet::app
