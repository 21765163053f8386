// Errors as values. Inside core a failure is thrown as `Failure`; every public entry runs its body in `guarded`, which turns
// Failure, torch's and the standard library's exceptions into an Error. Nothing else crosses core's border.
#pragma once

#include <map>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace linnet::core {

enum class ErrorCode { Usage, NotFound, Malformed, Unsupported, Io, Memory, Disk, Cancelled, Internal };

const char* errorCodeName(ErrorCode code); // "usage", "not_found", ... as printed in JSON
int exitCode(ErrorCode code);              // 2 usage, 3 memory or disk, 130 cancelled, otherwise 1

struct Error {
    ErrorCode code = ErrorCode::Internal;
    std::string message;                        // what failed, where, expected and found, what to try; names the culprit
    std::map<std::string, std::string> context; // the same facts by key: file, tensor, key, line, expected, found
};

template <class T> using Result = tl::expected<T, Error>;

// The exception form, for use inside core only.
struct Failure {
    Error error;
};

using Context = std::map<std::string, std::string>;
[[noreturn]] void fail(ErrorCode code, std::string message, Context context = {});

// Takes the value out of a result or throws its error on (inside core only).
template <class T> T orFail(Result<T> result) {
    if (!result)
        throw Failure{std::move(result.error())};
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

Error currentExceptionAsError() noexcept; // inside a catch block

template <class F> auto guarded(F&& body) noexcept -> Result<decltype(body())> {
    try {
        if constexpr (std::is_void_v<decltype(body())>) {
            body();
            return {};
        } else {
            return body();
        }
    } catch (...) {
        return tl::unexpected(currentExceptionAsError());
    }
}

} // namespace linnet::core
