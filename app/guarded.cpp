#include "app/guarded.h"

#include <QDebug>

namespace linnet::app {

bool GuardedApplication::notify(QObject* receiver, QEvent* event) {
    const char* where = receiver->metaObject()->className(); // afterwards the receiver may be gone
    try {
        return QApplication::notify(receiver, event);
    } catch (...) {
        tellUnexpected(core::currentExceptionAsError(), QString::fromLatin1(where));
        return false;
    }
}

void tellUnexpected(const core::Error& error, const QString& where) noexcept {
    try {
        const auto what = GuardedApplication::tr("%1 (in %2)").arg(QString::fromStdString(error.message), where);
        qCritical().noquote() << "unexpected:" << what;
        if (auto* application = qobject_cast<GuardedApplication*>(QCoreApplication::instance()))
            QMetaObject::invokeMethod(application, [application, what] { Q_EMIT application->unexpected(what); }, Qt::QueuedConnection);
    } catch (...) { // no memory for the words either
    }
}

} // namespace linnet::app
