// What stands above the pages until it is over or put away: one line for each matter, with a way out where there is one. For what a person
// should know while going on with something else; no dialog stops the hand for it.
#pragma once

#include <QHash>
#include <QWidget>
#include <functional>

namespace linnet::app {

class NoticeBar : public QWidget {
    Q_OBJECT
public:
    explicit NoticeBar(QWidget* parent = nullptr);
    // Replaces the line of that name. `action` with its text is the way out.
    void tell(const QString& name, const QString& text, const QString& actionText = {}, std::function<void()> action = {});
    void clear(const QString& name);
    QString text(const QString& name) const; // "" = none

protected:
    void changeEvent(QEvent* event) override;

private:
    void restyle();
    QHash<QString, QWidget*> m_lines;
};

} // namespace linnet::app
