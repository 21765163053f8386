// What the heads of the current run's student are like (core/convert/student_numbers.h): measured by the worker while somebody shows it and the
// device has nothing else to do, once for each student.
#pragma once

#include "app/models/worker_request.h"

#include <QSet>

namespace linnet::app {

class StudentNumbersModel : public QObject {
    Q_OBJECT
public:
    enum class State { None, Waiting, Measuring, Known, Failed }; // None: no student, or nobody has asked; Waiting: the device has other work

    explicit StudentNumbersModel(WorkerRequest::Submit submit, QObject* parent = nullptr);

    void want(QObject* who, bool wants); // one that is destroyed wants nothing
    void show(const QString& run, const QString& teacher); // folder and the teacher's hash; "" = none. Again where its files may have changed.

    State state() const { return m_state; }
    QString stateText() const; // "being measured...", "not measured: ..."; "" for None and Known
    bool hasStudent() const { return !m_key.isEmpty(); }
    const core::StudentNumbers* numbers() const { return m_numbers.get(); } // nullptr: not measured
    const core::StudentHeadNumbers* head(int layer, int head) const; // nullptr too where its layer is softmax
    void take(const JobResult& result); // of any request
    void adopt(const core::StudentNumbers& numbers); // as if asked and answered
    void retry(); // what could not be asked before

Q_SIGNALS:
    void changed();

private:
    void update();
    void set(State state);
    WorkerRequest m_request;
    QSet<QObject*> m_wanting;
    QString m_run, m_key, m_error; // key: of the student's file
    State m_state = State::None;
    std::shared_ptr<const core::StudentNumbers> m_numbers;
};

} // namespace linnet::app
