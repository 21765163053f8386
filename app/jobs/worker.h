// One thread owns the device. Commands go in and are done in order; events come out through a mailbox that the window drains
// every 33 ms: the latest progress overwrites, metrics append, results and errors never drop. No Qt here.
#pragma once

#include "app/jobs/generate_job.h"
#include "core/convert/convert.h"
#include "core/convert/head_evidence.h"
#include "core/convert/student_numbers.h"
#include "core/export/export.h"
#include "core/model/device_memory.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>

namespace linnet::app {

enum class JobKind { Open, Close, Profile, Select, Convert, Resume, Generate, Export, Probe, HeadView, StudentNumbers, KnownProfile };

bool isBeside(JobKind kind); // asked for by looking at something: quiet, and gives way to what a person starts

struct Job {
    JobKind kind = JobKind::Open;
    std::uint64_t tag = 0;        // of the request; given back with every event
    std::filesystem::path path;   // Open, Export: model; Convert, Resume, StudentNumbers: run folder
    std::filesystem::path out;    // Export
    core::Recipe recipe;          // Convert, Select, Probe, HeadView; Profile, KnownProfile: data, seqLen, calibrationTokens
    core::RunOptions run;
    core::ExportOptions exporting;
    GenerateRequest generating;
    std::int64_t layer = 0, head = 0; // Probe
    core::HeadRequest inspecting; // HeadView
    bool evidence = false;        // HeadView: head_evidence.h too, after the view
};

struct JobResult { // one of these ends each job
    JobKind kind = JobKind::Open;
    std::uint64_t tag = 0;
    std::optional<core::Error> error; // code Cancelled: stopped on request
    std::optional<core::ModelInfo> model;
    bool chatTemplate = false;        // of the opened model
    std::shared_ptr<const core::Profile> profile;
    std::optional<core::Report> report;
    std::optional<core::Selection> selection;
    std::optional<core::ProbedHead> probed;
    std::shared_ptr<const core::HeadView> headView;
    std::shared_ptr<const core::HeadEvidence> headEvidence;
    std::shared_ptr<const core::StudentNumbers> studentNumbers;
    bool partial = false;             // more of this job follows
    std::optional<GenerateOutcome> generated;
    std::optional<core::ExportReport> exported;
    std::filesystem::path path;       // run folder or file concerned
    bool deviceLost = false;          // the GPU answers no more: the teacher was let go, this process has the CPU left
};

struct Mail { // everything since the last drain
    std::optional<core::Progress> progress;
    std::vector<core::MetricRow> metrics;
    std::vector<std::string> log;
    std::vector<std::pair<std::string, core::Evaluation>> evaluations;
    std::optional<core::Selection> selection;
    std::vector<JobResult> results;
    std::vector<std::string> stages;
    std::vector<core::SpokenToken> spoken; // of the running Generate
    std::optional<core::DeviceMemory> memory; // of the teacher's device, now and then
};

class Worker {
public:
    Worker();
    ~Worker(); // asks for a stop and joins
    // Returns the tag. Of probes, and of head views, the latest wins: one that waits or runs is ended (Cancelled) by the next of its kind and by
    // any job that is none of those beside; a student's numbers by any job at all, to go on from there when asked for again.
    std::uint64_t submit(Job job);
    void stop();   // the running job, after a checkpoint; queued ones are dropped with a Cancelled result
    void pause();
    void resume();
    bool paused() const { return m_gate.paused(); }
    bool busy() const { return m_busy.load(); }
    Mail drain();
    void failNext(const core::Error& error); // as if the device had ended the next job with it

private:
    void loop();
    JobResult execute(const Job& job, const core::Control& control);
    JobResult executeOrFail(const Job& job, const core::Control& control);
    core::ConvertOptions convertOptions();
    core::Result<core::Profile> profile(const Job& job, const core::Control& control); // KnownProfile: NotFound where none was made before
    core::TargetProbe& probeOf(const core::Recipe& recipe, const core::Control& control); // throws Failure
    core::Result<core::ProbedHead> probe(const Job& job, const core::Control& control);
    core::Result<void> inspect(const Job& job, const core::Control& control, JobResult& result);
    void dropQueued(std::optional<JobKind> by); // what gives way to such a job; nullopt: all. m_mutex is held
    core::Control control(bool quiet);
    void measureMemory(); // into the mail
    mutable std::mutex m_mutex;
    std::condition_variable m_wake;
    std::deque<Job> m_queue;
    Mail m_mail;
    core::PauseGate m_gate;
    std::stop_source m_stop;
    std::atomic<bool> m_busy = false;
    std::optional<core::Error> m_failNext;
    std::optional<core::Error> m_lost; // of the device, until a teacher is opened again; the worker's own
    bool m_quit = false;
    std::uint64_t m_nextTag = 1;
    JobKind m_running = JobKind::Open; // while busy
    core::ModelPtr m_model; // the opened teacher; the worker's own
    std::unique_ptr<core::StudentMeter> m_meter; // of m_model and the last run that was asked for
    std::unique_ptr<core::TargetProbe> m_probe; // of m_model, on the windows of m_probeData
    std::string m_probeData, m_device; // of the opened teacher
    std::chrono::steady_clock::time_point m_measured;
    GenerateDesk m_generate;
    std::thread m_thread;
};

} // namespace linnet::app
