#include "app/models/command_lines.h"

#include "app/models/session.h"
#include "core/base/files.h"

#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>

namespace linnet::app {
namespace {

constexpr std::int64_t kProfileWindows = 16; // Session::profileTeacher's on the CPU

QString text(const std::filesystem::path& path) {
    return QString::fromStdString(path.string());
}

QString number(double value) {
    return QString::number(value, 'g', QLocale::FloatingPointShortest);
}

std::string placed(const core::Recipe& recipe, const std::string& path) {
    if (path.empty() || path == "default" || path.starts_with("self:"))
        return path;
    return std::filesystem::absolute(core::resolvePath(recipe, path)).lexically_normal().string();
}

// The recipe as a file anywhere means it: paths no longer start where it lay.
core::Recipe standalone(const core::Recipe& recipe) {
    core::Recipe result = recipe;
    result.teacherSource = placed(recipe, recipe.teacherSource);
    for (auto& each : result.dataText)
        each = placed(recipe, each);
    result.keep.file = placed(recipe, recipe.keep.file);
    return result;
}

void nameRecipe(Command& command, Session& session, const core::Recipe& recipe) {
    command.recipe = core::recipeToText(recipe);
    command.file = session.runsFolder() + QStringLiteral("/recipes/") + QString::fromStdString(core::recipeHash(recipe)) + QStringLiteral(".linnet.json");
}

QStringList dataWords(const core::Recipe& recipe, std::int64_t tokens, std::int64_t seqLen) {
    QStringList words{QStringLiteral("--data")};
    for (const auto& each : recipe.dataText)
        words << QString::fromStdString(each);
    return words << QStringLiteral("--tokens") << QString::number(tokens) << QStringLiteral("--seq-len") << QString::number(seqLen) << QStringLiteral("--seed")
                 << QString::number(recipe.seed);
}

} // namespace

QString Commands::quoted(const QString& word) {
    static const QRegularExpression plain(QStringLiteral("\\A[A-Za-z0-9_@%+=:,./-]+\\z"));
    return plain.match(word).hasMatch() ? word : QLatin1Char('\'') + QString(word).replace(QLatin1Char('\''), QLatin1String("'\\''")) + QLatin1Char('\'');
}

QString Commands::line(const QStringList& words) {
    QString text = QStringLiteral("linnet-cli");
    for (const auto& word : words)
        text += QLatin1Char(' ') + quoted(word);
    return text;
}

Command Commands::profile(Session& session) {
    if (!session.teacher())
        return {.why = tr("No teacher is open.")};
    const auto recipe = standalone(session.recipe()->recipe());
    auto tokens = recipe.calibrationTokens;
    if (session.teacher()->device.starts_with("cpu"))
        tokens = std::min(tokens, kProfileWindows * recipe.seqLen);
    return {.text = line(QStringList{QStringLiteral("profile"), text(session.teacher()->path)} + dataWords(recipe, tokens, recipe.seqLen))};
}

Command Commands::select(Session& session, const core::KeepRule& rule) {
    if (!session.teacher())
        return {.why = tr("No teacher is open.")};
    if (rule.kind != core::KeepRule::Kind::Method)
        return {.why = tr("The recipe names its layers: nothing is measured to choose them.")};
    auto recipe = standalone(session.recipe()->recipe());
    recipe.keep = rule;
    Command command;
    nameRecipe(command, session, recipe);
    command.text = line({QStringLiteral("select"), text(session.teacher()->path), QStringLiteral("--recipe"), command.file});
    return command;
}

Command Commands::convert(Session& session) {
    if (!session.teacher())
        return {.why = tr("No teacher is open.")};
    if (const auto problems = session.recipe()->problems(); !problems.empty())
        return {.why = QString::fromStdString(problems.front().message)};
    const auto recipe = standalone(session.recipe()->recipe());
    Command command;
    nameRecipe(command, session, recipe);
    const auto name = QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss")) + QLatin1Char('-') + QString::fromStdString(recipe.preset);
    command.text = line({QStringLiteral("convert"), command.file, QStringLiteral("--run"), session.runsFolder() + QLatin1Char('/') + name});
    return command;
}

Command Commands::resume(const QString& run) {
    if (run.isEmpty())
        return {.why = tr("No run is chosen.")};
    return {.text = line({QStringLiteral("resume"), run})};
}

Command Commands::evaluate(Session& session, const QString& run) {
    if (run.isEmpty())
        return {.why = tr("No run is chosen.")};
    const auto read = core::readRecipe((run + QStringLiteral("/recipe.json")).toStdString());
    if (!read)
        return {.why = QString::fromStdString(read.error().message)};
    const auto recipe = standalone(*read);
    const auto teacher = session.teacher() && session.teacher()->hash == recipe.teacherHash ? text(session.teacher()->path) : QString::fromStdString(recipe.teacherSource);
    QStringList words{QStringLiteral("eval"), run, QStringLiteral("--teacher"), teacher};
    QString note;
    const auto samples = run + QStringLiteral("/samples.safetensors");
    if (QFileInfo::exists(samples)) { // the run's very windows: its own numbers again
        words << QStringLiteral("--data") << samples << QStringLiteral("--slice") << QStringLiteral("evaluation");
        if (recipe.evaluateSeqLen > 0)
            words << QStringLiteral("--seq-len") << QString::number(recipe.evaluateSeqLen);
    } else {
        words += dataWords(recipe, recipe.evaluationTokens, recipe.evaluateSeqLen > 0 ? recipe.evaluateSeqLen : recipe.seqLen);
        note = tr("The run has no samples.safetensors (yet): it measures on the beginning of the text.");
    }
    if (recipe.device != "auto")
        words << QStringLiteral("--device") << QString::fromStdString(recipe.device);
    if (!recipe.dtype.empty())
        words << QStringLiteral("--dtype") << QString::fromStdString(recipe.dtype);
    return {.text = line(words), .note = note};
}

Command Commands::generate(Session& session, const GenerateSettings& settings) {
    if (!session.teacher())
        return {.why = tr("No teacher is open.")};
    if (settings.prompt.isEmpty())
        return {.why = tr("The prompt is empty.")};
    const auto& o = settings.options;
    QStringList words;
    if (settings.prompt.startsWith(QLatin1Char('-'))) // else taken for an option
        words << QStringLiteral("--prompt=") + settings.prompt;
    else
        words << QStringLiteral("--prompt") << settings.prompt;
    words << QStringLiteral("--tokens") << QString::number(o.tokens);
    if (o.greedy)
        words << QStringLiteral("--greedy");
    else
        words << QStringLiteral("--temperature") << number(o.temperature) << QStringLiteral("--top-p") << number(o.topP) << QStringLiteral("--top-k") << QString::number(o.topK)
              << QStringLiteral("--seed") << QString::number(o.seed);
    if (settings.chat)
        words << QStringLiteral("--chat");
    Command command;
    for (const auto& model : {text(session.teacher()->path), settings.student})
        if (!model.isEmpty())
            command.text += (command.text.isEmpty() ? QString() : QStringLiteral("\n")) + line(QStringList{QStringLiteral("generate"), model} + words);
    return command;
}

Command Commands::exporting(const QString& run, const QString& out, const core::ExportOptions& options) {
    if (run.isEmpty())
        return {.why = tr("No run is chosen.")};
    QStringList words{QStringLiteral("export"), run, QStringLiteral("--format"), QString::fromStdString(options.format), QStringLiteral("--out"), out,
                      QStringLiteral("--dtype"), QString::fromStdString(options.dtype)};
    if (options.lift)
        words << QStringLiteral("--lift");
    if (options.shardBytes != core::ExportOptions().shardBytes)
        words << QStringLiteral("--shard-size") << QString::number(options.shardBytes);
    if (!options.verify)
        words << QStringLiteral("--no-verify");
    return {.text = line(words)};
}

core::Result<void> Commands::prepare(const Command& command) {
    if (command.file.isEmpty())
        return {};
    return core::guarded([&] {
        if (!QDir().mkpath(QFileInfo(command.file).path()))
            core::fail(core::ErrorCode::Io, "can't make the folder of " + command.file.toStdString(), {{"file", command.file.toStdString()}});
        core::writeFileAtomically(command.file.toStdString(), command.recipe);
    });
}

} // namespace linnet::app
