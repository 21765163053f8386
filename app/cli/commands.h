// The commands of linnet-cli. Each registers its options with CLI11 and runs to a Result; the names, keys and exit codes are a
// contract that scripts rely on.
#pragma once

#include "app/cli/console.h"
#include "core/model/model_api.h"
#include "core/recipe/recipe.h"

#include <CLI/CLI.hpp>
#include <functional>

namespace linnet::app {

struct Cli {
    GlobalOptions& options;
    Console& console;
    std::string line;                           // as it was called
    std::function<core::Result<void>()> chosen; // set by the command that was parsed

    core::RunOptions runOptions() const;
    core::ModelPtr open(const std::string& model); // `default` or a path; throws Failure
    // Adds a subcommand with the options that every one takes; `body` may throw Failure.
    CLI::App* add(CLI::App& parent, const std::string& name, const std::string& description, std::function<void()> body);
    void addTeacher(CLI::App& command); // --teacher: where an adapter's is looked for first (core/model/open_adapter.h)
};

void addModelCommands(Cli& cli, CLI::App& app);    // info, logits, tokenize, generate
void addMeasureCommands(Cli& cli, CLI::App& app);  // profile, eval, estimate, bench, doctor
void addSelectCommand(Cli& cli, CLI::App& app);
void addStudyCommand(Cli& cli, CLI::App& app);
void addCompletionCommand(Cli& cli, CLI::App& app); // after the others: it tells of them
void addRecipeCommands(Cli& cli, CLI::App& app);   // recipe new | check | show | diff
void addRunCommands(Cli& cli, CLI::App& app);      // convert, resume, metrics
void addExportCommands(Cli& cli, CLI::App& app);   // export, verify
void namedTeacher(const std::string& name);        // by --teacher
std::filesystem::path modelPath(const std::string& model); // `default` resolved; throws

} // namespace linnet::app
