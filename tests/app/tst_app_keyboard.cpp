// The window without a mouse: every menu, every action, every field, and a name for each that a screen reader can say.
#include "tests/app/fake_teacher.h"
#include "tests/support/gui_watchdog.h"
#include "tests/support/window_test.h"

#include <QAccessible>
#include <QDockWidget>
#include <QMenu>
#include <QMenuBar>
#include <QTabWidget>

using namespace linnet;
using namespace linnet::tests;

class TestAppKeyboard : public WindowTest {
    Q_OBJECT

    static QString nameOf(const QWidget* widget) {
        QString path;
        for (int depth = 0; widget && depth < 4; ++depth, widget = widget->parentWidget())
            path += QStringLiteral("%1 \"%2\" < ").arg(QLatin1String(widget->metaObject()->className()), widget->objectName());
        return path;
    }
    QList<QWidget*> fields() { // what takes the keys by Tab, of all that is shown
        QList<QWidget*> found;
        for (auto* widget : m_window->findChildren<QWidget*>())
            if (widget->isVisible() && widget->isEnabled() && (widget->focusPolicy() & Qt::TabFocus) == Qt::TabFocus && !widget->focusProxy() && widget->window() == m_window.get())
                found << widget;
        return found;
    }
    static QChar mnemonic(const QString& text) {
        auto plain = text;
        plain.remove(QStringLiteral("&&"));
        const auto at = plain.indexOf(QLatin1Char('&'));
        return at < 0 || at + 1 >= plain.size() ? QChar() : plain[at + 1].toLower();
    }

private Q_SLOTS:
    void init() {
        app::Settings().clear();
        makeWindow();
        session().adopt(fakeTeacher(), fakeProfile());
        auto recipe = core::defaultRecipe("cpu", "naive");
        recipe.keep = core::parseKeepRule("layers:0,1,2,4");
        session().recipe()->load(recipe);
        session().selection()->select({{3, 1}}, {3, 1});
        m_window->activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
    }
    void cleanup() { m_window.reset(); }

    void everyMenuAndAction() {
        QSet<QChar> letters;
        for (auto* title : m_window->menuBar()->actions()) {
            const auto letter = mnemonic(title->text());
            QVERIFY2(!letter.isNull() && !letters.contains(letter), qPrintable(title->text()));
            letters.insert(letter);
            QTest::keyClick(m_window.get(), static_cast<Qt::Key>(letter.toUpper().unicode()), Qt::AltModifier);
            auto* menu = title->menu();
            QTRY_VERIFY2(menu->isVisible(), qPrintable(title->text()));
            QSet<QAction*> reached;
            for (int i = 0; i <= 2 * menu->actions().size(); ++i) {
                if (menu->activeAction())
                    reached.insert(menu->activeAction());
                QTest::keyClick(menu, Qt::Key_Down);
            }
            for (auto* each : menu->actions()) {
                if (each->isSeparator() || !each->isVisible())
                    continue;
                QVERIFY2(!each->text().isEmpty(), qPrintable(title->text()));
                QVERIFY2(!each->isEnabled() || reached.contains(each), qPrintable(title->text() + QStringLiteral(" > ") + each->text()));
            }
            QTest::keyClick(menu, Qt::Key_Escape);
            QTRY_VERIFY(!menu->isVisible());
            QTest::keyClick(m_window->menuBar(), Qt::Key_Escape);
        }
        QVERIFY(letters.size() >= 5);
    }

    void everyFieldByTab() {
        auto* pages = find<QTabWidget>("pages");
        for (int page = 0; page < pages->count(); ++page) {
            pages->setCurrentIndex(page);
            pages->setFocus();
            QVERIFY(QApplication::focusWidget());
            auto missing = fields();
            const auto count = missing.size();
            QVERIFY2(count > 20, qPrintable(QString::number(count)));
            int here = 0;
            for (qsizetype i = 0; i < 10 * count && !missing.isEmpty(); ++i) {
                auto* before = QApplication::focusWidget();
                missing.removeAll(before);
                QTest::keyClick(before, Qt::Key_Tab);
                here = QApplication::focusWidget() == before ? here + 1 : 0; // a text goes from link to link first
                QVERIFY2(here < 40, qPrintable(QStringLiteral("Tab is stuck in ") + nameOf(before)));
            }
            for (auto* widget : missing)
                qWarning("page %d: not reached: %s", page, qPrintable(nameOf(widget)));
            QVERIFY(missing.isEmpty());
        }
    }

    void everyFieldHasAName() {
        auto* pages = find<QTabWidget>("pages");
        QStringList nameless;
        for (int page = 0; page < pages->count(); ++page) {
            pages->setCurrentIndex(page);
            for (auto* dock : m_window->findChildren<QDockWidget*>()) { // also those behind another's tab
                dock->raise();
                QCoreApplication::processEvents();
                for (auto* widget : fields()) {
                    const auto* accessible = QAccessible::queryAccessibleInterface(widget);
                    if (!accessible || accessible->text(QAccessible::Name).trimmed().isEmpty())
                        nameless << nameOf(widget);
                }
            }
        }
        nameless.removeDuplicates();
        for (const auto& name : nameless)
            qWarning("no name: %s", qPrintable(name));
        QVERIFY(nameless.isEmpty());
    }

    void f6WalksThePanels() {
        QSet<QString> visited;
        const auto panelOf = [](const QWidget* at) {
            for (; at; at = at->parentWidget())
                if (qobject_cast<const QDockWidget*>(at) || at->objectName() == QLatin1String("pages"))
                    return at->objectName();
            return QString();
        };
        find<QTabWidget>("pages")->setFocus();
        for (int i = 0; i < 12; ++i) {
            QTest::keyClick(m_window.get(), Qt::Key_F6);
            visited.insert(panelOf(QApplication::focusWidget()));
        }
        for (auto* dock : m_window->findChildren<QDockWidget*>())
            if (dock->isVisible() && !dock->visibleRegion().isEmpty())
                QVERIFY2(visited.contains(dock->objectName()), qPrintable(dock->objectName()));
        QVERIFY(visited.contains(QStringLiteral("pages")) && !visited.contains(QString()));
        const auto here = panelOf(QApplication::focusWidget());
        QTest::keyClick(m_window.get(), Qt::Key_F6);
        QTest::keyClick(m_window.get(), Qt::Key_F6, Qt::ShiftModifier);
        QCOMPARE(panelOf(QApplication::focusWidget()), here);
    }

    void nothingFreezes() { LINNET_NOT_FROZEN("the keyboard's tour"); }
};

LINNET_WATCHED_MAIN(TestAppKeyboard)
#include "tst_app_keyboard.moc"
