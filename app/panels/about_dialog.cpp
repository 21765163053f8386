#include "app/panels/about_dialog.h"

#include "app/guarded.h"
#include "core/base/result.h"
#include "core/model/diagnose.h"
#include "widgets/versions.h"

#include <QApplication>
#include <QClipboard>
#include <QDialogButtonBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QIcon>
#include <QLabel>
#include <QPointer>
#include <QPushButton>
#include <QSysInfo>
#include <QTableWidget>
#include <QVBoxLayout>

#ifndef LINNET_COMMIT
#define LINNET_COMMIT ""
#endif

namespace linnet::app {

QList<std::pair<QString, QString>> versions() {
    const auto commit = QStringLiteral(LINNET_COMMIT);
    return {{QStringLiteral("Linnet"), QStringLiteral(LINNET_VERSION) + (commit.isEmpty() ? QString() : AboutDialog::tr(", commit %1").arg(commit))},
            {QStringLiteral("Qt"), QString::fromLatin1(qVersion())},
            {QStringLiteral("QCustomPlot"), widgets::plotVersion()},
            {QStringLiteral("Dear ImGui"), widgets::imGuiVersion()},
            {AboutDialog::tr("System"), QSysInfo::prettyProductName() + QStringLiteral(", ") + QSysInfo::currentCpuArchitecture()}};
}

AboutDialog::AboutDialog(QWidget* parent) : QDialog(parent), m_table(new QTableWidget(0, 2)) {
    setObjectName(QStringLiteral("aboutDialog"));
    setWindowTitle(tr("About Linnet"));
    resize(520, 420);
    auto* icon = new QLabel;
    icon->setPixmap(QIcon(QStringLiteral(":/icons/linnet.svg")).pixmap(64, 64));
    auto* words = new QLabel(tr("<b>Linnet</b> turns pretrained Transformers into hybrid linear-attention models.<br>"
                                "Free software under the GNU General Public License, version 3 or later."));
    words->setWordWrap(true);
    m_table->setObjectName(QStringLiteral("versionsTable"));
    m_table->setAccessibleName(tr("Versions"));
    m_table->horizontalHeader()->hide();
    m_table->verticalHeader()->hide();
    m_table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    m_table->horizontalHeader()->setSectionResizeMode(1, QHeaderView::Stretch);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setTabKeyNavigation(false);
    m_table->setShowGrid(false);
    m_table->setWordWrap(false);
    m_table->setSelectionMode(QAbstractItemView::NoSelection); // Copy takes all
    m_table->setFocusPolicy(Qt::ClickFocus); // nothing in it to go to: the keyboard begins at the buttons
    m_table->verticalHeader()->setDefaultSectionSize(m_table->fontMetrics().height() + 8);
    for (const auto& [name, value] : versions())
        add(name, value);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
    auto* copy = buttons->addButton(tr("&Copy"), QDialogButtonBox::ActionRole);
    auto* top = new QHBoxLayout;
    top->addWidget(icon);
    top->addWidget(words, 1);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(top);
    layout->addWidget(m_table, 1);
    layout->addWidget(buttons);
    connect(copy, &QPushButton::clicked, this, [this] { QGuiApplication::clipboard()->setText(text()); });
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    inBackground([self = QPointer(this)] { // a driver may take a second to answer
        auto facts = core::guarded([] { return core::diagnose("auto"); });
        QMetaObject::invokeMethod(qApp, [self, facts = std::move(facts)] {
            if (!self)
                return;
            if (facts)
                for (const auto& [name, value] : *facts)
                    self->add(QString::fromStdString(name), QString::fromStdString(value));
            else
                self->add(tr("device"), QString::fromStdString(facts.error().message));
        });
    });
}

void AboutDialog::add(const QString& name, const QString& value) {
    static const QHash<QString, QString> spelt{{QStringLiteral("device"), tr("Device")}, {QStringLiteral("cuda"), QStringLiteral("CUDA")}, {QStringLiteral("threads"), tr("Threads")}, {QStringLiteral("libtorch"), QStringLiteral("LibTorch")}};
    const int row = m_table->rowCount();
    m_table->insertRow(row);
    m_table->setItem(row, 0, new QTableWidgetItem(spelt.value(name, name))); // core has the keys of its JSON
    m_table->setItem(row, 1, new QTableWidgetItem(value));
    m_table->item(row, 1)->setToolTip(value);
}

QString AboutDialog::text() const {
    QString all;
    for (int row = 0; row < m_table->rowCount(); ++row)
        all += m_table->item(row, 0)->text() + QStringLiteral(": ") + m_table->item(row, 1)->text() + QLatin1Char('\n');
    return all;
}

} // namespace linnet::app
