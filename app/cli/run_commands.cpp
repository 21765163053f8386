#include "app/cli/commands.h"

#include "core/convert/convert.h"
#include "core/export/export.h"
#include "core/model/diagnose.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace linnet::app {
namespace {

using namespace core;

std::string selectionLine(const Selection& selection, std::int64_t kept) {
    std::string text = "chosen by " + selection.method + " (" + selection.unit + ")";
    const auto point = std::ranges::find(selection.curve, kept, &SelectionPoint::kept);
    if (point != selection.curve.end())
        text += ": perplexity " + number(point->perplexity, 3) + " on the selection slice, teacher " + number(selection.teacherPerplexity, 3) + "; cache of " +
                std::to_string(selection.cacheLength) + " tokens " + byteCount(point->cacheBytes);
    return text;
}

std::vector<std::vector<std::string>> stageRows(const Report& report) {
    const double nan = std::nan("");
    std::vector<std::vector<std::string>> rows{{"stage", "seconds", "steps", "loss first", "last"}};
    for (const auto& stage : report.stages)
        rows.push_back({stage.name, number(stage.seconds, 1), stage.steps > 0 ? std::to_string(stage.steps) : "-", number(stage.lossFirst.value_or(nan), 5), number(stage.lossLast.value_or(nan), 5)});
    return rows;
}

// What the heads' closed forms leave unexplained of the teacher, with the part folded in and with it dropped.
std::vector<std::vector<std::string>> treatmentRows(const Report& report) {
    std::vector<std::vector<std::string>> rows{{"part", "treatment", "residual folded", "dropped", "heads folded"}};
    for (const auto& t : report.treatments)
        rows.push_back({t.part, t.treatment, number(t.folded, 4), number(t.dropped, 4), number(100 * t.headsFolded, 0) + " %"});
    return rows;
}

std::string reportText(const Report& report) {
    std::vector<std::vector<std::string>> rows{{"", "perplexity", "of teacher", "loss", "+-", "KL", "top-1"}};
    const auto teacher = report.evaluation.find("teacher");
    for (const char* name : {"teacher", "naive", "zero_gate", "student"}) {
        const auto found = report.evaluation.find(name);
        if (found == report.evaluation.end())
            continue;
        const auto& e = found->second;
        const double nan = std::nan("");
        rows.push_back({name, number(e.perplexity, 3), teacher == report.evaluation.end() ? "-" : number(e.perplexity / teacher->second.perplexity, 3), number(e.loss, 4),
                        number(e.lossSe, 4), number(e.klToTeacher.value_or(nan), 4), number(e.top1Agreement.value_or(nan), 4)});
    }
    std::ostringstream text;
    for (const auto& line : table(rows))
        text << line << "\n";
    const auto layers = [&](const char* label, const std::vector<std::int64_t>& list) {
        text << label << list.size() << " layers:";
        for (const auto l : list)
            text << ' ' << l;
        text << "\n";
    };
    layers("kept ", report.keptLayers);
    layers("converted ", report.convertedLayers);
    if (report.selection)
        text << selectionLine(*report.selection, std::ssize(report.keptLayers)) << "\n";
    for (const auto& line : table(stageRows(report)))
        text << line << "\n";
    text << "peak memory " << byteCount(report.peakMemoryBytes) << "\n";
    if (!report.treatments.empty())
        for (const auto& line : table(treatmentRows(report)))
            text << line << "\n";
    for (const auto& note : report.notes)
        text << "note: " << note << "\n";
    text << "run folder: " << report.run.string() << "\n";
    return text.str();
}

ConvertOptions convertOptions(Cli& cli, bool baselines) {
    ConvertOptions options;
    options.baselines = baselines;
    options.cacheFolder = cacheFolder() / "profiles";
    options.bankFolder = cacheFolder() / "banks";
    options.onEvaluation = [&cli](const std::string& name, const Evaluation& e) { cli.console.note(name + ": perplexity " + number(e.perplexity, 3)); };
    options.onSelection = [&cli](const Selection& selection) {
        std::string kept;
        for (const auto l : selection.kept)
            kept += " " + std::to_string(l);
        cli.console.note("kept by " + selection.method + ":" + kept);
    };
    return options;
}

void metrics(Cli& cli, const std::string& run, const std::string& csv) {
    const auto rows = orFail(readMetrics(run));
    Json json = Json::array();
    std::string text = "time,stage,layer,step,tokens,loss,lr,grad_norm,tokens_per_second,held_out_loss,relative_loss\n";
    for (const auto& row : rows) {
        const Json line = metricToJson(row);
        json.push_back(line);
        bool first = true;
        for (const char* key : {"time", "stage", "layer", "step", "tokens", "loss", "lr", "grad_norm", "tokens_per_second", "held_out_loss", "relative_loss"}) {
            text += first ? "" : ",";
            first = false;
            if (line.contains(key))
                text += line[key].is_string() ? line[key].get<std::string>() : line[key].dump();
        }
        text += "\n";
    }
    if (!csv.empty()) {
        std::ofstream out(csv);
        if (!(out << text))
            fail(ErrorCode::Io, "can't write " + csv, {{"file", csv}});
        cli.console.result({{"rows", json}}, "wrote " + std::to_string(rows.size()) + " rows to " + csv);
        return;
    }
    cli.console.result({{"rows", json}}, text);
}

std::string exportText(const ExportReport& report) {
    std::string text = report.folder.string() + ": " + report.format + (report.exact ? ", exact" : ", rounded") + "\n";
    if (report.verified)
        text += "reloaded and compared over " + std::to_string(report.parity.tokens) + " tokens: largest logit difference " + number(report.parity.maxAbsLogit, 6) +
                ", mean " + number(report.parity.meanAbsLogit, 6) + ", KL " + number(report.parity.meanKl, 8) + ", top-1 agreement " + number(report.parity.top1Agreement, 4) + ", " +
                std::to_string(report.parity.greedySame) + " of " + std::to_string(report.parity.greedyTokens) + " greedy tokens the same\n";
    for (const auto& file : report.files)
        text += "  " + file + "\n";
    return text;
}

} // namespace

