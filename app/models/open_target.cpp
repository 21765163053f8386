#include "app/models/open_target.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QMimeData>
#include <QUrl>

namespace linnet::app {
namespace {

QString tr(const char* text) {
    return QCoreApplication::translate("OpenTarget", text);
}

bool has(const QString& folder, const char* file) {
    return QFileInfo::exists(folder + QLatin1Char('/') + QLatin1String(file));
}

OpenTarget wrong(const QString& path, const QString& why) {
    return {OpenKind::Wrong, path, why};
}

OpenTarget ofFolder(const QString& path) {
    if (has(path, "recipe.json") && has(path, "state.json"))
        return {OpenKind::Run, path, {}};
    if (has(path, "config.json"))
        return {OpenKind::Model, path, {}};
    const auto models = QDir(path).entryList({QStringLiteral("*.gguf")}, QDir::Files);
    if (models.size() == 1)
        return {OpenKind::Model, path + QLatin1Char('/') + models.front(), {}};
    if (models.size() > 1)
        return wrong(path, tr("%1 holds %2 GGUF files: open one of them.").arg(QFileInfo(path).fileName()).arg(models.size()));
    if (has(path, "recipe.json"))
        return {OpenKind::Recipe, path + QStringLiteral("/recipe.json"), {}}; // a run that never began
    return wrong(path, tr("%1 is neither a model folder (no config.json) nor a run folder (no recipe.json with state.json).").arg(QFileInfo(path).fileName()));
}

OpenTarget ofFile(const QString& path) {
    const QFileInfo file(path);
    const auto suffix = file.suffix().toLower(), folder = file.absolutePath();
    QFile content(path);
    if (!content.open(QIODevice::ReadOnly))
        return wrong(path, tr("%1 can't be read: %2.").arg(file.fileName(), content.errorString()));
    if (suffix == QLatin1String("gguf") || content.peek(4) == "GGUF")
        return {OpenKind::Model, path, {}};
    const bool ofModel = has(folder, "config.json");
    if (suffix == QLatin1String("json") && !(ofModel && file.fileName() != QLatin1String("recipe.json")))
        return {OpenKind::Recipe, path, {}};
    if ((suffix == QLatin1String("json") || suffix == QLatin1String("safetensors")) && ofModel)
        return {OpenKind::Model, folder, {}}; // one file of it stands for the whole
    if (suffix == QLatin1String("safetensors"))
        return wrong(path, tr("%1 holds weights alone: a model is a folder with config.json and the tokenizer beside them.").arg(file.fileName()));
    if (suffix == QLatin1String("bin") || suffix == QLatin1String("pt") || suffix == QLatin1String("pth") || suffix == QLatin1String("ckpt"))
        return wrong(path, tr("%1 is a PyTorch pickle, which can run code when read: convert it to safetensors first.").arg(file.fileName()));
    if (suffix == QLatin1String("txt") || suffix == QLatin1String("jsonl"))
        return wrong(path, tr("%1 is a text: choose it under Text in the Run panel.").arg(file.fileName()));
    if (suffix == QLatin1String("zip") || suffix == QLatin1String("gz") || suffix == QLatin1String("xz") || suffix == QLatin1String("zst") || suffix == QLatin1String("tar"))
        return wrong(path, tr("%1 is an archive: unpack it first.").arg(file.fileName()));
    return wrong(path, tr("%1 is none of what opens here: a Hugging Face folder, a .gguf file, a recipe (.json) or a run folder.").arg(file.fileName()));
}

} // namespace

OpenTarget openTarget(const QString& path) {
    const QFileInfo info(path);
    if (!info.exists())
        return wrong(path, tr("%1 isn't there (any more).").arg(path));
    const auto whole = info.absoluteFilePath();
    return info.isDir() ? ofFolder(QDir(whole).absolutePath()) : ofFile(whole);
}

OpenTarget openTarget(const QMimeData& dropped) {
    const auto urls = dropped.urls();
    if (urls.isEmpty())
        return wrong({}, tr("Drop a file or folder: a model, a recipe or a run."));
    if (urls.size() > 1)
        return wrong({}, tr("One thing at a time: %1 were dropped.").arg(urls.size()));
    if (!urls.front().isLocalFile())
        return wrong({}, tr("%1 is not on this machine: download it first.").arg(urls.front().toDisplayString()));
    return openTarget(urls.front().toLocalFile());
}

} // namespace linnet::app
