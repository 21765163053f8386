// A compiled regular expression (PCRE2, JIT) that finds what Oniguruma, which Hugging Face's tokenizers use, would find.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace linnet::core {

class Regex {
public:
    // Throws Unsupported naming `origin` and the pattern where it does not compile or uses an escape that the two engines read
    // differently (\w, \b, \h, \S inside a class, ...).
    Regex(const std::string& pattern, const std::string& origin);

    // Calls `visit(begin, end)` for each match from left to right. `text` must be valid UTF-8.
    void forEachMatch(std::string_view text, const std::function<void(std::size_t, std::size_t)>& visit) const;

    static std::string escaped(std::string_view literal); // a pattern that matches just this text

private:
    std::shared_ptr<void> m_code; // pcre2_code; immutable, so that copies may share it
};

} // namespace linnet::core
