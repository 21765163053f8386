// Input, focus, high DPI, idle and loss of the OpenGL context. Runs on a screen with OpenGL and, as _software, without one and at 200 %.
#include "widgets/imgui_host.h"
#include "widgets/theme.h"

#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QLineEdit>
#include <QMainWindow>
#include <QShortcut>
#include <QSignalSpy>
#include <QTest>
#include <QVBoxLayout>
#include <imgui.h>

using linnet::widgets::ImGuiHost;

namespace {

struct Content { // a slider, a text and an image; each says where it is
    float value = 0.25F;
    char text[64] = {};
    ImVec2 sliderMin, sliderMax, textMin, textMax;
    bool image = false;
    void operator()(ImGuiHost& host) {
        ImGui::SetNextItemWidth(200);
        ImGui::SliderFloat("##slider", &value, 0, 1);
        sliderMin = ImGui::GetItemRectMin(), sliderMax = ImGui::GetItemRectMax();
        ImGui::SetNextItemWidth(200);
        ImGui::InputText("##text", text, sizeof text);
        textMin = ImGui::GetItemRectMin(), textMax = ImGui::GetItemRectMax();
        auto* list = ImGui::GetWindowDrawList();
        list->AddRectFilled({20, 100}, {60, 140}, IM_COL32(255, 0, 0, 255));
        list->AddTriangleFilled({100, 100}, {180, 100}, {100, 180}, IM_COL32(0, 0, 255, 255));
        if (image)
            list->AddImage(host.texture(3), {200, 100}, {240, 140});
        list->AddText({20, 160}, ImGui::GetColorU32(ImGuiCol_Text), "mmm\xe4\xb8\xad");
    }
};

QPoint middle(ImVec2 a, ImVec2 b) { return {int(a.x + b.x) / 2, int(a.y + b.y) / 2}; }

QImage shot(QWidget& widget) { return widget.grab().toImage().convertToFormat(QImage::Format_RGB32); }

QColor at(const QImage& image, double x, double y) { // logical pixels
    return image.pixelColor(int(x * image.devicePixelRatio()), int(y * image.devicePixelRatio()));
}

bool settled(ImGuiHost& host) { // no more frames come
    for (int i = 0; i < 100; ++i) {
        const auto before = host.frames();
        QTest::qWait(30);
        if (host.frames() == before && before > 0)
            return true;
    }
    return false;
}

bool activated(QWidget& window) { // a bare screen has no window manager to do it
    QT_WARNING_PUSH
    QT_WARNING_DISABLE_DEPRECATED
    QApplication::setActiveWindow(&window);
    QT_WARNING_POP
    return QTest::qWaitForWindowExposed(&window) && window.isActiveWindow();
}

bool near(const QColor& a, const QColor& b) {
    return std::abs(a.red() - b.red()) <= 2 && std::abs(a.green() - b.green()) <= 2 && std::abs(a.blue() - b.blue()) <= 2;
}

} // namespace

class TestImGuiHost : public QObject {
    Q_OBJECT

    std::unique_ptr<ImGuiHost> shown(Content& content, bool software = false) {
        auto host = std::make_unique<ImGuiHost>(nullptr, software);
        host->setContent(std::ref(content));
        host->addCharacters(QStringLiteral("\u4e2d"));
        host->resize(320, 240);
        host->show();
        if (!QTest::qWaitForWindowExposed(host.get()) || !settled(*host))
            return nullptr;
        return host;
    }

private Q_SLOTS:
    void initTestCase() {
        linnet::widgets::applyTheme(*qApp, linnet::widgets::Theme::Light);
        qInfo("platform %s, OpenGL %d, scale %g", qPrintable(QGuiApplication::platformName()), ImGuiHost::platformHasOpenGl(), qApp->devicePixelRatio());
    }

