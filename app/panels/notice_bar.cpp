#include "app/panels/notice_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

namespace linnet::app {

NoticeBar::NoticeBar(QWidget* parent) : QWidget(parent) {
    setObjectName(QStringLiteral("noticeBar"));
    setAccessibleName(tr("Notices"));
    setAutoFillBackground(true);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    restyle();
    hide();
}

void NoticeBar::tell(const QString& name, const QString& text, const QString& actionText, std::function<void()> action) {
    if (this->text(name) == text)
        return;
    clear(name);
    auto* line = new QWidget;
    line->setObjectName(QStringLiteral("notice-") + name);
    auto* said = new QLabel(QStringLiteral("⚠ ") + text);
    said->setObjectName(QStringLiteral("noticeText"));
    said->setWordWrap(true);
    said->setTextFormat(Qt::PlainText);
    said->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    auto* layout = new QHBoxLayout(line);
    layout->setContentsMargins(10, 3, 6, 3);
    layout->addWidget(said, 1);
    const auto button = [&](const QString& label, const QString& spoken, const char* id) {
        auto* made = new QToolButton;
        made->setText(label);
        made->setObjectName(QString::fromLatin1(id));
        made->setAccessibleName(spoken);
        made->setAutoRaise(true);
        layout->addWidget(made);
        return made;
    };
    if (action)
        connect(button(actionText, actionText, "noticeAction"), &QToolButton::clicked, this, [action = std::move(action)] { action(); });
    connect(button(QStringLiteral("✕"), tr("Put this notice away"), "noticeClose"), &QToolButton::clicked, this, [this, name] { clear(name); });
    m_lines[name] = line;
    static_cast<QVBoxLayout*>(this->layout())->addWidget(line);
    show();
}

void NoticeBar::clear(const QString& name) {
    if (auto* line = m_lines.take(name)) {
        line->hide();
        line->deleteLater(); // it may be its own button that asks
        layout()->removeWidget(line);
    }
    setVisible(!m_lines.isEmpty());
}

QString NoticeBar::text(const QString& name) const {
    const auto* line = m_lines.value(name);
    return line ? line->findChild<QLabel*>(QStringLiteral("noticeText"))->text().mid(2) : QString();
}

void NoticeBar::restyle() {
    auto shown = palette();
    shown.setColor(QPalette::Window, parentWidget() ? parentWidget()->palette().color(QPalette::ToolTipBase) : palette().color(QPalette::ToolTipBase));
    if (shown != palette())
        setPalette(shown);
}

void NoticeBar::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::ApplicationPaletteChange || event->type() == QEvent::ParentChange || event->type() == QEvent::PaletteChange)
        restyle();
}

} // namespace linnet::app
