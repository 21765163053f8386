#include "widgets/versions.h"

#include <qcustomplot.h>

#if __has_include(<imgui.h>)
#include <imgui.h>
#endif

namespace linnet::widgets {

QString plotVersion() {
    return QStringLiteral(QCUSTOMPLOT_VERSION_STR);
}

QString imGuiVersion() {
#ifdef IMGUI_VERSION
    return QStringLiteral(IMGUI_VERSION);
#else
    return QStringLiteral("not in this build");
#endif
}

} // namespace linnet::widgets
