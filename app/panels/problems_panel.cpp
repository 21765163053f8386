#include "app/panels/problems_panel.h"

#include "app/models/session.h"

#include <QLabel>
#include <QListWidget>
#include <QStackedLayout>
#include <QStyle>

namespace linnet::app {

ProblemsPanel::ProblemsPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("problemsPanel"));
    m_list = new QListWidget;
    m_list->setWordWrap(true);
    auto* none = new QLabel(tr("No problems."));
    none->setAlignment(Qt::AlignCenter);
    none->setEnabled(false);
    m_stack = new QStackedLayout(this);
    m_stack->addWidget(none);
    m_stack->addWidget(m_list);
    connect(session->recipe(), &RecipeModel::changed, this, &ProblemsPanel::refill);
    connect(session, &Session::teacherChanged, this, &ProblemsPanel::refill);
    refill();
}

void ProblemsPanel::refill() {
    m_list->clear();
    const auto add = [this](QStyle::StandardPixmap icon, const std::string& text) { m_list->addItem(new QListWidgetItem(style()->standardIcon(icon), QString::fromStdString(text))); };
    if (m_session->teacher()) {
        for (const auto& problem : m_session->recipe()->problems())
            add(QStyle::SP_MessageBoxCritical, problem.message);
        for (const auto& warning : m_session->teacher()->warnings)
            add(QStyle::SP_MessageBoxWarning, warning);
    }
    m_stack->setCurrentIndex(m_list->count() > 0 ? 1 : 0);
}

} // namespace linnet::app
