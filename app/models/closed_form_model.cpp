#include "app/models/closed_form_model.h"

#include "app/guarded.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"

#include <QCoreApplication>
#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::app {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double number(const core::Json& json, const char* key, double ofNull, double absent = kUnknown) {
    const auto found = json.find(key);
    return found == json.end() ? absent : found->is_number() ? found->get<double>() : found->is_null() ? ofNull : kUnknown;
}

bool flag(const core::Json& json, const char* key, bool absent = false) {
    const auto found = json.find(key);
    return found != json.end() && found->is_boolean() ? found->get<bool>() : absent;
}

FitOption optionOf(const core::Json& json) {
    FitOption option;
    option.halfLife = number(json, "half_life", std::numeric_limits<double>::infinity());
    option.beta = number(json, "beta", kUnknown);
    option.residual = number(json, "residual", kUnknown);
    option.histogramTaps = flag(json, "histogram_taps");
    option.foldRope = flag(json, "fold_rope");
    option.foldBias = flag(json, "fold_bias", true);
    option.foldQkNorm = flag(json, "fold_qk_norm", true);
    option.centredKeys = flag(json, "centred_keys");
    option.negatedValues = flag(json, "negated_values");
    option.queryScale = number(json, "query_scale", kUnknown, 1);
    option.keyPrior = number(json, "key_prior", kUnknown, 0);
    return option;
}

void add(LayerFits& fits, const core::Json& json) {
    if (!json.is_object() || !json.value("layer", core::Json()).is_number_integer())
        return;
    LayerFit fit;
    fit.layer = json["layer"].get<int>();
    fit.residual = number(json, "residual", kUnknown);
    fit.ridge = number(json, "ridge", kUnknown);
    for (const auto& each : json.value("heads", core::Json::array())) {
        HeadFit& head = fit.heads.emplace_back();
        if (!each.is_object())
            continue;
        head.chosen = optionOf(each);
        for (const auto& trial : each.value("tried", core::Json::array()))
            if (trial.is_object())
                head.tried.push_back(optionOf(trial));
        const auto rank = [](const FitOption& option) { return std::isnan(option.residual) ? std::numeric_limits<double>::infinity() : option.residual; };
        std::stable_sort(head.tried.begin(), head.tried.end(), [&](const FitOption& a, const FitOption& b) { return rank(a) < rank(b); });
    }
    fits[fit.layer] = std::move(fit);
}

} // namespace

bool FitOption::sameStart(const FitOption& other) const {
    return halfLife == other.halfLife && beta == other.beta && histogramTaps == other.histogramTaps && foldRope == other.foldRope && foldBias == other.foldBias &&
           foldQkNorm == other.foldQkNorm && centredKeys == other.centredKeys && negatedValues == other.negatedValues && queryScale == other.queryScale &&
           keyPrior == other.keyPrior;
}

LayerFits readClosedForm(const std::filesystem::path& run) {
    LayerFits fits;
    std::error_code ignored;
    if (std::filesystem::exists(run / "closed_form.json", ignored)) {
        if (const auto all = core::guarded([&] { return core::readJsonFile(run / "closed_form.json"); }); all && all->is_array())
            for (const auto& layer : *all)
                (void)core::guarded([&] { add(fits, layer); });
        return fits;
    }
    for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints", ignored))
        if (entry.path().extension() == ".json" && entry.path().filename().string().starts_with("closed_form_"))
            (void)core::guarded([&] { add(fits, core::readJsonFile(entry.path())); });
    return fits;
}

void ClosedFormModel::show(const QString& runFolder) {
    if (runFolder == m_folder)
        return;
    m_folder = runFolder;
    ++*m_request;
    if (!m_fits.empty())
        adopt({});
    reload();
}

void ClosedFormModel::reload() {
    if (m_folder.isEmpty())
        return;
    const int number = ++*m_request;
    inBackground([this, latest = std::weak_ptr<int>(m_request), number, folder = std::filesystem::path(m_folder.toStdString())] {
        auto fits = std::make_shared<LayerFits>(readClosedForm(folder));
        QMetaObject::invokeMethod(QCoreApplication::instance(), [this, latest, number, fits] { // in the window's thread, where this lives
            if (const auto still = latest.lock(); still && *still == number)
                adopt(std::move(*fits));
        });
    });
}

void ClosedFormModel::adopt(LayerFits fits) {
    m_fits = std::move(fits);
    Q_EMIT changed();
}

const LayerFit* ClosedFormModel::layer(int layer) const {
    const auto found = m_fits.find(layer);
    return found == m_fits.end() ? nullptr : &found->second;
}

const HeadFit* ClosedFormModel::head(int layer, int head) const {
    const auto* fit = this->layer(layer);
    return fit && head >= 0 && head < static_cast<int>(fit->heads.size()) ? &fit->heads[static_cast<std::size_t>(head)] : nullptr;
}

} // namespace linnet::app
