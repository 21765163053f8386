#include "app/panels/layers_page.h"

#include "app/models/layer_choice.h"
#include "app/models/layer_table_model.h"
#include "app/models/measure_cost.h"
#include "app/models/session.h"
#include "app/panels/command_menu.h"
#include "app/panels/layer_brush.h"
#include "widgets/empty_state.h"
#include "widgets/keep_curve.h"

#include <QAction>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSortFilterProxyModel>
#include <QSpinBox>
#include <QSplitter>
#include <QStackedLayout>
#include <QTableView>
#include <QVBoxLayout>
#include <cmath>
#include <utility>

namespace linnet::app {
namespace {

using Budget = core::KeepRule::Budget;
using Kind = core::KeepRule::Kind;

constexpr double kMib = 1 << 20;
constexpr int kTableWidth = 360, kHeaderMargin = 16; // all columns
enum Goal { Count, Cache, Perplexity };
enum Quantity { PerplexityCurve, KlCurve, CacheCurve };

struct Method {
    const char* name;
    const char* hint; // what it measures and what that costs
};
constexpr Method kMethods[] = {
    {"uniform", QT_TRANSLATE_NOOP("linnet::app::LayersPage", "Evenly spaced, layer 0 among the kept ones. Measures nothing and costs nothing.")},
    {"bypass", QT_TRANSLATE_NOOP("linnet::app::LayersPage",
                                 "Leaves out one layer's attention at a time: how much worse does the teacher predict? One short evaluation a layer, no student. "
                                 "Good where most layers stay.")},
    {"kl", QT_TRANSLATE_NOOP("linnet::app::LayersPage",
                             "Converts one layer at a time: how far does the student's prediction move from the teacher's? "
                             "All layers are aligned once (kept for later), then one short evaluation a layer.")},
    {"greedy", QT_TRANSLATE_NOOP("linnet::app::LayersPage",
                                 "Converts layer after layer, each time the one that costs least together with those before. "
                                  "Aligned layers, then a few evaluations a layer. Best where few layers stay.")},
    {"restore", QT_TRANSLATE_NOOP("linnet::app::LayersPage",
                                  "Begins with all layers converted and gives back the one that gains most, step by step. "
                                   "Aligned layers, then an evaluation of every remaining layer at each step: the slowest.")},
    {"ga-s2", QT_TRANSLATE_NOOP("linnet::app::LayersPage",
                                "Keeps one single softmax layer at a time: which one alone helps most? Starts without alignment, one short evaluation a layer (Taylor-Calibrate).")},
    {"score", QT_TRANSLATE_NOOP("linnet::app::LayersPage", "From the profile: how much of the stream each layer's attention is. No evaluation, only the profile.")},
};

bool hasCurve(const QString& method) { // its measurement makes students
    return method != QLatin1String("bypass") && method != QLatin1String("score");
}

bool measures(const QString& method) {
    return method != QLatin1String("uniform");
}

} // namespace

LayersPage::LayersPage(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("layersPage"));
    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(6, 6, 6, 6);
    makeControls(layout);
    auto* split = new QSplitter(Qt::Horizontal);
    split->addWidget(makeTable());
    split->addWidget(makeCurve());
    split->setSizes({kTableWidth, kTableWidth});
    split->setStretchFactor(0, 0);
    split->setStretchFactor(1, 1);
    split->setChildrenCollapsible(false);
    layout->addWidget(split, 1);
    m_summary = new QLabel;
    m_summary->setObjectName(QStringLiteral("layersPageSummary"));
    m_note = new QLabel;
    m_note->setObjectName(QStringLiteral("layersPageNote"));
    m_take = new QPushButton(tr("&Take these"));
    m_take->setObjectName(QStringLiteral("takeMeasured"));
    m_take->setToolTip(tr("Set the layers that the measurement would choose; Undo takes it back"));
    m_take->hide();
    connect(m_take, &QPushButton::clicked, this, &LayersPage::takeMeasured);
    auto* below = new QHBoxLayout;
    auto* texts = new QVBoxLayout;
    for (auto* label : {m_summary, m_note}) {
        label->setWordWrap(true);
        texts->addWidget(label);
    }
    below->addLayout(texts, 1);
    below->addWidget(m_take, 0, Qt::AlignBottom);
    layout->addLayout(below);
    m_stack = new QStackedLayout(this);
    auto* empty = new widgets::EmptyState(QStringLiteral("≡"), tr("No model is open"), tr("Open one, and choose here which of its layers become linear: by measurement or by hand."),
                                           tr("Open default"));
    connect(empty, &widgets::EmptyState::actionRequested, session, [session] { session->openTeacher(QStringLiteral("default")); });
    m_stack->addWidget(empty);
    m_stack->addWidget(content);

