#include "app/cli/commands.h"

#include "core/convert/convert.h"
#include "core/model/diagnose.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <new>
#include <unistd.h>

namespace linnet::app {

core::RunOptions Cli::runOptions() const {
    core::RunOptions run;
    run.device = options.device;
    run.dtype = options.dtype;
    run.threads = options.threads;
    return run;
}

std::filesystem::path modelPath(const std::string& model) {
    return model == "default" ? core::defaultTeacher() : std::filesystem::path(model);
}

core::ModelPtr Cli::open(const std::string& model) {
    return core::orFail(core::openModel(modelPath(model), runOptions(), console.control()));
}

CLI::App* Cli::add(CLI::App& parent, const std::string& name, const std::string& description, std::function<void()> body) {
    auto* command = parent.add_subcommand(name, description);
    command->add_option("--device", options.device, "cpu, cuda, cuda:i or auto")->capture_default_str()->check(CLI::Validator(
        [](const std::string& value) {
            const bool known = value == "cpu" || value == "cuda" || value == "auto" ||
                               (value.starts_with("cuda:") && value.size() > 5 && value.find_first_not_of("0123456789", 5) == value.npos);
            return known ? std::string() : "\"" + value + "\" is none of cpu, cuda, cuda:i, auto";
        },
        "", "device"));
    command->add_option("--dtype", options.dtype, "f32, bf16 or f16 (default: f32 on the CPU)")->check(CLI::IsMember({"f32", "bf16", "f16"}));
    command->add_option("--threads", options.threads, "CPU threads, 0 = all cores")->check(CLI::Range(0, 4096));
    command->add_option("--seed", options.seed, "seed of every random draw")->each([this](const std::string&) { options.seedGiven = true; });
    command->add_flag("--json", options.json, "one JSON object on stdout");
    command->add_flag("--quiet", options.quiet, "no progress, no log");
    command->callback([this, body = std::move(body)] { chosen = [body] { return core::guarded(body); }; });
    return command;
}

namespace {

// CLI11 says only that a subcommand is required: names the word that is none.
std::string parseErrorText(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
    const CLI::App* at = &app;
    for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
        std::vector<std::string> known;
        for (const auto* command : at->get_subcommands([](const CLI::App*) { return true; }))
            known.push_back(command->get_name());
        if (known.empty())
            break;
        const auto found = std::find(known.begin(), known.end(), argv[i]);
        if (found == known.end()) {
            const auto nearest = core::nearestName(argv[i], known);
            return std::string("unknown command \"") + argv[i] + "\"" + (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?");
        }
        at = at->get_subcommand(*found);
    }
    return error.what();
}

std::string versions() {
    std::string text = std::string("linnet-cli ") + LINNET_VERSION + (*LINNET_COMMIT ? ", commit " LINNET_COMMIT : "");
    for (const auto& [name, value] : core::diagnose("cpu"))
        if (name == "libtorch" || name == "cuda")
            text += "\n" + name + " " + value;
    return text;
}

// A file that is opened must not become what the shell has closed: standard output into a model's weights.
void holdStandardStreams() {
    int file = -1;
    do
        file = ::open("/dev/null", O_RDONLY); // writing to it fails
    while (file >= 0 && file <= STDERR_FILENO);
    if (file >= 0)
        ::close(file);
}

// A full disk, a closed pipe: what was printed did not arrive.
int printed(int code) {
    if (std::cout.flush() || code != 0)
        return code;
    std::fputs("linnet-cli: standard output could not be written\n", stderr);
    return 1;
}

int run(int argc, char** argv) {
    [[maybe_unused]] const SignalStop signals;
    std::signal(SIGXFSZ, SIG_IGN); // a file at its size limit is a failed write, with its message
    GlobalOptions options;
    Console console(options);
    Cli cli{options, console, "linnet-cli", {}};
    for (int i = 1; i < argc; ++i)
        cli.line.append(" ").append(argv[i]);
    CLI::App app("Linnet turns pretrained Transformers into hybrid linear-attention models.", "linnet-cli");
    app.set_version_flag("--version", versions);
    app.require_subcommand(1);
    app.failure_message(CLI::FailureMessage::help);
    addModelCommands(cli, app);
    addMeasureCommands(cli, app);
    addSelectCommand(cli, app);
    addStudyCommand(cli, app);
    addRecipeCommands(cli, app);
    addRunCommands(cli, app);
    addExportCommands(cli, app);
    addCompletionCommand(cli, app);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0)
            return printed(app.exit(error)); // --help, --version
        for (int i = 1; i < argc; ++i) // a wrong option may stand before --json is parsed
            options.json = options.json || std::string(argv[i]) == "--json";
        return console.error({core::ErrorCode::Usage, parseErrorText(error, app, argc, argv) + " (linnet-cli --help tells more)", {}});
    }
    const auto result = cli.chosen();
    return printed(result ? 0 : console.error(result.error()));
}

} // namespace
} // namespace linnet::app

int main(int argc, char** argv) {
    linnet::app::holdStandardStreams();
    try {
        return linnet::app::run(argc, argv);
    } catch (const std::bad_alloc&) {
        std::fputs("linnet-cli: not enough memory\n", stderr);
        return 3;
    }
}
