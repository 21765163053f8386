// Every page, dock and dialog of the window as a picture, in light and dark: for the README and for looking at them one by one.
//   linnet_screenshots OUT MODEL TEXT WIDTHxHEIGHT WORK [ICON.png]
// WORK keeps settings, cache, two short real runs and the export of one; a second call opens those. QT_SCALE_FACTOR scales.
#include "app/models/head_metrics.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/models/theme_choice.h"
#include "app/panels/export_wizard.h"
#include "app/window_habits.h"
#include "tests/gui/photographer.h"

#include <QAbstractButton>
#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QIcon>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QPainter>
#include <QPushButton>
#include <QSvgRenderer>
#include <QTableView>
#include <QTableWidget>
#include <QTimer>
#include <cstdio>

using namespace linnet;
using tests::Photographer;

namespace {

constexpr int kRuns = 2;

struct Place { // what a call is given
    QString model, text, work;
    QString runs() const { return QDir(work).filePath(QStringLiteral("runs")); }
    QString exported() const { return QDir(work).filePath(QStringLiteral("exported-hybrid")); }
    QStringList made() const { return QDir(runs()).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name); }
};

bool makeRun(Photographer& camera, int steps) {
    auto& session = camera.session();
    auto recipe = session.recipe()->recipe();
    recipe.align.steps = steps;
    session.recipe()->replace(recipe, QStringLiteral("Set up"));
    session.startRun();
    return camera.waitIdle(1200) && session.currentRun() && session.currentRun()->state == QLatin1String("done");
}

bool makeRuns(Photographer& camera, const Place& place) {
    auto& session = camera.session();
    session.openTeacher(place.model);
    if (!camera.waitIdle(300) || !session.teacher())
        return false;
    camera.page("headsPage", QStringLiteral("unprofiled-heads"));
    auto recipe = session.recipe()->recipe();
    recipe.dataText = {place.text.toStdString()};
    recipe.seqLen = 128, recipe.calibrationTokens = 4096, recipe.selectionTokens = 512, recipe.evaluationTokens = 1024;
    recipe.align.batch = 2;
    recipe.device = "cpu";
    session.recipe()->replace(recipe, QStringLiteral("Set up"));
    session.profileTeacher();
    if (!camera.waitIdle(600) || !session.profile())
        return false;
    session.selectLayers(core::parseKeepRule("bypass:" + std::to_string(session.teacher()->config.layers - 4)));
    if (!camera.waitIdle(600))
        return false;
    for (auto made = place.made().size(); made < kRuns; ++made)
        if (!makeRun(camera, made == 0 ? 60 : 30))
            return false;
    return true;
}

bool openRun(Photographer& camera, const Place& place) {
    auto& session = camera.session();
    session.openTeacher(place.runs() + QLatin1Char('/') + place.made().first());
    if (!camera.waitIdle(300))
        return false;
    session.profileTeacher(); // from the cache
    return camera.waitIdle(600) && session.profile();
}

// ---- scenes -----------------------------------------------------------------------------------------------------------------

void selectHeads(Photographer& camera) {
    auto& session = camera.session();
    const auto converted = session.recipe()->converted().value_or(std::vector<std::int64_t>{});
    const int layer = converted.empty() ? static_cast<int>(session.teacher()->config.layers) / 2 : static_cast<int>(converted.front());
    session.selection()->select({{layer, 1}, {layer, 2}}, {layer, 2});
    session.recipe()->setTarget({{layer, 2}}, app::TargetField::HalfLife, 24.0);
    camera.waitFor(QStringLiteral("the target's probe"), 120, [&] { return session.probes()->state() != app::TargetProbeModel::State::Measuring && session.probes()->state() != app::TargetProbeModel::State::None; });
}