void addRunCommands(Cli& cli, CLI::App& app) {
    struct Arguments {
        std::string path, run, csv, format = "hf", out, dtype = "f32";
        bool noBaselines = false, noVerify = false, lift = false;
    };
    auto a = std::make_shared<Arguments>();
    auto* convertCommand = cli.add(app, "convert", "all stages of a recipe, into a new run folder", [&cli, a] {
        auto recipe = orFail(readRecipe(a->path));
        if (cli.options.device != "auto")
            recipe.device = cli.options.device;
        if (!cli.options.dtype.empty())
            recipe.dtype = cli.options.dtype;
        if (cli.options.seedGiven)
            recipe.seed = cli.options.seed;
        useThreads(cli.options.threads);
        const auto report = orFail(convert(recipe, a->run, convertOptions(cli, !a->noBaselines), cli.console.control()));
        cli.console.result(reportToJson(report), reportText(report));
    });
    convertCommand->add_option("RECIPE", a->path)->required();
    convertCommand->add_option("--run", a->run, "run folder, new or empty")->required();
    convertCommand->add_flag("--no-baselines", a->noBaselines, "measure teacher and student only");

    auto* resume = cli.add(app, "resume", "go on with a stopped run, exactly", [&cli, a] {
        useThreads(cli.options.threads);
        const auto report = orFail(resumeRun(a->run, convertOptions(cli, true), cli.console.control()));
        cli.console.result(reportToJson(report), reportText(report));
    });
    resume->add_option("DIR", a->run)->required();

    auto* curves = cli.add(app, "metrics", "the curves of a run", [&cli, a] { metrics(cli, a->run, a->csv); });
    curves->add_option("DIR", a->run)->required();
    curves->add_option("--csv", a->csv, "file to write");

    auto* exporting = cli.add(app, "export", "a checkpoint that other runtimes load", [&cli, a] {
        const auto report = orFail(exportModel(modelPath(a->path), a->out, {a->format, cli.options.dtype.empty() ? "f32" : cli.options.dtype, !a->noVerify, a->lift},
                                               RunOptions{cli.options.device, "", cli.options.threads, false}, cli.console.control()));
        cli.console.result(exportReportToJson(report), exportText(report));
    });
    exporting->add_option("MODEL", a->path, "run folder or model")->required();
    exporting->add_option("--format", a->format)->check(CLI::IsMember(kExportFormats))->capture_default_str();
    exporting->add_option("--out", a->out, "folder to make")->required();
    exporting->add_flag("--lift", a->lift, "allow heads of twice the size where the format needs them");
    exporting->add_flag("--no-verify", a->noVerify, "skip reloading and comparing");

    auto* verify = cli.add(app, "verify", "repeat an export's parity check", [&cli, a] {
        const auto report = orFail(verifyExport(a->path, cli.runOptions(), cli.console.control()));
        cli.console.result(exportReportToJson(report), exportText(report));
    });
    verify->add_option("DIR", a->path)->required();
}

} // namespace linnet::app
