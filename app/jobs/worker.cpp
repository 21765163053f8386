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
        dropQueued(false);
        if (m_busy && m_running == JobKind::Probe)
            m_stop.request_stop();
        tag = job.tag = m_nextTag++;
        m_queue.push_back(std::move(job));
    }
    m_wake.notify_all();
    return tag;
}

void Worker::stop() {
    {
        const std::lock_guard lock(m_mutex);
        dropQueued(true);
        m_stop.request_stop();
    }
    m_gate.resume(); // a paused job must hear of it
}

void Worker::dropQueued(bool all) {
    std::erase_if(m_queue, [&](const Job& job) {
        if (!all && job.kind != JobKind::Probe)
            return false;
        JobResult dropped;
        dropped.kind = job.kind;
        dropped.tag = job.tag;
        dropped.path = job.path;
        dropped.error = core::Error{core::ErrorCode::Cancelled, "stopped before it began", {}};
        m_mail.results.push_back(std::move(dropped));
        return true;
    });
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

core::Control Worker::control(bool quiet) {
    core::Control control;
    control.stop = m_stop.get_token();
    control.gate = &m_gate;
    if (quiet)
        return control;
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
            m_running = job.kind;
            m_busy = true;
            steering = control(job.kind == JobKind::Probe); // under the lock: a stop from here on is heard
        }
        auto result = execute(job, steering);
        const std::lock_guard lock(m_mutex);
        m_mail.results.push_back(std::move(result));
        m_busy = false;
    }
}

core::ConvertOptions Worker::convertOptions() {
    const auto append = [this](auto&& change) {
        const std::lock_guard lock(m_mutex);
        change(m_mail);
    };
    core::ConvertOptions options;
    options.cacheFolder = core::cacheFolder() / "profiles";
    options.bankFolder = core::cacheFolder() / "banks";
    options.teacher = m_model;
    options.onMetric = [append](const core::MetricRow& row) { append([&](Mail& mail) { mail.metrics.push_back(row); }); };
    options.onStage = [append](const std::string& stage) { append([&](Mail& mail) { mail.stages.push_back(stage); }); };
    options.onEvaluation = [append](const std::string& name, const core::Evaluation& e) { append([&](Mail& mail) { mail.evaluations.emplace_back(name, e); }); };
    options.onSelection = [append](const core::Selection& selection) { append([&](Mail& mail) { mail.selection = selection; }); };
    return options;
}

core::Result<core::Profile> Worker::profile(const Job& job, const core::Control& steering) {
    return core::guarded([&] {
        const auto windows = core::windowsOf(*m_model, job.recipe.dataText, job.recipe.seqLen, job.recipe.calibrationTokens, job.recipe.seed, steering);
        return core::orFail(core::profileModel(*m_model, windows, {2, core::cacheFolder() / "profiles"}, steering));
    });
}

// The windows that a run's closed form would see; the first request reads and cuts the text.
core::Result<core::ProbedHead> Worker::probe(const Job& job, const core::Control& steering) {
    return core::guarded([&] {
        const auto& recipe = job.recipe;
        auto data = core::Json{recipe.dataText, recipe.seqLen, recipe.calibrationTokens, recipe.selectionTokens, recipe.evaluationTokens, recipe.seed}.dump();
        if (!m_probe || data != m_probeData) {
            m_probe.reset();
            if (!recipe.dataText.empty() && recipe.dataText.front().starts_with("self:"))
                core::fail(core::ErrorCode::Unsupported, "a text that the teacher writes itself is made when the run starts", {{"key", "data.text"}, {"found", recipe.dataText.front()}});
            const auto all = core::windowsOf(*m_model, recipe.dataText, recipe.seqLen, 0, recipe.seed, steering);
            const auto slices = core::splitSlices(all, recipe.calibrationTokens, recipe.selectionTokens, recipe.evaluationTokens);
            m_probe = std::make_unique<core::TargetProbe>(m_model, slices.calibration);
            m_probeData = std::move(data);
        }
        return core::orFail(m_probe->probe(recipe, job.layer, job.head, steering));
    });
}

JobResult Worker::execute(const Job& job, const core::Control& steering) {
    JobResult result;
    result.kind = job.kind;
    result.tag = job.tag;
    result.path = job.path;
    const auto take = [&](auto&& value, auto& target) {
        if (value)
            target = std::move(*value);
        else
            result.error = value.error();
    };
    const auto kind = job.kind;
    if ((kind == JobKind::Profile || kind == JobKind::Generate || kind == JobKind::Probe) && !m_model) {
        result.error = core::Error{core::ErrorCode::Usage, "no teacher is open", {}};
        return result;
    }
    if (kind == JobKind::Open || kind == JobKind::Select || kind == JobKind::Convert || kind == JobKind::Resume)
        m_probe.reset(); // its captures take memory that the job may need
    switch (kind) {
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
        auto measured = profile(job, steering);
        if (measured)
            result.profile = std::make_shared<const core::Profile>(std::move(*measured));
        else
            result.error = measured.error();
        break;
    }
    case JobKind::Select: take(core::selectLayers(job.recipe, convertOptions(), steering), result.selection); break;
    case JobKind::Convert: take(core::convert(job.recipe, job.path, convertOptions(), steering), result.report); break;
    case JobKind::Resume: {
        auto options = convertOptions();
        options.teacher = nullptr; // the run's own teacher, device and dtype
        take(core::resumeRun(job.path, options, steering), result.report);
        break;
    }
    case JobKind::Generate:
        take(core::guarded([&] {
                 const auto ids = core::modelTokenizer(*m_model).encode(job.prompt, true);
                 return core::orFail(core::generate(*m_model, ids, {}, {}, steering));
             }),
             result.generation);
        break;
    case JobKind::Export: take(core::exportModel(job.path, job.out, job.exporting, job.run, steering), result.exported); break;
    case JobKind::Probe: take(probe(job, steering), result.probed); break;
    }
    return result;
}

} // namespace linnet::app