void compareRuns(Photographer& camera) {
    auto* table = camera.window().findChild<QTableView*>(QStringLiteral("runsTable"));
    table->selectRow(0);
    table->selectionModel()->select(table->model()->index(1, 0), QItemSelectionModel::Select | QItemSelectionModel::Rows);
    camera.page("runsPage", QStringLiteral("runs-compared"));
    table->selectRow(0);
}

void oneMap(Photographer& camera) { // with all its tools, in the colours of differences too
    const auto choose = [&](const char* combo, int index) { camera.window().findChild<QComboBox*>(QString::fromLatin1(combo))->setCurrentIndex(index); };
    choose("viewCombo", 1);
    camera.page("headsPage", QStringLiteral("one-map"));
    camera.waitFor(QStringLiteral("the student's numbers"), 180, [&] { return camera.session().studentNumbers()->state() == app::StudentNumbersModel::State::Known; });
    choose("metricCombo", static_cast<int>(app::Metric::OutputAfter));
    choose("sourceCombo", static_cast<int>(app::Source::Difference));
    camera.page("headsPage", QStringLiteral("one-map-difference"));
    choose("metricCombo", static_cast<int>(app::Metric::AlignmentError));
    camera.page("headsPage", QStringLiteral("one-map-error"));
    choose("viewCombo", 0);
}

void generate(Photographer& camera) {
    const auto& model = *camera.session().generation();
    camera.window().findChild<QPushButton*>(QStringLiteral("generateButton"))->click();
    camera.waitFor(QStringLiteral("the generated texts"), 180, [&] { return !model.running() && model.side(0).tokens.size() > 1; });
    camera.waitIdle(60);
    camera.page("generatePage", QStringLiteral("generated"));
    camera.window().findChild<QPushButton*>(QStringLiteral("judgeButton"))->click(); // where they were stopped; else nothing
    camera.window().findChild<QComboBox*>(QStringLiteral("shadeCombo"))->setCurrentIndex(1);
    camera.waitIdle(120);
    camera.page("generatePage", QStringLiteral("generated-shaded"));
}

void exportWizard(Photographer& camera, const Place& place) {
    auto& session = camera.session();
    const auto folder = QDir(place.work).filePath(QStringLiteral("written"));
    QDir(folder).removeRecursively();
    auto* wizard = new app::ExportWizard(&session, session.currentRun()->folder, &camera.window());
    wizard->open();
    camera.waitFor(QStringLiteral("the student of the export wizard"), 60, [wizard] { return wizard->plan().student.has_value(); });
    camera.shoot(wizard, QStringLiteral("wizard-1-what"));
    wizard->next();
    wizard->findChild<QLineEdit*>(QStringLiteral("folderEdit"))->setText(place.exported()); // there is something
    camera.shoot(wizard, QStringLiteral("wizard-2-where-taken"));
    wizard->findChild<QLineEdit*>(QStringLiteral("folderEdit"))->setText(folder);
    camera.shoot(wizard, QStringLiteral("wizard-2-where"));
    wizard->next();
    camera.shoot(wizard, QStringLiteral("wizard-3-verify"));
    wizard->next();
    camera.waitFor(QStringLiteral("the wizard's export"), 600, [wizard] { return wizard->written(); });
    camera.shoot(wizard, QStringLiteral("wizard-4-written"));
    delete wizard;
    QDir(folder).removeRecursively();
}

void dialogs(Photographer& camera) {
    camera.dialog("helpContents");
    camera.dialog("shortcuts");
    camera.dialog("about", [](QDialog& dialog) { return dialog.findChild<QTableWidget*>(QStringLiteral("versionsTable"))->rowCount() > 5; }); // those of the libraries
    camera.dialog("compareRecipes");
    camera.dialog("resetSettings");
    camera.session().openTeacher(QStringLiteral("/no/such/model"));
    camera.waitFor(QStringLiteral("the box for a model that isn't there"), 20, [&] { return camera.window().findChild<QMessageBox*>() != nullptr; });
    if (auto* box = camera.window().findChild<QMessageBox*>()) {
        camera.shoot(box, QStringLiteral("dialog-error"));
        box->close();
    }
    camera.waitFor(QStringLiteral("the box's end"), 20, [&] { return !camera.window().findChild<QMessageBox*>(); });
}

