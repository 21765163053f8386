#include "app/jobs/worker.h"

namespace linnet::app {
namespace {

bool givesWay(JobKind kind, JobKind to) {
    return kind == JobKind::StudentNumbers || (isBeside(kind) && (kind == to || !isBeside(to)));
}

} // namespace

bool isBeside(JobKind kind) {
    return kind == JobKind::Probe || kind == JobKind::HeadView || kind == JobKind::StudentNumbers || kind == JobKind::KnownProfile;
}

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
        dropQueued(job.kind);
        if (m_busy && givesWay(m_running, job.kind))
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
        dropQueued(std::nullopt);
        m_stop.request_stop();
    }
    m_gate.resume(); // a paused job must hear of it
}

void Worker::dropQueued(std::optional<JobKind> by) {
    std::erase_if(m_queue, [&](const Job& job) {
        if (by && !givesWay(job.kind, *by))
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
        if (std::chrono::steady_clock::now() - m_measured > std::chrono::milliseconds(500))
            measureMemory();
        const std::lock_guard lock(m_mutex);
        m_mail.progress = progress;
    };
    control.onLog = [this](const std::string& line) {
        const std::lock_guard lock(m_mutex);
        m_mail.log.push_back(line);
    };
    return control;
}

void Worker::measureMemory() {
    m_measured = std::chrono::steady_clock::now();
    const auto memory = core::deviceMemory(m_device);
    const std::lock_guard lock(m_mutex);
    m_mail.memory = memory;
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
            steering = control(isBeside(job.kind)); // under the lock: a stop from here on is heard
        }
        auto result = executeOrFail(job, steering);
        const auto tidied = core::guarded([&] {
            if (!isBeside(job.kind) && !m_lost) // what the job left: other programs want it too
                core::releaseDeviceMemory();
            if (!m_lost)
                measureMemory();
        });
        if (!tidied && !result.error)
            result.error = tidied.error();
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
    options.onStage = [append](const std::string& stage) {
        append([&](Mail& mail) {
            mail.stages.push_back(stage);
            mail.progress.reset(); // of what came before
        });
    };
    options.onEvaluation = [append](const std::string& name, const core::Evaluation& e) { append([&](Mail& mail) { mail.evaluations.emplace_back(name, e); }); };
    options.onSelection = [append](const core::Selection& selection) { append([&](Mail& mail) { mail.selection = selection; }); };
    return options;
}

core::Result<core::Profile> Worker::profile(const Job& job, const core::Control& steering) {
    return core::guarded([&] {
        const bool known = job.kind == JobKind::KnownProfile;
        if (const auto& text = job.recipe.dataText; known && ((!text.empty() && text.front().starts_with("self:")) || !std::filesystem::exists(core::cacheFolder() / "profiles")))
            core::fail(core::ErrorCode::NotFound, "no profile was made yet, or of a text that would have to be written first");
        const auto windows = core::windowsOf(*m_model, job.recipe.dataText, job.recipe.seqLen, job.recipe.calibrationTokens, job.recipe.seed, steering);
        return core::orFail(core::profileModel(*m_model, windows, {2, core::cacheFolder() / "profiles", !known}, steering));
    });
}

// The windows that a run's closed form would see; the first request reads and cuts the text.
core::TargetProbe& Worker::probeOf(const core::Recipe& recipe, const core::Control& steering) {
    auto data = core::Json{recipe.dataText, recipe.seqLen, recipe.calibrationTokens, recipe.selectionTokens, recipe.evaluationTokens, recipe.seed}.dump();
    if (!m_probe || data != m_probeData) {
        m_probe.reset();
        if (!recipe.dataText.empty() && recipe.dataText.front().starts_with("self:"))
            core::fail(core::ErrorCode::Unsupported, "a text that the teacher writes itself is made when the run starts", {{"key", "data.text"}, {"found", recipe.dataText.front()}});
        const auto all = core::windowsOf(*m_model, recipe.dataText, recipe.seqLen, 0, recipe.seed, steering);
        const auto slices = core::slicesOf(all, recipe);
        m_probe = std::make_unique<core::TargetProbe>(m_model, slices.calibration);
        m_probeData = std::move(data);
    }
    return *m_probe;
}

core::Result<core::ProbedHead> Worker::probe(const Job& job, const core::Control& steering) {
    return core::guarded([&] { return core::orFail(probeOf(job.recipe, steering).probe(job.recipe, job.layer, job.head, steering)); });
}

