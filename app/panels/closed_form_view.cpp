#include "app/panels/closed_form_view.h"

#include "app/models/session.h"

#include <QHeaderView>
#include <QLabel>
#include <QTableWidget>
#include <QVBoxLayout>
#include <cmath>

namespace linnet::app {
namespace {

constexpr int kVisibleRows = 6;

QString number(double value, int digits = 3) {
    return std::isnan(value) ? QStringLiteral("–") : std::isinf(value) ? QStringLiteral("none") : QString::number(value, 'g', digits);
}

QString residualText(double value) {
    return std::isfinite(value) ? QString::number(value, 'f', 4) : QStringLiteral("–");
}

// The parts besides half-life and beta that differ from the plain copy.
QStringList others(const FitOption& option, const core::ModelConfig& config) {
    QStringList list;
    const auto add = [&](bool there, const QString& text) {
        if (there)
            list << text;
    };
    add(config.qkvBias && !option.foldBias, ClosedFormView::tr("bias dropped"));
    add(config.qkNorm && !option.foldQkNorm, ClosedFormView::tr("QK norm dropped"));
    add(option.negatedValues, ClosedFormView::tr("values negated"));
    add(option.queryScale != 1, ClosedFormView::tr("q and k x %1").arg(number(option.queryScale)));
    add(option.keyPrior != 0, ClosedFormView::tr("key prior %1").arg(number(option.keyPrior)));
    return list;
}

} // namespace

ClosedFormView::ClosedFormView(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    m_title = new QLabel;
    m_title->setObjectName(QStringLiteral("closedFormTitle"));
    m_chosen = new QLabel;
    m_chosen->setObjectName(QStringLiteral("closedFormChosen"));
    for (auto* label : {m_title, m_chosen}) {
        label->setWordWrap(true);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    }
    m_title->setToolTip(tr("Heads of a layer share their work: what a head takes is best for the layer, not always for the head alone.\n"
                          "Of the layer: with the o_proj that was fitted. Where alignment follows (steps above 0) that one is held near the teacher's by a larger ridge, from which "
                          "it learns faster: more is left then than in a run without steps, though the heads' own residuals are the same."));
    const QStringList columns{tr("residual"), tr("half-life"), tr("beta"), tr("with")};
    const QStringList hints{tr("what is left of the head's output after the best linear map: 0 all is there, 1 nothing"), tr("tokens; none: no decay"), tr("mean of the write gate"),
                            tr("taps: values convolved by the distances that the head looks at; RoPE: positions folded into queries; centred: mean key removed")};
    m_tried = new QTableWidget(0, static_cast<int>(columns.size()));
    m_tried->setObjectName(QStringLiteral("closedFormTried"));
    m_tried->setHorizontalHeaderLabels(columns);
    for (int column = 0; column < hints.size(); ++column)
        m_tried->horizontalHeaderItem(column)->setToolTip(hints[column]);
    m_tried->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_tried->horizontalHeader()->setStretchLastSection(true);
    m_tried->verticalHeader()->hide();
    m_tried->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
    m_tried->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_tried->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_tried->setAlternatingRowColors(true);
    m_tried->setWordWrap(false);
    m_tried->setFixedHeight((kVisibleRows + 1) * (fontMetrics().height() + 4) + 12);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 4, 0, 0);
    layout->setSpacing(4);
    for (auto* each : {static_cast<QWidget*>(m_title), static_cast<QWidget*>(m_chosen), static_cast<QWidget*>(m_tried)})
        layout->addWidget(each);
    connect(session->selection(), &SelectionModel::changed, this, &ClosedFormView::refresh);
    connect(session->closedForm(), &ClosedFormModel::changed, this, &ClosedFormView::refresh);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &ClosedFormView::refresh); // the preset
    refresh();
}

void ClosedFormView::refresh() {
    const auto id = m_session->selection()->primary();
    const auto* layer = m_session->closedForm()->layer(id.layer);
    const auto* head = m_session->closedForm()->head(id.layer, id.head);
    m_tried->setVisible(head && !head->tried.empty());
    m_title->setText(tr("<b>Closed form</b>"));
    if (!head) {
        const bool others = !m_session->closedForm()->layers().empty(), linnet = m_session->recipe()->recipe().preset == "linnet";
        m_chosen->setText(others   ? tr("Layer %1 was not started in this run.").arg(id.layer)
                          : linnet ? tr("Run the conversion: what was found for this head, and all that was tried, appears here.")
                                   : tr("A run from the start \"linnet\" finds half-life and beta of each head; what it tried appears here."));
        m_chosen->setForegroundRole(QPalette::PlaceholderText);
        return;
    }
    m_chosen->setForegroundRole(QPalette::WindowText);
    m_title->setText(tr("<b>Closed form</b>: residual %1 of this head, %2 of layer %3").arg(residualText(head->chosen.residual), residualText(layer->residual)).arg(id.layer) +
                     (std::isfinite(layer->ridge) ? tr(" (o_proj with ridge %1)").arg(number(layer->ridge)) : QString()));
    const auto& chosen = head->chosen;
    const auto config = m_session->teacher() ? m_session->teacher()->config : core::ModelConfig();
    auto parts = others(chosen, config);
    parts.prepend(tr("half-life %1, beta %2; value taps %3, RoPE %4, keys %5")
                      .arg(number(chosen.halfLife), number(chosen.beta), chosen.histogramTaps ? tr("by distance") : tr("identity"), chosen.foldRope ? tr("folded") : tr("dropped"),
                           chosen.centredKeys ? tr("centred") : tr("as they are")));
    m_chosen->setText(parts.join(QStringLiteral(", ")));
    m_tried->setRowCount(static_cast<int>(head->tried.size()));
    QFont bold = m_tried->font();
    bold.setBold(true);
    for (int row = 0; row < m_tried->rowCount(); ++row) {
        const auto& option = head->tried[static_cast<std::size_t>(row)];
        auto with = others(option, config);
        for (const auto& [there, name] : {std::pair{option.centredKeys, tr("centred")}, {option.foldRope, tr("RoPE")}, {option.histogramTaps, tr("taps")}})
            if (there)
                with.prepend(name);
        const QStringList cells{residualText(option.residual), number(option.halfLife), number(option.beta), with.join(QStringLiteral(", "))};
        for (int column = 0; column < cells.size(); ++column) {
            auto* item = new QTableWidgetItem(cells[column]);
            item->setTextAlignment((column < 3 ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
            item->setToolTip(with.join(QStringLiteral(", ")));
            if (option.sameStart(chosen)) { // not always the first: heads choose together
                item->setFont(bold);
                item->setToolTip(tr("chosen: %1").arg(item->toolTip()));
            }
            m_tried->setItem(row, column, item);
        }
    }
    m_tried->scrollToTop();
}

} // namespace linnet::app
