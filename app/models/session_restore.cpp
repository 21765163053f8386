#include "app/models/session_restore.h"

#include "app/models/session.h"
#include "app/models/settings.h"

#include <QCoreApplication>
#include <QFile>
#include <QFileInfo>
#include <QSysInfo>
#include <QTabWidget>

namespace linnet::app {
namespace {

constexpr int kSaveMs = 1500;

QString headText(HeadId head) {
    return QStringLiteral("%1:%2").arg(head.layer).arg(head.head);
}

HeadId headOf(const QString& text) { // invalid where it is no head
    const auto parts = text.split(QLatin1Char(':'));
    bool layer = false, head = false;
    const HeadId id{parts.value(0).toInt(&layer), parts.value(1).toInt(&head)};
    return parts.size() == 2 && layer && head ? id : HeadId{};
}

QString openKey(qint64 process) { // a home may be shared by machines
    return QStringLiteral("open/%1/%2").arg(QSysInfo::machineHostName().replace(QLatin1Char('/'), QLatin1Char('_'))).arg(process);
}

} // namespace

SessionRestore::SessionRestore(Session* session, QTabWidget* pages, QObject* parent) : QObject(parent), m_session(session), m_pages(pages) {
    const auto shown = Settings().value(QStringLiteral("session/page")).toString();
    for (int i = 0; i < pages->count(); ++i)
        if (!shown.isEmpty() && pages->widget(i)->objectName() == shown)
            pages->setCurrentIndex(i);
    m_timer.setSingleShot(true);
    m_timer.setInterval(kSaveMs);
    connect(&m_timer, &QTimer::timeout, this, &SessionRestore::save);
    const auto later = [this] {
        if (!m_timer.isActive())
            m_timer.start();
    };
    connect(pages, &QTabWidget::currentChanged, this, later);
    connect(session->selection(), &SelectionModel::changed, this, later);
    connect(session, &Session::runsChanged, this, later);
    connect(session, &Session::teacherChanged, this, [this, later] {
        teacherChanged();
        later();
    });
}

bool SessionRestore::reopens() {
    return Settings().value(QStringLiteral("session/reopen"), true).toBool();
}

void SessionRestore::setReopens(bool reopen) {
    Settings().setValue(QStringLiteral("session/reopen"), reopen);
}

QString SessionRestore::lastModel() {
    return Settings().value(QStringLiteral("session/model")).toString();
}

bool SessionRestore::markOpen() {
    bool broken = false;
    const auto mine = openKey(QCoreApplication::applicationPid()), group = openKey(0).chopped(1);
    for (const auto& key : Settings().keys()) {
        if (!key.startsWith(group) || key == mine)
            continue;
        QFile program(QStringLiteral("/proc/%1/comm").arg(key.mid(group.size())));
        if (program.open(QIODevice::ReadOnly) && QString::fromLocal8Bit(program.readAll()).trimmed() == Settings().value(key).toString())
            continue; // another window, open now
        broken = true;
        Settings().remove(key);
    }
    QFile program(QStringLiteral("/proc/self/comm"));
    if (program.open(QIODevice::ReadOnly))
        Settings().setValue(mine, QString::fromLocal8Bit(program.readAll()).trimmed());
    return broken;
}

void SessionRestore::markClosed() {
    Settings().remove(openKey(QCoreApplication::applicationPid()));
}

void SessionRestore::save() {
    Settings settings;
    if (const auto* page = m_pages->currentWidget())
        settings.setValue(QStringLiteral("session/page"), page->objectName());
    const auto& teacher = m_session->teacher();
    if (!teacher)
        return; // none yet, or one that failed: the last good one is worth more
    settings.setValue(QStringLiteral("session/model"), QString::fromStdString(teacher->path.string()));
    settings.setValue(QStringLiteral("session/hash"), QString::fromStdString(teacher->hash));
    QStringList heads;
    const auto primary = m_session->selection()->primary();
    if (primary.valid())
        heads << headText(primary);
    for (const auto& head : m_session->selection()->sorted())
        if (head != primary)
            heads << headText(head);
    settings.setValue(QStringLiteral("session/selection"), heads);
    const auto run = m_session->currentRun();
    settings.setValue(QStringLiteral("session/run"), run ? run->folder : QString());
}

void SessionRestore::teacherChanged() {
    const auto& teacher = m_session->teacher();
    if (!teacher || std::exchange(m_restored, true))
        return;
    const Settings settings;
    if (settings.value(QStringLiteral("session/hash")).toString() != QString::fromStdString(teacher->hash))
        return;
    QSet<HeadId> heads;
    HeadId primary;
    for (const auto& text : settings.value(QStringLiteral("session/selection")).toStringList()) {
        const auto head = headOf(text);
        if (!head.valid() || head.layer >= teacher->config.layers || head.head >= teacher->config.heads)
            continue;
        heads.insert(head);
        primary = primary.valid() ? primary : head;
    }
    if (!heads.isEmpty())
        m_session->selection()->select(heads, primary);
    const auto run = settings.value(QStringLiteral("session/run")).toString();
    if (!run.isEmpty() && QFileInfo::exists(run + QStringLiteral("/state.json")))
        m_session->showRun(run);
}

} // namespace linnet::app
