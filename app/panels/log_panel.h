#pragma once

#include <QWidget>

class QLineEdit;
class QPlainTextEdit;

namespace linnet::app {

class Session;

class LogPanel : public QWidget {
    Q_OBJECT
public:
    explicit LogPanel(Session* session, QWidget* parent = nullptr);

private:
    void append(const QString& line);
    void follow(); // the newest line, unless a person looks at older ones
    void refill();
    Session* m_session;
    QLineEdit* m_filter;
    QPlainTextEdit* m_text;
    bool m_follows = true;
};

} // namespace linnet::app