    void picture_data() {
        QTest::addColumn<bool>("software");
        QTest::newRow("as the platform has it") << false;
        QTest::newRow("software") << true;
    }
    void picture() {
        QFETCH(bool, software);
        Content content;
        content.image = true;
        QImage four(2, 2, QImage::Format_RGBA8888);
        four.setPixelColor(0, 0, Qt::green), four.setPixelColor(1, 0, Qt::magenta), four.setPixelColor(0, 1, Qt::cyan), four.setPixelColor(1, 1, QColor(0, 0, 0, 0));
        ImGuiHost host(nullptr, software);
        host.setImage(3, four);
        host.setContent(std::ref(content));
        host.resize(320, 240);
        host.show();
        QVERIFY(QTest::qWaitForWindowExposed(&host) && settled(host));
        QCOMPARE(host.painter() == ImGuiHost::Painter::Software, software || !ImGuiHost::platformHasOpenGl());
        QCOMPARE(host.fallbackReason().isEmpty(), host.painter() == ImGuiHost::Painter::OpenGl);
        const auto image = shot(host);
        const QColor base = host.palette().color(QPalette::Base);
        QCOMPARE(image.size(), host.size() * host.devicePixelRatioF());
        QVERIFY(near(at(image, 21, 101), Qt::red) && near(at(image, 59, 139), Qt::red)); // a rectangle has its corners
        QVERIFY(near(at(image, 18, 120), base) && near(at(image, 62, 120), base));
        QVERIFY(near(at(image, 110, 110), Qt::blue) && near(at(image, 175, 175), base)); // half of the square
        QVERIFY(near(at(image, 210, 110), Qt::green) && near(at(image, 230, 110), Qt::magenta)); // nearest texel, upright
        QVERIFY(near(at(image, 210, 130), Qt::cyan) && near(at(image, 230, 130), base));         // transparent
    }

    void theme_follows() {
        Content content;
        const auto host = shown(content);
        QVERIFY(host);
        for (const auto theme : {linnet::widgets::Theme::Dark, linnet::widgets::Theme::Light}) {
            linnet::widgets::applyTheme(*qApp, theme);
            QVERIFY(settled(*host));
            const auto image = shot(*host);
            QVERIFY(near(at(image, 300, 220), linnet::widgets::themePalette(theme).color(QPalette::Base)));
        }
    }

    void glyphs() { // Qt's, of any script; as dark as text, at the device's pixels
        Content content;
        const auto host = shown(content);
        QVERIFY(host);
        const auto image = shot(*host);
        const double ratio = image.devicePixelRatio();
        int dark = 0, right = 0;
        for (int y = int(160 * ratio); y < int(185 * ratio); ++y)
            for (int x = int(20 * ratio); x < int(100 * ratio); ++x)
                if (qGray(image.pixel(x, y)) < 100)
                    ++dark, right = std::max(right, x);
        QVERIFY2(dark > 20 * ratio * ratio, qPrintable(QString::number(dark)));
        QVERIFY(right > (20 + 3 * QFontMetrics(host->font()).horizontalAdvance(QLatin1Char('m')) * 0.8) * ratio);
    }

    void slider_by_mouse() {
        Content content;
        const auto host = shown(content);
        QVERIFY(host);
        const auto from = middle(content.sliderMin, content.sliderMax);
        QTest::mouseMove(host.get(), from);
        QTest::mousePress(host.get(), Qt::LeftButton, {}, from);
        QTRY_VERIFY(host->itemActive());
        QTest::mouseMove(host.get(), from + QPoint(80, 0));
        QTRY_VERIFY(content.value > 0.8F && content.value < 1);
        QTest::mouseRelease(host.get(), Qt::LeftButton, {}, from + QPoint(80, 0));
        QTRY_VERIFY(!host->itemActive());
    }

    void press_and_release_within_a_frame() { // as a quick click on a busy machine is
        Content content;
        const auto host = shown(content);
        QVERIFY(host);
        const auto place = middle(content.textMin, content.textMax);
        QTest::mouseClick(host.get(), Qt::LeftButton, {}, place);
        QTest::mouseClick(host.get(), Qt::LeftButton, {}, middle(content.sliderMin, content.sliderMax));
        QTRY_VERIFY(std::abs(content.value - 0.5F) < 0.05F);
    }

    void typing() {
        Content content;
        QMainWindow window;
        auto* host = new ImGuiHost;
        host->setContent(std::ref(content));
        window.setCentralWidget(host);
        QShortcut shortcut(QKeySequence(QStringLiteral("A")), &window);
        QSignalSpy fired(&shortcut, &QShortcut::activated);
        window.resize(340, 260);
        window.show();
        QVERIFY(activated(window) && settled(*host));
        host->setFocus();
        QTest::keyClick(host, Qt::Key_A); // not yet typing: the window's
        QCOMPARE(fired.count(), 1);
        QTest::mouseClick(host, Qt::LeftButton, {}, middle(content.textMin, content.textMax));
        QVERIFY(settled(*host));
        QTest::keyClick(host, Qt::Key_A);
        QTest::sendKeyEvent(QTest::Click, host, Qt::Key_Eacute, QString(QChar(0xe9)), Qt::NoModifier);
        QTest::keyClick(host, Qt::Key_B);
        QVERIFY(settled(*host));
        QCOMPARE(QString::fromUtf8(content.text), QStringLiteral("a\u00e9b"));
        QCOMPARE(fired.count(), 1);
        for (const auto key : {Qt::Key_A, Qt::Key_C}) {
            QTest::keyPress(host, key, Qt::ControlModifier);
            QTest::keyRelease(host, key, Qt::ControlModifier);
        }
        QTRY_COMPARE(QGuiApplication::clipboard()->text(), QStringLiteral("a\u00e9b"));
    }

