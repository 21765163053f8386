#include "widgets/elided_label.h"

#include <QPainter>

namespace linnet::widgets {

ElidedLabel::ElidedLabel(const QString& text, QWidget* parent) : QFrame(parent) {
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    setText(text);
}

void ElidedLabel::setText(const QString& text) {
    m_text = QString(text).replace('\n', ' ');
    setAccessibleName(m_text);
    updateTooltip();
    updateGeometry();
    update();
}

void ElidedLabel::setElideMode(Qt::TextElideMode mode) {
    m_mode = mode;
    update();
}

void ElidedLabel::setAlignment(Qt::Alignment alignment) {
    m_alignment = alignment;
    update();
}

QString ElidedLabel::shownText() const { return fontMetrics().elidedText(m_text, m_mode, contentsRect().width()); }

QSize ElidedLabel::sizeHint() const {
    const int frame = 2 * frameWidth();
    return {fontMetrics().horizontalAdvance(m_text) + 2 + frame, fontMetrics().height() + 2 + frame};
}

QSize ElidedLabel::minimumSizeHint() const {
    const int least = fontMetrics().horizontalAdvance(QStringLiteral("abc…xyz"));
    return {std::min(least, sizeHint().width()), sizeHint().height()};
}

void ElidedLabel::updateTooltip() { setToolTip(shownText() == m_text ? QString() : m_text); }

void ElidedLabel::resizeEvent(QResizeEvent* event) {
    QFrame::resizeEvent(event);
    updateTooltip();
}

void ElidedLabel::paintEvent(QPaintEvent* event) {
    QFrame::paintEvent(event);
    QPainter painter(this);
    painter.setPen(palette().color(isEnabled() ? QPalette::Active : QPalette::Disabled, foregroundRole()));
    painter.drawText(contentsRect(), int(m_alignment) | Qt::TextSingleLine, shownText());
}

} // namespace linnet::widgets
