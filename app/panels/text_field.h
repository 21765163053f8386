// The text that a run learns and is measured on: typed, or chosen by Browse; what is wrong with it, or what it is, stands below.
#pragma once

#include <QWidget>

class QLabel;
class QLineEdit;
class QToolButton;

namespace linnet::app {

class Session;

class TextField : public QWidget {
    Q_OBJECT
public:
    explicit TextField(Session* session, QWidget* parent = nullptr);
    QLabel* below() const { return m_below; } // a row of its own: as high as its lines need

protected:
    void changeEvent(QEvent* event) override;

private:
    void refresh();
    void set(const std::vector<std::string>& text);
    void chooseFiles();
    void chooseFolder();
    Session* m_session;
    QLineEdit* m_line;
    QToolButton* m_browse;
    QLabel* m_below;
};

} // namespace linnet::app
