#include "app/panels/hint_bar.h"

#include "app/models/settings.h"
#include "app/panels/help_window.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QStackedWidget>
#include <QTabWidget>
#include <QToolButton>
#include <algorithm>

namespace linnet::app {
namespace {

QString hintOf(const QString& page) {
    const std::pair<const char*, QString> hints[] = {
        {"headsPage", HintBar::tr("One cell is one head. Profile measures them; click a cell to see how the head attends, tick a layer at the left edge to convert it.")},
        {"layersPage", HintBar::tr("Choose how many layers stay softmax. Measure ranks them on your text: the table shows what each layer costs. Methods that make students (kl, greedy) also draw what each number of layers costs.")},
        {"runsPage", HintBar::tr("Every run keeps its recipe, its numbers and a colour. Select two to see what differs, or take one as the baseline.")},
        {"curvesPanel", HintBar::tr("A run draws here while it goes: the median of its layers in a band from 10 to 90 %. Wheel zooms (with Ctrl where the page scrolls), a double click shows all.")},
        {"evaluationPanel", HintBar::tr("The student beside its teacher, on text that no stage has seen. A dash is not measured; ± is the standard error.")},
        {"generatePage", HintBar::tr("Type a prompt: teacher and student go on from it side by side, and the place where they part is marked.")},
    };
    for (const auto& [name, text] : hints)
        if (page == QLatin1String(name))
            return text;
    return {};
}

QString keyOf(const QString& page) {
    return QStringLiteral("hints/") + page;
}

} // namespace

HintBar::HintBar(QTabWidget* pages) : m_pages(pages), m_stack(pages->findChild<QStackedWidget*>(QStringLiteral("qt_tabwidget_stackedwidget"))), m_text(new QLabel), m_more(new QToolButton), m_close(new QToolButton) {
    setObjectName(QStringLiteral("hintBar"));
    setAccessibleName(tr("Hint"));
    setFrameShape(QFrame::NoFrame);
    setAutoFillBackground(true);
    m_text->setWordWrap(true);
    m_text->setObjectName(QStringLiteral("hintText"));
    m_more->setText(tr("More..."));
    m_more->setObjectName(QStringLiteral("hintMore"));
    m_more->setAccessibleName(tr("Help on this page"));
    m_close->setText(tr("Got it"));
    m_close->setObjectName(QStringLiteral("hintClose"));
    m_close->setAccessibleName(tr("Put this hint away"));
    for (auto* button : {m_more, m_close})
        button->setAutoRaise(true);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(10, 3, 6, 3);
    layout->addWidget(m_text, 1);
    layout->addWidget(m_more);
    layout->addWidget(m_close);
    connect(pages, &QTabWidget::currentChanged, this, &HintBar::follow);
    connect(m_more, &QToolButton::clicked, this, [this] { Q_EMIT helpRequested(HelpWindow::pageOf(m_pages->currentWidget())); });
    connect(m_close, &QToolButton::clicked, this, [this] {
        Settings().setValue(keyOf(m_pages->currentWidget()->objectName()), true);
        follow();
    });
    setParent(m_stack);
    m_stack->installEventFilter(this);
    restyle();
    follow();
}

bool HintBar::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_stack && event->type() == QEvent::Resize)
        place();
    return false;
}

void HintBar::place() {
    const int height = isHidden() ? 0 : std::max(heightForWidth(m_stack->width()), minimumSizeHint().height());
    setGeometry(0, 0, m_stack->width(), height);
    m_stack->setContentsMargins(0, height, 0, 0);
    raise();
}

QString HintBar::text() const {
    return m_text->text();
}

void HintBar::showAgain() {
    Settings().remove(QStringLiteral("hints"));
    follow();
}

void HintBar::follow() {
    const auto page = m_pages->currentWidget() ? m_pages->currentWidget()->objectName() : QString();
    const auto hint = hintOf(page);
    m_text->setText(hint);
    setVisible(!hint.isEmpty() && !Settings().value(keyOf(page), false).toBool());
    place();
}

void HintBar::restyle() {
    auto shown = palette();
    shown.setColor(QPalette::Window, parentWidget() ? parentWidget()->palette().color(QPalette::ToolTipBase) : palette().color(QPalette::ToolTipBase));
    if (shown != palette())
        setPalette(shown);
}

void HintBar::changeEvent(QEvent* event) {
    QFrame::changeEvent(event);
    if (event->type() == QEvent::ApplicationPaletteChange || event->type() == QEvent::PaletteChange)
        restyle();
    if (event->type() == QEvent::FontChange)
        place();
}

} // namespace linnet::app
