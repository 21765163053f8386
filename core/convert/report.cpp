#include "core/convert/convert.h"

#include "core/base/files.h"
#include "core/convert/run_watch.h"

#include <sstream>

namespace linnet::core {
namespace {

Json orNull(const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
}

std::optional<double> optionalNumber(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? std::nullopt : std::optional(found->get<double>());
}

} // namespace

Json metricToJson(const MetricRow& row) {
    Json json{{"time", row.time}, {"stage", row.stage}, {"layer", row.layer}, {"step", row.step}, {"tokens", row.tokens}, {"loss", row.loss},
              {"lr", row.lr}, {"grad_norm", row.gradNorm}, {"tokens_per_second", row.tokensPerSecond}};
    if (row.heldOutLoss)
        json["held_out_loss"] = *row.heldOutLoss;
    if (row.relativeLoss)
        json["relative_loss"] = *row.relativeLoss;
    return json;
}

std::optional<MetricRow> metricFromLine(std::string_view line) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.is_object())
        return std::nullopt;
    try {
        MetricRow row;
        row.time = json.value("time", 0.0);
        row.stage = json.value("stage", "");
        row.layer = json.value("layer", std::int64_t{-1});
        row.step = json.value("step", std::int64_t{0});
        row.tokens = json.value("tokens", std::int64_t{0});
        row.loss = optionalNumber(json, "loss").value_or(0);
        row.lr = json.value("lr", 0.0);
        row.gradNorm = optionalNumber(json, "grad_norm").value_or(0);
        row.tokensPerSecond = json.value("tokens_per_second", 0.0);
        row.heldOutLoss = optionalNumber(json, "held_out_loss");
        row.relativeLoss = optionalNumber(json, "relative_loss");
        return row;
    } catch (const nlohmann::json::exception&) {
        return std::nullopt; // other types than ours
    }
}

Result<std::vector<MetricRow>> readMetrics(const std::filesystem::path& run) {
    return guarded([&] {
        std::vector<MetricRow> rows;
        std::istringstream lines(readTextFile(run / "metrics.jsonl"));
        for (std::string line; std::getline(lines, line);) {
            if (auto row = metricFromLine(line))
                rows.push_back(std::move(*row));
        }
        return rows;
    });
}

Json reportToJson(const Report& report) {
    Json stages = Json::array(), evaluation = Json::object();
    for (const auto& stage : report.stages)
        stages.push_back({{"name", stage.name}, {"seconds", stage.seconds}, {"steps", stage.steps}, {"tokens", stage.tokens},
                          {"loss_first", orNull(stage.lossFirst)}, {"loss_last", orNull(stage.lossLast)}});
    for (const char* name : {"teacher", "naive", "zero_gate", "student"})
        if (const auto found = report.evaluation.find(name); found != report.evaluation.end())
            evaluation[name] = evaluationToJson(found->second);
    Json treatments = Json::array();
    for (const auto& t : report.treatments)
        treatments.push_back({{"part", t.part}, {"treatment", t.treatment}, {"residual_folded", t.folded}, {"residual_dropped", t.dropped}, {"heads_folded", t.headsFolded}});
    Json json{{"run", report.run.string()}, {"kept_layers", report.keptLayers}, {"converted_layers", report.convertedLayers}, {"stages", stages},
            {"evaluation", evaluation}, {"peak_memory_bytes", report.peakMemoryBytes}, {"treatments", treatments}, {"notes", report.notes}};
    if (!report.aligned.empty()) {
        Json& aligned = json["alignment"] = Json::array();
        for (const auto& layer : report.aligned)
            aligned.push_back({{"layer", layer.layer}, {"steps", layer.steps}, {"kept_step", layer.keptStep}, {"held_out_loss", orNull(layer.heldOutLoss)}});
    }
    if (report.selection)
        json["selection"] = selectionToJson(*report.selection);
    return json;
}

Report reportFromJson(const Json& json, const std::string& origin) {
    try {
        Report report;
        report.run = json.at("run").get<std::string>();
        report.keptLayers = json.at("kept_layers").get<std::vector<std::int64_t>>();
        report.convertedLayers = json.at("converted_layers").get<std::vector<std::int64_t>>();
        for (const auto& stage : json.at("stages"))
            report.stages.push_back({stage.at("name"), stage.at("seconds"), stage.at("steps"), stage.at("tokens"), optionalNumber(stage, "loss_first"),
                                     optionalNumber(stage, "loss_last")});
        for (const auto& [name, value] : json.at("evaluation").items())
            report.evaluation[name] = evaluationFromJson(value);
        report.peakMemoryBytes = json.at("peak_memory_bytes");
        for (const auto& t : json.value("treatments", Json::array()))
            report.treatments.push_back({t.at("part"), t.at("treatment"), t.at("residual_folded"), t.at("residual_dropped"), t.at("heads_folded")});
        for (const auto& layer : json.value("alignment", Json::array()))
            report.aligned.push_back({layer.at("layer"), layer.at("steps"), layer.at("kept_step"), optionalNumber(layer, "held_out_loss")});
        if (const auto selection = json.find("selection"); selection != json.end())
            report.selection = selectionFromJson(*selection);
        report.notes = json.value("notes", std::vector<std::string>{});
        return report;
    } catch (const nlohmann::json::exception& error) {
        fail(ErrorCode::Malformed, origin + ": not a run's report: " + error.what(), {{"file", origin}});
    }
}

Result<Report> readReport(const std::filesystem::path& run) {
    return guarded([&] { return reportFromJson(readJsonFile(run / "report.json"), (run / "report.json").string()); });
}

} // namespace linnet::core
