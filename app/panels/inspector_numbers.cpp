#include "app/panels/inspector_numbers.h"

#include "app/models/head_metrics.h"
#include "app/models/session.h"

#include <QLabel>
#include <QLocale>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

QString withError(double value, double error) {
    return std::isfinite(error) && std::isfinite(value) ? sectionNumber(value) + QStringLiteral(" ± ") + QString::number(error, 'g', 2) : sectionNumber(value);
}

// 3: the third largest; a dash where it was not measured.
QString rank(const std::vector<double>& values, std::size_t begin, std::size_t end, std::size_t own) {
    if (own >= values.size() || end > values.size() || std::isnan(values[own]))
        return QStringLiteral("–");
    const auto at = [&](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
    return QString::number(1 + std::count_if(at(begin), at(end), [&](double value) { return value > values[own]; }));
}

class Rows {
public:
    Rows(Session& session, HeadId head) : m_session(session), m_heads(static_cast<std::size_t>(session.teacher()->config.heads)), m_head(head) {
        const auto all = m_heads * static_cast<std::size_t>(session.teacher()->config.layers);
        m_html = QStringLiteral("<tr><td></td>%1%2%3</tr>")
                     .arg(cell(InspectorNumbers::tr("rank:")), cell(QStringLiteral("/%1").arg(m_heads)), cell(QStringLiteral("/%1").arg(all)));
    }
    void addWide(const QString& name, const QString& value) {
        m_html += QStringLiteral("<tr><td>%1&nbsp;</td><td align=right colspan=3>%2</td></tr>").arg(name, value);
    }
    void add(const QString& name, const QString& value, std::optional<Metric> metric = {}) {
        QString inLayer, inModel;
        if (metric) {
            const auto values = metricValues(m_session, *metric, Source::Teacher);
            const auto begin = static_cast<std::size_t>(m_head.layer) * m_heads, own = begin + static_cast<std::size_t>(m_head.head);
            inLayer = rank(values, begin, begin + m_heads, own);
            inModel = rank(values, 0, values.size(), own);
        }
        m_html += QStringLiteral("<tr><td>%1&nbsp;</td>%2%3%4</tr>").arg(name, cell(value), cell(inLayer), cell(inModel));
    }
    QString html() const { return QStringLiteral("<table cellspacing=1>") + m_html + QStringLiteral("</table>"); }

private:
    static QString cell(const QString& text) { // a number is never broken
        return QStringLiteral("<td align=right style=\"white-space:nowrap\">%1&nbsp;</td>").arg(text.toHtmlEscaped());
    }
    Session& m_session;
    std::size_t m_heads;
    HeadId m_head;
    QString m_html;
};

} // namespace

InspectorNumbers::InspectorNumbers(Session* session) : InspectorSection(session, QStringLiteral("numbers"), tr("Numbers"), true) {
    m_numbers = sectionLabel(QStringLiteral("headNumbers"));
    m_sample = sectionLabel(QStringLiteral("headSample"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(m_numbers);
    layout->addWidget(m_sample);
    m_top = sectionLabel(QStringLiteral("headTop"));
    m_top->setTextInteractionFlags(Qt::TextBrowserInteraction | Qt::LinksAccessibleByKeyboard);
    layout->addWidget(m_top);
    connect(m_top, &QLabel::linkActivated, this, [this] {
        m_wantsTop = true;
        Q_EMIT partsChanged();
        fillTop();
    });
    follow(session->headViews(), &HeadViewModel::changed);
}

int InspectorNumbers::parts() const {
    return m_wantsTop ? HeadViewModel::View : 0;
}

void InspectorNumbers::fillTop() {
    const auto* views = session().headViews();
    const auto view = views->view();
    const auto what = tr("on the largest sources of a row");
    if (!view || view->top.windows == 0) {
        const auto said = views->stateText();
        m_top->setText(said.isEmpty() ? tr("%1: – <a href='measure'>measure</a>").arg(what) : tr("%1: – (%2)").arg(what, said.toHtmlEscaped()));
        return;
    }
    const auto& top = view->top;
    QStringList values;
    for (std::size_t k = 0; k < core::kTopSources.size(); ++k)
        values << tr("%1: %2").arg(core::kTopSources[k]).arg(withError(top.mean[k], top.se[k]));
    const QLocale locale(QLocale::English);
    m_top->setText(tr("%1: <b>%2</b><br>n = %3 rows in %4 windows of the recipe's data; ± over windows.")
                       .arg(what, values.join(QStringLiteral("; ")).toHtmlEscaped(), locale.toString(static_cast<qlonglong>(top.rows)), locale.toString(static_cast<qlonglong>(top.windows))));
}

void InspectorNumbers::fill(HeadId id) {
    const auto* profile = session().profile();
    const bool known = profile && id.layer < std::ssize(profile->layers) && id.head < std::ssize(profile->layers[static_cast<std::size_t>(id.layer)]);
    m_numbers->setVisible(known);
    fillTop();
    if (!known) {
        m_sample->setText(session().recipe()->convertedBefore(id.layer) ? tr("This layer is linear already: it has no attention to measure.") : tr("Not measured: profile the teacher."));
        return;
    }
    const auto& head = profile->layers[static_cast<std::size_t>(id.layer)][static_cast<std::size_t>(id.head)];
    Rows rows(session(), id);
    rows.add(tr("attention distance"), withError(head.distance.mean, head.distance.se), Metric::Distance);
    rows.addWide(tr("p10 / median / p90"), sectionNumber(head.p10) + QStringLiteral(" / ") + sectionNumber(head.p50) + QStringLiteral(" / ") + sectionNumber(head.p90));
    rows.add(tr("– without sink"), withError(head.distanceNoSink.mean, head.distanceNoSink.se), Metric::DistanceNoSink);
    rows.add(tr("its median"), sectionNumber(head.medianNoSink));
    rows.add(tr("entropy, nats"), withError(head.entropy.mean, head.entropy.se));
    rows.add(tr("concentration"), sectionNumber(head.concentrationAbsolute), Metric::ConcentrationAbsolute);
    rows.add(tr("– within layer"), sectionNumber(head.concentrationLayer), Metric::ConcentrationLayer);
    rows.add(tr("sink mass"), withError(head.sinkMass, head.sinkSe), Metric::SinkMass);
    rows.add(tr("previous-token mass"), withError(head.previousMass, head.previousSe), Metric::PreviousMass);
    rows.add(tr("mass on itself"), withError(head.selfMass, head.selfSe));
    rows.add(tr("output scale"), withError(head.rmsPostO, head.rmsPostOSe), Metric::OutputAfter);
    rows.add(tr("– before o_proj"), withError(head.rmsPreO, head.rmsPreOSe), Metric::OutputBefore);
    m_numbers->setText(rows.html());
    const QLocale locale(QLocale::English);
    m_sample->setText(tr("n = %1 sequences of %2 tokens (%3); ± is one standard error over sequences. Sinks: the first 4 tokens. Ranks in layer and model: 1 is the largest.")
                          .arg(locale.toString(static_cast<qlonglong>(profile->sequences)), locale.toString(static_cast<qlonglong>(profile->seqLen)),
                               locale.toString(static_cast<qlonglong>(profile->tokens))));
}

} // namespace linnet::app
