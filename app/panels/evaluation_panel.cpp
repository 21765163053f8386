#include "app/panels/evaluation_panel.h"

#include "app/models/layer_choice.h"
#include "app/models/run_results.h"
#include "app/models/session.h"

#include <QHeaderView>
#include <QLabel>
#include <QScrollArea>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <tuple>

namespace linnet::app {
namespace {

const QString kDash = QStringLiteral("–");
constexpr int kModels = 4; // teacher, naive copy, zero gate, student

QString withError(const std::optional<double>& value, const std::optional<double>& error) {
    if (!value || std::isnan(*value))
        return kDash;
    const auto number = QString::number(*value, 'f', 4);
    return error && !std::isnan(*error) ? number + QStringLiteral(" ± ") + QString::number(*error, 'f', 4) : number;
}

QTableWidget* numbersTable(const QString& name, int rows, const QStringList& columns, const QStringList& hints) {
    auto* table = new QTableWidget(rows, static_cast<int>(columns.size()));
    table->setObjectName(name);
    table->setHorizontalHeaderLabels(columns);
    for (int column = 0; column < hints.size(); ++column)
        table->horizontalHeaderItem(column)->setToolTip(hints[column]);
    table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    table->setWordWrap(false);
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(table->fontMetrics().height() + 8);
    table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff); // else its place is kept free below the rows
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setSelectionMode(QAbstractItemView::ContiguousSelection);
    table->setSizeAdjustPolicy(QAbstractScrollArea::AdjustToContents);
    return table;
}

void setRow(QTableWidget* table, int row, const QStringList& cells) {
    for (int column = 0; column < cells.size(); ++column) {
        auto* item = new QTableWidgetItem(cells[column]);
        item->setTextAlignment(column == 0 ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
        table->setItem(row, column, item);
    }
}

QString residual(double value) {
    return std::isfinite(value) ? QString::number(value, 'f', 4) : kDash;
}

QString layerList(const std::vector<std::int64_t>& layers) {
    return layers.empty() ? QStringLiteral("none") : layerRanges(layers, QStringLiteral(", "));
}

} // namespace

EvaluationPanel::EvaluationPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("evaluationPanel"));
    m_caption = new QLabel;
    m_caption->setWordWrap(true);
    m_layers = new QLabel;
    m_layers->setWordWrap(true);
    m_layers->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_table = numbersTable(QStringLiteral("evaluationTable"), kModels, {tr("model"), tr("perplexity"), tr("ratio"), tr("loss"), tr("KL"), tr("top-1"), tr("count")},
                           {{}, tr("exp of the loss: lower is better"), tr("perplexity / the teacher's"), tr("nats a token"), tr("nats a token, to the teacher"), tr("share of tokens where the teacher's first choice is the same"), tr("predicted tokens")});
    m_table->setAccessibleName(tr("Evaluation of each model"));
    m_treatmentCaption = new QLabel(tr("What the mixer cannot hold, as the closed form measured it: mean residual of the heads, 0 nothing is lost, 1 all"));
    m_treatmentCaption->setWordWrap(true);
    m_treatments = numbersTable(QStringLiteral("treatmentsTable"), 0, {tr("part"), tr("treatment"), tr("folded"), tr("dropped"), tr("heads folded")},
                                {{}, tr("as the recipe says"), tr("residual with the part folded in"), tr("residual with the part left out"), tr("share of the heads that fold it")});
    m_treatments->setAccessibleName(tr("Treatments"));
    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->addWidget(m_caption);
    layout->addWidget(m_table);
    m_baselineNote = new QLabel;
    m_baselineNote->setObjectName(QStringLiteral("baselineNote"));
    m_baselineNote->setWordWrap(true);
    layout->addWidget(m_baselineNote);
    layout->addWidget(m_layers);
    layout->addWidget(m_treatmentCaption);
    layout->addWidget(m_treatments);
    layout->addStretch(1);
    auto* area = new QScrollArea; // more rows than a small screen is high
    area->setAccessibleName(tr("Evaluation"));
    area->setWidgetResizable(true);
    area->setFrameShape(QFrame::NoFrame);
    area->setWidget(content);
    auto* whole = new QVBoxLayout(this);
    whole->setContentsMargins(0, 0, 0, 0);
    whole->addWidget(area);
    connect(session, &Session::evaluationChanged, this, &EvaluationPanel::refill);
    connect(session, &Session::runsChanged, this, &EvaluationPanel::refill);
    connect(session, &Session::teacherChanged, this, &EvaluationPanel::showTreatments);
    refill();
}

