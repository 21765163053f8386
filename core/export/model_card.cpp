#include "core/torch_pch.h"

#include "core/export/model_card.h"

#include <sstream>

namespace linnet::core {
namespace {

std::string number(double value, const char* format = "%.4g") {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return std::isnan(value) ? "-" : text;
}

std::string withError(const std::optional<double>& value, const std::optional<double>& error, const char* format) {
    if (!value)
        return "-";
    return number(*value, format) + (error && !std::isnan(*error) ? " ± " + number(*error, "%.2g") : "");
}

// Names that the Hub knows; any other licence is "other" with its name (huggingface.co/docs/hub/repositories-licenses).
void license(std::ostream& yaml, const std::string& name) {
    static const std::vector<std::string> known{"apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "gpl-3.0", "agpl-3.0", "openrail",
                                                "bigscience-openrail-m", "llama2", "llama3", "llama3.1", "llama3.2", "llama3.3", "gemma", "other"};
    if (name.empty())
        yaml << "license: unknown\n";
    else if (std::ranges::find(known, name) != known.end())
        yaml << "license: " << name << "\n";
    else
        yaml << "license: other\nlicense_name: " << Json(name).dump() << "\n";
}

void frontMatter(std::ostream& card, const CardFacts& facts) {
    const auto& p = facts.provenance;
    card << "---\n";
    license(card, p.teacher.license);
    if (!p.teacher.baseModel.empty())
        card << "base_model: " << Json(p.teacher.baseModel).dump() << "\n";
    card << "library_name: " << (p.format == "gguf" ? "gguf" : p.format == "adapter" || p.format == "bundle" ? "linnet" : "transformers")
         << "\npipeline_tag: text-generation\ntags:\n- linear-attention\n- gated-deltanet\n- hybrid\n- linnet\n---\n";
}

std::string layerList(const std::vector<std::string>& kinds, bool softmax) {
    std::string list;
    for (std::size_t l = 0; l < kinds.size(); ++l)
        if ((kinds[l] == "softmax") == softmax)
            list += (list.empty() ? "" : ", ") + std::to_string(l) + (kinds[l] == "softmax" || kinds[l] == "gated_delta_net" ? "" : " (" + kinds[l] + ")");
    return list.empty() ? "none" : list;
}

void whatItIs(std::ostream& card, const CardFacts& facts) {
    const auto& p = facts.provenance;
    card << "# A hybrid made with Linnet\n\nTeacher: " << p.teacher.name << " (" << facts.teacherType << ", " << p.layers.size() << " layers, hash " << p.teacher.hash << ").\n\n"
         << "| | |\n|---|---|\n| softmax attention kept | " << layerList(p.layers, true) << " |\n| converted to linear attention | " << layerList(p.layers, false) << " |\n"
         << "| format | " << p.format << ", " << p.dtype << " |\n| fidelity | " << p.fidelity << (p.exact ? "; every value bit for bit" : "; values rounded") << " |\n"
         << "| student | hash " << p.studentHash << " |\n";
    if (facts.recipe)
        card << "| recipe | preset " << facts.recipe->preset << ", keep " << facts.recipe->keep.text() << ", " << facts.recipe->align.steps << " alignment steps, "
             << facts.recipe->distill.steps << " distillation steps, seed " << facts.recipe->seed << ", hash " << p.recipeHash << " |\n";
    for (const auto& note : p.notes)
        card << "\n- " << note << "\n";
}

void measured(std::ostream& card, const Report& report) {
    if (report.evaluation.empty())
        return;
    card << "\n## Measured\n\n| | perplexity | loss, nats | KL to the teacher, nats | top-1 agreement |\n|---|---|---|---|---|\n";
    const Evaluation* last = nullptr;
    for (const char* name : {"teacher", "naive", "zero_gate", "student"})
        if (const auto found = report.evaluation.find(name); found != report.evaluation.end()) {
            const auto& e = *(last = &found->second);
            card << "| " << name << " | " << withError(e.perplexity, e.perplexity * e.lossSe, "%.3f") << " | " << withError(e.loss, e.lossSe, "%.4f") << " | "
                 << withError(e.klToTeacher, e.klSe, "%.4f") << " | " << withError(e.top1Agreement, e.top1Se, "%.4f") << " |\n";
        }
    if (!last)
        return;
    card << "\nConvention " << last->convention << (last->convention == "chunked" ? ", cold windows of " : ", rolling windows of ") << last->seqLen << " tokens; n = " << last->tokens
         << " predictions; ± one standard error over " << last->sequences << (last->convention == "chunked" ? " windows.\n" : " documents.\n");
    for (const auto& note : report.notes)
        card << "\n- " << note << "\n";
}

void parity(std::ostream& card, const CardFacts& facts) {
    card << "\n## Parity\n\n";
    if (!facts.parity)
        return void(card << "Not read back when it was written; `linnet-cli verify` does it.\n");
    const auto& p = *facts.parity;
    card << "Read back and compared with the student over a probe of " << p.tokens << " tokens: logits differ by " << number(p.maxAbsLogit, "%.3g") << " at most, "
         << number(p.meanAbsLogit, "%.3g") << " on average; KL " << number(p.meanKl, "%.3g") << " nats; top-1 agreement " << number(p.top1Agreement) << "; " << p.greedySame << " of "
         << p.greedyTokens << " greedy tokens are the same. `linnet-cli verify` repeats it.\n";
}

} // namespace

std::string modelCard(const CardFacts& facts) {
    std::ostringstream card;
    frontMatter(card, facts);
    whatItIs(card, facts);
    if (facts.report)
        measured(card, *facts.report);
    parity(card, facts);
    if (!facts.loading.empty())
        card << "\n## Use\n";
    for (const auto& lines : facts.loading)
        card << "\n" << lines.runtime << ":\n```" << lines.language << "\n" << lines.text << "```\n";
    const auto& teacher = facts.provenance.teacher;
    card << "\n## Licence\n\nThe weights derive from " << teacher.name << (teacher.baseModel.empty() ? "" : " (" + teacher.baseModel + ")") << "; their licence is the teacher's: "
         << (teacher.license.empty() ? "unknown, its files name none: ask the teacher's owner" : teacher.license) << "."
         << (facts.ownCode ? " The modelling file in this folder is GPL-3.0-or-later." : "") << "\n";
    return card.str();
}

} // namespace linnet::core
