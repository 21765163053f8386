#include "app/models/file_journal.h"

#include "core/base/files.h"

#include <filesystem>

namespace linnet::app {
namespace {

core::Result<void> save(const std::string& file, const std::string& text) {
    return core::guarded([&] {
        std::filesystem::create_directories(std::filesystem::path(file).parent_path());
        core::writeFileAtomically(file, text);
    });
}

} // namespace

FileJournal::FileJournal(QObject* parent) : QObject(parent) {
    m_pool.setMaxThreadCount(1);
}

FileJournal::~FileJournal() {
    m_pool.waitForDone();
    for (const auto& [file, text] : m_waiting)
        save(file, text);
}

void FileJournal::write(const QString& file, std::string text) {
    m_waiting[file.toStdString()] = std::move(text);
    if (!m_writing)
        next();
}

void FileJournal::next() {
    m_writing = true;
    const std::pair<std::string, std::string> entry = *m_waiting.begin();
    m_waiting.erase(m_waiting.begin());
    m_pool.start([this, entry] {
        auto result = save(entry.first, entry.second);
        QMetaObject::invokeMethod(this, [this, result = std::move(result)] { finished(result); }, Qt::QueuedConnection);
    });
}

void FileJournal::finished(const core::Result<void>& result) {
    m_writing = false;
    if (!m_waiting.empty())
        next();
    if (result)
        Q_EMIT written();
    else
        Q_EMIT failed(result.error());
}

} // namespace linnet::app
