// One folding part of the inspector. It is filled only while it is open; what changes meanwhile is shown when it opens.
#pragma once

#include "app/models/selection_model.h"

#include <QWidget>

class QLabel;

namespace linnet::app {

class Session;

class InspectorSection : public QWidget {
    Q_OBJECT
public:
    InspectorSection(Session* session, const QString& key, const QString& title, bool openAtFirst);
    QString key() const { return m_key; } // of its state in the settings
    QString title() const { return m_title; }
    bool openAtFirst() const { return m_openAtFirst; }
    virtual int parts() const { return 0; } // HeadViewModel::Part that it shows

    bool isActive() const { return m_active; }
    void setActive(bool active);
    void invalidate(); // shows it anew: now, or when it opens

protected:
    virtual void fill(HeadId head) = 0; // a teacher is open and has this head
    Session& session() const { return *m_session; }
    template <class Sender, class Signal> void follow(Sender* sender, Signal signal) { connect(sender, signal, this, &InspectorSection::invalidate); }

private:
    Session* m_session;
    QString m_key, m_title;
    bool m_openAtFirst, m_active = false, m_dirty = true;
};

QLabel* sectionLabel(const QString& name); // wraps; its text can be selected
QString sectionNumber(double value);       // four digits, a dash for what was not measured

} // namespace linnet::app
