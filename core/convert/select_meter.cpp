#include "core/torch_pch.h"

#include "core/convert/select_meter.h"

#include <limits>

namespace linnet::core {
namespace {

constexpr const char* kTeacher = "teacher";

double numberAt(const Json& entry, const char* key, const std::string& name) {
    const auto found = entry.is_object() ? entry.find(key) : entry.end();
    if (!entry.is_object() || found == entry.end() || !(found->is_null() || found->is_number()))
        fail(ErrorCode::Malformed,
             "measured layer choice \"" + name + "\": expected {\"loss\": number, \"kl\": number}, found " + entry.dump(),
             {{"key", name}, {"found", entry.dump()}});
    return found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
}

Json orNull(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

} // namespace

std::string listed(const LayerSet& layers) {
    std::string text;
    for (const auto layer : layers) {
        if (!text.empty())
            text += ',';
        text += std::to_string(layer);
    }
    return text;
}

SelectionMeter::SelectionMeter(const SelectionJob& job, BankKind bank)
    : m_job(job), m_bank(bank == BankKind::Starts ? "starts" : "aligned") {
    m_bypass.kind = Mixer::Kind::Bypass;
    if (!job.finished.is_null() && !job.finished.is_object())
        fail(ErrorCode::Malformed, "measured layer choices: expected an object, found " + job.finished.dump());
}

SelectionMeter::Choice SelectionMeter::choiceOf(const LayerSet& layers) const {
    Choice choice(static_cast<std::size_t>(m_job.teacher.config().layers), nullptr);
    for (const auto layer : layers)
        choice[static_cast<std::size_t>(layer)] = &m_job.bank->at(layer);
    return choice;
}

ChoiceScore SelectionMeter::measure(const std::string& key, const std::string& text, const Choice& choice, const Choice& base,
                                    bool withKl) {
    if (const auto found = m_job.finished.find(key); found != m_job.finished.end()) {
        m_done += 1;
        return {numberAt(*found, "loss", key), withKl ? numberAt(*found, "kl", key) : 0};
    }
    const auto report = [&](double share) {
        m_job.control.report("select", m_done + share, std::max(m_planned, m_done + 1), text);
    };
    report(0);
    if (!m_scorer)
        m_scorer.emplace(m_job.teacher, m_job.windows, m_job.control, m_job.memoryBytes);
    const auto score = m_scorer->score(choice, base, withKl, report);
    Json& entry = m_job.finished[key] = {{"loss", orNull(score.loss)}};
    if (withKl)
        entry["kl"] = orNull(score.kl);
    m_done += 1;
    if (m_job.save)
        m_job.save();
    return score;
}

ChoiceScore SelectionMeter::teacher() {
    return measure(kTeacher, "the teacher itself", choiceOf({}), choiceOf({}));
}

double SelectionMeter::withoutAttention(std::int64_t layer) {
    Choice choice = choiceOf({});
    choice[static_cast<std::size_t>(layer)] = &m_bypass;
    return measure("bypass " + std::to_string(layer), "layer " + std::to_string(layer) + " removed", choice, choiceOf({}),
                   false)
        .loss;
}

ChoiceScore SelectionMeter::converted(const LayerSet& layers, const LayerSet& base, const std::string& text) {
    return layers.empty() ? teacher() : measure(m_bank + " " + listed(layers), text, choiceOf(layers), choiceOf(base));
}

bool SelectionMeter::measured() const {
    return m_job.finished.contains(kTeacher);
}

} // namespace linnet::core
