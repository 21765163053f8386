// study: every method on one teacher and one text, as tables.
#include "app/cli/commands.h"

#include "core/model/diagnose.h"
#include "core/study/study.h"

namespace linnet::app {

using namespace core;

void addStudyCommand(Cli& cli, CLI::App& app) {
    struct Arguments {
        std::string model = "default", data, out;
        std::int64_t seeds = 3;
        bool quick = false;
    };
    auto a = std::make_shared<Arguments>();
    auto* c = cli.add(app, "study", "measure every method, share of kept layers and selection on one text; a stopped study goes on", [&cli, a] {
        useThreads(cli.options.threads);
        StudyOptions options;
        options.teacher = cli.open(a->model);
        options.data = a->data, options.out = a->out;
        options.quick = a->quick, options.seeds = a->seeds;
        options.version = LINNET_VERSION, options.command = cli.line;
        const auto results = orFail(runStudy(options, cli.console.control()));
        cli.console.result({{"results", (options.out / "results.json").string()}, {"tables", (options.out / "results.md").string()}, {"rows", results.at("rows").size()}, {"timing", results.at("timing")}},
                           std::to_string(results.at("rows").size()) + " rows; " + (options.out / "results.md").string());
    });
    c->add_option("--data", a->data, ".jsonl file, keys text and genre: evaluation, selection, calibration and training text follow each other in it")->required();
    c->add_option("--out", a->out, "folder of results.json and results.md; rows that are there are not measured again")->required();
    c->add_option("--model", a->model, "the teacher")->capture_default_str();
    c->add_option("--seeds", a->seeds, "where a seed matters")->check(CLI::Range(std::int64_t{1}, std::int64_t{100}))->capture_default_str();
    c->add_flag("--quick", a->quick, "everything on a scale for tests: few tokens and steps, numbers of no meaning");
}

} // namespace linnet::app
