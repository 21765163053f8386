#include "core/base/file_hash.h"

#include "core/base/files.h"
#include "core/base/result.h"

#include <fstream>

namespace linnet::core {

std::string hashWholeFile(const std::filesystem::path& file, const Control& control) {
    std::ifstream in(file, std::ios::binary);
    if (!in)
        fail(ErrorCode::NotFound, file.string() + " is missing or can't be read", {{"file", file.string()}});
    std::string piece(4 << 20, '\0'), hashes; // hash of the pieces' hashes
    while (in) {
        control.checkpoint();
        in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
        hashes += hashBytes({piece.data(), static_cast<std::size_t>(in.gcount())});
    }
    return hashBytes(hashes);
}

} // namespace linnet::core
