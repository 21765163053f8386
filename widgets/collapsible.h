// A titled part of a panel that folds away: the title is a button (Space or a click), its arrow says which way it is.
#pragma once

#include <QWidget>

class QToolButton;

namespace linnet::widgets {

class Collapsible : public QWidget {
    Q_OBJECT

public:
    Collapsible(const QString& title, QWidget* content, QWidget* parent = nullptr); // takes the content; begins folded

    void setExpanded(bool expanded);
    bool isExpanded() const;
    QToolButton* header() const { return m_header; }

Q_SIGNALS:
    void toggled(bool expanded);

private:
    QToolButton* m_header;
};

} // namespace linnet::widgets