core::Result<void> Worker::inspect(const Job& job, const core::Control& steering, JobResult& result) {
    return core::guarded([&] {
        auto& probe = probeOf(job.recipe, steering);
        result.headView = std::make_shared<const core::HeadView>(core::orFail(core::headView(probe, job.recipe, job.inspecting, steering)));
        if (!job.evidence)
            return;
        { // the picture does not wait for the numbers
            const std::lock_guard lock(m_mutex);
            m_mail.results.push_back(result);
            m_mail.results.back().partial = true;
        }
        result.headEvidence = std::make_shared<const core::HeadEvidence>(core::orFail(core::headEvidence(probe, job.recipe, job.inspecting, steering)));
    });
}

void Worker::failNext(const core::Error& error) {
    const std::lock_guard lock(m_mutex);
    m_failNext = error;
}

JobResult Worker::executeOrFail(const Job& job, const core::Control& steering) {
    std::optional<core::Error> injected;
    {
        const std::lock_guard lock(m_mutex);
        if (!isBeside(job.kind))
            injected = std::exchange(m_failNext, std::nullopt);
    }
    if (job.kind == JobKind::Open)
        m_lost.reset();
    else if (m_lost) // what was asked for before the window heard of it
        injected = m_lost;
    JobResult result;
    result.kind = job.kind;
    result.tag = job.tag;
    result.path = job.path;
    if (injected)
        result.error = injected;
    else if (const auto done = core::guarded([&] { result = execute(job, steering); }); !done) // core's doors are guarded; this one is for what lies between them
        result.error = done.error();
    // CUDA's errors stick: after one, every call of this process fails, also those that would read the teacher's weights
    if (result.error && result.error->message.find("CUDA error") != std::string::npos) {
        result.deviceLost = true;
        m_lost = result.error;
        m_meter.reset();
        m_probe.reset();
        m_generate.clear();
        m_model.reset();
    }
    return result;
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
    if ((kind == JobKind::Profile || kind == JobKind::Generate || isBeside(kind)) && !m_model) {
        result.error = core::Error{core::ErrorCode::Usage, "no teacher is open", {}};
        return result;
    }
    if (kind == JobKind::Open || kind == JobKind::Close || kind == JobKind::Select || kind == JobKind::Convert || kind == JobKind::Resume) {
        m_meter.reset();
        m_probe.reset(); // its captures take memory that the job may need
        m_generate.clear();
    }
    switch (kind) {
    case JobKind::Open: {
        m_model.reset(); // the old teacher's memory first
        auto model = core::openModel(job.path, job.run, steering);
        if (model) {
            m_model = *model;
            result.model = core::modelInfo(*m_model);
            m_device = result.model->device;
            result.chatTemplate = !core::modelTokenizer(*m_model).chatTemplate().empty();
        } else {
            result.error = model.error();
        }
        break;
    }
    case JobKind::Close: m_model.reset(); break;
    case JobKind::Profile:
    case JobKind::KnownProfile: {
        auto measured = profile(job, steering);
        if (measured)
            result.profile = std::make_shared<const core::Profile>(std::move(*measured));
        else
            result.error = measured.error();
        break;
    }
    case JobKind::Select: take(core::selectLayers(job.recipe, convertOptions(), steering), result.selection); break;
    case JobKind::Convert: {
        auto options = convertOptions();
        if (m_model && !job.recipe.teacherHash.empty() && job.recipe.teacherHash != core::modelInfo(*m_model).hash)
            options.teacher = nullptr; // a waiting run of another teacher opens its own
        take(core::convert(job.recipe, job.path, options, steering), result.report);
        break;
    }
    case JobKind::Resume: {
        auto options = convertOptions();
        options.teacher = nullptr; // the run's own teacher, device and dtype
        take(core::resumeRun(job.path, options, steering), result.report);
        break;
    }
    case JobKind::Generate:
        take(m_generate.run(m_model, job.generating,
                            [this](const core::SpokenToken& token) {
                                const std::lock_guard lock(m_mutex);
                                m_mail.spoken.push_back(token);
                            },
                            steering),
             result.generated);
        break;
    case JobKind::Export: take(core::exportModel(job.path, job.out, job.exporting, job.run, steering), result.exported); break;
    case JobKind::Probe: take(probe(job, steering), result.probed); break;
    case JobKind::StudentNumbers:
        if (!m_meter || m_meter->run() != job.path)
            m_meter = std::make_unique<core::StudentMeter>(m_model, job.path, core::cacheFolder() / "students");
        if (auto measured = m_meter->measure(steering))
            result.studentNumbers = std::make_shared<const core::StudentNumbers>(std::move(*measured));
        else
            result.error = measured.error();
        break;
    case JobKind::HeadView:
        if (const auto done = inspect(job, steering, result); !done)
            result.error = done.error();
        break;
    }
    return result;
}

} // namespace linnet::app