    void idle_draws_nothing() {
        Content content;
        const auto host = shown(content);
        QVERIFY(host);
        const auto before = host->frames();
        QTest::qWait(400);
        QCOMPARE(host->frames(), before);
        QTest::mouseMove(host.get(), QPoint(150, 200));
        QVERIFY(settled(*host));
        QVERIFY(host->frames() > before);
        QVERIFY2(host->frames() < before + 12, qPrintable(QString::number(host->frames() - before)));
    }

    void tab_leaves_and_keys_are_asked() {
        QWidget window;
        auto* layout = new QVBoxLayout(&window);
        auto* before = new QLineEdit;
        auto* host = new ImGuiHost;
        auto* after = new QLineEdit;
        layout->addWidget(before);
        layout->addWidget(host);
        layout->addWidget(after);
        int stops = 2;
        QList<int> keys;
        host->setFocusStep([&](bool) { return stops-- > 0; });
        host->setKeyHandler([&](const QKeyEvent& event, bool query) {
            if (event.key() != Qt::Key_Plus)
                return false;
            if (!query)
                keys << event.key();
            return true;
        });
        QShortcut shortcut(QKeySequence(Qt::Key_Plus), &window);
        QSignalSpy fired(&shortcut, &QShortcut::activated);
        window.show();
        QVERIFY(activated(window));
        before->setFocus();
        QTest::keyClick(before, Qt::Key_Tab);
        QVERIFY(host->hasFocus());
        QTest::keyClick(host, Qt::Key_Plus);
        QCOMPARE(keys.size(), 1);
        QCOMPARE(fired.count(), 0);
        QTest::keyClick(host, Qt::Key_Tab);
        QTest::keyClick(host, Qt::Key_Tab);
        QVERIFY(host->hasFocus());
        QTest::keyClick(host, Qt::Key_Tab);
        QVERIFY(after->hasFocus());
    }

    void dock_that_floats() { // OpenGL: a new window has a new context
        Content content;
        content.image = true;
        QMainWindow window;
        auto* dock = new QDockWidget;
        auto* host = new ImGuiHost;
        QImage green(1, 1, QImage::Format_RGBA8888);
        green.fill(Qt::green);
        host->setImage(3, green);
        host->setMinimumSize(320, 240);
        host->setContent(std::ref(content));
        dock->setWidget(host);
        window.addDockWidget(Qt::RightDockWidgetArea, dock);
        window.show();
        QVERIFY(QTest::qWaitForWindowExposed(&window) && settled(*host));
        for (const bool floating : {true, false}) {
            dock->setFloating(floating);
            QVERIFY(settled(*host));
            const auto image = shot(*host);
            QVERIFY(near(at(image, 30, 110), Qt::red));
            QVERIFY(near(at(image, 220, 120), Qt::green)); // textures came along
        }
    }

    void lost_context_goes_on_without() {
        Content content;
        content.image = true;
        ImGuiHost host;
        QImage green(1, 1, QImage::Format_RGBA8888);
        green.fill(Qt::green);
        host.setImage(3, green);
        host.setContent(std::ref(content));
        host.resize(320, 240);
        host.show();
        QVERIFY(QTest::qWaitForWindowExposed(&host) && settled(host));
        QSignalSpy changes(&host, &ImGuiHost::painterChanged);
        host.useSoftware(QStringLiteral("the driver gave up"));
        QVERIFY(settled(host));
        QCOMPARE(changes.count(), 1);
        QCOMPARE(host.painter(), ImGuiHost::Painter::Software);
        QCOMPARE(host.fallbackReason(), QStringLiteral("the driver gave up"));
        const auto image = shot(host);
        QVERIFY(near(at(image, 30, 110), Qt::red) && near(at(image, 220, 120), Qt::green));
        content.value = 0;
        QTest::mouseClick(&host, Qt::LeftButton, {}, middle(content.sliderMin, content.sliderMax)); // input goes on too
        QTRY_VERIFY(std::abs(content.value - 0.5F) < 0.05F);
    }

    void two_hosts_and_their_ends() {
        Content first, second;
        auto one = shown(first);
        const auto two = shown(second);
        QVERIFY(one && two);
        one.reset();
        two->redraw();
        QVERIFY(settled(*two));
        QVERIFY(near(at(shot(*two), 30, 110), Qt::red));
    }
};

QTEST_MAIN(TestImGuiHost)
#include "tst_widgets_imgui_host.moc"
