#pragma once

#include <QList>
#include <QWidget>

class QVBoxLayout;

namespace linnet::widgets {
class Collapsible;
}

namespace linnet::app {

class InspectorPattern;
class InspectorSection;
class Session;

// All about the primary head, in parts that fold: what is measured, what its student would do, where they differ, who is alike.
// What needs the model is asked for only while the panel is seen and a part that shows it is open.
class InspectorPanel : public QWidget {
    Q_OBJECT
public:
    explicit InspectorPanel(Session* session, QWidget* parent = nullptr);
    ~InspectorPanel() override;
    widgets::Collapsible* section(const QString& key) const; // numbers, distance, pattern, errors, neighbours, evidence, closedForm; or nullptr
    void offerProbe(bool offer); // false: there is no large view

Q_SIGNALS:
    void probeRequested(); // the large view of the pattern

protected:
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;
    void changeEvent(QEvent* event) override; // links carry colours of the theme

private:
    widgets::Collapsible* addFold(QVBoxLayout* layout, const QString& key, const QString& title, QWidget* content, bool openAtFirst);
    void addSection(QVBoxLayout* layout, InspectorSection* section);
    void refresh();
    void tellWants();
    Session* m_session;
    QWidget *m_empty = nullptr, *m_content = nullptr; // one of them shows
    InspectorPattern* m_pattern;
    QList<InspectorSection*> m_sections;
};

} // namespace linnet::app
