#pragma once

#include "app/models/recipe_model.h"

#include <QWidget>

class QLabel;

namespace linnet::widgets {
class DistanceHistogram;
}

namespace linnet::app {

class Session;

// What a target would do, before any work is spent on it: the decay that a half-life means on the measured distribution, and in words
// what the other targets change. Follows what is being typed.
class TargetPreview : public QWidget {
    Q_OBJECT
public:
    explicit TargetPreview(Session* session, QWidget* parent = nullptr);
    void show(HeadId head, TargetField field, std::optional<double> typed = {}); // typed: in place of what holds now
    void setRoomy(bool roomy);                                                   // the picture too, or only the words

private:
    void refresh();
    QString words() const;
    Session* m_session;
    HeadId m_head;
    TargetField m_field = TargetField::HalfLife;
    std::optional<double> m_typed;
    widgets::DistanceHistogram* m_histogram;
    QLabel* m_words;
};

} // namespace linnet::app
