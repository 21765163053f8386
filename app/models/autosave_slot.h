// Which file this window's edits go to. Each teacher has one; a window that opens a teacher which another window has open takes the next
// (autosave-HASH.2.json), so that neither writes over the other's. A lock file beside it says whose it is; that of a killed window is free.
#pragma once

#include <QString>
#include <memory>
#include <string>

class QLockFile;

namespace linnet::app {

class AutosaveSlot {
public:
    AutosaveSlot();
    ~AutosaveSlot();
    void take(const std::string& teacherHash); // "": none; the one before is free again
    const std::string& teacher() const { return m_teacher; }
    int number() const { return m_number; } // 1; from 2 on other windows have it open too
    static QString file(const std::string& teacherHash, int number = 1);

private:
    std::string m_teacher;
    int m_number = 1;
    std::unique_ptr<QLockFile> m_lock;
};

} // namespace linnet::app
