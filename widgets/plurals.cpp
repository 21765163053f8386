#include "widgets/plurals.h"

#include <QCoreApplication>
#include <QRegularExpression>
#include <QTranslator>

namespace linnet::widgets {
namespace {

class Plurals : public QTranslator {
public:
    QString translate(const char*, const char* source, const char*, int count) const override {
        return count < 0 || !source ? QString() : englishPlural(QString::fromUtf8(source), count); // null: as it stands in the source
    }
};

void install() {
    static Plurals plurals;
    (void)QCoreApplication::installTranslator(&plurals); // says false, as it holds no file: it is asked all the same
}

} // namespace

QString englishPlural(const QString& text, int count) {
    static const QRegularExpression choice(QStringLiteral("\\(s\\)|\\(([^()|]*)\\|([^()|]*)\\)"));
    QString said;
    qsizetype from = 0;
    for (auto found = choice.globalMatch(text); found.hasNext();) {
        const auto match = found.next();
        said += QStringView(text).mid(from, match.capturedStart() - from);
        if (match.capturedLength() > 3)
            said += match.captured(count == 1 ? 1 : 2);
        else if (count != 1)
            said += QLatin1Char('s');
        from = match.capturedEnd();
    }
    return said += QStringView(text).mid(from);
}

bool speakPlurals() {
    qAddPreRoutine(install); // again for each application that a program makes
    return true;
}

} // namespace linnet::widgets
