#include "core/base/result.h"

#include <exception>
#include <new>
#include <string_view>

namespace linnet::core {

const char* errorCodeName(ErrorCode code) {
    switch (code) {
    case ErrorCode::Usage: return "usage";
    case ErrorCode::NotFound: return "not_found";
    case ErrorCode::Malformed: return "malformed";
    case ErrorCode::Unsupported: return "unsupported";
    case ErrorCode::Io: return "io";
    case ErrorCode::Memory: return "memory";
    case ErrorCode::Disk: return "disk";
    case ErrorCode::Cancelled: return "cancelled";
    case ErrorCode::Internal: return "internal";
    }
    return "internal";
}

int exitCode(ErrorCode code) {
    switch (code) {
    case ErrorCode::Usage: return 2;
    case ErrorCode::Memory:
    case ErrorCode::Disk: return 3;
    case ErrorCode::Cancelled: return 130;
    default: return 1;
    }
}

void fail(ErrorCode code, std::string message, Context context) {
    throw Failure{{code, std::move(message), std::move(context)}};
}

Error currentExceptionAsError() noexcept {
    try {
        throw;
    } catch (const Failure& failure) {
        return failure.error;
    } catch (const std::bad_alloc&) {
        return {ErrorCode::Memory, "not enough memory", {}};
    } catch (const std::exception& exception) {
        // torch reports an exhausted allocator by text; only the first line of its message is for people
        const std::string_view what = exception.what();
        const bool memory = what.find("out of memory") != what.npos || what.find("can't allocate memory") != what.npos;
        return {memory ? ErrorCode::Memory : ErrorCode::Internal, std::string(what.substr(0, what.find('\n'))), {}};
    } catch (...) {
        return {ErrorCode::Internal, "unknown exception", {}};
    }
}

} // namespace linnet::core
