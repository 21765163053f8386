// The help: short pages (resources/help/*.md, inside the program) beside their list. Not modal: it stays open beside the work.
#pragma once

#include <QDialog>

class QLabel;
class QLineEdit;
class QListWidget;
class QTextBrowser;

namespace linnet::app {

class HelpWindow : public QDialog {
    Q_OBJECT
public:
    explicit HelpWindow(QWidget* parent = nullptr);
    void showPage(const QString& page); // "heads", ...; unknown: the first
    QString page() const;
    static QStringList pages();                   // in reading order
    static QString pageOf(const QWidget* widget); // what the help says of a panel or of what stands in it

protected:
    void changeEvent(QEvent* event) override;

private:
    void filter(const QString& text);
    void highlight(); // what was searched for
    QLineEdit* m_search;
    QListWidget* m_list;
    QLabel* m_none = nullptr;
    QStringList m_words;
    QTextBrowser* m_text;
};

} // namespace linnet::app
