#pragma once

#include "app/panels/inspector_section.h"

class QCheckBox;
class QComboBox;
class QLineEdit;
class QPushButton;

namespace linnet::widgets {
class PatternMap;
}
namespace linnet::core {
struct HeadView;
}

namespace linnet::app {

// Where the head looks on a probe text, and where the student's recurrence takes its output from.
class InspectorPattern : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorPattern(Session* session);
    int parts() const override;
    void offerProbe(bool offer);

Q_SIGNALS:
    void probeRequested(); // the large view

protected:
    void fill(HeadId head) override;

private:
    enum Shown { Teacher, Student, Difference };
    void listStudents();
    void showPattern();
    void showRow();
    QComboBox *m_shown, *m_student;
    QCheckBox *m_hideSinks, *m_log;
    QLineEdit* m_text;
    QPushButton* m_probe;
    widgets::PatternMap* m_map;
    QLabel *m_state, *m_row;
    std::shared_ptr<const core::HeadView> m_view; // that the map shows
    std::shared_ptr<const std::vector<float>> m_values;
};

} // namespace linnet::app