    connect(session, &Session::teacherChanged, this, &LayersPage::showTeacher);
    connect(session, &Session::rankingChanged, this, [this] {
        if (const auto* ranking = m_session->ranking())
            m_method->setCurrentText(QString::fromStdString(ranking->method)); // whose numbers are shown
        showCurve();
    });
    connect(session, &Session::jobChanged, this, &LayersPage::showJob);
    connect(session->recipe(), &RecipeModel::layersChanged, this, &LayersPage::showRecipe);
    m_cost = new MeasureCost(this);
    connect(m_cost, &MeasureCost::changed, this, &LayersPage::showCost);
    for (auto* spin : {m_count, m_cacheTokens})
        connect(spin, &QSpinBox::valueChanged, this, &LayersPage::showCost);
    for (auto* spin : {m_cacheMib, m_ratio})
        connect(spin, &QDoubleSpinBox::valueChanged, this, &LayersPage::showCost);
    connect(session->recipe(), &RecipeModel::changed, this, &LayersPage::showCost);
    showMethod();
    showTeacher();
}

// Under the controls: what the method does, and what Measure would take here.
void LayersPage::showCost() {
    const auto hint = m_method->currentData(Qt::ToolTipRole).toString();
    QString cost;
    if (m_session->jobState() != JobState::Idle) {
        m_cost->forget(); // it measures how fast the device is: not while a job has it
    } else if (measures(m_method->currentText()) && m_session->teacher()) {
        auto recipe = m_session->recipe()->recipe();
        recipe.keep = rule();
        m_cost->ask(recipe, *m_session->teacher());
        if (m_cost->measured())
            cost = tr(" Measured already: Measure shows it at once.");
        else if (const auto seconds = m_cost->seconds())
            cost = tr(" Measure takes %1 here (a rough estimate; less where layers were measured before).").arg(MeasureCost::text(*seconds));
    }
    m_hint->setText(hint + cost);
}

void LayersPage::makeControls(QVBoxLayout* layout) {
    m_method = new QComboBox;
    m_method->setObjectName(QStringLiteral("methodCombo"));
    for (const auto& method : kMethods) {
        m_method->addItem(QString::fromLatin1(method.name));
        m_method->setItemData(m_method->count() - 1, tr(method.hint), Qt::ToolTipRole);
    }
    m_method->setCurrentText(QStringLiteral("kl"));
    m_goal = new QComboBox;
    m_goal->setObjectName(QStringLiteral("goalCombo"));
    m_goal->addItems({tr("keep"), tr("cache at most"), tr("perplexity at most")});
    m_goal->setToolTip(tr("A number of softmax layers; or as many as a cache holds; or as few as the loss of quality allows"));
    m_measure = new QPushButton;
    m_measure->setObjectName(QStringLiteral("measureButton"));
    m_hint = new QLabel;
    m_hint->setObjectName(QStringLiteral("methodHint"));
    m_hint->setWordWrap(true);
    m_hint->setForegroundRole(QPalette::PlaceholderText);
    auto* row = new QHBoxLayout;
    auto* label = new QLabel(tr("Choose by"));
    label->setBuddy(m_method);
    for (auto* each : {static_cast<QWidget*>(label), static_cast<QWidget*>(m_method), static_cast<QWidget*>(m_goal)})
        row->addWidget(each);
    makeAmounts(row);
    row->addStretch(1);
    row->addWidget(m_measure);
    layout->addLayout(row);
    layout->addWidget(m_hint);
    connect(m_method, &QComboBox::currentIndexChanged, this, &LayersPage::showMethod);
    connect(m_goal, &QComboBox::currentIndexChanged, this, &LayersPage::showGoal);
    connect(m_measure, &QPushButton::clicked, this, &LayersPage::measure);
    CommandMenu::attach(m_measure, m_session, [this] { return Commands::select(*m_session, rule()); });
}

