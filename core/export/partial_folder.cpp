#include "core/export/partial_folder.h"

#include "core/base/result.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;
constexpr const char* kInfix = ".part-";
constexpr std::size_t kLetters = 6;
constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789";

[[noreturn]] void refuse(const fs::path& out, const std::string& why) {
    fail(ErrorCode::Usage, "export folder \"" + out.string() + "\" " + why, {{"option", "--out"}, {"file", out.string()}});
}

std::string randomEnd() {
    std::random_device device;
    std::string text;
    for (std::size_t i = 0; i < kLetters; ++i)
        text += kAlphabet[std::uniform_int_distribution<std::size_t>(0, kAlphabet.size() - 1)(device)];
    return text;
}

bool isPartialOf(const fs::path& entry, const fs::path& target) {
    const auto name = entry.filename().string(), start = target.filename().string() + kInfix;
    return name.size() == start.size() + kLetters && name.starts_with(start) && name.find_first_not_of(kAlphabet, start.size()) == name.npos;
}

// A lock on a network's file system may be known to its own host only: no lock there says that nobody writes.
bool locksAreShared(int file) {
    struct statfs system = {};
    if (::fstatfs(file, &system) != 0)
        return false;
    switch (static_cast<std::uint32_t>(system.f_type)) { // linux/magic.h
    case 0xEF53:     // ext2 to ext4
    case 0x58465342: // xfs
    case 0x9123683E: // btrfs
    case 0x01021994: // tmpfs
    case 0x794C7630: // overlayfs
    case 0xF2F52010: // f2fs
    case 0x2FC12FC1: // zfs
        return true;
    default: return false;
    }
}

// Of a killed export: removed. Of one that lives: its owner holds the lock. No mark: not ours.
void removeIfDead(const fs::path& folder, const Control& control) {
    const int lock = ::open((folder / kPartialMark).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (lock < 0)
        return;
    std::error_code failed;
    const bool free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
    if (free && locksAreShared(lock))
        fs::remove_all(folder, failed);
    if (free && fs::exists(folder, failed))
        control.log(folder.string() + " is of an export that may have been killed; remove it if none runs");
    ::close(lock);
}

void removeLeftovers(const fs::path& target, const Control& control) {
    std::vector<fs::path> found;
    std::error_code failed;
    for (fs::directory_iterator entry(target.parent_path(), failed), end; !failed && entry != end; entry.increment(failed))
        if (isPartialOf(entry->path(), target) && entry->symlink_status(failed).type() == fs::file_type::directory)
            found.push_back(entry->path());
    for (const auto& folder : found)
        removeIfDead(folder, control);
}

// Made and locked. -1 where another export took it for a leftover in between.
int makeMark(const fs::path& folder) {
    const auto mark = folder / kPartialMark;
    const int lock = ::open(mark.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (lock < 0)
        return -1;
    struct stat status = {};
    const bool taken = ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; // a file system without locks will do: nobody removes there
    if (!taken && ::fstat(lock, &status) == 0 && status.st_nlink > 0)
        return lock;
    ::close(lock);
    return -1;
}

} // namespace

fs::path exportTarget(const fs::path& out) {
    if (out.empty())
        fail(ErrorCode::Usage, "--out is empty: the path of a folder to make was expected", {{"option", "--out"}, {"file", ""}});
    const auto normal = fs::absolute(out).lexically_normal();
    auto target = normal.has_filename() ? normal : normal.parent_path();
    std::error_code failed;
    if (fs::symlink_status(target, failed).type() == fs::file_type::symlink) {
        const auto there = fs::canonical(target, failed);
        if (failed)
            refuse(out, "is a link that leads nowhere; choose another");
        target = there;
    }
    if (target.filename().string().size() + std::strlen(kInfix) + kLetters > NAME_MAX || target.string().size() + 128 > PATH_MAX)
        refuse(out, "has too long a name; up to " + std::to_string(NAME_MAX - std::strlen(kInfix) - kLetters) + " bytes are supported");
    const auto status = fs::status(target, failed);
    if (!fs::exists(status))
        return target;
    if (!fs::is_directory(status))
        refuse(out, "is a file; choose another");
    const bool empty = fs::is_empty(target, failed);
    if (failed)
        refuse(out, "can't be read: " + failed.message());
    if (!empty)
        refuse(out, "exists and is not empty; choose another");
    struct stat own = {}, above = {};
    if (::stat(target.c_str(), &own) == 0 && ::stat(target.parent_path().c_str(), &above) == 0 && own.st_dev != above.st_dev)
        refuse(out, "is a mount point, which nothing can take the place of; name a folder in it");
    return target;
}

PartialFolder::PartialFolder(const fs::path& target, const Control& control) : m_target(target) {
    std::error_code failed, ignored;
    fs::create_directories(target.parent_path(), failed);
    removeLeftovers(target, control);
    int code = EEXIST;
    for (int tries = 0; tries < 100 && m_lock < 0 && code == EEXIST; ++tries) {
        m_path = target.string() + kInfix + randomEnd();
        if (::mkdir(m_path.c_str(), 0777) != 0) // never one that is there already
            code = errno;
        else if (m_lock = makeMark(m_path); m_lock < 0)
            fs::remove_all(m_path, ignored);
    }
    if (m_lock < 0)
        fail(code == ENOSPC || code == EDQUOT ? ErrorCode::Disk : ErrorCode::Io, "can't make " + m_path.string() + ": " + (failed ? failed.message() : std::strerror(code)),
             {{"file", target.string()}});
}

PartialFolder::~PartialFolder() {
    std::error_code ignored;
    if (!m_path.empty())
        fs::remove_all(m_path, ignored);
    ::close(m_lock);
}

void PartialFolder::finish() {
    // Of a folder, this replaces an empty one at most: whatever else is there is kept by the system.
    if (::rename(m_path.c_str(), m_target.c_str()) != 0) {
        const int code = errno;
        if (code == EEXIST || code == ENOTEMPTY || code == ENOTDIR || code == EBUSY)
            refuse(m_target, "has appeared while the export ran and is left as it is; nothing was exported: choose another");
        fail(ErrorCode::Io, "can't give " + m_path.string() + " the name " + m_target.string() + ": " + std::strerror(code), {{"file", m_target.string()}});
    }
    m_path.clear();
    ::unlink((m_target / kPartialMark).c_str());
}

} // namespace linnet::core
