#include "app/cli/commands.h"

#include "core/base/files.h"
#include "core/convert/convert.h"
#include "core/convert/bench.h"
#include "core/convert/slice_windows.h"
#include "core/model/diagnose.h"

#include <sstream>

namespace linnet::app {
namespace {

using namespace core;

struct DataArguments {
    std::string model;
    std::vector<std::string> text{"default"};
    std::int64_t tokens = 0, seqLen = 0;
    std::string slice; // of a run's samples.safetensors
    CLI::Option *tokensOption = nullptr, *seqLenOption = nullptr, *sliceOption = nullptr;
};

std::shared_ptr<DataArguments> addData(CLI::App& command, std::int64_t seqLen, std::int64_t tokens, const std::string& slice) {
    auto a = std::make_shared<DataArguments>();
    a->seqLen = seqLen;
    a->tokens = tokens;
    a->slice = slice;
    command.add_option("MODEL", a->model)->required();
    command.add_option("--data", a->text, ".txt or .jsonl files, folders of them, default, self:N, or a run's samples.safetensors")->capture_default_str();
    a->tokensOption = command.add_option("--tokens", a->tokens, "use the first N tokens (whole windows); 0 = all")->check(CLI::NonNegativeNumber)->capture_default_str();
    a->seqLenOption = command.add_option("--seq-len", a->seqLen, "tokens of one window (of samples.safetensors: its own)")->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20))->capture_default_str();
    a->sliceOption = command.add_option("--slice", a->slice, "which tensor of samples.safetensors")->check(CLI::IsMember({"calibration", "selection", "evaluation", "training"}))->capture_default_str();
    return a;
}

TokenWindows windows(Cli& cli, const Model& model, const DataArguments& a) {
    if (namesSlices(a.text)) // cut already: the defaults of text don't hold
        return windowsOfSlice(model, a.text.front(), a.slice, a.seqLenOption->count() > 0 ? a.seqLen : 0, a.tokensOption->count() > 0 ? a.tokens : 0);
    if (a.sliceOption->count() > 0)
        fail(ErrorCode::Usage, "--slice: goes with --data RUN/samples.safetensors only", {{"option", "--slice"}});
    return windowsOf(model, a.text, a.seqLen, a.tokens, cli.options.seed, cli.console.control());
}

void profile(Cli& cli, const DataArguments& a, const std::string& out) {
    const auto model = cli.open(a.model);
    ProfileOptions options;
    options.cacheFolder = cacheFolder() / "profiles";
    const auto measured = orFail(profileModel(*model, windows(cli, *model, a), options, cli.console.control()));
    const Json json = profileToJson(measured);
    if (!out.empty())
        writeFileAtomically(out, json.dump() + "\n");
    std::vector<std::vector<std::string>> rows{{"layer", "distance", "no sink", "entropy", "sink", "RMS pre-o"}};
    for (std::size_t l = 0; l < measured.layers.size(); ++l) {
        if (measured.layers[l].empty()) { // converted
            rows.push_back({std::to_string(l), "-", "-", "-", "-", "-"});
            continue;
        }
        double sums[5] = {};
        for (const auto& h : measured.layers[l]) {
            const double values[5] = {h.distance.mean, h.distanceNoSink.mean, h.entropy.mean, h.sinkMass, h.rmsPreO};
            for (int i = 0; i < 5; ++i)
                sums[i] += values[i] / static_cast<double>(measured.layers[l].size());
        }
        rows.push_back({std::to_string(l), number(sums[0], 2), number(sums[1], 2), number(sums[2], 3), number(sums[3], 3), number(sums[4], 4)});
    }
    std::string text = "mean over the heads of each layer, " + std::to_string(measured.tokens) + " tokens\n";
    for (const auto& line : table(rows))
        text += line + "\n";
    cli.console.result(json, text);
}

void evaluate(Cli& cli, const DataArguments& a, const std::string& teacherName, const std::string& convention) {
    const auto model = cli.open(a.model);
    const auto teacher = teacherName.empty() ? nullptr : cli.open(teacherName);
    if (teacher && modelInfo(*teacher).config.vocabSize != modelInfo(*model).config.vocabSize)
        fail(ErrorCode::Usage, "--teacher: its vocabulary has " + std::to_string(modelInfo(*teacher).config.vocabSize) + " tokens, the model's has " +
                                   std::to_string(modelInfo(*model).config.vocabSize), {{"option", "--teacher"}});
    Evaluation measured;
    if (convention == "word") {
        if (a.tokens != 0)
            fail(ErrorCode::Usage, "--tokens goes with --convention chunked only", {{"option", "--tokens"}});
        if (namesSlices(a.text))
            fail(ErrorCode::Usage, "--data " + a.text.front() + " goes with --convention chunked only: words are counted in text", {{"option", "--data"}});
        if (teacher)
            fail(ErrorCode::Usage, "--teacher goes with --convention chunked only", {{"option", "--teacher"}});
        measured = orFail(evaluateWord(*model, readDocuments(resolveText(a.text)), a.seqLen, cli.console.control()));
    } else {
        const auto slices = windows(cli, *model, a);
        const auto reference = teacher ? orFail(teacherReference(*teacher, slices, cli.console.control())) : nullptr;
        measured = orFail(evaluateChunked(*model, slices, reference, cli.console.control()));
    }
    std::string text = "perplexity " + number(measured.perplexity, 3) + "  (" + measured.convention + ", windows of " + std::to_string(measured.seqLen) + ", " +
                       std::to_string(measured.tokens) + " predictions)\nloss " + number(measured.loss, 4) + " +- " + number(measured.lossSe, 4) + " nats a token\n";
    if (measured.klToTeacher)
        text += "KL to the teacher " + number(*measured.klToTeacher, 4) + ", top-1 agreement " + number(*measured.top1Agreement, 4) + "\n";
    cli.console.result(evaluationToJson(measured), text);
}

