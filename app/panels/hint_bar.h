// One sentence or two on what a page is for, above it, until it is put away. Never in the way: not modal, takes no focus.
#pragma once

#include <QFrame>

class QLabel;
class QTabWidget;
class QToolButton;

namespace linnet::app {

class HintBar : public QFrame {
    Q_OBJECT
public:
    explicit HintBar(QTabWidget* pages, QWidget* parent = nullptr); // follows the current page, by its object name
    QString text() const;
    void showAgain(); // all hints
Q_SIGNALS:
    void helpRequested(const QString& page); // of the help

protected:
    void changeEvent(QEvent* event) override;

private:
    void follow();
    void restyle();
    QTabWidget* m_pages;
    QLabel* m_text;
    QToolButton *m_more, *m_close;
};

} // namespace linnet::app
