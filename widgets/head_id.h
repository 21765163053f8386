#pragma once

#include <QList>
#include <QMetaType>

namespace linnet::widgets {

// Layer and query head, both from 0.
struct HeadId {
    int layer = 0;
    int head = 0;
    friend bool operator==(const HeadId&, const HeadId&) = default;
};

inline size_t qHash(HeadId id, size_t seed = 0) noexcept { return ::qHash((quint64(quint32(id.layer)) << 32) | quint32(id.head), seed); }

} // namespace linnet::widgets

Q_DECLARE_METATYPE(linnet::widgets::HeadId)
