// A run folder seen from outside: who executes it (also once that process is killed), and its files followed as they grow.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/convert/run_folder.h"
#include "core/convert/run_watch.h"

#include <QTemporaryDir>
#include <QTest>
#include <atomic>
#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace linnet::core;

class TestConvertWatch : public QObject {
    Q_OBJECT

    QTemporaryDir m_place;
    fs::path folder(const std::string& name) const { return fs::path(m_place.path().toStdString()) / name; }
    fs::path made(const std::string& name) const { // a run folder that nobody executes
        RunFolder::create(folder(name), defaultRecipe("cpu"));
        return folder(name);
    }
    static void write(const fs::path& file, const std::string& text, bool append = false) {
        std::ofstream(file, append ? std::ios::app : std::ios::trunc) << text;
    }
    static std::string line(std::int64_t step, double loss) {
        MetricRow row;
        row.step = step, row.loss = loss, row.layer = 3;
        return metricToJson(row).dump() + "\n";
    }

private Q_SLOTS:
    void aKilledProcessLetsGo() {
        const auto run = made("killed");
        QVERIFY(!runProcess(run));
        int ready[2];
        QCOMPARE(::pipe(ready), 0);
        const pid_t child = ::fork();
        if (child == 0) { // another process, as linnet-cli convert is one: only files, no torch
            const auto executed = RunFolder::open(run);
            (void)!::write(ready[1], "x", 1);
            for (;;)
                ::pause();
        }
        QVERIFY(child > 0);
        char byte = 0;
        QCOMPARE(::read(ready[0], &byte, 1), ssize_t(1));
        const auto process = runProcess(run);
        QVERIFY(process);
        QCOMPARE(process->pid, std::int64_t(child));
        QVERIFY(!process->here && !process->host.empty());
        QVERIFY(!guarded([&] { RunFolder::open(run); })); // and it is not ours to have
        ::kill(child, SIGKILL);
        int status = 0;
        QCOMPARE(::waitpid(child, &status, 0), child);
        QVERIFY(WIFSIGNALED(status));
        QVERIFY(!runProcess(run)); // its text is still there, its lock is not
        QVERIFY(readTextFile(run / ".lock").find(std::to_string(child)) != std::string::npos);
        const auto ours = RunFolder::open(run);
        QVERIFY(runProcess(run) && runProcess(run)->here);
        ::close(ready[0]);
        ::close(ready[1]);
    }

    void lookingDoesNotKeepOthersFromStarting() {
        const auto run = made("watched");
        std::atomic<bool> stop = false;
        std::thread watcher([&] {
            while (!stop)
                (void)runProcess(run);
        });
        for (int i = 0; i < 50; ++i) {
            const auto opened = guarded([&] { (void)RunFolder::open(run); });
            if (!opened)
                stop = true, watcher.join();
            QVERIFY2(opened, "refused because somebody looked");
        }
        stop = true;
        watcher.join();
    }

    void metricsAreReadOnce() {
        const auto run = made("followed");
        const auto file = run / "metrics.jsonl";
        RunFollower follower(run);
        write(file, line(0, 4) + line(1, 2));
        auto news = follower.poll();
        QVERIFY(news.anew);
        QCOMPARE(news.rows.size(), 2u);
        QCOMPARE(news.rows[1].loss, 2.0);
        QCOMPARE(news.rows[1].layer, std::int64_t(3));
        const auto third = line(2, 1);
        write(file, third.substr(0, 17), true); // not whole yet
        news = follower.poll();
        QVERIFY(!news.anew && news.rows.empty());
        write(file, third.substr(17) + line(3, 0.5), true);
        news = follower.poll();
        QCOMPARE(news.rows.size(), 2u);
        QCOMPARE(news.rows[0].step, std::int64_t(2));
        QCOMPARE(news.rows[1].step, std::int64_t(3));
        QCOMPARE(follower.bytesRead(), fs::file_size(file) + 17); // the torn piece twice, nothing else
        QVERIFY(follower.poll().rows.empty());
        writeFileAtomically(file, line(0, 4) + line(1, 2) + line(2, 1) + line(3, 1.5) + line(4, 1)); // a resumed run: another file, longer
        news = follower.poll();
        QVERIFY(news.anew);
        QCOMPARE(news.rows.size(), 5u);
        write(file, line(0, 4)); // the same file, shorter
        news = follower.poll();
        QVERIFY(news.anew);
        QCOMPARE(news.rows.size(), 1u);
        write(file, "torn by a kill\n[1]\n{\"loss\": {}}\n" + line(1, 3), true);
        QCOMPARE(follower.poll().rows.size(), 1u);
        QVERIFY(RunFollower(folder("nowhere")).poll().rows.empty());
    }

    void whatTheFilesSay() {
        const auto run = made("seen");
        auto seen = lookAtRun(run);
        QVERIFY(!seen.process && !seen.finished && !seen.lastMetric && !seen.savedStep && seen.stage.empty());
        write(run / "log.txt", "2026-01-31 12:00:00 stage align\n2026-01-31 12:00:05 stopped: stopped on request\n");
        write(run / "metrics.jsonl", line(0, 4) + line(1, 2) + "{\"ti");
        write(run / "checkpoints/align_3.json", "{\"tensors\": \"x\", \"step\": 412}");
        Evaluation teacher;
        teacher.perplexity = 7.5;
        write(run / "state.json", "{\"seconds\": 12.5, \"evaluation\": {\"teacher\": " + evaluationToJson(teacher).dump() + "}}");
        seen = lookAtRun(run);
        QCOMPARE(seen.stage, std::string("align"));
        QVERIFY(seen.ending == RunEnding::Stopped);
        QCOMPARE(seen.endingText, std::string("stopped on request"));
        QCOMPARE(seen.lastMetric->step, std::int64_t(1)); // not the torn line
        QCOMPARE(*seen.savedStep, std::int64_t(412));
        QCOMPARE(seen.seconds, 12.5);
        QCOMPARE(seen.evaluation.at("teacher").perplexity, 7.5);
        write(run / "log.txt", "2026-01-31 12:10:00 resumed\n", true);
        QVERIFY(lookAtRun(run).ending == RunEnding::Unknown); // it went on; if nobody executes it, it was killed
        write(run / "log.txt", "2026-01-31 12:10:01 failed: no memory\n", true);
        QVERIFY(lookAtRun(run).ending == RunEnding::Failed);
        write(run / "state.json", "{\"seconds\": 12"); // broken: what else is there is still seen
        QCOMPARE(*lookAtRun(run).savedStep, std::int64_t(412));
        QVERIFY(!lookAtRun(folder("nowhere")).process);
    }
};

QTEST_APPLESS_MAIN(TestConvertWatch)
#include "tst_convert_watch.moc"
