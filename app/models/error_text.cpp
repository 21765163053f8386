#include "app/models/error_text.h"

#include <QCoreApplication>

namespace linnet::app {
namespace {

QString tr(const char* text) {
    return QCoreApplication::translate("ErrorText", text);
}

QString adviceFor(core::ErrorCode code) {
    switch (code) {
    case core::ErrorCode::Usage: return tr("Change the named setting and try again.");
    case core::ErrorCode::NotFound: return tr("Check the path, or choose another.");
    case core::ErrorCode::Malformed: return tr("The file is damaged or not of this kind: fetch it again, or open another.");
    case core::ErrorCode::Unsupported: return tr("The message says what is supported: open or choose that instead.");
    case core::ErrorCode::Io: return tr("Check that the place exists and that you may write there.");
    case core::ErrorCode::Memory: return tr("Fewer calibration tokens, a smaller batch or a shorter seq_len need less memory.");
    case core::ErrorCode::Disk: return tr("Free some space, or choose another folder; a stopped run can be resumed.");
    case core::ErrorCode::Cancelled: return {};
    case core::ErrorCode::Internal: return tr("The log has the details. Nothing that was saved is lost; a run can be resumed.");
    }
    return {};
}

QString valueOf(const core::Error& error, const char* key) {
    const auto found = error.context.find(key);
    return found == error.context.end() ? QString() : QString::fromStdString(found->second);
}

} // namespace

ErrorText errorText(const core::Error& error) {
    const auto missing = valueOf(error, "default"), key = valueOf(error, "key");
    if (missing == QLatin1String("text"))
        return {tr("The default text isn't on this machine."), tr("Choose a text of your own: in the Run panel, Text, Browse. Some hundred kilobytes of plain text in .txt files are enough to begin with.")};
    if (missing == QLatin1String("teacher"))
        return {tr("The default model isn't on this machine."), tr("Open a model of your own with Open: a Hugging Face folder (config.json with safetensors) or a .gguf file. Setting Linnet up again brings the default one back.")};
    ErrorText said{QString::fromStdString(error.message), adviceFor(error.code)};
    if (!valueOf(error, "text").isEmpty()) // too little of it
        said.advice = key == QLatin1String("seq_len") ? tr("In the Run panel: choose more text under Text, or set seq_len lower.")
                                                      : tr("In the Run panel: choose more text under Text, or set calibration, selection or evaluation lower.");
    else if (key == QLatin1String("data.text"))
        said.advice = tr("Choose another in the Run panel: Text, Browse.");
    return said;
}

} // namespace linnet::app
