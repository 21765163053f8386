#include "core/base/file_hash.h"

#include "core/base/files.h"
#include "core/base/regular_file.h"

namespace linnet::core {

std::string hashWholeFile(const std::filesystem::path& path, const Control& control) {
    const RegularFile file(path);
    std::string piece(4 << 20, '\0'), hashes; // hash of the pieces' hashes
    for (std::size_t offset = 0, got = piece.size(); got == piece.size(); offset += got) {
        control.checkpoint();
        got = file.read(offset, piece.data(), piece.size());
        hashes += hashBytes({piece.data(), got});
    }
    return hashBytes(hashes);
}

} // namespace linnet::core
