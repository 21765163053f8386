#include "app/panels/plot_export_menu.h"

#include "app/models/session.h"
#include "widgets/export_widget.h"

#include <QApplication>

namespace linnet::app {

using widgets::ExportWidget;

PlotExportMenu::PlotExportMenu(Session* session, QWidget* window) : QMenu(tr("Export &plot"), window), m_session(session), m_window(window) {
    setObjectName(QStringLiteral("plotExportMenu"));
    connect(this, &QMenu::aboutToShow, this, &PlotExportMenu::refill);
    connect(qApp, &QApplication::focusChanged, this, [this](QWidget*, QWidget* now) {
        for (auto* widget = now; widget; widget = widget->parentWidget())
            if (auto* plot = qobject_cast<ExportWidget*>(widget))
                return m_last = plot, listen(plot);
    });
    refill();
}

ExportWidget* PlotExportMenu::plot() const {
    const auto seen = [](const ExportWidget* plot) { return plot && plot->isVisible() && plot->hasPicture(); };
    if (seen(m_last))
        return m_last;
    ExportWidget* largest = nullptr; // what the eye is on
    for (auto* plot : m_window->findChildren<ExportWidget*>())
        if (seen(plot) && (!largest || plot->width() * plot->height() > largest->width() * largest->height()))
            largest = plot;
    return largest;
}

void PlotExportMenu::refill() {
    for (auto* each : m_window->findChildren<ExportWidget*>()) // also of those whose own menu is used
        listen(each);
    clear();
    auto* shown = plot();
    if (!shown) {
        addAction(tr("No plot is in view"))->setEnabled(false);
        return;
    }
    addSection(shown->accessibleName().isEmpty() ? tr("Plot") : shown->accessibleName());
    shown->fillExportMenu(this);
}

void PlotExportMenu::listen(ExportWidget* plot) {
    connect(plot, &ExportWidget::saved, this, &PlotExportMenu::answer, Qt::UniqueConnection);
}

void PlotExportMenu::answer(const QString& message, bool succeeded) {
    if (succeeded)
        Q_EMIT m_session->notice(message);
    else
        Q_EMIT m_session->failed(tr("The plot was not saved"), {core::ErrorCode::Io, message.toStdString(), {}});
}

} // namespace linnet::app
