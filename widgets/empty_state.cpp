#include "widgets/empty_state.h"

#include "widgets/theme.h"

#include <QEvent>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

namespace linnet::widgets {

EmptyState::EmptyState(const QString& glyph, const QString& title, const QString& hint, const QString& action, QWidget* parent)
    : QWidget(parent), m_glyph(new QLabel(this)), m_title(new QLabel(this)), m_hint(new QLabel(this)),
      m_action(new QPushButton(this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(16, 12, 16, 12);
    layout->setSpacing(6);
    layout->addStretch(2);
    for (QLabel* label : {m_glyph, m_title, m_hint}) {
        label->setAlignment(Qt::AlignCenter);
        label->setTextFormat(Qt::PlainText);
        label->setWordWrap(label != m_glyph);
        layout->addWidget(label);
    }
    layout->addSpacing(6);
    layout->addWidget(m_action, 0, Qt::AlignHCenter);
    layout->addStretch(3);
    QFont large = font();
    large.setPointSizeF(font().pointSizeF() * 2.6);
    m_glyph->setFont(large);
    QFont strong = font();
    strong.setPointSizeF(font().pointSizeF() * 1.15);
    strong.setBold(true);
    m_title->setFont(strong);
    connect(m_action, &QPushButton::clicked, this, &EmptyState::actionRequested);
    setContent(glyph, title, hint, action);
    restyle();
}

void EmptyState::setContent(const QString& glyph, const QString& title, const QString& hint, const QString& action) {
    m_glyph->setText(glyph);
    m_title->setText(title);
    m_hint->setText(hint);
    m_action->setText(action);
    m_glyph->setVisible(!glyph.isEmpty());
    m_hint->setVisible(!hint.isEmpty());
    m_action->setVisible(!action.isEmpty());
    setAccessibleName(title);
    setAccessibleDescription(hint);
}

QString EmptyState::title() const { return m_title->text(); }
QString EmptyState::hint() const { return m_hint->text(); }

void EmptyState::restyle() {
    const QColor quiet = PlotColors::fromPalette(palette()).axis;
    for (QLabel* label : {m_glyph, m_hint}) {
        QPalette dimmed = palette();
        dimmed.setColor(QPalette::WindowText, quiet);
        label->setPalette(dimmed);
    }
}

void EmptyState::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        restyle();
}

} // namespace linnet::widgets
