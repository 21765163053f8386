#include "app/panels/generate_text.h"

#include <QLocale>
#include <QStringList>

namespace linnet::app {
namespace {

constexpr qsizetype kElided = 60;
const QString kDash = QStringLiteral("–");

QString percent(double p) {
    return p < 0.001 && p > 0 ? QStringLiteral("%1 %").arg(100 * p, 0, 'e', 1) : QStringLiteral("%1 %").arg(100 * p, 0, 'f', 1);
}

QString nats(double kl) {
    return QString::number(kl, 'g', 3);
}

QString spelledOut(const QString& token) {
    QString text;
    for (const QChar c : token) {
        if (c == QLatin1Char('\\'))
            text += QLatin1String("\\\\");
        else if (c == QLatin1Char('\n'))
            text += QLatin1String("\\n");
        else if (c == QLatin1Char('\t'))
            text += QLatin1String("\\t");
        else if (c.category() == QChar::Other_Control)
            text += QStringLiteral("\\x%1").arg(c.unicode(), 2, 16, QLatin1Char('0'));
        else
            text += c;
    }
    return text;
}

QString tokens(qsizetype count) {
    return count == 1 ? GenerateText::tr("1 token") : GenerateText::tr("%1 tokens").arg(count);
}

QString choices(const std::vector<core::TokenChoice>& top) {
    QStringList list;
    for (const auto& choice : top)
        list << GenerateText::shown(QString::fromStdString(choice.text)) + QLatin1Char(' ') + percent(choice.probability);
    return list.join(QStringLiteral(", "));
}

} // namespace

QString GenerateText::elided(const QString& prompt) {
    auto line = prompt.simplified().replace(QLatin1Char('&'), QLatin1String("&&"));
    return line.size() > kElided ? line.left(kElided) + QStringLiteral("…") : line;
}

QString GenerateText::shown(const QString& token) {
    return token.isEmpty() ? tr("a part of a character") : QStringLiteral("“%1”").arg(spelledOut(token));
}

QString GenerateText::side(const Side& side) {
    QStringList parts;
    const auto count = tokens(std::ssize(side.tokens));
    switch (side.state) {
    case SideState::Empty: return {};
    case SideState::Waiting: return tr("reading the prompt...");
    case SideState::Speaking: parts << count; break;
    case SideState::Ended: parts << tr("%1, end of text").arg(count); break;
    case SideState::Full: parts << tr("%1, as asked for").arg(count); break;
    case SideState::Stopped: parts << tr("%1, stopped").arg(count); break;
    case SideState::Failed: parts << tr("%1, failed").arg(count); break;
    }
    parts << tr("%1 tokens/s").arg(side.tokensPerSecond > 0 ? QString::number(side.tokensPerSecond, 'f', 1) : kDash);
    parts << tr("prefill %1").arg(side.prefillSeconds > 0 ? tr("%1 s").arg(side.prefillSeconds, 0, 'f', side.prefillSeconds < 10 ? 2 : 1) : kDash);
    return parts.join(QStringLiteral(" · "));
}

QString GenerateText::parting(const GenerateModel& model) {
    const auto &teacher = model.side(kTeacher), &student = model.side(kStudent);
    if (!model.hasStudent() || teacher.tokens.empty() || student.tokens.empty())
        return {};
    const auto at = model.parting();
    if (!at) {
        const auto both = tokens(std::min(std::ssize(teacher.tokens), std::ssize(student.tokens)));
        return model.running() ? tr("The same so far: %1").arg(both) : tr("They say the same: %1").arg(both);
    }
    const auto i = static_cast<std::size_t>(*at);
    const auto word = [](const SaidToken& token) { return token.end ? tr("the end") : shown(token.text); };
    auto text = tr("They part at token %1: teacher %2, student %3").arg(*at + 1).arg(word(teacher.tokens[i]), word(student.tokens[i]));
    if (const auto& score = teacher.tokens[i].score)
        text += tr(" (KL %1 nats)").arg(nats(score->kl));
    return text;
}

QString GenerateText::token(const GenerateModel& model, std::size_t side, std::size_t index, bool rich) {
    const auto& said = model.side(side).tokens;
    if (index >= said.size())
        return {};
    const auto& token = said[index];
    QStringList lines;
    lines << tr("Token %1 of the %2: %3, id %4").arg(index + 1).arg(side == kTeacher ? tr("teacher") : tr("student"), token.end ? tr("end of text") : shown(token.text)).arg(token.id);
    if (const auto& score = token.score) {
        lines.front() += tr(". Teacher %1, student %2, KL %3 nats").arg(percent(score->teacher), percent(score->student), nats(score->kl));
        lines << tr("Teacher's first choices: %1").arg(choices(score->teacherTop)) << tr("Student's first choices: %1").arg(choices(score->studentTop));
    } else {
        const auto own = percent(token.probability);
        lines.front() += tr(". Teacher %1, student %2, KL %3").arg(side == kTeacher ? own : kDash, side == kStudent ? own : kDash, kDash);
    }
    if (!rich)
        return lines.join(QLatin1Char('\n'));
    for (auto& line : lines)
        line = line.toHtmlEscaped();
    return QStringLiteral("<p style='white-space:pre'>%1</p>").arg(lines.join(QStringLiteral("<br>")));
}

QString GenerateText::table(const GenerateModel& model) {
    QString text = QStringLiteral("side\ttoken\tid\ttext\tteacher\tstudent\tkl\n");
    const auto number = [](double value) { return QString::number(value, 'g', QLocale::FloatingPointShortest); };
    for (const std::size_t side : {kTeacher, kStudent}) {
        const auto& said = model.side(side).tokens;
        for (std::size_t i = 0; i < said.size(); ++i) {
            const auto& token = said[i];
            const auto own = number(token.probability);
            QStringList cells{side == kTeacher ? QStringLiteral("teacher") : QStringLiteral("student"), QString::number(i + 1), QString::number(token.id), spelledOut(token.text)};
            if (token.score)
                cells << number(token.score->teacher) << number(token.score->student) << number(token.score->kl);
            else
                cells << (side == kTeacher ? own : QString()) << (side == kStudent ? own : QString()) << QString();
            text += cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
        }
    }
    return text;
}

} // namespace linnet::app
