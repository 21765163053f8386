// The wheel over a field that is only passed by scrolls the panel, and changes nothing: spin boxes, combo boxes and sliders take it when they
// have the focus, and don't get the focus by it. One for the application.
#pragma once

#include <QObject>

namespace linnet::widgets {

class WheelGuard : public QObject {
    Q_OBJECT
public:
    explicit WheelGuard(QObject* parent);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
};

} // namespace linnet::widgets
