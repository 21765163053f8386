// What the window says of an error: the core's message, and what a person can do about it here.
#pragma once

#include "core/base/result.h"

#include <QString>

namespace linnet::app {

struct ErrorText {
    QString message, advice;
};
ErrorText errorText(const core::Error& error);

} // namespace linnet::app
