#include "app/cli/commands.h"

#include "core/convert/convert.h"
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

// A run goes on as it began: what is asked for otherwise is told, not taken.
void noteFrozen(Cli& cli, const std::filesystem::path& run) {
    const auto recipe = readRecipe(run / "recipe.json");
    if (!recipe)
        return; // resumeRun says why
    const auto note = [&](const char* option, const std::string& asked, const std::string& has) {
        if (asked != has)
            cli.console.note(std::string(option) + " " + asked + " has no effect: the run goes on with " + (has.empty() ? "its device's own" : has) + ", as its recipe says");
    };
    if (cli.options.seedGiven)
        note("--seed", std::to_string(cli.options.seed), std::to_string(recipe->seed));
    if (!cli.options.dtype.empty())
        note("--dtype", cli.options.dtype, recipe->dtype);
    if (cli.options.device != "auto")
        note("--device", cli.options.device, recipe->device);
}

} // namespace

void addRunCommands(Cli& cli, CLI::App& app) {
    struct Arguments {
        std::string path, run, csv;
        bool noBaselines = false;
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
        noteFrozen(cli, a->run);
        const auto report = orFail(resumeRun(a->run, convertOptions(cli, true), cli.console.control()));
        cli.console.result(reportToJson(report), reportText(report));
    });
    resume->add_option("DIR", a->run)->required();

    auto* curves = cli.add(app, "metrics", "the curves of a run", [&cli, a] { metrics(cli, a->run, a->csv); });
    curves->add_option("DIR", a->run)->required();
    curves->add_option("--csv", a->csv, "file to write");
}

} // namespace linnet::app
