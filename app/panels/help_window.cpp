#include "app/panels/help_window.h"

#include <QEvent>
#include <QFile>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

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
    for (const char* page : {"first", "heads", "layers", "targets", "runs", "curves", "evaluation", "generate", "export", "window", "cli", "words", "trouble"})
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
    m_none = new QLabel;
    m_none->setObjectName(QStringLiteral("helpNone"));
    m_none->setWordWrap(true);
    m_none->hide();
    column->addWidget(m_none);
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
        highlight();
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

void HelpWindow::filter(const QString& text) { // pages with any of the words; the one with most of them is shown
    m_words = text.split(QLatin1Char(' '), Qt::SkipEmptyParts);
    int best = -1;
    qsizetype most = 0;
    for (int i = 0; i < m_list->count(); ++i) {
        const auto page = textOf(m_list->item(i)->data(Qt::UserRole).toString());
        const auto words = std::count_if(m_words.begin(), m_words.end(), [&](const QString& word) { return page.contains(word, Qt::CaseInsensitive); });
        const auto found = words + (words > 1 && page.contains(text.trimmed(), Qt::CaseInsensitive) ? 1 : 0); // as it was typed
        m_list->item(i)->setHidden(!m_words.isEmpty() && found == 0);
        if (found > most || (found == most && found > 0 && m_list->currentRow() == i)) {
            most = found;
            best = i;
        }
    }
    m_none->setText(tr("Nothing found for \"%1\".").arg(text.trimmed()));
    m_none->setVisible(!m_words.isEmpty() && best < 0);
    if (best >= 0)
        m_list->setCurrentRow(best);
    highlight();
}

void HelpWindow::highlight() {
    QList<QTextEdit::ExtraSelection> marks;
    for (const auto& word : std::as_const(m_words)) {
        QTextCursor at(m_text->document());
        while (!(at = m_text->document()->find(word, at)).isNull()) {
            QTextEdit::ExtraSelection mark;
            mark.cursor = at;
            mark.format.setBackground(palette().color(QPalette::Highlight));
            mark.format.setForeground(palette().color(QPalette::HighlightedText));
            marks << mark;
        }
    }
    m_text->setExtraSelections(marks);
    if (!marks.isEmpty()) { // the first one in view
        auto place = marks.front().cursor;
        for (const auto& mark : std::as_const(marks))
            place = mark.cursor.position() < place.position() ? mark.cursor : place;
        place.clearSelection();
        m_text->setTextCursor(place);
        m_text->ensureCursorVisible();
    }
}

} // namespace linnet::app
