#include "app/models/session.h"

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <set>

using namespace linnet;
using app::HeadId;
using app::TargetField;

class TestAppModels : public QObject {
    Q_OBJECT

    static core::Recipe start() {
        auto recipe = core::defaultRecipe("cpu");
        recipe.keep = core::parseKeepRule("layers:0,1,2,4");
        recipe.teacherHash = "0123";
        return recipe;
    }
    static std::unique_ptr<app::RecipeModel> model() { // 6 layers of 4 heads, 3 and 5 converted
        auto made = std::make_unique<app::RecipeModel>();
        made->setShape(6, 4);
        made->load(start());
        return made;
    }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_models"));
    }
    void init() { QFile::remove(app::RecipeModel().autosaveFile(start().teacherHash)); }

    void selection() {
        app::SelectionModel selection;
        QSignalSpy changed(&selection, &app::SelectionModel::changed), hovered(&selection, &app::SelectionModel::hoverChanged);
        selection.select({{2, 1}, {0, 3}}, {0, 3});
        QCOMPARE(selection.sorted(), (QList<HeadId>{{0, 3}, {2, 1}}));
        selection.toggle({1, 0});
        QCOMPARE(selection.primary(), (HeadId{1, 0}));
        selection.toggle({0, 3});
        QCOMPARE(selection.sorted(), (QList<HeadId>{{1, 0}, {2, 1}}));
        selection.add({{5, 2}}, {5, 2});
        QCOMPARE(selection.selected().size(), 3);
        QCOMPARE(changed.count(), 4);
        selection.setHovered({4, 4});
        selection.setHovered({4, 4});
        QCOMPARE(hovered.count(), 1);
        QCOMPARE(changed.count(), 4); // hover selects nothing
        selection.clear();
        QVERIFY(selection.selected().isEmpty() && !selection.primary().valid());
    }

    void everyEditIsOneStepBackAndForth_data() {
        QTest::addColumn<int>("edit");
        for (int edit = 0; edit < 9; ++edit)
            QTest::addRow("edit %d", edit) << edit;
    }
    void everyEditIsOneStepBackAndForth() {
        QFETCH(int, edit);
        const auto recipe = model();
        const QList<HeadId> heads{{3, 0}, {3, 1}};
        switch (edit) {
        case 0: recipe->setLayersConverted({2}, true); break;
        case 1: recipe->setLayersConverted({3, 5}, false); break;
        case 2: recipe->setKeepRule(core::parseKeepRule("uniform:3")); break;
        case 3: recipe->setTarget(heads, TargetField::Beta, 0.25); break;
        case 4: recipe->scaleTarget(heads, TargetField::HalfLife, 2, {3, 5}); break;
        case 5: recipe->setLocked(heads, TargetField::OutputGate, true); break;
        case 6: recipe->editTargets({{{3, 0}, TargetField::Beta, 0.5, false}, {{5, 3}, TargetField::ValueScale, 2.0, false}}, QStringLiteral("Paste")); break;
        case 7: recipe->setPins({2}, app::Pin::Never); break;
        case 8: recipe->setPins({3, 5}, app::Pin::Always); break;
        }
        const auto after = recipe->recipe();
        QVERIFY(!(after == start()));
        QVERIFY(recipe->problems().empty());
        QCOMPARE(recipe->undoStack()->count(), 1);
        recipe->undoStack()->undo();
        QVERIFY(recipe->recipe() == start());
        recipe->undoStack()->redo();
        QVERIFY(recipe->recipe() == after);
    }

    void layersTickedAreTheOnesConverted() {
        const auto recipe = model();
        recipe->setLayersConverted({0, 2}, true);
        QCOMPARE(*recipe->converted(), (std::vector<std::int64_t>{0, 2, 3, 5}));
        QCOMPARE(recipe->recipe().keep.text(), std::string("layers:1,4"));
        recipe->setKeepRule(core::parseKeepRule("bypass:4"));
        QVERIFY(!recipe->converted()); // a measurement decides
        QCOMPARE(recipe->undoStack()->count(), 2);
    }

    void aLayerHasOnePin() {
        const auto recipe = model();
        QVERIFY(recipe->pin(3) == app::Pin::None);
        recipe->setPins({3, 5}, app::Pin::Never);
        QVERIFY(recipe->converted()->empty()); // whatever the rule says
        recipe->setPins({3}, app::Pin::Always);
        QVERIFY(recipe->pin(3) == app::Pin::Always && recipe->pin(5) == app::Pin::Never);
        QCOMPARE(*recipe->converted(), (std::vector<std::int64_t>{3}));
        recipe->setPins({3, 5}, app::Pin::None);
        QVERIFY(recipe->recipe() == start());
        QCOMPARE(recipe->undoStack()->count(), 3);
    }

    void scalingStartsFromTheGivenValues() {
        const auto recipe = model();
        recipe->scaleTarget({{3, 0}, {3, 1}}, TargetField::HalfLife, 2, {3, 5});
        QVERIFY(recipe->target({3, 0}).halfLife == 6.0);
        QVERIFY(recipe->target({3, 1}).halfLife == 10.0);
    }

    void aDraggedValueIsOneStep() {
        const auto recipe = model();
        for (const double value : {0.1, 0.2, 0.3})
            recipe->setTarget({{3, 0}}, TargetField::Beta, value);
        QCOMPARE(recipe->undoStack()->count(), 1);
        recipe->setTarget({{3, 1}}, TargetField::Beta, 0.4); // another head: another step
        QCOMPARE(recipe->undoStack()->count(), 2);
        recipe->undoStack()->undo();
        QVERIFY(recipe->target({3, 0}).beta == 0.3);
        recipe->undoStack()->undo();
        QVERIFY(recipe->target({3, 0}).empty());
    }

    void ticksDoNotMerge() {
        const auto recipe = model();
        recipe->setLayersConverted({2}, true);
        recipe->setLayersConverted({2}, false);
        recipe->setLayersConverted({2}, true);
        QCOMPARE(recipe->undoStack()->count(), 3);
    }

    void noEditNoStep() {
        const auto recipe = model();
        recipe->setLayersConverted({3}, true); // is so
        recipe->resetTargets({{0, 0}});
        QCOMPARE(recipe->undoStack()->count(), 0);
    }

    void theAutosaveComesBack() {
        const auto edited = model();
        QSignalSpy saved(edited.get(), &app::RecipeModel::autosaved);
        edited->setTarget({{3, 2}}, TargetField::HalfLife, 9.5);
        edited->setLocked({{3, 2}}, TargetField::HalfLife, true);
        QTRY_VERIFY_WITH_TIMEOUT(saved.count() > 0, 2500); // 2 s is what the window promises
        const auto kept = app::RecipeModel().takeAutosave(edited->recipe().teacherHash);
        QVERIFY(kept && *kept);
        auto restored = **kept;
        restored.folder = edited->recipe().folder; // where it was read from
        QVERIFY(restored == edited->recipe());
        QVERIFY(!*app::RecipeModel().takeAutosave("another")); // each teacher has its own
    }

    void aDamagedAutosaveIsPutAside() {
        const auto edited = model();
        QSignalSpy saved(edited.get(), &app::RecipeModel::autosaved);
        QTRY_VERIFY_WITH_TIMEOUT(saved.count() > 0, 2500);
        QFile file(edited->autosaveFile());
        QVERIFY(file.resize(file.size() / 2));
        const auto before = edited->recipe();
        const auto taken = edited->takeAutosave(before.teacherHash);
        QVERIFY(!taken);
        QVERIFY2(taken.error().message.find(".broken") != std::string::npos, taken.error().message.c_str());
        QVERIFY(!file.exists() && QFile::exists(file.fileName() + QStringLiteral(".broken"))); // nothing is thrown away
        QVERIFY(edited->recipe() == before);
        QVERIFY(*edited->takeAutosave(before.teacherHash) == std::nullopt);
    }

    void probesWaitForTheLastEdit() {
        const auto recipe = model();
        app::SelectionModel selection;
        QList<app::Job> asked;
        bool free = true;
        app::TargetProbeModel probes(recipe.get(), &selection, [&](app::Job job) {
            if (free)
                asked << job;
            return free ? static_cast<std::uint64_t>(asked.size()) : 0;
        });
        using State = app::TargetProbeModel::State;
        const auto answer = [&](std::uint64_t tag, double chosen) {
            app::JobResult result;
            result.kind = app::JobKind::Probe, result.tag = tag;
            result.probed.emplace();
            result.probed->chosen.residual = chosen;
            result.probed->automatic = {8, 0.2, false, false, false, 0.4};
            probes.take(result);
        };
        selection.select({{3, 1}, {5, 0}}, {5, 0});
        QVERIFY(probes.state() == State::None && probes.text().isEmpty());
        for (const double beta : {0.1, 0.2, 0.3})
            recipe->setTarget({{3, 1}}, TargetField::Beta, beta); // the primary head has no value of its own
        QVERIFY(probes.state() == State::Measuring);
        QCOMPARE(probes.head(), (HeadId{3, 1}));
        QTRY_COMPARE(asked.size(), 1); // the last of them
        QVERIFY(asked[0].kind == app::JobKind::Probe && asked[0].layer == 3 && asked[0].head == 1);
        QVERIFY(asked[0].recipe.targets.at(3).at(1).beta == 0.3);
        recipe->setTarget({{3, 1}}, TargetField::Beta, 0.5);
        answer(1, 0.41); // too late
        QVERIFY(probes.state() == State::Measuring);
        QTRY_COMPARE(asked.size(), 2);
        answer(2, 0.43);
        QVERIFY(probes.state() == State::Known && !probes.costly());
        QCOMPARE(probes.text(), QStringLiteral("residual 0.430, automatic 0.400 (half-life 8, beta 0.2)"));

        auto other = recipe->recipe(); // what the start does not depend on
        other.align.steps = 7;
        recipe->replace(other, QStringLiteral("Set steps"));
        QVERIFY(probes.state() == State::Known);
        free = false; // a job took the worker
        other.closedForm.betas = {0.5};
        recipe->replace(other, QStringLiteral("Set betas"));
        QTest::qWait(250);
        QVERIFY(probes.state() == State::Measuring && asked.size() == 2);
        free = true;
        probes.retry();
        QTRY_COMPARE(asked.size(), 3);
        answer(3, 0.45);
        QVERIFY(probes.costly()); // 12 % more
        selection.select({{5, 0}}, {5, 0});
        QVERIFY(probes.state() == State::None && !probes.costly());
    }

    void aProbeThatFailsSaysWhy() {
        const auto recipe = model();
        app::SelectionModel selection;
        app::TargetProbeModel probes(recipe.get(), &selection, [](app::Job) { return std::uint64_t(1); });
        recipe->setTarget({{3, 1}}, TargetField::HalfLife, 4.0);
        selection.select({{3, 1}}, {3, 1});
        QTest::qWait(250);
        app::JobResult result;
        result.kind = app::JobKind::Probe, result.tag = 1;
        result.error = core::Error{core::ErrorCode::Malformed, "too little text", {}};
        probes.take(result);
        QVERIFY(probes.state() == app::TargetProbeModel::State::Failed);
        QVERIFY(probes.text().contains(QStringLiteral("too little text")));
    }

    void everyRequestIsAnswered() {
        app::Worker worker;
        std::set<std::uint64_t> open;
        for (int i = 0; i < 5; ++i) {
            app::Job job;
            job.kind = app::JobKind::Probe;
            open.insert(worker.submit(job));
        }
        const auto last = *open.rbegin();
        core::ErrorCode ofLast = core::ErrorCode::Internal;
        QTRY_VERIFY([&] {
            for (const auto& result : worker.drain().results) {
                open.erase(result.tag);
                if (result.tag == last && result.error)
                    ofLast = result.error->code;
            }
            return open.empty();
        }());
        QVERIFY(ofLast == core::ErrorCode::Usage); // it ran, and there is no teacher; those before it gave way
    }

    void closedFormFiles_data() {
        QTest::addColumn<bool>("whole"); // one list, or the files of a run that goes on
        QTest::newRow("list") << true;
        QTest::newRow("a file a layer") << false;
    }
    void closedFormFiles() {
        QFETCH(bool, whole);
        QTemporaryDir folder;
        QVERIFY(QDir(folder.path()).mkdir(QStringLiteral("checkpoints")));
        const QByteArray layer = R"({"layer": 3, "residual": 0.25, "heads": [{"half_life": null, "beta": 0.2, "histogram_taps": true, "residual": 0.5,
            "tried": [
            {"half_life": 8, "beta": 0.2, "query_scale": 2, "negated_values": true, "fold_bias": false, "residual": 0.6}, 7,
            {"half_life": null, "beta": 0.2, "histogram_taps": true, "residual": 0.5}, {"half_life": 2}]}, "odd"], "new": 1})";
        const auto write = [&](const QString& name, const QByteArray& text) {
            QFile file(folder.filePath(name));
            return file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
        };
        QVERIFY(whole ? write(QStringLiteral("closed_form.json"), "[" + layer + ", {\"heads\": 3}, null]")
                      : write(QStringLiteral("checkpoints/closed_form_3.json"), layer) && write(QStringLiteral("checkpoints/closed_form_4.json"), "{torn"));
        app::ClosedFormModel model;
        QSignalSpy changed(&model, &app::ClosedFormModel::changed);
        model.show(folder.path());
        QTRY_COMPARE(changed.count(), 1);
        QCOMPARE(model.layers().size(), 1u);
        QCOMPARE(model.layer(3)->residual, 0.25);
        const auto* head = model.head(3, 0);
        QVERIFY(head && std::isinf(head->chosen.halfLife) && head->chosen.histogramTaps && !head->chosen.foldRope);
        QCOMPARE(head->tried.size(), 3u);
        QVERIFY(head->tried[0].sameStart(head->chosen) && head->tried[1].residual == 0.6 && std::isnan(head->tried[2].residual));
        QVERIFY(head->tried[1].negatedValues && head->tried[1].queryScale == 2 && !head->tried[1].foldBias && head->chosen.foldBias && head->chosen.queryScale == 1);
        QVERIFY(!model.head(3, 2) && !model.head(4, 0));
        model.show({});
        QVERIFY(model.layers().empty());
    }

    void badPaths_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QByteArray>("content"); // null: no such file
        QTest::addColumn<int>("code");
        QTest::newRow("nothing there") << "none.gguf" << QByteArray() << int(core::ErrorCode::NotFound);
        QTest::newRow("not a model") << "text.gguf" << QByteArray("this is a letter, not a model") << int(core::ErrorCode::Malformed);
        QTest::newRow("cut") << "cut.gguf" << QByteArray("GGUF\3\0\0\0", 8) << int(core::ErrorCode::Malformed);
    }
    void badPaths() {
        QFETCH(QString, name);
        QFETCH(QByteArray, content);
        QFETCH(int, code);
        QTemporaryDir folder;
        const auto path = folder.filePath(name);
        if (!content.isNull()) {
            QFile file(path);
            QVERIFY(file.open(QIODevice::WriteOnly) && file.write(content) == content.size());
        }
        app::Session session;
        QString message;
        int found = -1;
        connect(&session, &app::Session::failed, this, [&](const QString&, const core::Error& error) {
            found = int(error.code);
            message = QString::fromStdString(error.message);
        });
        session.openTeacher(path);
        QTRY_VERIFY_WITH_TIMEOUT(session.jobState() == app::JobState::Idle && found >= 0, 10000);
        QCOMPARE(found, code);
        QVERIFY2(message.contains(name), qPrintable(message));
        QVERIFY(!session.teacher());
    }

    void workWithoutATeacherIsNotStarted() {
        app::Session session;
        session.profileTeacher();
        session.startRun();
        session.selectLayers(core::parseKeepRule("kl:3"));
        QVERIFY(!session.generation()->start({QStringLiteral("Hello"), false, {}, {}}));
        QVERIFY(session.jobState() == app::JobState::Idle);
        session.stop();
        QVERIFY(session.jobState() == app::JobState::Idle);
    }
};

QTEST_MAIN(TestAppModels)
#include "tst_app_models.moc"
