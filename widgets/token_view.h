// A text made of tokens: grows token by token, knows which one lies under the pointer or the caret, shades and marks them.
#pragma once

#include <QTextEdit>
#include <functional>
#include <optional>
#include <vector>

namespace linnet::widgets {

class TokenView : public QTextEdit {
    Q_OBJECT

public:
    explicit TokenView(QWidget* parent = nullptr);

    // Empties it; `prefix` (the prompt) stands before the tokens, muted.
    void begin(const QString& prefix);
    // Follows the end where the end was in view. Tokens without text take no place.
    void append(const QStringList& tokens);
    int tokenCount() const { return static_cast<int>(m_ends.size()); }
    // One number in 0..1 a token, not-a-number: none. Empty: no shades.
    void setShades(const std::vector<double>& shades);
    void setMark(std::optional<int> token);    // underlined on a strong ground
    void setPointed(std::optional<int> token); // a lighter ground: what the pointer or the caret is at
    void setToolTipText(std::function<QString(int token)> text);
    void scrollToToken(int token);

    std::optional<int> tokenAt(const QPoint& position) const; // in the viewport
    QRect tokenRect(int token) const;                         // of its first line, in the viewport

Q_SIGNALS:
    void tokenPointed(int token); // by pointer or caret
    void pointerLeft();

protected:
    bool viewportEvent(QEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    std::optional<int> tokenOf(int position) const; // of the document
    QTextCursor cursorOf(int token) const;
    void paintMarks();
    void restyle();
    int m_start = 0;          // where the first token begins
    std::vector<int> m_ends;  // of each token, in the document
    std::vector<double> m_shades;
    std::optional<int> m_mark, m_pointed;
    std::function<QString(int)> m_toolTip;
};

} // namespace linnet::widgets
