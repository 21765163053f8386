#include "widgets/token_view.h"

#include "widgets/theme.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <QTextBlock>
#include <QToolTip>
#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

const QColor kShade(86, 180, 233), kMark(213, 94, 0); // Okabe-Ito: sky blue, vermilion

QColor withAlpha(QColor color, int alpha) {
    color.setAlpha(alpha);
    return color;
}

} // namespace

TokenView::TokenView(QWidget* parent) : QTextEdit(parent) {
    setReadOnly(true);
    setUndoRedoEnabled(false);
    setAcceptRichText(false);
    setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    setTabChangesFocus(true);
    viewport()->setMouseTracking(true);
    connect(this, &QTextEdit::cursorPositionChanged, this, [this] {
        if (hasFocus())
            if (const auto token = tokenOf(textCursor().position()))
                Q_EMIT tokenPointed(*token);
    });
}

void TokenView::begin(const QString& prefix) {
    clear();
    m_ends.clear();
    m_shades.clear();
    m_mark.reset();
    m_pointed.reset();
    QTextCharFormat muted;
    muted.setForeground(palette().color(QPalette::PlaceholderText));
    QTextCursor end(document());
    end.insertText(prefix, muted);
    m_start = end.position();
    paintMarks();
}

void TokenView::append(const QStringList& tokens) {
    auto* bar = verticalScrollBar();
    const bool follows = bar->value() >= bar->maximum() - 2;
    QTextCursor end(document());
    end.beginEditBlock();
    for (const auto& token : tokens) {
        end.movePosition(QTextCursor::End);
        end.insertText(token, QTextCharFormat());
        m_ends.push_back(end.position());
    }
    end.endEditBlock();
    if (follows)
        bar->setValue(bar->maximum());
}

QTextCursor TokenView::cursorOf(int token) const {
    QTextCursor cursor(document());
    const auto i = static_cast<size_t>(token);
    cursor.setPosition(i == 0 ? m_start : m_ends[i - 1]);
    cursor.setPosition(m_ends[i], QTextCursor::KeepAnchor);
    return cursor;
}

std::optional<int> TokenView::tokenOf(int position) const { // the first that ends behind it
    if (position < m_start)
        return std::nullopt;
    const auto found = std::upper_bound(m_ends.begin(), m_ends.end(), position);
    return found == m_ends.end() ? std::nullopt : std::optional(static_cast<int>(found - m_ends.begin()));
}

std::optional<int> TokenView::tokenAt(const QPoint& position) const {
    const auto nearest = cursorForPosition(position); // the gap between two characters that is nearest
    for (const int shift : {0, -1})
        if (const auto token = tokenOf(nearest.position() + shift); token && nearest.position() + shift >= m_start) {
            QTextCursor left(document()), right(document());
            left.setPosition(nearest.position() + shift);
            right.setPosition(nearest.position() + shift + 1);
            const QRect from = cursorRect(left), to = cursorRect(right);
            const int end = to.top() == from.top() ? to.left() : viewport()->width(); // the last of its line
            if (QRect(QPoint(from.left(), from.top()), QPoint(end, from.bottom())).contains(position))
                return token;
        }
    return std::nullopt;
}

QRect TokenView::tokenRect(int token) const {
    const auto cursor = cursorOf(token);
    QTextCursor from(document()), to(document());
    from.setPosition(cursor.anchor());
    to.setPosition(cursor.position());
    const QRect first = cursorRect(from), last = cursorRect(to);
    return {first.topLeft(), QPoint(last.top() == first.top() ? last.left() : viewport()->width(), first.bottom())};
}

void TokenView::scrollToToken(int token) {
    const auto rect = tokenRect(token);
    auto* bar = verticalScrollBar();
    bar->setValue(bar->value() + rect.center().y() - viewport()->height() / 3);
}

void TokenView::setToolTipText(std::function<QString(int)> text) {
    m_toolTip = std::move(text);
}

void TokenView::setShades(const std::vector<double>& shades) {
    m_shades = shades;
    restyle();
}

void TokenView::setMark(std::optional<int> token) {
    m_mark = token;
    paintMarks();
}

void TokenView::setPointed(std::optional<int> token) {
    if (token == m_pointed)
        return;
    m_pointed = token;
    paintMarks();
}

void TokenView::paintMarks() {
    QList<ExtraSelection> marks;
    const auto add = [&](std::optional<int> token, const QColor& ground, bool underline) {
        if (!token || *token >= tokenCount())
            return;
        int shown = *token; // a part of a character takes no place: the token that makes it whole shows the mark
        while (shown + 1 < tokenCount() && !cursorOf(shown).hasSelection())
            ++shown;
        ExtraSelection mark;
        mark.cursor = cursorOf(shown);
        mark.format.setBackground(ground);
        if (underline) {
            mark.format.setUnderlineStyle(QTextCharFormat::SingleUnderline);
            mark.format.setUnderlineColor(kMark);
            mark.format.setFontWeight(QFont::Bold);
        }
        marks.append(mark);
    };
    add(m_mark, withAlpha(kMark, 110), true);
    add(m_pointed, withAlpha(PlotColors::fromPalette(palette()).fill, 110), false);
    setExtraSelections(marks);
}

void TokenView::restyle() {
    QTextCursor cursor(document());
    cursor.beginEditBlock();
    cursor.setPosition(m_start, QTextCursor::KeepAnchor);
    QTextCharFormat muted;
    muted.setForeground(palette().color(QPalette::PlaceholderText));
    cursor.setCharFormat(muted);
    cursor.setPosition(m_start);
    cursor.movePosition(QTextCursor::End, QTextCursor::KeepAnchor);
    cursor.setCharFormat({});
    for (size_t i = 0; i < std::min(m_shades.size(), m_ends.size()); ++i) {
        if (!(m_shades[i] > 0)) // also not-a-number
            continue;
        QTextCharFormat shaded;
        shaded.setBackground(withAlpha(kShade, qRound(150 * std::min(m_shades[i], 1.0))));
        cursorOf(static_cast<int>(i)).setCharFormat(shaded);
    }
    cursor.endEditBlock();
    paintMarks();
}

void TokenView::changeEvent(QEvent* event) {
    QTextEdit::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        restyle();
}

bool TokenView::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::MouseMove) {
        if (const auto token = tokenAt(static_cast<QMouseEvent*>(event)->position().toPoint()))
            Q_EMIT tokenPointed(*token);
    } else if (event->type() == QEvent::Leave) {
        Q_EMIT pointerLeft();
    } else if (event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        const auto token = tokenAt(help->pos());
        const auto text = token && m_toolTip ? m_toolTip(*token) : QString();
        if (text.isEmpty())
            QToolTip::hideText();
        else
            QToolTip::showText(help->globalPos(), text, viewport(), tokenRect(*token));
        return true;
    }
    return QTextEdit::viewportEvent(event);
}

} // namespace linnet::widgets
