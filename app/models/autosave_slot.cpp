#include "app/models/autosave_slot.h"

#include <QDir>
#include <QLockFile>
#include <QStandardPaths>

namespace linnet::app {
namespace {

constexpr int kMostWindows = 32;

} // namespace

AutosaveSlot::AutosaveSlot() = default;
AutosaveSlot::~AutosaveSlot() = default;

QString AutosaveSlot::file(const std::string& teacherHash, int number) {
    const auto name = teacherHash.empty() ? QStringLiteral("autosave") : QStringLiteral("autosave-") + QString::fromStdString(teacherHash);
    return QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QLatin1Char('/') + name + (number > 1 ? QStringLiteral(".%1").arg(number) : QString()) + QStringLiteral(".json");
}

void AutosaveSlot::take(const std::string& teacherHash) {
    if (teacherHash == m_teacher)
        return;
    m_lock.reset();
    m_teacher = teacherHash;
    m_number = 1;
    if (teacherHash.empty() || !QDir().mkpath(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation)))
        return;
    for (int number = 1; number <= kMostWindows; ++number) {
        auto lock = std::make_unique<QLockFile>(file(teacherHash, number) + QStringLiteral(".lock"));
        lock->setStaleLockTime(0); // a window may stay open for days; one whose process is gone doesn't count
        if (!lock->tryLock(0) && lock->error() == QLockFile::LockFailedError)
            continue;
        m_number = number; // also where no lock can be written: then nothing else can, and that is said
        m_lock = std::move(lock);
        return;
    }
}

} // namespace linnet::app
