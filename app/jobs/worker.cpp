#include "app/jobs/worker.h"

namespace linnet::app {

Worker::Worker() : m_thread([this] { loop(); }) {}

Worker::~Worker() {
    stop();
    {
        const std::lock_guard lock(m_mutex);
        m_quit = true;
    }
    m_wake.notify_all();
    m_thread.join();
}

std::uint64_t Worker::submit(Job job) {
    std::uint64_t tag = 0;
    {
        const std::lock_guard lock(m_mutex);
        tag = job.tag = m_nextTag++;
        m_queue.push_back(std::move(job));
    }
    m_wake.notify_all();
    return tag;
}

void Worker::stop() {
    {
        const std::lock_guard lock(m_mutex);
        for (const auto& job : m_queue) {
            JobResult dropped;
            dropped.kind = job.kind;
            dropped.tag = job.tag;
            dropped.path = job.path;
            dropped.error = core::Error{core::ErrorCode::Cancelled, "stopped before it began", {}};
            m_mail.results.push_back(std::move(dropped));
        }
        m_queue.clear();
        m_stop.request_stop();
    }
    m_gate.resume(); // a paused job must hear of it
}

void Worker::pause() {
    m_gate.pause();
}

void Worker::resume() {
    m_gate.resume();
}

Mail Worker::drain() {
    const std::lock_guard lock(m_mutex);
    return std::exchange(m_mail, {});
}

core::Control Worker::control() {
    core::Control control;
    control.stop = m_stop.get_token();
    control.gate = &m_gate;
    control.onProgress = [this](const core::Progress& progress) {
        const std::lock_guard lock(m_mutex);
        m_mail.progress = progress;
    };
    control.onLog = [this](const std::string& line) {
        const std::lock_guard lock(m_mutex);
        m_mail.log.push_back(line);
    };
    return control;
}

void Worker::loop() {
    for (;;) {
        Job job;
        core::Control steering;
        {
            std::unique_lock lock(m_mutex);
            m_wake.wait(lock, [this] { return m_quit || !m_queue.empty(); });
            if (m_quit)
                return;
            job = std::move(m_queue.front());
            m_queue.pop_front();
            m_stop = std::stop_source();
            m_busy = true;
        }
        steering = control();
        auto result = execute(job, steering);
        const std::lock_guard lock(m_mutex);
        m_mail.results.push_back(std::move(result));
        m_busy = false;
    }
}

JobResult Worker::execute(const Job& job, const core::Control& steering) {
    JobResult result;
    result.kind = job.kind;
    result.tag = job.tag;
    result.path = job.path;
    const auto append = [this](auto&& change) {
        const std::lock_guard lock(m_mutex);
        change(m_mail);
    };
    core::ConvertOptions options;
    options.cacheFolder = core::cacheFolder() / "profiles";
    options.teacher = m_model;
    options.onMetric = [&](const core::MetricRow& row) { append([&](Mail& mail) { mail.metrics.push_back(row); }); };
    options.onStage = [&](const std::string& stage) { append([&](Mail& mail) { mail.stages.push_back(stage); }); };
    options.onEvaluation = [&](const std::string& name, const core::Evaluation& e) { append([&](Mail& mail) { mail.evaluations.emplace_back(name, e); }); };
    options.onSelection = [&](const core::Selection& selection) { append([&](Mail& mail) { mail.selection = selection; }); };

    const auto take = [&](auto&& value, auto& target) {
        if (value)
            target = std::move(*value);
        else
            result.error = value.error();
    };
    switch (job.kind) {
    case JobKind::Open: {
        m_model.reset(); // the old teacher's memory first
        auto model = core::openModel(job.path, job.run, steering);
        if (model) {
            m_model = *model;
            result.model = core::modelInfo(*m_model);
        } else {
            result.error = model.error();
        }
        break;
    }
    case JobKind::Profile: {
        if (!m_model) {
            result.error = core::Error{core::ErrorCode::Usage, "no teacher is open", {}};
            break;
        }
        auto profile = core::guarded([&] {
            const auto windows = core::windowsOf(*m_model, job.recipe.dataText, job.recipe.seqLen, job.recipe.calibrationTokens, job.recipe.seed, steering);
            return core::orFail(core::profileModel(*m_model, windows, {2, core::cacheFolder() / "profiles"}, steering));
        });
        if (profile)
            result.profile = std::make_shared<const core::Profile>(std::move(*profile));
        else
            result.error = profile.error();
        break;
    }
    case JobKind::Convert: take(core::convert(job.recipe, job.path, options, steering), result.report); break;
    case JobKind::Resume:
        options.teacher = nullptr; // the run's own teacher, device and dtype
        take(core::resumeRun(job.path, options, steering), result.report);
        break;
    case JobKind::Generate: {
        if (!m_model) {
            result.error = core::Error{core::ErrorCode::Usage, "no teacher is open", {}};
            break;
        }
        auto made = core::guarded([&] {
            const auto ids = core::modelTokenizer(*m_model).encode(job.prompt, true);
            return core::orFail(core::generate(*m_model, ids, {}, {}, steering));
        });
        take(std::move(made), result.generation);
        break;
    }
    case JobKind::Export: take(core::exportModel(job.path, job.out, job.exporting, job.run, steering), result.exported); break;
    }
    return result;
}

} // namespace linnet::app
