#include "widgets/step_rail.h"

#include "widgets/theme.h"

#include <QAbstractButton>
#include <QEvent>
#include <QPainter>
#include <QVBoxLayout>
#include <algorithm>

namespace linnet::widgets {
namespace {

constexpr int kDot = 16, kPadding = 5, kGap = 8; // pixels

QString stateName(StepState state) {
    switch (state) {
    case StepState::Todo: return StepRail::tr("to do");
    case StepState::Running: return StepRail::tr("running");
    case StepState::Done: return StepRail::tr("done");
    case StepState::Stale: return StepRail::tr("out of date");
    case StepState::Blocked: break;
    }
    return StepRail::tr("blocked");
}

} // namespace

class StepRow : public QAbstractButton {
public:
    StepRow(int number, bool last, QWidget* parent) : QAbstractButton(parent), m_number(number), m_last(last) {
        setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
        setFocusPolicy(Qt::StrongFocus);
        setAttribute(Qt::WA_Hover);
    }

    void setStep(const Step& step) {
        m_step = step;
        setText(step.name);
        setAccessibleName(QStringLiteral("%1. %2: %3").arg(m_number).arg(step.name, stateName(step.state)));
        setAccessibleDescription(step.reason);
        setToolTip(step.reason.isEmpty() ? stateName(step.state) : stateName(step.state) + ": " + step.reason);
        updateGeometry();
        update();
    }

    void setNameWidth(int width) {
        m_nameWidth = width;
        update();
    }

    void setCurrent(bool current) {
        m_current = current;
        update();
    }

