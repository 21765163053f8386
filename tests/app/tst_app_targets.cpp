// Targets of many heads at once: set, scale, lock, copy and paste by field, apply to others, preview, and the difference to other recipes.
#include "app/models/head_metrics.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/models/target_actions.h"
#include "app/models/target_table_model.h"
#include "app/models/target_text.h"
#include "app/panels/recipe_diff_dialog.h"
#include "app/panels/targets_panel.h"
#include "tests/app/fake_teacher.h"
#include "widgets/distance_histogram.h"

#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QInputDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTableView>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet;
using namespace linnet::tests;
using app::HeadId;
using app::Spread;
using app::TargetField;
using Model = app::TargetTableModel;

class TestAppTargets : public QObject {
    Q_OBJECT

    std::unique_ptr<app::Session> m_session;
    std::unique_ptr<app::TargetsPanel> m_panel;
    Model* m_model = nullptr;

    app::RecipeModel* recipe() { return m_session->recipe(); }
    QString step() { return recipe()->undoStack()->undoText(); }
    int steps() { return recipe()->undoStack()->count(); }
    QTableView* table() { return m_panel->findChild<QTableView*>(QStringLiteral("targetsTable")); }
    void click(const char* name) { m_panel->findChild<QPushButton*>(QString::fromLatin1(name))->click(); }
    void trigger(const char* name) { m_panel->findChild<QAction*>(QString::fromLatin1(name))->trigger(); }
    QString message() { return m_panel->findChild<QLabel*>(QStringLiteral("targetsMessage"))->text(); }
    void selectRows(const QList<int>& rows) {
        table()->clearSelection();
        for (const int row : rows)
            table()->selectionModel()->select(m_model->index(row, 0), QItemSelectionModel::Select | QItemSelectionModel::Rows);
    }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_targets"));
    }
    void init() {
        app::Settings().clear();
        m_session = std::make_unique<app::Session>();
        auto profile = std::make_shared<core::Profile>(*fakeProfile());
        for (auto& layer : profile->layers) // alike means near in scale alone
            for (auto& head : layer)
                head.concentrationAbsolute = 0.5;
        m_session->adopt(fakeTeacher(), profile);
        auto start = core::defaultRecipe("cpu", "naive");
        start.keep = core::parseKeepRule("layers:0,1,2,4");
        recipe()->load(start);
        m_panel = std::make_unique<app::TargetsPanel>(m_session.get());
        m_model = m_panel->findChild<Model*>();
    }
    void cleanup() {
        m_panel.reset();
        m_session.reset();
    }

    void setForManyIsOneStep() {
        m_session->selection()->select({{3, 0}, {3, 1}, {5, 2}}, {3, 0});
        QVERIFY(m_model->set({0, 4, 8}, QStringLiteral("12.5")));
        for (const HeadId head : {HeadId{3, 0}, HeadId{3, 1}, HeadId{5, 2}})
            QCOMPARE(recipe()->target(head).halfLife, std::optional(12.5));
        QCOMPARE(step(), QStringLiteral("Set half life of 3 heads"));
        QCOMPARE(steps(), 1);
        QVERIFY(!m_model->set({0, 1}, QStringLiteral("5"))); // no beta: nothing is taken, of neither row
        QVERIFY(message().contains(QStringLiteral("beta")));
        QCOMPARE(recipe()->target({3, 0}).halfLife, std::optional(12.5));
        QVERIFY(m_model->set({0}, QStringLiteral("none")));
        QCOMPARE(step(), QStringLiteral("Set half life of layer 3, head 0"));
        QVERIFY(m_model->set({0, 4, 8}, QString()));
        QVERIFY(recipe()->recipe().targets.empty());
        recipe()->undoStack()->undo();
        recipe()->undoStack()->undo();
        QCOMPARE(recipe()->target({5, 2}).halfLife, std::optional(12.5));
    }

    void theSetDialogTakesTheSelectedRows() {
        m_session->selection()->select({{3, 0}, {3, 1}}, {3, 0});
        selectRows({1, 5});
        click("setTargetsButton");
        auto* dialog = m_panel->findChild<QInputDialog*>(QStringLiteral("setTargetsDialog"));
        QVERIFY(dialog);
        dialog->setTextValue(QStringLiteral("0.25"));
        dialog->accept();
        QCOMPARE(recipe()->target({3, 1}).beta, std::optional(0.25));
        QVERIFY(!recipe()->target({3, 1}).halfLife);
    }

    void theSetDialogAsksWhichTarget() { // where the rows are of several kinds: one number is no value of all of them
        m_session->selection()->select({{3, 0}, {3, 1}}, {3, 0});
        selectRows({});
        click("setTargetsButton");
        auto* which = m_panel->findChild<QInputDialog*>(QStringLiteral("setWhichDialog"));
        QVERIFY(which);
        QCOMPARE(which->comboBoxItems().size(), 4);
        which->setTextValue(which->comboBoxItems()[1]);
        which->accept();
        auto* dialog = m_panel->findChild<QInputDialog*>(QStringLiteral("setTargetsDialog"));
        QVERIFY(dialog);
        dialog->setTextValue(QStringLiteral("0.25"));
        dialog->accept();
        for (const int head : {0, 1}) {
            QCOMPARE(recipe()->target({3, head}).beta, std::optional(0.25));
            QVERIFY(!recipe()->target({3, head}).halfLife && !recipe()->target({3, head}).valueScale && !recipe()->target({3, head}).outputGate);
        }
        m_panel->resize(400, 600);
        QCOMPARE(m_panel->findChild<QLabel*>(QStringLiteral("targetsCaption"))->text(), QStringLiteral("2 heads selected: 2 of 8 targets set by hand, the others automatic"));
    }

    void eightRowsAreSeenInASmallDock() { // as large as a window of 1280x800 leaves it
        m_panel->resize(306, 303);
        m_panel->show();
        m_session->selection()->select({{3, 0}, {3, 1}}, {3, 0});
        QVERIFY(QTest::qWaitForWindowExposed(m_panel.get()));
        const auto last = [&] { return table()->visualRect(m_model->index(7, 0)).bottom(); };
        QTRY_VERIFY2(last() < table()->viewport()->height(), qPrintable(QStringLiteral("%1 of %2").arg(last()).arg(table()->viewport()->height())));
        for (auto* button : m_panel->findChildren<QPushButton*>())
            if (button->isVisible())
                QVERIFY2(button->width() >= button->fontMetrics().horizontalAdvance(button->text()), qPrintable(button->text()));
    }

    void locksOfManyRows() {
        m_session->selection()->select({{3, 0}, {3, 1}}, {3, 0});
        selectRows({0, 1, 4});
        click("lockTargetsButton");
        QCOMPARE(recipe()->target({3, 0}).locked, (std::set<std::string>{"beta", "half_life"}));
        QCOMPARE(recipe()->target({3, 1}).locked, (std::set<std::string>{"half_life"}));
        QCOMPARE(step(), QStringLiteral("Lock 3 targets of 2 heads"));
        QCOMPARE(steps(), 1);
        click("lockTargetsButton");
        QVERIFY(recipe()->recipe().targets.empty());
        QCOMPARE(step(), QStringLiteral("Unlock 3 targets of 2 heads"));
    }

    void spread_data() {
        QTest::addColumn<Spread>("how");
        QTest::addColumn<QList<HeadId>>("heads");
        QList<HeadId> layer{{2, 0}, {2, 2}, {2, 3}}, model;
        for (int l = 0; l < kLayers; ++l)
            for (int h = 0; h < kHeads; ++h)
                if (HeadId id{l, h}; id != HeadId{2, 1})
                    model << id;
        QTest::newRow("group") << Spread::Group << QList<HeadId>{{2, 0}};
        QTest::newRow("layer") << Spread::Layer << layer;
        QTest::newRow("model") << Spread::Model << model;
        // RMS (n + 1) / 8 with n = 4 l + h: nearest to log10 10/8 are 11, 9, 12, 8, 13 eighths, at 0.041, 0.046, 0.079, 0.097, 0.114
        QTest::newRow("similar") << Spread::Similar << QList<HeadId>{{2, 2}, {2, 0}, {2, 3}, {1, 3}, {3, 0}};
    }
    void spread() {
        QFETCH(Spread, how);
        QFETCH(QList<HeadId>, heads);
        QCOMPARE(app::spreadHeads(*m_session, {2, 1}, how), heads);
        recipe()->setTarget({{2, 1}}, TargetField::HalfLife, 7.0);
        recipe()->setTarget({{2, 1}}, TargetField::OutputGate, 0.5);
        recipe()->setLocked({{2, 0}}, TargetField::HalfLife, true);
        const auto before = steps();
        const auto done = app::spreadTargets(*m_session, {2, 1}, {TargetField::HalfLife, TargetField::Beta}, how);
        QVERIFY(done.refused.isEmpty());
        QCOMPARE(done.locked, heads.contains(HeadId{2, 0}) ? 1 : 0);
        QCOMPARE(done.heads, int(heads.size()) - done.locked);
        for (const auto& head : heads) {
            QVERIFY(recipe()->target(head).halfLife == (head == HeadId{2, 0} ? std::optional<double>() : 7.0));
            QVERIFY(!recipe()->target(head).beta && !recipe()->target(head).outputGate);
        }
        QCOMPARE(steps(), before + (done.heads > 0 ? 1 : 0)); // the group's only other head is locked
    }

    void whatCannotBeApplied() {
        QVERIFY(app::spreadTargets(*m_session, {2, 1}, {TargetField::Beta}, Spread::Layer).refused.contains(QStringLiteral("no value of its own")));
        recipe()->setTarget({{2, 1}}, TargetField::Beta, 0.3);
        app::Session unprofiled;
        unprofiled.adopt(fakeTeacher(), nullptr);
        unprofiled.recipe()->setTarget({{2, 1}}, TargetField::Beta, 0.3);
        QVERIFY(app::spreadTargets(unprofiled, {2, 1}, {TargetField::Beta}, Spread::Similar).refused.contains(QStringLiteral("after a profile")));
        QCOMPARE(unprofiled.recipe()->undoStack()->count(), 1);
    }

    void theApplyMenu() {
        m_session->selection()->select({{2, 1}}, {2, 1});
        recipe()->setTarget({{2, 1}}, TargetField::ValueScale, 1.5);
        trigger("applyLayer");
        QCOMPARE(recipe()->target({2, 3}).valueScale, std::optional(1.5));
        QCOMPARE(step(), QStringLiteral("Apply the targets of layer 2, head 1 to layer 2"));
        QVERIFY(message().contains(QStringLiteral("Applied to 3 heads")));
        trigger("selectSimilar");
        QCOMPARE(m_session->selection()->selected().size(), 6);
        QCOMPARE(m_session->selection()->primary(), (HeadId{2, 1}));
    }

    void pastedTextGoesWhereItBelongs() {
        using app::targetLines;
        const QList<TargetField> two{TargetField::HalfLife, TargetField::Beta, TargetField::HalfLife, TargetField::Beta};
        const auto placed = [&](const QString& text, const QList<TargetField>& fields) {
            QStringList found;
            for (const auto& each : app::placeTargets(targetLines(text), fields))
                found << QStringLiteral("%1=%2").arg(each.row).arg(each.text);
            return found.join(QLatin1Char(' '));
        };
        QCOMPARE(placed(QStringLiteral("5\n"), two), QStringLiteral("0=5 1=5 2=5 3=5"));
        QCOMPARE(placed(QStringLiteral("5\r\n0.5\r\n"), two), QStringLiteral("0=5 1=0.5"));
        const auto header = QStringLiteral("head\tfield\tmeasured\tautomatic\tuser\tlocked\n");
        const auto line = [](const char* head, const char* field, const char* user) { return QStringLiteral("%1\t%2\t1\t2\t%3\tno\n").arg(QLatin1String(head), QLatin1String(field), QLatin1String(user)); };
        const auto one = header + line("L0 H0", "beta", "0.2") + line("L0 H0", "half life", "7");
        QCOMPARE(placed(one, two), QStringLiteral("0=7 1=0.2 2=7 3=0.2")); // one head to every head, by field
        const auto both = header + line("L0 H0", "half life", "7") + line("L0 H1", "half life", "8");
        QCOMPARE(placed(both, two), QStringLiteral("0=7 2=8")); // head by head; beta is not in it
        QCOMPARE(placed(QString(), two), QString());
        QCOMPARE(placed(header, two), QString());
    }

    void copyAndPasteOfSomeRows() {
        recipe()->setTarget({{0, 0}}, TargetField::HalfLife, 7.0);
        recipe()->setTarget({{0, 1}}, TargetField::HalfLife, 200000.0); // marked as unusual: the mark is no part of the text
        m_session->selection()->select({{0, 0}, {0, 1}}, {0, 0});
        QVERIFY(!m_model->index(0, Model::User).data(Qt::DecorationRole).isValid());
        QVERIFY(m_model->index(4, Model::User).data(Qt::DecorationRole).isValid());
        selectRows({0, 4});
        trigger("copyTargets");
        m_session->selection()->select({{4, 2}, {5, 3}}, {4, 2});
        trigger("pasteTargets"); // onto all eight rows: only half-lives change
        QCOMPARE(recipe()->target({4, 2}).halfLife, std::optional(7.0));
        QCOMPARE(recipe()->target({5, 3}).halfLife, std::optional(200000.0));
        QVERIFY(!recipe()->target({5, 3}).beta && !recipe()->target({4, 2}).outputGate);
        QGuiApplication::clipboard()->clear();
        const auto before = steps();
        trigger("pasteTargets");
        QVERIFY(message().contains(QStringLiteral("clipboard")));
        QCOMPARE(steps(), before);
    }

    void thePreviewFollowsTheRowAndTheTyping() {
        m_session->selection()->select({{2, 1}}, {2, 1});
        auto* histogram = m_panel->findChild<widgets::DistanceHistogram*>(QStringLiteral("targetPreviewHistogram"));
        auto* words = m_panel->findChild<QLabel*>(QStringLiteral("targetPreviewText"));
        const auto& edges = m_session->profile()->edges;
        recipe()->setTarget({{2, 1}}, TargetField::HalfLife, 4.0);
        QCOMPARE(histogram->kernelMass(), widgets::decayKernelMass(edges, 4.0));
        // horizon 5.29; of seven equal masses the bins [0,1) [1,2) [2,4) lie within, and of [4,8) a share of 1.29 / 4: (3 + 0.32) / 7 = 47 %
        QVERIFY2(words->text().contains(QStringLiteral("horizon 5.29 tokens, measured distance 10.5; 47 %")), qPrintable(words->text()));
        m_panel->resize(340, 560);
        m_panel->show();
        QVERIFY(QTest::qWaitForWindowExposed(m_panel.get()));
        table()->setCurrentIndex(m_model->index(0, Model::User));
        table()->edit(m_model->index(0, Model::User));
        auto* editor = table()->findChild<QLineEdit*>();
        QVERIFY(editor);
        editor->selectAll();
        QTest::keyClicks(editor, QStringLiteral("16"));
        QCOMPARE(histogram->kernelMass(), widgets::decayKernelMass(edges, 16.0)); // before it is taken
        QCOMPARE(recipe()->target({2, 1}).halfLife, std::optional(4.0));
        QTest::keyClick(editor, Qt::Key_Escape);
        table()->setCurrentIndex(m_model->index(2, Model::User));
        recipe()->setTarget({{2, 1}}, TargetField::ValueScale, 2.0);
        QVERIFY2(words->text().contains(QStringLiteral("output RMS 1.25 becomes 2.5")), qPrintable(words->text()));
        QVERIFY2(m_panel->minimumSizeHint().width() <= 300, qPrintable(QString::number(m_panel->minimumSizeHint().width())));
    }

    void differencesToARun() {
        QTemporaryDir folder;
        auto other = recipe()->recipe();
        other.align.steps = 77;
        other.targets[2][1].beta = 0.5;
        QVERIFY(core::writeRecipe(folder.filePath(QStringLiteral("recipe.json")).toStdString(), other));
        app::RecipeDiffDialog dialog(m_session.get());
        auto* lines = dialog.findChild<QTableWidget*>(QStringLiteral("diffTable"));
        dialog.compareWith(folder.path());
        QCOMPARE(lines->rowCount(), 2);
        const auto expected = core::diffRecipes(recipe()->recipe(), other); // what linnet-cli recipe diff prints
        for (int row = 0; row < 2; ++row) {
            QCOMPARE(lines->item(row, 0)->text(), QString::fromStdString(expected[size_t(row)].key));
            QCOMPARE(lines->item(row, 2)->text(), QString::fromStdString(expected[size_t(row)].right));
        }
        for (int row = 0; row < 2; ++row)
            if (lines->item(row, 0)->text().startsWith(QStringLiteral("targets")))
                lines->selectRow(row);
        QCOMPARE(m_session->selection()->sorted(), (QList<HeadId>{{2, 1}}));
        recipe()->setTarget({{2, 1}}, TargetField::Beta, 0.5); // it follows edits
        QCOMPARE(lines->rowCount(), 1);
        dialog.findChild<QPushButton*>(QStringLiteral("diffTake"))->click();
        QCOMPARE(recipe()->recipe().align.steps, 77);
        QVERIFY(step().startsWith(QStringLiteral("Take the recipe of")));
        QVERIFY(dialog.findChild<QLabel*>(QStringLiteral("diffSummary"))->text().contains(QStringLiteral("the same")));
        dialog.compareWith(folder.filePath(QStringLiteral("no-such.json")));
        QVERIFY(dialog.findChild<QLabel*>(QStringLiteral("diffSummary"))->text().contains(QStringLiteral("no-such.json")));
        QCOMPARE(lines->rowCount(), 0);
    }
};

QTEST_MAIN(TestAppTargets)
#include "tst_app_targets.moc"
