// Text files to documents: UTF-8 checked, byte order mark dropped, line ends kept.
#include "core/data/text_data.h"

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"

#include <algorithm>
#include <utf8proc.h>

namespace linnet::core {
namespace {

std::string extensionOf(const std::filesystem::path& file) {
    std::string extension = file.extension().string();
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return extension;
}

bool isText(const std::filesystem::path& file) {
    const auto extension = extensionOf(file);
    return extension == ".txt" || extension == ".jsonl";
}

void checkUtf8(const std::string& text, const std::filesystem::path& file) {
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const auto size = static_cast<utf8proc_ssize_t>(text.size());
    for (utf8proc_ssize_t offset = 0; offset < size;) {
        utf8proc_int32_t codePoint = 0;
        const auto length = utf8proc_iterate(bytes + offset, size - offset, &codePoint);
        if (length < 1)
            fail(ErrorCode::Malformed,
                 file.string() + ": not valid UTF-8 at byte " + std::to_string(offset) + "; convert the file to UTF-8",
                 {{"file", file.string()}, {"byte", std::to_string(offset)}});
        offset += length;
    }
}

// The documents of one .jsonl file: an object a line, its key `text`; empty lines are passed over.
void readLines(const std::string& text, const std::filesystem::path& file, std::vector<std::string>& documents) {
    std::size_t number = 0;
    for (std::size_t start = 0; start < text.size();) {
        const auto end = std::min(text.find('\n', start), text.size());
        const std::string_view line = std::string_view(text).substr(start, end - start);
        start = end + 1;
        const std::string where = file.string() + ", line " + std::to_string(++number);
        if (line.find_first_not_of(" \t\r") == line.npos)
            continue;
        const Json json = parseJson(line, where);
        const auto refuse = [&](const std::string& found) {
            fail(ErrorCode::Malformed, where + ": found " + found + ", expected an object with a string under the key text",
                 {{"file", file.string()}, {"line", std::to_string(number)}, {"key", "text"}});
        };
        if (!json.is_object())
            refuse(std::string("a JSON ") + json.type_name());
        const auto found = json.find("text");
        if (found == json.end())
            refuse("no key text");
        if (!found->is_string())
            refuse(std::string("a ") + found->type_name() + " under the key text");
        documents.push_back(found->get<std::string>());
    }
}

void readFile(const std::filesystem::path& file, std::vector<std::string>& documents) {
    std::string text = readTextFile(file);
    checkUtf8(text, file);
    if (text.starts_with("\xEF\xBB\xBF"))
        text.erase(0, 3);
    if (extensionOf(file) == ".jsonl")
        readLines(text, file, documents);
    else
        documents.push_back(std::move(text));
}

std::vector<std::filesystem::path> textFilesOf(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (auto entry = std::filesystem::recursive_directory_iterator(folder);
         entry != std::filesystem::recursive_directory_iterator(); ++entry) {
        if (entry->path().filename().string().starts_with(".")) {
            if (entry->is_directory())
                entry.disable_recursion_pending();
        } else if (entry->is_regular_file() && isText(entry->path())) {
            files.push_back(entry->path());
        }
    }
    std::ranges::sort(files, {}, [](const std::filesystem::path& file) { return file.string(); });
    if (files.empty())
        fail(ErrorCode::NotFound, folder.string() + ": the folder holds no .txt or .jsonl file", {{"file", folder.string()}});
    return files;
}

} // namespace

std::vector<std::string> readDocuments(const std::vector<std::string>& paths) {
    std::vector<std::string> documents;
    for (const std::filesystem::path path : paths) {
        if (!std::filesystem::exists(path))
            fail(ErrorCode::NotFound, path.string() + ": no such text file or folder", {{"file", path.string()}});
        if (std::filesystem::is_directory(path)) {
            for (const auto& file : textFilesOf(path))
                readFile(file, documents);
            continue;
        }
        if (!isText(path))
            fail(ErrorCode::Unsupported,
                 path.string() + ": found extension \"" + path.extension().string() + "\", expected .txt, .jsonl or a folder",
                 {{"file", path.string()}, {"found", path.extension().string()}, {"expected", ".txt, .jsonl"}});
        readFile(path, documents);
    }
    if (documents.empty())
        fail(ErrorCode::Malformed, (paths.empty() ? "text" : paths.front()) + ": no document in it",
             {{"file", paths.empty() ? "" : paths.front()}});
    return documents;
}

} // namespace linnet::core