void LayersPage::makeAmounts(QHBoxLayout* row) {
    m_count = new QSpinBox;
    m_count->setObjectName(QStringLiteral("keepCountSpin"));
    m_count->setAccessibleName(tr("Layers that stay softmax"));
    m_count->setSuffix(tr(" layers"));
    m_count->setKeyboardTracking(false);
    m_count->setToolTip(tr("Softmax layers that stay. With a ranking of this method the choice follows at once."));
    m_cacheMib = new QDoubleSpinBox;
    m_cacheMib->setObjectName(QStringLiteral("cacheSpin"));
    m_cacheMib->setRange(0.01, 1e6);
    m_cacheMib->setDecimals(2);
    m_cacheMib->setSuffix(tr(" MiB"));
    m_cacheTokens = new QSpinBox;
    m_cacheTokens->setObjectName(QStringLiteral("cacheTokensSpin"));
    m_cacheTokens->setRange(1, 100'000'000);
    m_cacheTokens->setValue(32768);
    m_cacheTokens->setPrefix(tr("at "));
    m_cacheTokens->setSuffix(tr(" tokens"));
    m_ratio = new QDoubleSpinBox;
    m_ratio->setObjectName(QStringLiteral("ratioSpin"));
    m_ratio->setRange(1, 1000);
    m_ratio->setDecimals(3);
    m_ratio->setSingleStep(0.01);
    m_ratio->setValue(1.05);
    m_ratio->setSuffix(tr(" x the teacher's"));
    for (const auto& [field, width] : {std::pair<QWidget*, int>{m_count, 90}, {m_cacheMib, 95}, {m_cacheTokens, 120}, {m_ratio, 130}}) {
        field->setMinimumWidth(width); // of usual values, not of the largest
        row->addWidget(field);
    }
    connect(m_count, &QSpinBox::valueChanged, this, [this](int kept) {
        const auto* ranking = m_session->ranking();
        if (ranking && m_method->currentText() == QString::fromStdString(ranking->method))
            choose(kept);
    });
}

QWidget* LayersPage::makeTable() {
    m_model = new LayerTableModel(m_session, this);
    m_sorted = new QSortFilterProxyModel(this);
    m_sorted->setSourceModel(m_model);
    m_sorted->setSortRole(LayerTableModel::kSortRole);
    m_table = new QTableView;
    m_table->setObjectName(QStringLiteral("layersTable"));
    m_table->setAccessibleName(tr("Layers, ranked"));
    m_table->setModel(m_sorted);
    m_table->setSortingEnabled(true);
    m_table->sortByColumn(LayerTableModel::Layer, Qt::AscendingOrder);
    m_table->setAlternatingRowColors(true);
    QFont small = font(); // six columns beside the curve
    small.setPointSizeF(small.pointSizeF() * 0.9);
    m_table->setFont(small);
    m_table->horizontalHeader()->setFont(small);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_table->horizontalHeader()->setMinimumSectionSize(36);
    for (const auto column : {LayerTableModel::Never, LayerTableModel::Always}) { // a box, no text
        m_table->horizontalHeader()->setSectionResizeMode(column, QHeaderView::Fixed);
        m_table->setColumnWidth(column, QFontMetrics(small).horizontalAdvance(m_model->headerData(column, Qt::Horizontal).toString()) + kHeaderMargin);
    }
    m_table->horizontalHeader()->setStretchLastSection(true);
    m_table->horizontalHeader()->setHighlightSections(false);
    m_table->setMinimumWidth(240);
    m_table->setContextMenuPolicy(Qt::ActionsContextMenu);
    const auto action = [this](const QString& text, const QString& name, const QKeySequence& key, Pin pin) {
        auto* made = new QAction(text, m_table);
        made->setObjectName(name);
        made->setShortcut(key);
        made->setShortcutContext(Qt::WidgetShortcut);
        connect(made, &QAction::triggered, this, [this, pin] { pinSelected(pin); });
        m_table->addAction(made);
    };
    action(tr("Never convert"), QStringLiteral("pinNever"), Qt::Key_N, Pin::Never);
    action(tr("Always convert"), QStringLiteral("pinAlways"), Qt::Key_A, Pin::Always);
    action(tr("No pin"), QStringLiteral("pinNone"), Qt::Key_Delete, Pin::None);
    new LayerBrush(m_table, LayerTableModel::Layer, m_session);
    return m_table;
}

