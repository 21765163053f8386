// The GPU's memory goes back to where it was: after a stop, after it was full, after the teacher was closed. Another program would see it free.
#include "core/torch_pch.h"

#include "app/jobs/worker.h"
#include "core/model/device.h"

#include <QTemporaryDir>
#include <QTest>

using namespace linnet;
using namespace linnet::app;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kRest = 64 * kMiB; // of blocks in which something small lives on

} // namespace

class TestAppMemoryGpu : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    Worker m_worker;
    core::ModelInfo m_teacher;

    // Waits for the job's end; `onMetrics` is called once, at the first step of alignment.
    JobResult run(Job job, const std::function<void()>& onMetrics = {}) {
        const auto kind = job.kind;
        m_worker.submit(std::move(job));
        bool told = false;
        for (;;) {
            const auto mail = m_worker.drain();
            if (!mail.metrics.empty() && !std::exchange(told, true) && onMetrics)
                onMetrics();
            for (const auto& result : mail.results)
                if (result.kind == kind)
                    return result;
            QTest::qWait(5);
        }
    }
    JobResult open() {
        Job job;
        job.kind = JobKind::Open;
        job.path = qEnvironmentVariable("LINNET_TEACHER").toStdString();
        job.run = {"cuda", "", 0, false};
        return run(std::move(job));
    }
    Job conversion(const char* name, int steps) const {
        Job job;
        job.kind = JobKind::Convert;
        job.path = m_folder.filePath(QLatin1String(name)).toStdString();
        job.recipe = core::defaultRecipe("cuda");
        job.recipe.teacherSource = m_teacher.path, job.recipe.teacherHash = m_teacher.hash;
        job.recipe.dataText = {qEnvironmentVariable("LINNET_TEXT").toStdString()};
        job.recipe.calibrationTokens = 60'000, job.recipe.selectionTokens = 4'096, job.recipe.evaluationTokens = 8'192;
        job.recipe.keep = core::parseKeepRule("uniform:15");
        job.recipe.align.steps = steps;
        return job;
    }
    static core::DeviceMemory memory() { return core::deviceMemory("cuda:0"); }
    void isBackAt(const core::DeviceMemory& before, const char* after) {
        const auto now = memory();
        qInfo("%s: %.0f MiB of this process, %.0f before; peak %.0f", after, double(now.own) / kMiB, double(before.own) / kMiB, double(now.peak) / kMiB);
        QVERIFY2(now.own <= before.own + kRest, after);
    }

private Q_SLOTS:
    void initTestCase() {
        if (!core::cudaAvailable())
            QSKIP("no GPU here");
        if (!qEnvironmentVariableIsSet("LINNET_TEACHER") || !qEnvironmentVariableIsSet("LINNET_TEXT"))
            QSKIP("LINNET_TEACHER and LINNET_TEXT are not set");
        const auto opened = open();
        QVERIFY2(opened.model, opened.error ? opened.error->message.c_str() : "");
        m_teacher = *opened.model;
        QCOMPARE(QString::fromStdString(memory().device), QStringLiteral("GPU 0"));
        QVERIFY(memory().own > 100 * kMiB && memory().total > memory().own && memory().used >= memory().own);
    }

    void aStopGivesBackWhatTheRunTook() {
        const auto before = memory();
        core::DeviceMemory during;
        const auto stopped = run(conversion("stopped", 2000), [&] {
            during = memory();
            m_worker.stop();
        });
        QVERIFY(stopped.error && stopped.error->code == core::ErrorCode::Cancelled);
        QVERIFY2(during.own > before.own + 1000 * kMiB, "the run took too little for the test to say anything");
        isBackAt(before, "after Stop");
    }

    void aFullGpuIsAnErrorAndNothingStays() {
        const auto before = memory();
        {
            const auto rest = memory();
            const auto held = at::empty({static_cast<std::int64_t>(rest.total - rest.used - 700 * kMiB)}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
            const auto failed = run(conversion("full", 50));
            QVERIFY(failed.error);
            QVERIFY2(failed.error->code == core::ErrorCode::Memory, failed.error->message.c_str());
            QVERIFY(!failed.deviceLost);
            qInfo("%s", failed.error->message.c_str());
        }
        core::releaseDeviceMemory(); // of `held`
        isBackAt(before, "after a full GPU");
        const auto again = run(conversion("again", 5));
        QVERIFY2(again.report, again.error ? again.error->message.c_str() : "");
        isBackAt(before, "after the run that followed");
    }

    void aHeadsViewIsTheCpus() {
        Job job;
        job.kind = JobKind::HeadView;
        job.recipe = conversion("unused", 0).recipe;
        job.inspecting.layer = 7, job.inspecting.head = 3;
        job.evidence = true;
        const auto onGpu = run(job);
        QVERIFY2(onGpu.headView, onGpu.error ? onGpu.error->message.c_str() : "");
        Worker other;
        Job opening;
        opening.path = m_teacher.path;
        opening.run = {"cpu", "f32", 0, false};
        other.submit(opening);
        other.submit(job);
        JobResult onCpu;
        while (!onCpu.headView) {
            for (const auto& result : other.drain().results) {
                QVERIFY2(!result.error, result.error ? result.error->message.c_str() : "");
                if (result.kind == JobKind::HeadView && result.headView)
                    onCpu = result;
            }
            QTest::qWait(5);
        }
        const auto &a = onGpu.headView->teacher, &b = onCpu.headView->teacher;
        QCOMPARE(a.size(), b.size());
        double most = 0;
        for (std::size_t i = 0; i < a.size(); ++i)
            most = std::max(most, double(std::abs(a[i] - b[i])));
        qInfo("attention pattern, GPU in %s against CPU in f32: largest difference of a weight %.2g", m_teacher.dtype.c_str(), most);
        QVERIFY(most < 0.05);
    }

    void closingGivesBackTheTeacher() {
        const auto before = memory();
        Job job;
        job.kind = JobKind::Close;
        run(std::move(job));
        const auto now = memory();
        qInfo("after closing: %.0f MiB, %.0f before", double(now.own) / kMiB, double(before.own) / kMiB);
        QVERIFY(now.own <= kRest && now.own < before.own);
        QVERIFY(open().model);
    }
};

QTEST_GUILESS_MAIN(TestAppMemoryGpu)
#include "tst_app_memory_gpu.moc"
