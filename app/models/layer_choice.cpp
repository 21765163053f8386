#include "app/models/layer_choice.h"

#include "app/models/session.h"

#include <QLocale>
#include <algorithm>

namespace linnet::app {
namespace {

using Budget = core::KeepRule::Budget;

constexpr std::int64_t kCacheTokens = 32768;

std::vector<std::int64_t> others(const std::vector<std::int64_t>& kept, std::int64_t layers) {
    std::vector<std::int64_t> result;
    for (std::int64_t l = 0; l < layers; ++l)
        if (!std::binary_search(kept.begin(), kept.end(), l))
            result.push_back(l);
    return result;
}

bool measured(Session& session) { // by the recipe's own method
    const auto& keep = session.recipe()->recipe().keep;
    return session.ranking() && keep.kind == core::KeepRule::Kind::Method && keep.method == session.ranking()->method;
}

// Best converted first, every layer once. A ranking may leave out what was pinned when it was measured: layers that were always
// converted go first (all was measured with them converted), the others last.
std::vector<std::int64_t> convertFirst(Session& session) {
    const auto layers = session.recipe()->layers();
    std::vector<std::int64_t> ranked;
    for (const auto& each : session.ranking()->ranking)
        if (each.layer >= 0 && each.layer < layers)
            ranked.push_back(each.layer);
    std::vector<std::int64_t> first, last;
    for (std::int64_t l = 0; l < layers; ++l)
        if (std::find(ranked.begin(), ranked.end(), l) == ranked.end())
            (session.rankingPins().always.contains(l) ? first : last).push_back(l);
    first.insert(first.end(), ranked.begin(), ranked.end());
    first.insert(first.end(), last.begin(), last.end());
    return first;
}

// As core chooses (core/convert/select.cpp): the most kept layers within a cache, the fewest of a good enough student.
std::optional<std::int64_t> keptByBudget(Session& session, std::int64_t least, std::int64_t most) {
    const auto& keep = session.recipe()->recipe().keep;
    if (keep.budget == Budget::Cache) {
        if (!session.teacher())
            return std::nullopt;
        for (auto kept = most; kept >= least; --kept)
            if (cacheBytes(*session.teacher(), kept, keep.length) <= keep.limit)
                return kept;
        return std::nullopt;
    }
    if (!measured(session) || !session.rankingPinsHold())
        return std::nullopt;
    const auto& curve = session.ranking()->curve;
    for (auto point = curve.rbegin(); point != curve.rend(); ++point)
        if (point->perplexity <= keep.limit * session.ranking()->teacherPerplexity)
            return point->kept;
    return std::nullopt;
}

} // namespace

double cacheBytes(const core::ModelInfo& teacher, std::int64_t kept, std::int64_t tokens) {
    // Keys and values of the kept layers plus the state of the converted ones: [heads, headDim, headDim] float32 and what the short
    // convolutions remember of q, k and v.
    const auto& c = teacher.config;
    const auto softmax = std::max<std::int64_t>(1, std::count(teacher.layerKinds.begin(), teacher.layerKinds.end(), "softmax"));
    const double layer = static_cast<double>(teacher.cacheBytesPerToken) / static_cast<double>(softmax) * static_cast<double>(tokens);
    const auto width = c.heads * c.headDim, state = (width * c.headDim + 3 * 3 * width) * 4;
    return layer * static_cast<double>(kept) + static_cast<double>((c.layers - kept) * state);
}

QString layerRanges(const std::vector<std::int64_t>& layers, const QString& between) {
    QStringList parts;
    for (std::size_t i = 0, end = 0; i < layers.size(); i = end) {
        for (end = i + 1; end < layers.size() && layers[end] == layers[end - 1] + 1;)
            ++end;
        if (end - i > 2)
            parts << QStringLiteral("%1-%2").arg(layers[i]).arg(layers[end - 1]);
        else
            for (auto k = i; k < end; ++k)
                parts << QString::number(layers[k]);
    }
    return parts.join(between);
}

QString bytesText(double count) {
    return QLocale::c().formattedDataSize(qRound64(count), count < (1 << 20) ? 0 : 1, QLocale::DataSizeIecFormat);
}

std::optional<std::int64_t> keptCount(Session& session) {
    const auto layers = static_cast<std::int64_t>(session.recipe()->layers());
    if (const auto decided = session.recipe()->converted())
        return layers - static_cast<std::int64_t>(decided->size());
    const auto& recipe = session.recipe()->recipe();
    if (recipe.keep.kind != core::KeepRule::Kind::Method)
        return std::nullopt;
    const auto least = static_cast<std::int64_t>(recipe.never.size()), most = [&] {
        std::int64_t count = 0; // layers that may stay softmax
        for (std::int64_t l = 0; l < layers; ++l)
            count += !recipe.always.contains(l) && !session.recipe()->convertedBefore(static_cast<int>(l));
        return count;
    }();
    if (least > most || recipe.keep.count > layers)
        return std::nullopt;
    return recipe.keep.budget == Budget::None ? std::clamp(recipe.keep.count, least, most) : keptByBudget(session, least, most);
}

std::optional<std::vector<std::int64_t>> convertedByRanking(Session& session, std::int64_t keep) {
    if (!session.ranking() || session.rankingPartial() || session.recipe()->layers() == 0)
        return std::nullopt;
    const auto& recipe = session.recipe()->recipe();
    const auto kept = core::guarded([&] { return core::keepByRanking(convertFirst(session), keep, recipe.never, recipe.always); });
    return kept ? std::optional(others(*kept, session.recipe()->layers())) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> convertedLayers(Session& session) {
    if (auto decided = session.recipe()->converted())
        return decided;
    const auto kept = measured(session) ? keptCount(session) : std::nullopt;
    return kept ? convertedByRanking(session, *kept) : std::nullopt;
}

std::int64_t convertedBefore(Session& session) {
    std::int64_t count = 0;
    for (int l = 0; l < session.recipe()->layers(); ++l)
        count += session.recipe()->convertedBefore(l);
    return count;
}

QString layerSummary(Session& session) {
    const auto layers = convertedLayers(session);
    const auto& teacher = *session.teacher();
    const auto& keep = session.recipe()->recipe().keep;
    const auto total = teacher.config.layers;
    const auto kept = keptCount(session);
    const auto rule = QString::fromStdString(keep.text()).toHtmlEscaped();
    if (!kept && keep.budget == Budget::Cache)
        return Session::tr("<b>No choice of layers fits a cache of %1</b> at %2 tokens.").arg(bytesText(keep.limit)).arg(keep.length);
    if (!kept && keep.budget == Budget::Perplexity)
        return Session::tr("<b>As many layers converted as %1 times the teacher's perplexity allows</b>, measured when the run starts.").arg(keep.limit);
    if (!kept)
        return Session::tr("The layer choice %1 does not fit this teacher of %2 layers.").arg(rule).arg(total);
    const auto softmax = total - convertedBefore(session);
    auto text = Session::tr("<b>%1 of %2 layers will be converted</b>, %3 softmax kept, cache at 32k: %4 → %5")
                    .arg(softmax - *kept).arg(softmax).arg(*kept).arg(bytesText(cacheBytes(teacher, softmax, kCacheTokens)), bytesText(cacheBytes(teacher, *kept, kCacheTokens)));
    if (softmax < total)
        text += Session::tr("; %1 of the model's %2 layers are linear already").arg(total - softmax).arg(total);
    if (!layers)
        text += Session::tr("; the %1 cheapest layers, measured when the run starts").arg(softmax - *kept);
    return text;
}

} // namespace linnet::app
