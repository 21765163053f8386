#include "widgets/imgui_canvas.h"

#include "widgets/imgui_font.h"
#include "widgets/theme.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QKeyEvent>
#include <algorithm>
#include <cfloat>
#include <chrono>
#include <imgui_internal.h> // ErrorCheckEndFrameRecover

namespace linnet::widgets {
namespace {

int buttonIndex(Qt::MouseButton button) {
    return button == Qt::LeftButton ? 0 : button == Qt::RightButton ? 1 : button == Qt::MiddleButton ? 2 : -1;
}

struct KeyPair {
    ImGuiKey key;
    int qt;
};
constexpr KeyPair kKeys[] = {
    {ImGuiKey_Tab, Qt::Key_Tab},       {ImGuiKey_LeftArrow, Qt::Key_Left}, {ImGuiKey_RightArrow, Qt::Key_Right}, {ImGuiKey_UpArrow, Qt::Key_Up},
    {ImGuiKey_DownArrow, Qt::Key_Down}, {ImGuiKey_PageUp, Qt::Key_PageUp}, {ImGuiKey_PageDown, Qt::Key_PageDown}, {ImGuiKey_Home, Qt::Key_Home},
    {ImGuiKey_End, Qt::Key_End},       {ImGuiKey_Insert, Qt::Key_Insert}, {ImGuiKey_Delete, Qt::Key_Delete},     {ImGuiKey_Backspace, Qt::Key_Backspace},
    {ImGuiKey_Space, Qt::Key_Space},   {ImGuiKey_Enter, Qt::Key_Return},  {ImGuiKey_KeyPadEnter, Qt::Key_Enter}, {ImGuiKey_Escape, Qt::Key_Escape},
    {ImGuiKey_A, Qt::Key_A},           {ImGuiKey_C, Qt::Key_C},           {ImGuiKey_V, Qt::Key_V},               {ImGuiKey_X, Qt::Key_X},
    {ImGuiKey_Y, Qt::Key_Y},           {ImGuiKey_Z, Qt::Key_Z}};

int keyIndex(int qtKey) { // of kKeys; -1: none of Dear ImGui's
    for (int i = 0; i < int(std::size(kKeys)); ++i)
        if (kKeys[i].qt == qtKey)
            return i;
    return -1;
}

void pressKey(int index, bool down) {
#if IMGUI_VERSION_NUM >= 18700
    ImGui::GetIO().AddKeyEvent(kKeys[index].key, down);
#else
    ImGui::GetIO().KeysDown[index] = down; // the constructor mapped them by index
#endif
}

ImVec4 toImGui(const QColor& color, float alpha = 1) {
    return {float(color.redF()), float(color.greenF()), float(color.blueF()), float(color.alphaF()) * alpha};
}

} // namespace

ImGuiCanvas::ImGuiCanvas() {
    IMGUI_CHECKVERSION();
    ImGuiContext* before = ImGui::GetCurrentContext();
    m_context = ImGui::CreateContext();
    ImGui::SetCurrentContext(m_context);
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.LogFilename = nullptr;
    io.BackendPlatformName = "linnet_qt";
    io.BackendFlags |= ImGuiBackendFlags_HasMouseCursors;
    io.ConfigInputTextCursorBlink = false; // nothing is drawn while nothing happens
#if IMGUI_VERSION_NUM < 18700
    for (int i = 0; i < int(std::size(kKeys)); ++i)
        io.KeyMap[kKeys[i].key] = i;
#endif
    io.ClipboardUserData = &m_clipboard;
    io.SetClipboardTextFn = [](void*, const char* text) { QGuiApplication::clipboard()->setText(QString::fromUtf8(text)); };
    io.GetClipboardTextFn = [](void* kept) {
        auto& bytes = *static_cast<QByteArray*>(kept);
        bytes = QGuiApplication::clipboard()->text().toUtf8();
        return static_cast<const char*>(bytes.constData());
    };
    if (before)
        ImGui::SetCurrentContext(before);
}

ImGuiCanvas::~ImGuiCanvas() {
    ImGui::DestroyContext(m_context);
}

void ImGuiCanvas::makeCurrent() const {
    ImGui::SetCurrentContext(m_context);
}

void ImGuiCanvas::setStyle(const QPalette& palette, const QFont& font) {
    makeCurrent();
    if (font != m_font)
        m_fontRatio = 0;
    m_font = font;
    const auto active = [&](QPalette::ColorRole role) { return palette.color(QPalette::Active, role); };
    ImGuiStyle style;
    isDark(palette) ? ImGui::StyleColorsDark(&style) : ImGui::StyleColorsLight(&style);
    const std::pair<ImGuiCol_, QPalette::ColorRole> roles[] = {
        {ImGuiCol_Text, QPalette::Text},           {ImGuiCol_WindowBg, QPalette::Base},    {ImGuiCol_PopupBg, QPalette::ToolTipBase},
        {ImGuiCol_Border, QPalette::Mid},          {ImGuiCol_FrameBg, QPalette::Button},   {ImGuiCol_FrameBgHovered, QPalette::Midlight},
        {ImGuiCol_FrameBgActive, QPalette::Light}, {ImGuiCol_Button, QPalette::Button},    {ImGuiCol_TableHeaderBg, QPalette::AlternateBase},
        {ImGuiCol_TableBorderStrong, QPalette::Mid}, {ImGuiCol_SliderGrab, QPalette::Highlight}, {ImGuiCol_SliderGrabActive, QPalette::Highlight}};
    for (const auto& [slot, role] : roles)
        style.Colors[slot] = toImGui(active(role));
    for (const auto grab : {ImGuiCol_SliderGrab, ImGuiCol_SliderGrabActive})
        style.Colors[grab].w = 0.6F; // a slider's text lies on it
    style.Colors[ImGuiCol_TextDisabled] = toImGui(active(QPalette::PlaceholderText));
    style.Colors[ImGuiCol_TextSelectedBg] = toImGui(active(QPalette::Highlight), 0.4F);
    style.Colors[ImGuiCol_TableBorderLight] = toImGui(active(QPalette::Mid), 0.5F);
    style.Colors[ImGuiCol_ScrollbarBg] = toImGui(active(QPalette::Base));
    style.WindowPadding = {6, 4};
    style.ItemSpacing = {6, 4};
    style.FramePadding = {5, 2};
    style.GrabMinSize = 9;
    style.FrameBorderSize = 1;
    style.WindowBorderSize = 0;
    style.FrameRounding = style.GrabRounding = 2;
    ImGui::GetStyle() = style;
}

void ImGuiCanvas::addCharacters(const QString& text) {
    const auto before = m_characters.size();
    for (const QChar each : text)
        if (each.unicode() > 0xff && !each.isSurrogate())
            m_characters.insert(each.unicode());
    if (m_characters.size() != before)
        m_fontRatio = 0;
}

void ImGuiCanvas::setImage(int id, const QImage& image) {
    auto& kept = m_images[id];
    kept.pixels = image.convertToFormat(QImage::Format_RGBA8888);
    ++kept.version;
}

// ---- input ------------------------------------------------------------------------------------------------------------------

void ImGuiCanvas::move(QPointF position) {
    if (!m_input.empty() && m_input.back().kind == Input::Move)
        m_input.back().point = position; // only where it is now
    else
        m_input.push_back({Input::Move, position, -1, false, {}, {}});
}

void ImGuiCanvas::leave() {
    move({-double(FLT_MAX), -double(FLT_MAX)});
}

void ImGuiCanvas::button(Qt::MouseButton button, bool down) {
    if (const int index = buttonIndex(button); index >= 0)
        m_input.push_back({Input::Button, {}, index, down, QGuiApplication::keyboardModifiers(), {}});
}

void ImGuiCanvas::wheel(QPointF notches) {
    m_input.push_back({Input::Wheel, notches, -1, false, {}, {}});
}

void ImGuiCanvas::key(const QKeyEvent& event, bool down) {
    m_input.push_back({Input::Key, {}, keyIndex(event.key()), down, event.modifiers(), {}});
    if (down && !(event.modifiers() & (Qt::ControlModifier | Qt::AltModifier)) && !event.text().isEmpty() && event.text().front().isPrint())
        text(event.text());
}

void ImGuiCanvas::text(const QString& committed) {
    m_input.push_back({Input::Text, {}, -1, false, {}, committed});
}

void ImGuiCanvas::releaseAll() {
    for (int i = 0; i < 3; ++i)
        m_input.push_back({Input::Button, {}, i, false, {}, {}});
    for (int i = 0; i < int(std::size(kKeys)); ++i)
        m_input.push_back({Input::Key, {}, i, false, {}, {}});
}

// As much as one frame can tell apart: nothing moves after a button, and no button or key changes twice.
void ImGuiCanvas::takeInput() {
    ImGuiIO& io = ImGui::GetIO();
    bool buttonChanged = false;
    quint32 keysChanged = 0;
    while (!m_input.empty()) {
        const Input& each = m_input.front();
        switch (each.kind) {
        case Input::Move:
            if (buttonChanged)
                return;
            io.MousePos = {float(each.point.x()), float(each.point.y())};
            break;
        case Input::Button:
            if (io.MouseDown[each.code] == each.down)
                break;
            if (std::exchange(buttonChanged, true))
                return;
            io.MouseDown[each.code] = each.down;
            break;
        case Input::Wheel:
            io.MouseWheel += float(each.point.y());
            io.MouseWheelH += float(each.point.x());
            break;
        case Input::Key:
            if (each.code >= 0) {
                if (keysChanged & (1U << each.code))
                    return;
                keysChanged |= 1U << each.code;
                pressKey(each.code, each.down);
            }
            io.KeyCtrl = each.modifiers & Qt::ControlModifier;
            io.KeyShift = each.modifiers & Qt::ShiftModifier;
            io.KeyAlt = each.modifiers & Qt::AltModifier;
            break;
        case Input::Text: io.AddInputCharactersUTF8(each.text.toUtf8().constData()); break;
        }
        m_input.pop_front();
    }
}

bool ImGuiCanvas::wantsText() const {
    makeCurrent();
    return ImGui::GetIO().WantTextInput;
}

bool ImGuiCanvas::itemActive() const {
    makeCurrent();
    return ImGui::IsAnyItemActive();
}

Qt::CursorShape ImGuiCanvas::cursor() const {
    makeCurrent();
    switch (ImGui::GetMouseCursor()) {
    case ImGuiMouseCursor_TextInput: return Qt::IBeamCursor;
    case ImGuiMouseCursor_ResizeAll: return Qt::ClosedHandCursor;
    case ImGuiMouseCursor_ResizeEW: return Qt::SizeHorCursor;
    case ImGuiMouseCursor_ResizeNS: return Qt::SizeVerCursor;
    case ImGuiMouseCursor_Hand: return Qt::PointingHandCursor;
    default: return Qt::ArrowCursor;
    }
}

// ---- frames -----------------------------------------------------------------------------------------------------------------

void ImGuiCanvas::buildFont(double pixelRatio) {
    buildFontAtlas(*ImGui::GetIO().Fonts, m_font, pixelRatio, m_characters);
    ImGui::GetIO().FontGlobalScale = float(1 / pixelRatio); // sharp glyphs, logical layout
    m_fontRatio = pixelRatio;
    ++m_fontVersion;
}

void ImGuiCanvas::prepare(QSize size, double pixelRatio) {
    makeCurrent();
    if (m_fontRatio != pixelRatio)
        buildFont(pixelRatio);
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = {float(std::max(1, size.width())), float(std::max(1, size.height()))};
    io.DisplayFramebufferScale = {float(pixelRatio), float(pixelRatio)};
    const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    io.DeltaTime = std::clamp(float(double(now - m_lastFrameNs) * 1e-9), 1e-4F, 0.1F);
    m_lastFrameNs = now;
    takeInput();
}

ImDrawData* ImGuiCanvas::build(const std::function<ImTextureID(int)>& texture) {
    makeCurrent();
    m_texture = texture;
    ImGui::NewFrame();
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
    constexpr auto kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoNav |
                            ImGuiWindowFlags_NoScrollWithMouse;
    bool whole = true;
    if (ImGui::Begin("canvas", nullptr, kFlags) && m_content) {
        try {
            m_content();
        } catch (...) {
            m_thrown = std::current_exception();
            whole = false;
        }
    }
    if (whole)
        ImGui::End();
    else
        ImGui::ErrorCheckEndFrameRecover(nullptr); // ends what the content had begun
    ImGui::Render();
    m_texture = {};
    return ImGui::GetDrawData();
}

} // namespace linnet::widgets
