#include "widgets/collapsible.h"

#include <QToolButton>
#include <QVBoxLayout>

namespace linnet::widgets {

Collapsible::Collapsible(const QString& title, QWidget* content, QWidget* parent) : QWidget(parent), m_header(new QToolButton(this)) {
    m_header->setText(title);
    m_header->setCheckable(true);
    m_header->setAutoRaise(true);
    m_header->setArrowType(Qt::RightArrow);
    m_header->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    m_header->setFocusPolicy(Qt::StrongFocus);
    m_header->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    QFont bold = font();
    bold.setBold(true);
    m_header->setFont(bold);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    layout->addWidget(m_header);
    layout->addWidget(content);
    content->hide();
    connect(m_header, &QToolButton::toggled, this, [this, content](bool expanded) {
        m_header->setArrowType(expanded ? Qt::DownArrow : Qt::RightArrow);
        content->setVisible(expanded);
        Q_EMIT toggled(expanded);
    });
}

void Collapsible::setExpanded(bool expanded) { m_header->setChecked(expanded); }

bool Collapsible::isExpanded() const { return m_header->isChecked(); }

} // namespace linnet::widgets
