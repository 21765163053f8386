#include "app/models/text_choice.h"

#include "core/convert/convert.h"
#include "widgets/plurals.h"

#include <QCoreApplication>
#include <QDirIterator>
#include <QFileInfo>
#include <QLocale>
#include <QStringList>

namespace linnet::app {
namespace {

constexpr int kMostFiles = 1000, kMostSequences = 1'000'000;
constexpr double kBytesPerToken = 4; // of English, roughly

QString tr(const char* text, int n = -1) {
    return QCoreApplication::translate("TextChoice", text, nullptr, n);
}

bool isText(const QString& name) {
    return name.endsWith(QLatin1String(".txt"), Qt::CaseInsensitive) || name.endsWith(QLatin1String(".jsonl"), Qt::CaseInsensitive);
}

struct Found {
    int files = 0;
    qint64 bytes = 0;
    bool more = false; // than were looked at
};

QString look(const QString& path, Found& found) { // what is wrong with it, ""
    const QFileInfo info(path);
    if (!info.exists())
        return tr("%1 isn't there (any more).").arg(path);
    if (info.isFile()) {
        if (!isText(path))
            return tr("%1 is neither .txt nor .jsonl.").arg(info.fileName());
        if (!info.isReadable())
            return tr("%1 can't be read: no permission.").arg(path);
        ++found.files;
        found.bytes += info.size();
        return info.size() == 0 ? tr("%1 is empty.").arg(info.fileName()) : QString();
    }
    const int before = found.files;
    for (QDirIterator file(path, QDir::Files, QDirIterator::Subdirectories); file.hasNext();) {
        file.next();
        if (!isText(file.fileName()))
            continue;
        if (++found.files > kMostFiles) {
            found.more = true;
            return {};
        }
        found.bytes += file.fileInfo().size();
    }
    return found.files == before ? tr("%1 holds no .txt or .jsonl file.").arg(path) : QString();
}

} // namespace

QString textToShow(const std::vector<std::string>& text) {
    QStringList parts;
    for (const auto& each : text)
        parts << QString::fromStdString(each);
    return parts.join(QStringLiteral("; "));
}

std::vector<std::string> textFromTyped(const QString& typed) {
    std::vector<std::string> text;
    for (const auto& part : typed.split(QLatin1Char(';')))
        if (!part.trimmed().isEmpty())
            text.push_back(part.trimmed().toStdString());
    return text;
}

TextLook lookAtText(const core::Recipe& recipe) {
    const auto& text = recipe.dataText;
    if (text.empty())
        return {tr("No text is chosen."), {}};
    Found found;
    for (const auto& each : text) {
        const auto name = QString::fromStdString(each);
        QString problem;
        if (name.startsWith(QLatin1String("self:"))) {
            bool number = false;
            const auto count = name.mid(5).toLongLong(&number);
            if (text.size() > 1)
                problem = tr("self:N stands alone, without files beside it.");
            else if (!number || count < 1 || count > kMostSequences)
                problem = tr("self:N takes a whole number of sequences, 1 to 1000000.");
            else
                return {{}, tr("%1 sequences of %2 tokens, written by the teacher when the run starts").arg(count).arg(recipe.seqLen)};
        } else if (each == "default") {
            const auto file = core::guarded([] { return core::defaultText(); });
            problem = file ? look(QString::fromStdString(file->string()), found) : tr("The default text isn't on this machine: choose one with Browse.");
        } else {
            problem = look(QString::fromStdString(core::resolvePath(recipe, each).string()), found);
        }
        if (!problem.isEmpty())
            return {problem, {}};
    }
    const auto needed = recipe.calibrationTokens + recipe.selectionTokens + recipe.evaluationTokens;
    const QLocale english(QLocale::English);
    const auto size = english.formattedDataSize(found.bytes, 1, QLocale::DataSizeIecFormat);
    if (!found.more && recipe.dataText.front() != "default" && found.bytes < needed) // a token is a byte at least
        return {tr("%1 of text is too little: calibration, selection and evaluation need %2 tokens. Choose more text, or lower them below.").arg(size, english.toString(static_cast<qlonglong>(needed))), {}};
    return {{}, tr("%n file(s), %1, about %2 tokens; the run takes %3", found.files)
                    .arg((found.more ? tr("over %1") : QStringLiteral("%1")).arg(size), english.toString(static_cast<qlonglong>(static_cast<double>(found.bytes) / kBytesPerToken)),
                         english.toString(static_cast<qlonglong>(needed)))};
}

} // namespace linnet::app
