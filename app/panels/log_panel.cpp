#include "app/panels/log_panel.h"

#include "app/models/session.h"

#include <QApplication>
#include <QClipboard>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QToolButton>
#include <QVBoxLayout>

namespace linnet::app {

LogPanel::LogPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("logPanel"));
    m_filter = new QLineEdit;
    m_filter->setPlaceholderText(tr("Filter"));
    m_filter->setAccessibleName(tr("Filter of the log"));
    m_filter->setClearButtonEnabled(true);
    m_text = new QPlainTextEdit;
    m_text->setReadOnly(true);
    m_text->setAccessibleName(tr("Log"));
    m_text->setMaximumBlockCount(5000);
    m_text->setLineWrapMode(QPlainTextEdit::WidgetWidth); // an error is read whole
    m_text->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    m_text->setPlaceholderText(tr("What happens is written here."));
    auto* copy = new QToolButton;
    copy->setText(tr("Copy all"));
    auto* row = new QHBoxLayout;
    row->addWidget(m_filter, 1);
    row->addWidget(copy);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 4);
    layout->addLayout(row);
    layout->addWidget(m_text, 1);
    connect(copy, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(m_text->toPlainText()); });
    connect(m_filter, &QLineEdit::textChanged, this, &LogPanel::refill);
    connect(session, &Session::logAppended, this, &LogPanel::append);
    auto* bar = m_text->verticalScrollBar();
    connect(bar, &QScrollBar::actionTriggered, this, [this, bar] { m_follows = bar->sliderPosition() >= bar->maximum(); }); // a person's, also by the wheel
    connect(bar, &QScrollBar::sliderMoved, this, [this, bar] { m_follows = bar->sliderPosition() >= bar->maximum(); });
    connect(bar, &QScrollBar::rangeChanged, this, &LogPanel::follow); // a line came, or it is seen again
    refill();
}

void LogPanel::follow() {
    if (m_follows)
        m_text->verticalScrollBar()->setValue(m_text->verticalScrollBar()->maximum());
}

void LogPanel::append(const QString& line) {
    if (m_filter->text().isEmpty() || line.contains(m_filter->text(), Qt::CaseInsensitive))
        m_text->appendPlainText(line);
    follow();
}

void LogPanel::refill() {
    m_text->clear();
    for (const auto& line : m_session->logLines())
        append(line);
}

} // namespace linnet::app