void hybrid(Photographer& camera, const Place& place) { // an exported folder opened as a model
    auto& session = camera.session();
    session.openTeacher(place.exported());
    if (!camera.waitIdle(300))
        return;
    camera.page("headsPage", QStringLiteral("hybrid-unprofiled-heads"));
    auto recipe = session.recipe()->recipe(); // an autosaved one of before may name another text
    recipe.dataText = {place.text.toStdString()};
    session.recipe()->replace(recipe, QStringLiteral("Set up"));
    session.profileTeacher();
    camera.waitIdle(600);
    const auto& kinds = session.teacher()->layerKinds;
    const auto layer = static_cast<int>(std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) { return kind != "softmax"; }) - kinds.begin());
    session.selection()->select({{layer, 1}}, {layer, 1});
    camera.page("headsPage", QStringLiteral("hybrid-heads"));
    camera.page("layersPage", QStringLiteral("hybrid-layers"));
}

bool makeExport(Photographer& camera, const Place& place) {
    if (QDir(place.exported()).exists())
        return true;
    core::ExportOptions options;
    options.dtype = "bf16";
    camera.session().exportRun(camera.session().currentRun()->folder, place.exported(), options);
    return camera.waitIdle(600) && QDir(place.exported()).exists();
}

int icon(const QString& path) {
    QImage image(256, 256, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    QSvgRenderer(QStringLiteral(":/icons/linnet.svg")).render(&painter);
    return painter.end() && image.convertToFormat(QImage::Format_ARGB32).save(path) ? 0 : 1;
}

int work(const QStringList& arguments) {
    if (arguments.size() > 6 && icon(arguments[6]) != 0)
        return 1;
    const Place place{arguments[2], arguments[3], QDir(arguments[5]).absolutePath()};
    const auto size = arguments[4].split(QLatin1Char('x'));
    Photographer camera(arguments[1], {size[0].toInt(), size.value(1).toInt()});
    const bool small = size[0].toInt() <= 1280; // dialogs and menus are the same in a larger window
    app::Settings().clear();
    app::Settings().setValue(QStringLiteral("runs/folder"), place.runs());
    camera.makeWindow();
    camera.window().habits()->theme()->choose(app::ThemeChoice::Light);
    if (small) {
        camera.pages(QStringLiteral("empty-"));
        camera.docks(QStringLiteral("empty-"));
    }
    if (place.made().size() < kRuns && !makeRuns(camera, place))
        return 1;
    if (!openRun(camera, place) || !makeExport(camera, place))
        return 1;
    selectHeads(camera);
    camera.window().findChild<QAction*>(QStringLiteral("resetLayout"))->trigger();
    camera.pages({});
    camera.docks({});
    oneMap(camera);
    compareRuns(camera);
    generate(camera);
    if (small) {
        exportWizard(camera, place);
        dialogs(camera);
        camera.menus();
        hybrid(camera, place);
    }
    return camera.failed() ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
    QApplication application(argc, argv);
    const auto arguments = QApplication::arguments();
    if (arguments.size() < 6) {
        std::fprintf(stderr, "linnet_screenshots OUT MODEL TEXT WIDTHxHEIGHT WORK [ICON.png]\n");
        return 2;
    }
    const QDir place(arguments[5]);
    for (const char* variable : {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"})
        qputenv(variable, place.filePath(QString::fromLatin1(variable)).toLocal8Bit());
    QApplication::setOrganizationName(QStringLiteral("Linnet"));
    QApplication::setApplicationName(QStringLiteral("linnet"));
    QTimer::singleShot(0, &application, [&] { QApplication::exit(work(arguments)); }); // inside exec(): open windows follow a theme
    return QApplication::exec();
}
