// A label of several lines that is as high as they need at the width that it has got. A plain one in a form gets the height of another width
// where a scroll bar has come in between.
#pragma once

#include <QLabel>

namespace linnet::widgets {

class WrappedLabel : public QLabel {
    Q_OBJECT
public:
    explicit WrappedLabel(QWidget* parent = nullptr) : QLabel(parent) { setWordWrap(true); }
    QSize minimumSizeHint() const override { return {QLabel::minimumSizeHint().width(), text().isEmpty() ? 0 : heightForWidth(width())}; }
    QSize sizeHint() const override { return {QLabel::sizeHint().width(), minimumSizeHint().height()}; }

protected:
    void resizeEvent(QResizeEvent* event) override {
        QLabel::resizeEvent(event);
        updateGeometry();
    }
};

} // namespace linnet::widgets
