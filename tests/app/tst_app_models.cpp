#include "app/models/session.h"

#include <QFile>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

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
    void init() { QFile::remove(app::RecipeModel().autosaveFile()); }

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
        for (int edit = 0; edit < 7; ++edit)
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
        app::RecipeModel next;
        next.setShape(6, 4);
        QVERIFY(next.restoreAutosave());
        auto restored = next.recipe();
        restored.folder = edited->recipe().folder; // where it was read from
        QVERIFY(restored == edited->recipe());
        QVERIFY(!next.undoStack()->canUndo());
    }

    void aDamagedAutosaveIsLeftAlone() {
        const auto edited = model();
        QSignalSpy saved(edited.get(), &app::RecipeModel::autosaved);
        QTRY_VERIFY_WITH_TIMEOUT(saved.count() > 0, 2500);
        QFile file(edited->autosaveFile());
        QVERIFY(file.resize(file.size() / 2));
        const auto before = edited->recipe();
        QVERIFY(!edited->restoreAutosave());
        QVERIFY(edited->recipe() == before);
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
        session.generate(QStringLiteral("Hello"));
        QVERIFY(session.jobState() == app::JobState::Idle);
        session.stop();
        QVERIFY(session.jobState() == app::JobState::Idle);
    }
};

QTEST_MAIN(TestAppModels)
#include "tst_app_models.moc"