void estimate(Cli& cli, const std::string& file) {
    auto recipe = orFail(readRecipe(file));
    if (cli.options.device != "auto")
        recipe.device = cli.options.device;
    const auto source = recipe.teacherSource == "default" ? defaultTeacher() : resolvePath(recipe, recipe.teacherSource);
    const auto e = orFail(estimateRun(recipe, orFail(readModelInfo(source))));
    cli.console.result({{"memory_bytes", e.memoryBytes}, {"disk_bytes", e.diskBytes}, {"seconds", e.seconds}, {"tokens", e.tokens}, {"kept_layers", e.keptLayers},
                        {"converted_layers", e.convertedLayers}, {"cache_bytes_at_32k", e.cacheBytesAt32k}, {"teacher_cache_bytes_at_32k", e.teacherCacheBytesAt32k}},
                       "memory " + byteCount(e.memoryBytes) + ", disk " + byteCount(e.diskBytes) + ", about " + number(e.seconds / 60, 1) + " minutes, " +
                           std::to_string(e.tokens) + " tokens\n" + std::to_string(e.convertedLayers) + " layers converted, " + std::to_string(e.keptLayers) +
                           " kept; cache at 32k tokens " + byteCount(e.teacherCacheBytesAt32k) + " -> " + byteCount(e.cacheBytesAt32k));
}

void doctor(Cli& cli) {
    Json json;
    std::string text;
    for (const auto& [key, value] : diagnose(cli.options.device)) {
        json[key] = value;
        text += key + ": " + value + "\n";
    }
    const auto part = [&](const std::string& key, auto find, const std::string& remedy) {
        const auto found = guarded(find);
        json[key] = found ? found->string() : "missing";
        text += key + ": " + (found ? found->string() : "missing; " + remedy) + "\n";
    };
    part("teacher", defaultTeacher, "./linnet build installs it");
    part("text", defaultText, "./linnet build installs it");
    json["version"] = LINNET_VERSION;
    json["memory_available_bytes"] = availableMemoryBytes();
    json["disk_free_bytes"] = freeDiskBytes(cacheFolder());
    text += "memory available: " + byteCount(availableMemoryBytes()) + "\ndisk free: " + byteCount(freeDiskBytes(cacheFolder())) + "\n";
    cli.console.result(json, text);
}

} // namespace

void addMeasureCommands(Cli& cli, CLI::App& app) {
    {
        auto a = std::make_shared<std::shared_ptr<DataArguments>>();
        auto out = std::make_shared<std::string>();
        auto* c = cli.add(app, "profile", "per-head statistics of a teacher's attention", [&cli, a, out] { profile(cli, **a, *out); });
        *a = addData(*c, 512, 16384, "calibration");
        c->add_option("--out", *out, "JSON file to write");
        cli.addTeacher(*c);
    }
    {
        auto a = std::make_shared<std::shared_ptr<DataArguments>>();
        auto teacher = std::make_shared<std::string>(), convention = std::make_shared<std::string>("chunked");
        auto* c = cli.add(app, "eval", "perplexity, KL to a teacher, top-1 agreement", [&cli, a, teacher, convention] { evaluate(cli, **a, *teacher, *convention); });
        *a = addData(*c, 512, 0, "evaluation");
        c->add_option("--teacher", *teacher, "compare with this model; also an adapter's teacher")->each([](const std::string& name) { namedTeacher(name); });
        c->add_option("--convention", *convention)->check(CLI::IsMember({"chunked", "word"}))->capture_default_str();
    }
    {
        auto file = std::make_shared<std::string>();
        auto* c = cli.add(app, "estimate", "memory, time and tokens of a recipe, before anything runs", [&cli, file] { estimate(cli, *file); });
        c->add_option("RECIPE", *file)->required();
    }
    {
        struct Arguments {
            std::string operation, model = "default";
        };
        auto a = std::make_shared<Arguments>();
        auto* c = cli.add(app, "bench", "speed of kernels and pipeline pieces on this machine", [&cli, a] {
            Json rows = Json::array();
            std::vector<std::vector<std::string>> lines{{"operation", "shape", "ms", "TFLOP/s", "GB/s", "% of the floor"}};
            for (const auto& row : benchmark(a->operation, cli.options.device, cli.console.control())) {
                rows.push_back({{"op", row.operation}, {"shape", row.shape}, {"ms", row.milliseconds}, {"tflops", row.flop / row.milliseconds / 1e9},
                                {"gbps", row.bytes / row.milliseconds / 1e6}, {"share_of_floor", row.shareOfFloor}});
                lines.push_back({row.operation, row.shape, number(row.milliseconds, 4), number(row.flop / row.milliseconds / 1e9, 3), number(row.bytes / row.milliseconds / 1e6, 1), number(100 * row.shareOfFloor, 1)});
            }
            std::string text;
            for (const auto& line : table(lines))
                text += line + "\n";
            cli.console.result({{"rows", rows}}, text);
        });
        c->add_option("OP", a->operation, "matmul, attention_statistics, gated_delta_rule or alignment_step (default: all)");
    }
    cli.add(app, "doctor", "versions, device, memory, disk, what is missing", [&cli] { doctor(cli); });
}

} // namespace linnet::app
