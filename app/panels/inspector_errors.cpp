#include "app/panels/inspector_errors.h"

#include "app/models/session.h"
#include "widgets/theme.h"

#include <QHeaderView>
#include <QLabel>
#include <QLocale>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

constexpr int kBarRole = Qt::UserRole; // 0 .. 1, how far the bar behind a number reaches

class BarDelegate : public QStyledItemDelegate {
public:
    using QStyledItemDelegate::QStyledItemDelegate;
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        if (const auto share = index.data(kBarRole); share.isValid()) {
            QColor fill = widgets::PlotColors::fromPalette(option.palette).fill;
            fill.setAlpha(70);
            QRectF bar = option.rect.adjusted(0, 2, 0, -2);
            bar.setWidth(bar.width() * std::clamp(share.toDouble(), 0.0, 1.0));
            painter->fillRect(bar, fill);
        }
        QStyledItemDelegate::paint(painter, option, index);
    }
};

QString decimals(double value, double error = NAN) {
    if (!std::isfinite(value))
        return QStringLiteral("–");
    return QString::number(value, 'f', 3) + (std::isfinite(error) ? QStringLiteral(" ± ") + QString::number(error, 'f', 3) : QString());
}

QTableWidget* makeTable(const QString& name, const QString& first) {
    auto* table = new QTableWidget(0, 4);
    table->setObjectName(name);
    table->setHorizontalHeaderLabels({first, InspectorErrors::tr("relative error"), InspectorErrors::tr("cosine"), InspectorErrors::tr("n")});
    table->horizontalHeaderItem(1)->setToolTip(InspectorErrors::tr("squared error / square of the teacher's output, ± one standard error over windows"));
    table->horizontalHeaderItem(2)->setToolTip(InspectorErrors::tr("mean cosine of the two outputs"));
    table->horizontalHeaderItem(3)->setToolTip(InspectorErrors::tr("tokens"));
    table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table->horizontalHeader()->setSectionResizeMode(1, QHeaderView::Stretch);
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(table->fontMetrics().height() + 4);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    table->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff); // all rows are there
    table->setItemDelegate(new BarDelegate(table));
    table->setTabKeyNavigation(false);
    return table;
}

// "alignment of layer 3 in run one: 0.61 at step 0, 0.12 at step 300 (held out, the whole layer)"
QString trainingText(Session& session, int layer) {
    const auto run = session.currentRun();
    const core::MetricRow *first = nullptr, *last = nullptr;
    if (run)
        for (const auto& row : run->metrics)
            if (row.stage == "align" && row.layer == layer && row.relativeLoss) {
                first = first ? first : &row;
                last = &row;
            }
    if (!first)
        return InspectorErrors::tr("Over training: no run shown has aligned layer %1.").arg(layer);
    return InspectorErrors::tr("Over training, the whole layer, held out, in %1: relative error %2 at step %3, %4 at step %5.")
        .arg(run->name, decimals(*first->relativeLoss)).arg(first->step).arg(decimals(*last->relativeLoss)).arg(last->step);
}

} // namespace

InspectorErrors::InspectorErrors(Session* session) : InspectorSection(session, QStringLiteral("errors"), tr("Teacher and student"), false) {
    m_state = sectionLabel(QStringLiteral("errorsState"));
    m_all = sectionLabel(QStringLiteral("errorsAll"));
    m_training = sectionLabel(QStringLiteral("errorsTraining"));
    m_positions = makeTable(QStringLiteral("errorsByPosition"), tr("position"));
    m_positions->setAccessibleName(tr("Error by position"));
    m_classes = makeTable(QStringLiteral("errorsByClass"), tr("token"));
    m_classes->setAccessibleName(tr("Error by class of token"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    for (auto* each : {static_cast<QWidget*>(m_state), static_cast<QWidget*>(m_all), static_cast<QWidget*>(m_positions), static_cast<QWidget*>(m_classes), static_cast<QWidget*>(m_training)})
        layout->addWidget(each);
    follow(session->headViews(), &HeadViewModel::changed);
    follow(session, &Session::metricsAppended);
    follow(session, &Session::runsChanged);
}

int InspectorErrors::parts() const {
    return HeadViewModel::Evidence;
}

void InspectorErrors::fillTable(QTableWidget* table, const std::vector<core::ErrorBucket>& buckets, const QStringList& names) {
    double most = 0;
    for (const auto& bucket : buckets)
        most = std::max(most, std::isfinite(bucket.relativeError) ? bucket.relativeError : 0);
    table->setRowCount(static_cast<int>(buckets.size()));
    for (int row = 0; row < table->rowCount(); ++row) {
        const auto& bucket = buckets[static_cast<std::size_t>(row)];
        const QStringList cells{names[row], decimals(bucket.relativeError, bucket.relativeErrorSe), decimals(bucket.cosine),
                                QLocale(QLocale::English).toString(static_cast<qlonglong>(bucket.tokens))};
        for (int column = 0; column < cells.size(); ++column) {
            auto* item = new QTableWidgetItem(cells[column]);
            item->setTextAlignment((column == 0 ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
            if (column == 1 && most > 0 && std::isfinite(bucket.relativeError))
                item->setData(kBarRole, bucket.relativeError / most);
            table->setItem(row, column, item);
        }
    }
    table->setFixedHeight(table->horizontalHeader()->sizeHint().height() + table->rowCount() * table->verticalHeader()->defaultSectionSize() + 2 * table->frameWidth());
}

void InspectorErrors::fill(HeadId id) {
    const auto* views = session().headViews();
    const auto evidence = views->evidence();
    const auto said = views->stateText();
    m_state->setText(said);
    m_state->setVisible(!said.isEmpty());
    m_training->setText(trainingText(session(), id.layer));
    for (auto* each : {static_cast<QWidget*>(m_all), static_cast<QWidget*>(m_positions), static_cast<QWidget*>(m_classes)})
        each->setVisible(evidence != nullptr);
    if (!evidence)
        return;
    m_all->setText(tr("%1: relative error %2, cosine %3 over %4 windows of %5 tokens. Outputs of the head as o_proj sees them, the student's after the best linear map, "
                      "since o_proj may mix as it likes.")
                       .arg(evidence->trained ? tr("Trained layer") : tr("Start by the recipe"), decimals(evidence->relativeError), decimals(evidence->cosine))
                       .arg(evidence->windows).arg(evidence->windowTokens));
    QStringList positions, classes;
    for (const auto& bucket : evidence->byPosition)
        positions << (bucket.to - bucket.from == 1 ? QString::number(bucket.from) : QStringLiteral("%1 – %2").arg(bucket.from).arg(bucket.to - 1));
    for (const auto& bucket : evidence->byClass)
        classes << tr(core::tokenClassName(static_cast<core::TokenClass>(bucket.from)));
    fillTable(m_positions, evidence->byPosition, positions);
    fillTable(m_classes, evidence->byClass, classes);
}

} // namespace linnet::app