QWidget* LayersPage::makeCurve() {
    m_curve = new widgets::KeepCurve;
    m_curve->setObjectName(QStringLiteral("keepCurve"));
    m_curve->setToolTip(tr("Click, drag or use the arrow keys to choose how many layers stay softmax"));
    m_quantity = new QComboBox;
    m_quantity->setObjectName(QStringLiteral("quantityCombo"));
    m_quantity->addItems({tr("perplexity"), tr("KL to the teacher"), tr("cache")});
    auto* side = new QWidget;
    auto* layout = new QVBoxLayout(side);
    layout->setContentsMargins(0, 0, 0, 0);
    auto* row = new QHBoxLayout;
    row->addWidget(m_quantity);
    row->addWidget(new QLabel(tr("against layers kept")));
    row->addStretch(1);
    layout->addLayout(row);
    layout->addWidget(m_curve, 1);
    connect(m_curve, &widgets::KeepCurve::picked, this, &LayersPage::choose);
    connect(m_quantity, &QComboBox::currentIndexChanged, this, &LayersPage::showCurve);
    return side;
}

// ---- requests -----------------------------------------------------------------------------------------------------------------

core::KeepRule LayersPage::rule() const {
    core::KeepRule rule;
    const auto method = m_method->currentText();
    if (!measures(method)) {
        rule.count = m_count->value();
        return rule;
    }
    rule.kind = Kind::Method;
    rule.method = method.toStdString();
    switch (m_goal->currentIndex()) {
    case Cache:
        rule.budget = Budget::Cache;
        rule.limit = std::round(m_cacheMib->value() * kMib);
        rule.length = m_cacheTokens->value();
        break;
    case Perplexity:
        rule.budget = Budget::Perplexity;
        rule.limit = m_ratio->value();
        break;
    default: rule.count = m_count->value();
    }
    return rule;
}

void LayersPage::measure() {
    if (m_session->isRunning(JobKind::Select))
        m_session->stop();
    else if (measures(m_method->currentText()))
        m_session->selectLayers(rule(), !chosenByHand()); // a person's own layers stay: see "Take these"
    else
        m_session->recipe()->setKeepRule(rule());
}

bool LayersPage::chosenByHand() const {
    if (m_session->recipe()->recipe().keep.kind != Kind::Layers)
        return false;
    const auto kept = keptCount(*m_session);
    return !kept || !m_session->ranking() || convertedLayers(*m_session) != convertedByRanking(*m_session, *kept);
}

void LayersPage::takeMeasured() {
    const auto* ranking = m_session->ranking();
    if (!ranking || m_session->rankingPartial())
        return;
    if (m_goal->currentIndex() == Count)
        return choose(m_count->value());
    std::vector<std::int64_t> converted; // what the budget gave
    for (std::int64_t l = 0; l < m_session->recipe()->layers(); ++l)
        if (!std::binary_search(ranking->kept.begin(), ranking->kept.end(), l))
            converted.push_back(l);
    m_session->recipe()->setConverted(converted, tr("Set the layers by %1").arg(QString::fromStdString(ranking->method)));
}

