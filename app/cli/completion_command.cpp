// linnet-cli completion bash|zsh|fish: a script made from the very commands and options that the program parses.
#include "app/cli/commands.h"

#include <iostream>
#include <sstream>

namespace linnet::app {
namespace {

struct Word { // a command or an option
    std::string name, help;
    bool takesValue = false;
    std::vector<std::string> values; // where only these are taken
};
struct Level { // "", "info", "recipe new", ...
    std::string path;
    std::vector<Word> commands, options;
};

std::vector<std::string> valuesOf(const std::string& typeName) { // CLI11 prints a choice as {a,b}
    std::vector<std::string> values;
    const auto open = typeName.find('{'), close = typeName.rfind('}');
    if (open == std::string::npos || close == std::string::npos)
        return values;
    std::istringstream in(typeName.substr(open + 1, close - open - 1));
    for (std::string value; std::getline(in, value, ',');)
        values.push_back(value);
    return values;
}

std::string firstSentence(std::string text) {
    for (const char* end : {"\n", ". ", "; "})
        if (const auto at = text.find(end); at != std::string::npos)
            text.resize(at);
    return text;
}

void collect(const CLI::App& app, const std::string& path, std::vector<Level>& levels) {
    Level level{path, {}, {}};
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    for (const auto* command : commands)
        level.commands.push_back({command->get_name(), firstSentence(command->get_description()), false, {}});
    for (const auto* option : app.get_options())
        for (const auto& name : option->get_lnames())
            level.options.push_back({"--" + name, firstSentence(option->get_description()), option->get_items_expected_max() > 0, name == "device" ? std::vector<std::string>{"auto", "cpu", "cuda"} : valuesOf(option->get_type_name())});
    levels.push_back(std::move(level));
    for (const auto* command : commands)
        collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), levels);
}

std::string joined(const std::vector<Word>& words) {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : " ") + word.name;
    return text;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

std::string quoted(const std::string& text) { // for a POSIX shell, between single quotes
    std::string out = "'";
    for (const char letter : text)
        out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return out + "'";
}

// `case` arms that follow the words typed so far: "path word" -> longer path.
std::string pathCases(const std::vector<Level>& levels) {
    std::string arms;
    for (const auto& level : levels)
        if (!level.path.empty())
            arms += (arms.empty() ? "" : "|") + quoted(level.path.find(' ') == std::string::npos ? " " + level.path : level.path);
    return arms;
}

void bash(std::ostream& out, const std::vector<Level>& levels) {
    out << "# bash completion of linnet-cli; made by: linnet-cli completion bash\n"
           "_linnet_cli() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path='' word words=''\n"
           "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "        case \"$path $word\" in "
        << pathCases(levels) << ") path=\"${path:+$path }$word\";; esac\n    done\n    case \"$path,$prev\" in\n";
    for (const auto& level : levels)
        for (const auto& option : level.options)
            if (option.takesValue) {
                out << "        " << quoted(level.path + "," + option.name) << ") ";
                if (option.values.empty())
                    out << "COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n";
                else
                    out << "COMPREPLY=($(compgen -W " << quoted(joined(option.values)) << " -- \"$cur\")); return;;\n";
            }
    out << "    esac\n    case \"$path\" in\n";
    for (const auto& level : levels)
        out << "        " << quoted(level.path) << ") words=" << quoted(joined(level.commands) + " " + joined(level.options)) << ";;\n";
    out << "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "    [[ $cur == -* ]] || COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
           "}\n"
           "complete -o filenames -F _linnet_cli linnet-cli\n";
}

void zsh(std::ostream& out, const std::vector<Level>& levels) {
    out << "#compdef linnet-cli\n# made by: linnet-cli completion zsh\n"
           "_linnet_cli() {\n"
           "    local at='' word\n    local -a commands options\n"
           "    for word in ${words[2,CURRENT-1]}; do\n        case \"$at $word\" in "
        << pathCases(levels) << ") at=\"${at:+$at }$word\";; esac\n    done\n    case \"$at,${words[CURRENT-1]}\" in\n";
    for (const auto& level : levels)
        for (const auto& option : level.options)
            if (option.takesValue)
                out << "        " << quoted(level.path + "," + option.name) << ") " << (option.values.empty() ? "_files" : "compadd -- " + joined(option.values)) << "; return;;\n";
    out << "    esac\n    case \"$at\" in\n";
    for (const auto& level : levels) {
        const auto list = [](const std::vector<Word>& words) {
            std::string text;
            for (const auto& word : words)
                text += " " + quoted(word.name + ":" + word.help);
            return text;
        };
        out << "        " << quoted(level.path) << ") commands=(" << list(level.commands) << " ); options=(" << list(level.options) << " );;\n";
    }
    out << "    esac\n"
           "    (( $#commands )) && _describe command commands\n"
           "    if [[ $PREFIX == -* ]]; then _describe option options; else _files; fi\n"
           "}\n"
           "_linnet_cli \"$@\"\n";
}

void fish(std::ostream& out, const std::vector<Level>& levels) {
    const auto escaped = [](const std::string& text) { // fish: \' inside single quotes
        std::string made = "'";
        for (const char letter : text)
            made += letter == '\'' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
        return made + "'";
    };
    out << "# fish completion of linnet-cli; made by: linnet-cli completion fish\n"
           "function __linnet_cli_at\n"
           "    set -l at ''\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        switch (string trim -- \"$at $word\")\n            case";
    for (const auto& level : levels)
        if (!level.path.empty())
            out << " " << escaped(level.path);
    out << "\n                set at (string trim -- \"$at $word\")\n        end\n    end\n    test \"$at\" = \"$argv[1]\"\nend\n";
    for (const auto& level : levels) {
        const auto where = "complete -c linnet-cli -n " + escaped("__linnet_cli_at " + (level.path.empty() ? std::string("''") : "'" + level.path + "'"));
        for (const auto& command : level.commands)
            out << where << " -f -a " << escaped(command.name) << " -d " << escaped(command.help) << "\n";
        for (const auto& option : level.options) {
            out << where << " -l " << option.name.substr(2) << (option.takesValue ? " -r" : "") << " -d " << escaped(option.help);
            if (!option.values.empty())
                out << " -f -a " << escaped(joined(option.values));
            out << "\n";
        }
    }
}

} // namespace

void addCompletionCommand(Cli& cli, CLI::App& app) {
    auto* command = app.add_subcommand("completion", "prints a completion script for a shell");
    auto shell = std::make_shared<std::string>();
    command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->callback([&cli, &app, shell] {
        cli.chosen = [&app, shell] {
            return core::guarded([&] {
                std::vector<Level> levels;
                collect(app, {}, levels);
                (*shell == "bash" ? bash : *shell == "zsh" ? zsh : fish)(std::cout, levels);
            });
        };
    });
}

} // namespace linnet::app
