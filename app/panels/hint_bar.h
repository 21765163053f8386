// One sentence or two on what a page is for, above it and below the tabs, until it is put away. Never in the way: not modal, takes no focus.
#pragma once

#include <QFrame>

class QLabel;
class QStackedWidget;
class QTabWidget;
class QToolButton;

namespace linnet::app {

class HintBar : public QFrame {
    Q_OBJECT
public:
    explicit HintBar(QTabWidget* pages); // lies in it, and follows the current page, by its object name
    QString text() const;
    void showAgain(); // all hints
Q_SIGNALS:
    void helpRequested(const QString& page); // of the help

protected:
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void follow();
    void restyle();
    void place();
    QTabWidget* m_pages;
    QStackedWidget* m_stack; // of the pages, below the tabs: they make room at its upper edge
    QLabel* m_text;
    QToolButton *m_more, *m_close;
};

} // namespace linnet::app