void LayersPage::choose(int kept) {
    const auto converted = convertedByRanking(*m_session, kept);
    if (!converted) {
        const QSignalBlocker quiet(m_count);
        m_count->setValue(kept); // for the measurement to come
        return showChoice();
    }
    // "Set ...": a drag along the curve is one step back
    m_session->recipe()->setConverted(*converted, tr("Set the layers by %1").arg(QString::fromStdString(m_session->ranking()->method)));
}

void LayersPage::pinSelected(Pin pin) {
    QList<int> layers;
    for (const auto& index : m_table->selectionModel()->selectedRows())
        layers << m_sorted->mapToSource(index).row();
    if (!layers.isEmpty())
        m_session->recipe()->setPins(layers, pin);
}

// ---- what is shown ------------------------------------------------------------------------------------------------------------

void LayersPage::showTeacher() {
    const auto& teacher = m_session->teacher();
    m_stack->setCurrentIndex(teacher ? 1 : 0);
    if (!teacher)
        return;
    if (!m_session->ranking()) // until the recipe, or what was measured, names one
        m_method->setCurrentText(QString::fromStdString(m_session->startingRule().method));
    const QSignalBlocker quiet(m_count);
    m_count->setRange(0, static_cast<int>(teacher->config.layers));
    m_cacheMib->setValue(std::max(0.01, cacheBytes(*teacher, teacher->config.layers / 2, m_cacheTokens->value()) / kMib));
    showRecipe();
    showCurve();
}

void LayersPage::showRecipe() {
    const auto& keep = m_session->recipe()->recipe().keep;
    const QSignalBlocker quiet(m_count);
    if (keep.kind == Kind::Method) {
        m_method->setCurrentText(QString::fromStdString(keep.method));
        m_goal->setCurrentIndex(keep.budget == Budget::Cache ? Cache : keep.budget == Budget::Perplexity ? Perplexity : Count);
        if (keep.budget == Budget::Cache) {
            m_cacheMib->setValue(keep.limit / kMib);
            m_cacheTokens->setValue(static_cast<int>(keep.length));
        } else if (keep.budget == Budget::Perplexity) {
            m_ratio->setValue(keep.limit);
        }
    }
    if (const auto kept = keptCount(*m_session); kept && m_session->teacher())
        m_count->setValue(static_cast<int>(*kept));
    showMethod();
    showChoice();
}

void LayersPage::showMethod() {
    const auto method = m_method->currentText();
    m_hint->setText(m_method->currentData(Qt::ToolTipRole).toString());
    m_method->setToolTip(m_hint->text());
    if (!m_session->ranking() && m_curve) // what Measure would draw
        showCurve();
    if (!measures(method))
        m_goal->setCurrentIndex(Count);
    m_goal->setEnabled(measures(method));
    showGoal();
    showJob();
}

void LayersPage::showGoal() {
    const int goal = m_goal->currentIndex();
    m_count->setVisible(goal == Count);
    for (auto* field : {static_cast<QWidget*>(m_cacheMib), static_cast<QWidget*>(m_cacheTokens)})
        field->setVisible(goal == Cache);
    m_ratio->setVisible(goal == Perplexity);
    if (m_cost)
        showCost();
}