void EvaluationPanel::refill() {
    const auto run = m_session->currentRun();
    const std::map<std::string, core::Evaluation> none;
    const auto& evaluation = run ? run->evaluation : none;
    m_caption->setText(tr("<b>No evaluation yet.</b> A run measures teacher, naive copy, zero gate and student on the same held-out text."));
    const std::pair<const char*, QString> rows[] = {{"teacher", tr("teacher")}, {"naive", tr("naive copy")}, {"zero_gate", tr("zero gate")}, {"student", tr("student")}};
    for (int row = 0; row < kModels; ++row) {
        const auto found = evaluation.find(rows[row].first);
        QStringList cells{rows[row].second, kDash, kDash, kDash, kDash, kDash, kDash};
        if (found != evaluation.end()) {
            const auto& e = found->second;
            cells[1] = QString::number(e.perplexity, 'f', 3);
            cells[2] = withNoise(measured(evaluation, rows[row].first, Quantity::Ratio), 3);
            cells[3] = withError(e.loss, e.lossSe);
            cells[4] = withError(e.klToTeacher, e.klSe);
            cells[5] = withError(e.top1Agreement, e.top1Se);
            cells[6] = QString::number(e.tokens);
            m_caption->setText(tr("<b>%1</b>: %2 perplexity, windows of %3 tokens, %4 windows; ratio, KL and top-1 agreement are to the teacher; ± is one standard error.")
                                   .arg(run->name.toHtmlEscaped(), QString::fromStdString(e.convention)).arg(e.seqLen).arg(e.sequences));
        }
        setRow(m_table, row, cells);
        const QString hints[] = {tr("The model that is converted: what the others are compared with"), tr("Converted layers with the teacher's projections copied, nothing fitted or trained: what a student has to beat"),
                                 tr("The naive copy with its output gates closed: converted layers add nothing"), tr("The run's result")};
        m_table->item(row, 0)->setToolTip(hints[row]);
    }
    showBaseline();
    QString layers;
    if (run && run->report) {
        layers = tr("Softmax kept: %1<br>Converted: %2").arg(layerList(run->report->keptLayers), layerList(run->report->convertedLayers));
        for (const auto& note : run->report->notes)
            layers += QStringLiteral("<br>· ") + QString::fromStdString(note).toHtmlEscaped();
    }
    m_layers->setText(layers);
    showTreatments();
}

// Two more rows where another run is the baseline: its student, and this one's minus its.
void EvaluationPanel::showBaseline() {
    const auto run = m_session->currentRun();
    const auto baseline = m_session->library()->find(m_session->library()->baseline());
    const bool shown = run && baseline && run != baseline;
    m_table->setRowCount(shown ? kModels + 2 : kModels);
    m_baselineNote->setVisible(shown);
    if (shown) {
        const std::pair<Quantity, int> columns[] = {{Quantity::Perplexity, 3}, {Quantity::Ratio, 3}, {Quantity::Loss, 4}, {Quantity::Kl, 4}, {Quantity::Agreement, 4}};
        QStringList theirs{tr("baseline")}, differences{tr("difference")};
        std::int64_t windows = 0;
        for (const auto& [quantity, decimals] : columns) {
            auto a = measured(baseline->evaluation, "student", quantity), b = measured(run->evaluation, "student", quantity);
            if (quantity == Quantity::Perplexity) // its noise is the loss's; there is no room to say it twice
                a.error = b.error = std::nan("");
            const auto d = difference(a, b);
            theirs << withNoise(a, decimals);
            differences << signedWithNoise(d, decimals);
            windows = std::max(windows, d.n);
        }
        const auto found = baseline->evaluation.find("student");
        theirs << (found == baseline->evaluation.end() ? kDash : QString::number(found->second.tokens));
        differences << (windows > 0 ? tr("n = %1").arg(windows) : kDash);
        setRow(m_table, kModels, theirs);
        setRow(m_table, kModels + 1, differences);
        const auto why = incomparable(*baseline, *run);
        m_baselineNote->setText(tr("Baseline: the student of <b>%1</b>; difference: this student less that one. n counts windows; the noise of a difference is an upper bound, as both stand on the same windows.").arg(baseline->name.toHtmlEscaped()) +
                                (why.isEmpty() ? QString() : tr(" <b>The numbers don't compare</b>: %1.").arg(why.toHtmlEscaped())));
    }
    m_table->setFixedHeight(m_table->sizeHint().height()); // as high as its rows
}

void EvaluationPanel::showTreatments() {
    const auto run = m_session->currentRun();
    const auto measured = run && run->report ? run->report->treatments : std::vector<core::Treatment>{};
    const auto& teacher = m_session->teacher();
    QList<QStringList> rows;
    const std::tuple<const char*, QString, bool> parts[] = {{"rope", tr("RoPE"), teacher.has_value()},
                                                            {"bias", tr("q, k, v bias"), teacher && teacher->config.qkvBias},
                                                            {"qk_norm", tr("QK norm"), teacher && teacher->config.qkNorm}};
    for (const auto& [part, name, there] : parts) {
        const auto found = std::find_if(measured.begin(), measured.end(), [part = part](const core::Treatment& t) { return t.part == part; });
        if (found != measured.end())
            rows << QStringList{name, QString::fromStdString(found->treatment), residual(found->folded), residual(found->dropped), tr("%1 %").arg(100 * found->headsFolded, 0, 'f', 0)};
        else if (there)
            rows << QStringList{name, kDash, kDash, kDash, kDash};
    }
    const bool shown = run && run->report && !rows.isEmpty();
    m_treatmentCaption->setVisible(shown);
    m_treatments->setVisible(shown);
    m_treatments->setRowCount(static_cast<int>(rows.size()));
    for (int row = 0; row < rows.size(); ++row)
        setRow(m_treatments, row, rows[row]);
    m_treatments->setFixedHeight(m_treatments->sizeHint().height()); // as high as its rows
}

} // namespace linnet::app
