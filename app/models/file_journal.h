// Writes the newest text of a file that the window keeps (the recipe under edit, what it knows of runs) in a thread of its own:
// beside the file, fsync, rename. The window never waits for a disk; a kill at any moment leaves the file before or the file after.
#pragma once

#include "core/base/result.h"

#include <QObject>
#include <QThreadPool>
#include <map>
#include <string>

namespace linnet::app {

class FileJournal : public QObject {
    Q_OBJECT
public:
    explicit FileJournal(QObject* parent = nullptr);
    ~FileJournal() override; // waits until the newest text is written
    void write(const QString& file, std::string text); // of texts that wait for one file, the newest wins
Q_SIGNALS:
    void written();
    void failed(const core::Error& error); // Disk, Io; the file is as it was

private:
    void next();
    void finished(const core::Result<void>& result);
    QThreadPool m_pool; // one thread
    std::map<std::string, std::string> m_waiting; // file -> text
    bool m_writing = false;
};

} // namespace linnet::app