    QSize sizeHint() const override { return {150, std::max(fontMetrics().height(), kDot) + 2 * kPadding}; }
    QSize minimumSizeHint() const override { return {kDot + 60, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent*) override {
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        QColor wash = palette().color(QPalette::Highlight);
        wash.setAlpha(m_current ? 46 : 22);
        if (m_current || underMouse())
            painter.fillRect(rect(), wash);
        if (m_current)
            painter.fillRect(QRect(0, 0, 3, height()), palette().color(QPalette::Highlight));
        paintDot(painter);
        const int left = kPadding + 4 + kDot + kGap, width = this->width() - left - kPadding, nameWidth = std::min(m_nameWidth, width);
        QFont name = font();
        name.setBold(m_current);
        painter.setFont(name);
        painter.setPen(palette().color(QPalette::WindowText));
        const QString reason = m_step.reason.isEmpty() ? stateName(m_step.state) : m_step.reason;
        painter.drawText(QRect(left, 0, nameWidth, height()), Qt::AlignLeft | Qt::AlignVCenter, QFontMetrics(name).elidedText(m_step.name, Qt::ElideRight, nameWidth));
        painter.setFont(font());
        painter.setPen(reasonColor());
        const int room = width - nameWidth - kGap;
        painter.drawText(QRect(left + nameWidth + kGap, 0, room, height()), Qt::AlignLeft | Qt::AlignVCenter, fontMetrics().elidedText(reason, Qt::ElideRight, room));
        if (hasFocus()) {
            painter.setBrush(Qt::NoBrush);
            painter.setPen(QPen(palette().color(QPalette::Highlight), 1, Qt::DotLine));
            painter.drawRect(QRectF(rect()).adjusted(1.5, 1.5, -1.5, -1.5));
        }
    }

private:
    QColor stateColor() const {
        const StateColors colors = stateColors(palette());
        switch (m_step.state) {
        case StepState::Done: return colors.good;
        case StepState::Running: return colors.running;
        case StepState::Stale: return colors.warning;
        case StepState::Blocked: return colors.bad;
        case StepState::Todo: break;
        }
        return PlotColors::fromPalette(palette()).axis;
    }

    QColor reasonColor() const {
        const bool plain = m_step.state == StepState::Todo || m_step.state == StepState::Done;
        return plain ? PlotColors::fromPalette(palette()).axis : stateColor();
    }

    // Shape and sign differ with the state, not only the colour.
    void paintDot(QPainter& painter) const {
        const QRectF dot(kPadding + 4, (height() - kDot) / 2.0, kDot, kDot);
        const QPointF c = dot.center();
        painter.setPen(QPen(palette().color(QPalette::Mid), 1.5));
        if (m_number > 1)
            painter.drawLine(QPointF(c.x(), 0), QPointF(c.x(), dot.top() - 2));
        if (!m_last)
            painter.drawLine(QPointF(c.x(), dot.bottom() + 2), QPointF(c.x(), height()));
        const QColor color = stateColor(), paper = palette().color(QPalette::Base);
        const bool filled = m_step.state == StepState::Done;
        painter.setPen(QPen(color, 1.8));
        painter.setBrush(filled ? QBrush(color) : QBrush(Qt::NoBrush));
        painter.drawEllipse(dot.adjusted(1, 1, -1, -1));
        painter.setPen(QPen(filled ? paper : color, 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
        switch (m_step.state) {
        case StepState::Done:
            painter.drawPolyline(QPolygonF({c + QPointF(-4.5, 0.5), c + QPointF(-1.2, 3.6), c + QPointF(4.5, -3.4)}));
            break;
        case StepState::Running:
            painter.setBrush(color);
            painter.drawPolygon(QPolygonF({c + QPointF(-2.2, -3.8), c + QPointF(-2.2, 3.8), c + QPointF(4, 0)}));
            break;
        case StepState::Stale:
            painter.drawLine(c + QPointF(0, -4.5), c + QPointF(0, 1));
            painter.drawPoint(c + QPointF(0, 4.5));
            break;
        case StepState::Blocked:
            painter.drawLine(c + QPointF(-4, 0), c + QPointF(4, 0));
            break;
        case StepState::Todo:
            painter.drawText(dot, Qt::AlignCenter, QString::number(m_number));
            break;
        }
    }

    Step m_step;
    int m_number;
    int m_nameWidth = 0; // of the widest of the rail: the reasons stand below each other
    bool m_last, m_current = false;
};

StepRail::StepRail(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Steps"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
}

void StepRail::setSteps(const QList<Step>& steps) {
    qDeleteAll(m_rows);
    m_rows.clear();
    m_steps = steps;
    for (qsizetype i = 0; i < steps.size(); ++i) {
        auto* row = new StepRow(int(i) + 1, i + 1 == steps.size(), this);
        row->setStep(steps[i]);
        connect(row, &QAbstractButton::clicked, this, [this, id = steps[i].id] { Q_EMIT stepClicked(id); });
        layout()->addWidget(row);
        row->show();
        m_rows << row;
    }
    fitNames();
}

void StepRail::fitNames() {
    QFont bold = font(); // as the current one is written
    bold.setBold(true);
    int widest = 0;
    for (const auto& step : m_steps)
        widest = std::max(widest, QFontMetrics(bold).horizontalAdvance(step.name));
    for (auto* row : m_rows)
        row->setNameWidth(widest);
}

void StepRail::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::FontChange)
        fitNames();
}

void StepRail::setStep(const QString& id, StepState state, const QString& reason) {
    for (qsizetype i = 0; i < m_steps.size(); ++i)
        if (m_steps[i].id == id) {
            m_steps[i].state = state;
            m_steps[i].reason = reason;
            m_rows[i]->setStep(m_steps[i]);
        }
}

void StepRail::setCurrent(const QString& id) {
    for (qsizetype i = 0; i < m_steps.size(); ++i)
        m_rows[i]->setCurrent(m_steps[i].id == id);
}

QWidget* StepRail::row(const QString& id) const {
    for (qsizetype i = 0; i < m_steps.size(); ++i)
        if (m_steps[i].id == id)
            return m_rows[i];
    return nullptr;
}

} // namespace linnet::widgets
