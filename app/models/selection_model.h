// What is selected and hovered, once for all views. Hover never changes the selection.
#pragma once

#include <QObject>
#include <QSet>

namespace linnet::app {

struct HeadId {
    int layer = -1, head = -1;
    bool valid() const { return layer >= 0 && head >= 0; }
    bool operator==(const HeadId&) const = default;
    auto operator<=>(const HeadId&) const = default;
};
inline size_t qHash(const HeadId& id, size_t seed = 0) {
    return qHashMulti(seed, id.layer, id.head);
}

class SelectionModel : public QObject {
    Q_OBJECT
public:
    using QObject::QObject;
    const QSet<HeadId>& selected() const { return m_selected; }
    QList<HeadId> sorted() const; // layer-major
    HeadId primary() const { return m_primary; }
    HeadId hovered() const { return m_hovered; }
    void select(const QSet<HeadId>& heads, HeadId primary); // replaces
    void toggle(HeadId head);
    void add(const QSet<HeadId>& heads, HeadId primary);
    void clear();
    void setHovered(HeadId head); // invalid = none
Q_SIGNALS:
    void changed();
    void hoverChanged();

private:
    QSet<HeadId> m_selected;
    HeadId m_primary, m_hovered;
};

} // namespace linnet::app