void LayersPage::showCurve() {
    const auto& teacher = m_session->teacher();
    const auto* ranking = m_session->ranking();
    const int quantity = m_quantity->currentIndex();
    widgets::KeepCurveData data;
    data.quantity = m_quantity->currentText();
    if (quantity == CacheCurve && teacher) { // known without a measurement
        const auto total = teacher->config.layers, tokens = ranking ? ranking->cacheLength : std::int64_t{32768};
        for (std::int64_t kept = 0; kept <= total; ++kept)
            data.points.push_back({static_cast<int>(kept), cacheBytes(*teacher, kept, tokens)});
        data.teacher = cacheBytes(*teacher, total, tokens);
        data.quantity = tr("cache of %1 tokens").arg(tokens);
        data.bytes = true;
    } else if (ranking) {
        for (const auto& point : ranking->curve)
            data.points.push_back({static_cast<int>(point.kept), quantity == KlCurve ? point.kl : point.perplexity});
        if (quantity == KlCurve)
            data.unit = tr("nats a token");
        if (quantity == PerplexityCurve && ranking->teacherPerplexity > 0)
            data.teacher = ranking->teacherPerplexity;
    }
    m_curve->setEmptyText(m_choosing ? tr("Measuring...\n\nThe status line tells how far it is. What is measured is kept, also when you stop.")
                          : ranking  ? tr("%1 measures no student, so it has no curve: its scores stand in the table.\n\nkl, greedy, restore and ga-s2 have one.")
                                           .arg(QString::fromStdString(ranking->method))
                          : !hasCurve(m_method->currentText())
                              ? tr("Press Measure: what each layer costs then stands in the table, and beside the maps of heads.\n\n%1 measures no student, so it draws no curve; kl, greedy, restore and ga-s2 do.").arg(m_method->currentText())
                                     : (m_session->rankingNote().isEmpty() ? QString() : m_session->rankingNote() + QStringLiteral("\n\n")) +
                                           tr("Choose a method and press Measure.\n\nThe curve shows what each number of softmax layers costs; a click on it is the choice."));
    m_curve->setData(data);
    showChoice();
}

void LayersPage::showChoice() {
    if (!m_session->teacher())
        return;
    const auto* ranking = m_session->ranking();
    const auto kept = keptCount(*m_session);
    const auto converted = convertedLayers(*m_session);
    const bool ranked = ranking && kept && converted && converted == convertedByRanking(*m_session, *kept);
    m_curve->setChoice(ranked || (kept && m_quantity->currentIndex() == CacheCurve) ? std::optional(static_cast<int>(*kept)) : std::nullopt);
    m_summary->setText(layerSummary(*m_session));
    QString note;
    if (ranking && !m_session->rankingPinsHold())
        note = tr("Pins have changed since this was measured: the order still holds about, Measure makes it exact.");
    else if (ranking && !ranked && converted && !m_session->rankingPartial())
        note = tr("The layers are not those of the %1 ranking; yours stay until you take its choice.").arg(QString::fromStdString(ranking->method));
    if (ranking && m_session->rankingPartial())
        note = tr("%1 was stopped: %2 of %3 layers are measured. Measure continues it.").arg(QString::fromStdString(ranking->method)).arg(ranking->ranking.size()).arg(m_session->teacher()->config.layers);
    m_take->setVisible(ranking && !ranked && !m_session->rankingPartial());
    m_note->setText(note);
    m_note->setVisible(!note.isEmpty());
}

void LayersPage::showJob() {
    const bool choosing = m_session->isRunning(JobKind::Select), idle = m_session->jobState() == JobState::Idle;
    const bool measured = measures(m_method->currentText());
    if (choosing != std::exchange(m_choosing, choosing))
        showCurve();
    m_measure->setText(choosing ? m_session->jobState() == JobState::Stopping ? tr("Stopping...") : tr("Stop") : measured ? tr("Measure") : tr("Apply"));
    m_measure->setToolTip(choosing ? tr("What is measured so far is kept") : measured ? chosenByHand() ? tr("Measure in the background; the layers that you chose by hand stay") : tr("Measure in the background, then take the choice; Undo takes it back") : tr("Set this choice"));
    m_measure->setEnabled(m_session->teacher() && (choosing ? m_session->jobState() != JobState::Stopping : idle || !measured));
    if (m_cost && idle != std::exchange(m_idle, idle))
        showCost();
}

} // namespace linnet::app
