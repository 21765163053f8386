// The folder that an export writes into: beside its target, fresh, its alone; it takes the target's name when it is whole.
#pragma once

#include "core/base/control.h"

#include <filesystem>

namespace linnet::core {

// The file in it by which it is known; its owner holds a lock (flock) on it for as long as it lives.
inline constexpr const char* kPartialMark = ".linnet-export";

// Where an export to `out` lands: absolute, without a slash at the end, links resolved. Usage naming it where it is empty, too long, a file, a
// folder that is not empty, a mount point, or a link to nothing.
std::filesystem::path exportTarget(const std::filesystem::path& out);

class PartialFolder {
public:
    // TARGET.part-XXXXXX; removes those of that target which a killed export left, and logs those that it can't tell to be dead. Io.
    PartialFolder(const std::filesystem::path& target, const Control& control);
    ~PartialFolder(); // removes it unless finished
    PartialFolder(const PartialFolder&) = delete;
    PartialFolder& operator=(const PartialFolder&) = delete;

    const std::filesystem::path& path() const { return m_path; }
    void finish(); // takes the target's name; Usage where something of that name has appeared, which is left as it is

private:
    std::filesystem::path m_target, m_path;
    int m_lock = -1;
};

} // namespace linnet::core
