#include "app/panels/evaluation_panel.h"

#include "app/models/session.h"

#include <QGroupBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTableWidget>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

const QString kDash = QStringLiteral("–");

QString withError(const std::optional<double>& value, const std::optional<double>& error) {
    if (!value || std::isnan(*value))
        return kDash;
    const auto number = QString::number(*value, 'f', 4);
    return error && !std::isnan(*error) ? number + QStringLiteral(" ± ") + QString::number(*error, 'f', 4) : number;
}

QString layerList(const std::vector<std::int64_t>& layers) {
    QStringList list;
    for (const auto layer : layers)
        list << QString::number(layer);
    return list.isEmpty() ? QStringLiteral("none") : list.join(QStringLiteral(", "));
}

} // namespace

EvaluationPanel::EvaluationPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("evaluationPanel"));
    m_caption = new QLabel;
    m_caption->setWordWrap(true);
    m_layers = new QLabel;
    m_layers->setWordWrap(true);
    m_layers->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_table = new QTableWidget(4, 7);
    m_table->setObjectName(QStringLiteral("evaluationTable"));
    m_table->setHorizontalHeaderLabels({tr("model"), tr("perplexity"), tr("ratio"), tr("loss"), tr("KL"), tr("top-1"), tr("count")});
    const QStringList hints{{}, {}, tr("perplexity / the teacher's"), tr("nats a token"), tr("nats a token, to the teacher"), tr("share of tokens where the teacher's first choice is the same"), tr("predicted tokens")};
    for (int column = 0; column < hints.size(); ++column)
        m_table->horizontalHeaderItem(column)->setToolTip(hints[column]);
    m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    m_table->setWordWrap(false);
    m_table->verticalHeader()->hide();
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setSelectionMode(QAbstractItemView::ContiguousSelection);
    m_table->setSizeAdjustPolicy(QAbstractScrollArea::AdjustToContents);
    m_prompt = new QLineEdit(tr("The invention of the printing press"));
    m_prompt->setObjectName(QStringLiteral("promptEdit"));
    m_generate = new QPushButton(tr("Generate"));
    m_generate->setObjectName(QStringLiteral("generateButton"));
    m_output = new QPlainTextEdit;
    m_output->setReadOnly(true);
    m_output->setPlaceholderText(tr("64 tokens, greedy, appear here."));
    auto* box = new QGroupBox(tr("Try the opened model"));
    auto* line = new QHBoxLayout;
    line->addWidget(m_prompt, 1);
    line->addWidget(m_generate);
    auto* boxLayout = new QVBoxLayout(box);
    boxLayout->addLayout(line);
    boxLayout->addWidget(m_output, 1);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(m_caption);
    layout->addWidget(m_table);
    layout->addWidget(m_layers);
    layout->addWidget(box, 1);
    const auto request = [this] { m_session->generate(m_prompt->text()); };
    connect(m_generate, &QPushButton::clicked, this, request);
    connect(m_prompt, &QLineEdit::returnPressed, this, request);
    connect(session, &Session::generated, this, [this](const core::Generation& made) {
        m_output->setPlainText(m_prompt->text() + QString::fromStdString(made.text) + tr("\n\n%1 tokens per second").arg(made.tokensPerSecond, 0, 'f', 1));
    });
    connect(session, &Session::evaluationChanged, this, &EvaluationPanel::refill);
    connect(session, &Session::runsChanged, this, &EvaluationPanel::refill);
    connect(session, &Session::jobChanged, this, [this] { m_generate->setEnabled(m_session->teacher() && m_session->jobState() == JobState::Idle); });
    connect(session, &Session::teacherChanged, this, [this] { m_generate->setEnabled(m_session->teacher().has_value()); });
    m_generate->setEnabled(false);
    refill();
}

void EvaluationPanel::refill() {
    const auto run = m_session->currentRun();
    const std::map<std::string, core::Evaluation> none;
    const auto& measured = run ? run->evaluation : none;
    const auto teacher = measured.find("teacher");
    m_caption->setText(tr("<b>No evaluation yet.</b> A run measures teacher, naive copy, zero-gate and student on the same held-out text."));
    const std::pair<const char*, QString> rows[] = {{"teacher", tr("teacher")}, {"naive", tr("naive copy")}, {"zero_gate", tr("zero gate")}, {"student", tr("student")}};
    for (int row = 0; row < 4; ++row) {
        const auto found = measured.find(rows[row].first);
        QStringList cells{rows[row].second, kDash, kDash, kDash, kDash, kDash, kDash};
        if (found != measured.end()) {
            const auto& e = found->second;
            cells[1] = QString::number(e.perplexity, 'f', 3);
            if (teacher != measured.end())
                cells[2] = QString::number(e.perplexity / teacher->second.perplexity, 'f', 3);
            cells[3] = withError(e.loss, e.lossSe);
            cells[4] = withError(e.klToTeacher, e.klSe);
            cells[5] = withError(e.top1Agreement, e.top1Se);
            cells[6] = QString::number(e.tokens);
            m_caption->setText(tr("<b>%1</b>: %2 perplexity, windows of %3 tokens, %4 windows; ratio, KL and top-1 agreement are to the teacher; ± is one standard error.")
                                   .arg(run->name.toHtmlEscaped(), QString::fromStdString(e.convention)).arg(e.seqLen).arg(e.sequences));
        }
        for (int column = 0; column < 7; ++column) {
            auto* item = new QTableWidgetItem(cells[column]);
            item->setTextAlignment(column == 0 ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
            m_table->setItem(row, column, item);
        }
    }
    QString layers;
    if (run && run->report) {
        layers = tr("Softmax kept: %1<br>Converted: %2").arg(layerList(run->report->keptLayers), layerList(run->report->convertedLayers));
        for (const auto& note : run->report->notes)
            layers += QStringLiteral("<br>· ") + QString::fromStdString(note).toHtmlEscaped();
    }
    m_layers->setText(layers);
}

} // namespace linnet::app
