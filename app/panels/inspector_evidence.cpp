#include "app/panels/inspector_evidence.h"

#include "app/models/session.h"

#include <QLabel>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QString plain(const std::string& text) {
    return QString::fromStdString(text).replace(QLatin1Char('\n'), QStringLiteral("⏎")).toHtmlEscaped();
}

QString html(const core::TextSpot& spot) {
    return QStringLiteral("…%1<b><u>%2</u></b>%3…").arg(plain(spot.before), plain(spot.piece), plain(spot.after));
}

QString paragraphs(const QString& title, const QStringList& each) {
    return QStringLiteral("<p style=\"margin:0\"><b>%1</b></p>").arg(title) + QStringLiteral("<p style=\"margin:4px 0 0 0\">") +
           each.join(QStringLiteral("</p><p style=\"margin:6px 0 0 0\">")) + QStringLiteral("</p>");
}

} // namespace

InspectorEvidence::InspectorEvidence(Session* session) : InspectorSection(session, QStringLiteral("evidence"), tr("In the text"), false) {
    m_state = sectionLabel(QStringLiteral("evidenceState"));
    m_jumps = sectionLabel(QStringLiteral("evidenceJumps"));
    m_errors = sectionLabel(QStringLiteral("evidenceErrors"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(8);
    for (auto* each : {m_state, m_jumps, m_errors}) {
        each->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
        layout->addWidget(each);
    }
    follow(session->headViews(), &HeadViewModel::changed);
}

int InspectorEvidence::parts() const {
    return HeadViewModel::Evidence;
}

void InspectorEvidence::fill(HeadId) {
    const auto* views = session().headViews();
    const auto evidence = views->evidence();
    const auto said = views->stateText();
    m_state->setText(said);
    m_state->setVisible(!said.isEmpty());
    m_jumps->setVisible(evidence != nullptr);
    m_errors->setVisible(evidence != nullptr);
    if (!evidence)
        return;
    QStringList jumps, errors;
    for (const auto& jump : evidence->jumps)
        jumps << tr("%1 tokens back, %2 %: %3 <b>→</b> %4").arg(jump.distance).arg(jump.weight * 100, 0, 'f', 0).arg(html(jump.from), html(jump.to));
    for (const auto& error : evidence->errors)
        errors << tr("%1 times the mean square: %2").arg(error.error, 0, 'g', 3).arg(html(error.at));
    if (jumps.isEmpty())
        jumps << tr("None: beyond the first %1 tokens no earlier token gets %2 % of a row.").arg(core::kJumpSinks).arg(core::kJumpWeight * 100, 0, 'f', 0);
    m_jumps->setText(paragraphs(tr("Longest jumps of the teacher (%1 % of a row or more)").arg(core::kJumpWeight * 100, 0, 'f', 0), jumps));
    m_errors->setText(paragraphs(tr("Largest errors of the student"), errors));
}

} // namespace linnet::app
