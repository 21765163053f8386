#include "app/cli/commands.h"

#include "core/export/export.h"
#include "core/model/open_adapter.h"

#include <cstdlib>
#include <map>

namespace linnet::app {
namespace {

using namespace core;

std::string exportText(const ExportReport& report) {
    std::string text = report.folder.string() + ": " + report.format + " " + report.dtype + ", " + byteCount(report.bytes) + (report.fidelity.empty() ? "" : ", " + report.fidelity) +
                       (report.exact ? ", every value bit for bit" : ", values rounded") + "\n";
    for (const auto& note : report.notes)
        text += "note: " + note + "\n";
    const auto& p = report.parity;
    if (report.verified)
        text += "reloaded and compared over " + std::to_string(p.tokens) + " tokens: largest logit difference " + number(p.maxAbsLogit, 6) + ", mean " + number(p.meanAbsLogit, 6) +
                ", KL " + number(p.meanKl, 8) + ", top-1 agreement " + number(p.top1Agreement, 4) + ", " + std::to_string(p.greedySame) + " of " + std::to_string(p.greedyTokens) +
                " greedy tokens the same\n";
    for (const auto& file : report.files) {
        const auto hash = report.hashes.find(file);
        text += "  " + (hash == report.hashes.end() ? std::string(16, ' ') : hash->second) + "  " + file + "\n";
    }
    return text;
}

// "5GB", "500MB", "2GiB" or a number of bytes.
std::uint64_t parseBytes(const std::string& text) {
    static const std::map<std::string, double> units{{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KIB", 1024.}, {"MIB", 1048576.}, {"GIB", 1073741824.}};
    std::size_t used = 0;
    double value = 0;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
    }
    std::string unit = text.substr(std::min(text.find_first_not_of(' ', used), text.size()));
    for (char& c : unit)
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const auto factor = units.find(unit);
    const double bytes = factor == units.end() ? 0 : value * factor->second;
    if (used == 0 || !(bytes >= 1 && bytes < 1e18))
        fail(ErrorCode::Usage, "--shard-size: \"" + text + "\" is no size; give 5GB, 500MB or a number of bytes", {{"option", "--shard-size"}, {"value", text}});
    return static_cast<std::uint64_t>(bytes);
}

struct ExportArguments {
    std::string path, out, shardSize;
    ExportOptions options;
    bool noVerify = false;
};

void exporting(Cli& cli, ExportArguments& a) {
    auto& o = a.options;
    if (!cli.options.dtype.empty())
        o.dtype = cli.options.dtype;
    o.verify = !a.noVerify;
    if (!a.shardSize.empty())
        o.shardBytes = parseBytes(a.shardSize);
    const auto report = orFail(exportModel(modelPath(a.path), a.out, o, RunOptions{cli.options.device, "", cli.options.threads, false}, cli.console.control()));
    cli.console.result(exportReportToJson(report), exportText(report));
}

} // namespace

void namedTeacher(const std::string& name) {
    const auto path = guarded([&] { return modelPath(name); }); // `default`
    ::setenv(kTeacherVariable, path ? path->c_str() : name.c_str(), 1);
}

void Cli::addTeacher(CLI::App& command) {
    command.add_option_function<std::string>("--teacher", namedTeacher, "where the teacher of an adapter is, if not beside it");
}

void addExportCommands(Cli& cli, CLI::App& app) {
    auto a = std::make_shared<ExportArguments>();
    auto* command = cli.add(app, "export", "a checkpoint that other runtimes load", [&cli, a] { exporting(cli, *a); });
    command->add_option("MODEL", a->path, "run folder or model")->required();
    command->add_option("--format", a->options.format)->check(CLI::IsMember(kExportFormats))->capture_default_str();
    command->add_option("--out", a->out, "folder to make")->required();
    command->remove_option(command->get_option("--dtype")); // here of the files, and one more
    command->add_option("--dtype", cli.options.dtype, "values as f32, bf16 or f16, in gguf also q8_0 (default: f32)")->check(CLI::IsMember({"f32", "bf16", "f16", "q8_0"}));
    command->add_flag("--lift", a->options.lift, "allow a lift where the format needs one; info tells what it costs");
    command->add_option("--shard-size", a->shardSize, "largest .safetensors file: 5GB, 500MB (default: 5GB)");
    command->add_flag("--no-verify", a->noVerify, "skip reloading and comparing");
    cli.addTeacher(*command);

    auto path = std::make_shared<std::string>();
    auto* verify = cli.add(app, "verify", "repeat an export's parity check", [&cli, path] {
        const auto report = orFail(verifyExport(*path, cli.runOptions(), cli.console.control()));
        cli.console.result(exportReportToJson(report), exportText(report));
    });
    verify->add_option("DIR", *path)->required();
    cli.addTeacher(*verify);
}

} // namespace linnet::app
