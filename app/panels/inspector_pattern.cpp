#include "app/panels/inspector_pattern.h"

#include "app/models/session.h"
#include "widgets/pattern_map.h"

#include <QCheckBox>
#include <QComboBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>

namespace linnet::app {
namespace {

constexpr int kSources = 5;

QString piece(const core::HeadView& view, int position) {
    auto text = QString::fromStdString(view.tokens[static_cast<std::size_t>(position)]);
    return QStringLiteral("“%1” (%2)").arg(text.replace(QLatin1Char('\n'), QStringLiteral("⏎")).toHtmlEscaped()).arg(position);
}

} // namespace

InspectorPattern::InspectorPattern(Session* session) : InspectorSection(session, QStringLiteral("pattern"), tr("Pattern on a probe text"), false) {
    m_shown = new QComboBox;
    m_shown->setObjectName(QStringLiteral("patternShown"));
    m_shown->addItems({tr("teacher"), tr("student"), tr("difference")});
    m_shown->setAccessibleName(tr("Whose pattern"));
    m_shown->setToolTip(tr("Student: what its recurrence takes from each token, as a share of the row's magnitudes (it can be negative).\nDifference: teacher - student."));
    m_student = new QComboBox;
    m_student->setObjectName(QStringLiteral("patternStudent"));
    m_student->setAccessibleName(tr("Which student"));
    m_student->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_hideSinks = new QCheckBox(tr("Hide the first 4 tokens"));
    m_hideSinks->setObjectName(QStringLiteral("patternHideSinks"));
    m_hideSinks->setToolTip(tr("Many heads rest on the first tokens; without them the rest gets the colours."));
    m_log = new QCheckBox(tr("Log"));
    m_log->setObjectName(QStringLiteral("patternLog"));
    m_text = new QLineEdit;
    m_text->setObjectName(QStringLiteral("patternText"));
    m_text->setAccessibleName(tr("Probe text"));
    m_text->setPlaceholderText(tr("the recipe's data; or your own text"));
    m_text->setClearButtonEnabled(true);
    m_map = new widgets::PatternMap;
    m_map->setObjectName(QStringLiteral("patternMap"));
    m_state = sectionLabel(QStringLiteral("patternState"));
    m_row = sectionLabel(QStringLiteral("patternRow"));
    m_row->setMinimumHeight(3 * fontMetrics().lineSpacing()); // the map keeps its place while rows are pointed at
    m_row->setAlignment(Qt::AlignTop);
    m_probe = new QPushButton(tr("Open in Probe"));
    m_probe->setObjectName(QStringLiteral("patternProbe"));
    m_probe->setToolTip(tr("Large, with zoom, and with sliders for half-life, beta, value scale and gate"));

    auto* options = new QHBoxLayout;
    options->addWidget(m_shown);
    options->addWidget(m_log);
    options->addStretch();
    options->addWidget(m_probe);
    auto* form = new QFormLayout;
    form->setContentsMargins(0, 0, 0, 0);
    form->addRow(tr("Student"), m_student);
    form->addRow(tr("Text"), m_text);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    layout->addLayout(form);
    layout->addLayout(options);
    layout->addWidget(m_hideSinks);
    layout->addWidget(m_state);
    layout->addWidget(m_map);
    layout->addWidget(m_row);

    auto* views = session->headViews();
    connect(m_shown, &QComboBox::currentIndexChanged, this, &InspectorPattern::showPattern);
    connect(m_log, &QCheckBox::toggled, m_map, &widgets::PatternMap::setLog);
    connect(m_hideSinks, &QCheckBox::toggled, this, [this](bool hide) {
        m_map->setHiddenColumns(hide ? static_cast<int>(core::kJumpSinks) : 0);
        showRow();
    });
    connect(m_map, &widgets::PatternMap::rowChanged, this, &InspectorPattern::showRow);
    connect(m_text, &QLineEdit::editingFinished, this, [this, views] { views->setText(m_text->text()); });
    connect(m_text, &QLineEdit::textChanged, this, [views](const QString& text) { // the clear button ends no editing
        if (text.isEmpty())
            views->setText({});
    });
    connect(m_student, &QComboBox::activated, this, [this, views](int index) { views->setRun(m_student->itemData(index).toString()); });
    connect(m_probe, &QPushButton::clicked, this, &InspectorPattern::probeRequested);
    follow(views, &HeadViewModel::changed);
    follow(session, &Session::runsChanged);
}

void InspectorPattern::offerProbe(bool offer) {
    m_probe->setVisible(offer);
}

int InspectorPattern::parts() const {
    return HeadViewModel::View;
}

void InspectorPattern::listStudents() { // the start, and each run that has made a layer
    const auto* views = session().headViews();
    QStringList folders{QString()}, names{tr("start by the recipe")};
    for (const auto& run : session().runs())
        if (run->hasBegun() && (run->state == QLatin1String("done") || run->folder == views->run())) {
            folders << run->folder;
            names << run->name;
        }
    if (!folders.contains(views->run())) {
        folders << views->run();
        names << QFileInfo(views->run()).fileName();
    }
    bool same = m_student->count() == folders.size();
    for (int i = 0; same && i < folders.size(); ++i)
        same = m_student->itemData(i).toString() == folders[i] && m_student->itemText(i) == names[i];
    if (!same) {
        m_student->clear();
        for (int i = 0; i < folders.size(); ++i)
            m_student->addItem(names[i], folders[i]);
    }
    m_student->setCurrentIndex(static_cast<int>(folders.indexOf(views->run())));
}

void InspectorPattern::fill(HeadId) {
    listStudents();
    const auto* views = session().headViews();
    if (!m_text->hasFocus() && m_text->text() != views->text())
        m_text->setText(views->text()); // typed in the Probe dock
    const auto view = views->view();
    QString said = views->stateText();
    if (view && view->textTokens > view->length)
        said += (said.isEmpty() ? QString() : QStringLiteral("; ")) + tr("the text was cut to %1 of %2 tokens").arg(view->length).arg(view->textTokens);
    m_state->setVisible(!said.isEmpty());
    m_state->setText(said);
    m_map->setEmptyText(views->state() == HeadViewModel::State::None ? tr("not measured") : views->stateText());
    if (view != m_view) {
        m_view = view;
        showPattern();
    }
}

void InspectorPattern::showPattern() {
    m_values.reset();
    const auto shown = static_cast<Shown>(m_shown->currentIndex());
    if (m_view) {
        std::vector<float> values;
        if (shown != Teacher)
            values = core::rowShares(core::recurrencePattern(*m_view, {}), m_view->length);
        if (shown == Teacher)
            values = m_view->teacher;
        else if (shown == Difference)
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = m_view->teacher[i] - values[i];
        m_values = std::make_shared<const std::vector<float>>(std::move(values));
    }
    m_map->setPattern(m_values, m_view ? static_cast<int>(m_view->length) : 0, shown == Teacher ? widgets::ColorMap::Viridis : widgets::ColorMap::BlueOrange);
    showRow();
}

void InspectorPattern::showRow() {
    const int row = m_map->row();
    if (!m_view || !m_values || row < 0) {
        m_row->setText(m_view ? tr("Point at a row: its largest sources appear here.") : QString());
        return;
    }
    QStringList sources;
    for (const auto& source : widgets::topSources(*m_values, static_cast<int>(m_view->length), row, kSources, m_map->style().hiddenColumns))
        sources << QStringLiteral("%1&nbsp;%2").arg(piece(*m_view, source.column)).arg(static_cast<double>(source.value), 0, 'f', 2);
    const QString from = m_shown->currentIndex() == Teacher ? tr("%1 looks at %2") : m_shown->currentIndex() == Student ? tr("%1 takes from %2") : tr("%1, teacher - student: %2");
    m_row->setText(from.arg(QStringLiteral("<b>%1</b>").arg(piece(*m_view, row)), sources.isEmpty() ? tr("nothing that is shown") : sources.join(QStringLiteral(", "))));
}

} // namespace linnet::app
