#include "app/panels/help_window.h"

#include <QEvent>
#include <QFile>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QListWidget>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTextBrowser>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QString fileOf(const QString& page) {
    return QStringLiteral(":/help/%1.md").arg(page);
}

QString textOf(const QString& page) {
    QFile file(fileOf(page));
    return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

QString pageIn(const QUrl& source) {
    return source.fileName().section(QLatin1Char('.'), 0, 0);
}

QString titleOf(const QString& page) { // its first line, "# Title"
    return textOf(page).section(QLatin1Char('\n'), 0, 0).mid(2);
}

} // namespace

QStringList HelpWindow::pages() {
    QStringList list;
    for (const char* page : {"first", "heads", "layers", "targets", "runs", "curves", "evaluation", "generate", "export", "window", "cli", "trouble"})
        list << QString::fromLatin1(page);
    return list;
}

QString HelpWindow::pageOf(const QWidget* widget) {
    const std::pair<const char*, const char*> names[] = { // a part of an object name
        {"target", "targets"}, {"layers", "layers"}, {"heads", "heads"},       {"inspector", "heads"}, {"probe", "heads"},  {"curve", "curves"},
        {"eval", "evaluation"}, {"generat", "generate"}, {"export", "export"}, {"run", "runs"},        {"queue", "runs"},   {"problem", "trouble"},
        {"log", "trouble"},     {"project", "first"},    {"shortcut", "window"}};
    for (const auto* at = widget; at; at = at->parentWidget())
        for (const auto& [part, page] : names)
            if (at->objectName().contains(QLatin1String(part), Qt::CaseInsensitive))
                return QString::fromLatin1(page);
    return pages().front();
}

HelpWindow::HelpWindow(QWidget* parent) : QDialog(parent), m_search(new QLineEdit), m_list(new QListWidget), m_text(new QTextBrowser) {
    setObjectName(QStringLiteral("helpWindow"));
    setWindowTitle(tr("Help"));
    resize(820, 600);
    m_search->setPlaceholderText(tr("Find in the help"));
    m_search->setAccessibleName(tr("Find in the help"));
    m_search->setClearButtonEnabled(true);
    m_list->setAccessibleName(tr("Pages of the help"));
    m_list->setObjectName(QStringLiteral("helpList"));
    m_text->setAccessibleName(tr("Help page"));
    m_text->setObjectName(QStringLiteral("helpText"));
    m_text->setOpenExternalLinks(true);
    m_text->document()->setDocumentMargin(14);
    for (const auto& page : pages()) {
        auto* item = new QListWidgetItem(titleOf(page), m_list);
        item->setData(Qt::UserRole, page);
    }
    auto* side = new QWidget;
    auto* column = new QVBoxLayout(side);
    column->setContentsMargins(0, 0, 0, 0);
    column->addWidget(m_search);
    column->addWidget(m_list, 1);
    auto* split = new QSplitter;
    split->addWidget(side);
    split->addWidget(m_text);
    split->setSizes({210, 610});
    split->setStretchFactor(1, 1);
    auto* layout = new QHBoxLayout(this);
    layout->addWidget(split);
    connect(m_search, &QLineEdit::textChanged, this, &HelpWindow::filter);
    connect(m_list, &QListWidget::currentItemChanged, this, [this](const QListWidgetItem* item) {
        if (item && item->data(Qt::UserRole).toString() != page())
            m_text->setSource(QUrl(QStringLiteral("qrc:/help/%1.md").arg(item->data(Qt::UserRole).toString())), QTextDocument::MarkdownResource);
    });
    connect(m_text, &QTextBrowser::sourceChanged, this, [this](const QUrl& source) { // a link was followed
        const QSignalBlocker quiet(m_list);
        for (int i = 0; i < m_list->count(); ++i)
            if (m_list->item(i)->data(Qt::UserRole).toString() == pageIn(source))
                m_list->setCurrentRow(i);
    });
    m_list->setCurrentRow(0);
}

QString HelpWindow::page() const {
    return pageIn(m_text->source());
}

void HelpWindow::showPage(const QString& page) {
    m_search->clear();
    m_list->setCurrentRow(std::max<int>(0, static_cast<int>(pages().indexOf(page))));
    show();
    raise();
    activateWindow();
}

void HelpWindow::changeEvent(QEvent* event) {
    QDialog::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        m_text->reload(); // a text keeps the colours of its links
}

void HelpWindow::filter(const QString& word) {
    int first = -1;
    for (int i = 0; i < m_list->count(); ++i) {
        const bool found = word.isEmpty() || textOf(m_list->item(i)->data(Qt::UserRole).toString()).contains(word, Qt::CaseInsensitive);
        m_list->item(i)->setHidden(!found);
        first = found && first < 0 ? i : first;
    }
    if (first >= 0 && m_list->currentItem() && m_list->currentItem()->isHidden())
        m_list->setCurrentRow(first);
}

} // namespace linnet::app
