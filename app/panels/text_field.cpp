#include "app/panels/text_field.h"

#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/models/text_choice.h"
#include "app/panels/wrong_field.h"
#include "widgets/wrapped_label.h"

#include <QEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QToolButton>

namespace linnet::app {
namespace {

constexpr int kOwnSequences = 512; // of self:N, to begin with

QString lastFolder() {
    return Settings().value(QStringLiteral("text/folder")).toString();
}

} // namespace

TextField::TextField(Session* session, QWidget* parent) : QWidget(parent), m_session(session), m_line(new QLineEdit), m_browse(new QToolButton), m_below(new widgets::WrappedLabel) {
    setObjectName(QStringLiteral("textField"));
    m_line->setObjectName(QStringLiteral("textEdit"));
    m_line->setAccessibleName(tr("Text"));
    m_line->setMinimumWidth(60);
    setToolTip(tr("What the run is calibrated, chosen and measured on: .txt files, .jsonl files (key text) or folders of them, divided by semicolons; "
                  "<b>default</b>: the text that set-up installed; <b>self:512</b>: 512 sequences that the teacher writes itself."));
    m_browse->setObjectName(QStringLiteral("textBrowse"));
    m_browse->setText(tr("Browse"));
    m_browse->setAccessibleName(tr("Choose the text"));
    m_browse->setPopupMode(QToolButton::InstantPopup);
    auto* menu = new QMenu(m_browse);
    connect(menu->addAction(tr("&Files...")), &QAction::triggered, this, &TextField::chooseFiles);
    connect(menu->addAction(tr("F&older...")), &QAction::triggered, this, &TextField::chooseFolder);
    menu->addSeparator();
    connect(menu->addAction(tr("&Default text")), &QAction::triggered, this, [this] { set({"default"}); });
    connect(menu->addAction(tr("&Written by the teacher (self:%1)").arg(kOwnSequences)), &QAction::triggered, this, [this] { set({"self:" + std::to_string(kOwnSequences)}); });
    m_browse->setMenu(menu);
    m_below->setObjectName(QStringLiteral("textBelow"));
    m_below->setTextFormat(Qt::PlainText);
    auto* layout = new QGridLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_line, 0, 0);
    layout->addWidget(m_browse, 0, 1);
    layout->setColumnStretch(0, 1);
    setFocusProxy(m_line);
    connect(m_line, &QLineEdit::editingFinished, this, [this] {
        if (m_line->isModified())
            set(textFromTyped(m_line->text()));
    });
    connect(session->recipe(), &RecipeModel::changed, this, &TextField::refresh);
    connect(session, &Session::teacherChanged, this, &TextField::refresh);
    refresh();
}

void TextField::refresh() {
    const auto& recipe = m_session->recipe()->recipe();
    m_line->setText(textToShow(recipe.dataText));
    if (!m_line->hasFocus())
        m_line->setCursorPosition(0);
    const auto look = lookAtText(recipe);
    const bool wrong = m_session->teacher() && !look.problem.isEmpty();
    showWrong(m_line, m_below, wrong ? look.problem : QString());
    if (m_session->teacher() && !wrong)
        m_below->setText(look.says);
    m_below->setForegroundRole(wrong ? QPalette::WindowText : QPalette::PlaceholderText); // what is as it should be stands back
}

void TextField::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_below->foregroundRole() == QPalette::WindowText) // the colours only: what is being typed stays
        showWrong(m_line, m_below, m_below->text());
}

void TextField::set(const std::vector<std::string>& text) {
    auto recipe = m_session->recipe()->recipe();
    recipe.dataText = text;
    m_session->recipe()->replace(recipe, tr("Set text"));
    m_line->setModified(false);
    refresh(); // also where nothing changed
}

void TextField::chooseFiles() {
    const auto files = QFileDialog::getOpenFileNames(this, tr("Choose the text"), lastFolder(), tr("Text (*.txt *.jsonl)"));
    if (files.isEmpty())
        return;
    Settings().setValue(QStringLiteral("text/folder"), QFileInfo(files.front()).path());
    std::vector<std::string> text;
    for (const auto& file : files)
        text.push_back(file.toStdString());
    set(text);
}

void TextField::chooseFolder() {
    const auto folder = QFileDialog::getExistingDirectory(this, tr("Choose a folder of texts"), lastFolder());
    if (folder.isEmpty())
        return;
    Settings().setValue(QStringLiteral("text/folder"), folder);
    set({folder.toStdString()});
}

} // namespace linnet::app
