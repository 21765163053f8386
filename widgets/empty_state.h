// What a panel shows before it has anything to show: what belongs here, how to get it, and a button that does it.
#pragma once

#include <QWidget>

class QLabel;
class QPushButton;

namespace linnet::widgets {

class EmptyState : public QWidget {
    Q_OBJECT

public:
    // glyph: one character, drawn large. An empty action shows no button.
    EmptyState(const QString& glyph, const QString& title, const QString& hint, const QString& action = {},
               QWidget* parent = nullptr);

    void setContent(const QString& glyph, const QString& title, const QString& hint, const QString& action = {});
    QString title() const;
    QString hint() const;

Q_SIGNALS:
    void actionRequested();

protected:
    void changeEvent(QEvent* event) override;

private:
    void restyle();

    QLabel *m_glyph, *m_title, *m_hint;
    QPushButton* m_action;
};

} // namespace linnet::widgets
