// What the Generate page shows: a prompt, what teacher and student have said so far, where they part, and the prompts before it.
#pragma once

#include "app/jobs/worker.h"

#include <QObject>
#include <QStringList>
#include <functional>
#include <optional>

namespace linnet::app {

struct GenerateSettings { // of one prompt; kept in the history
    QString prompt;
    bool chat = false;
    core::GenerateOptions options;
    QString student; // folder, "" = the teacher alone
};

struct SaidToken {
    core::TokenId id = 0;
    QString text;           // "" while a character is open, and at the end of text
    bool end = false;       // the end-of-text token
    double probability = 0; // by the model that said it
    std::optional<core::TokenScore> score; // once both models have judged it
};

enum class SideState { Empty, Waiting, Speaking, Ended /* end of text */, Full /* as many tokens as asked for */, Stopped, Failed };

struct Side {
    std::vector<SaidToken> tokens;
    SideState state = SideState::Empty;
    double prefillSeconds = 0, tokensPerSecond = 0; // 0 = not known
    QString text() const; // of all tokens
};

class GenerateModel : public QObject {
    Q_OBJECT
public:
    using Submit = std::function<bool(Job job, const QString& title)>; // false: the device is busy or no teacher is open
    explicit GenerateModel(Submit submit, QObject* parent = nullptr);

    const GenerateSettings& settings() const { return m_settings; } // of what is shown
    const Side& side(std::size_t index) const { return m_sides[index]; } // kTeacher, kStudent
    bool hasStudent() const { return !m_settings.student.isEmpty(); }
    bool running() const { return m_running; }
    bool scored() const;                       // every token has its score
    bool canScore() const;                     // tokens without a score, of two models, and nothing running
    std::optional<int> parting() const;        // first token where they differ; nullopt: not so far
    bool chatTemplate() const { return m_chatTemplate; } // the opened teacher's tokenizer has one
    const QList<GenerateSettings>& history() const { return m_history; } // newest first

    bool start(const GenerateSettings& settings); // false: refused (busy, no teacher, no prompt)
    bool score();                              // of a stopped text
    void setTeacher(bool opened, bool chatTemplate); // another one was opened: what it had not said goes
    void clearHistory();

    // What the session hears of the worker.
    void take(const std::vector<core::SpokenToken>& spoken);
    void finish(const JobResult& result);

Q_SIGNALS:
    void begun();            // both sides are empty again
    void spoke(int side);    // tokens were added
    void judged();           // scores came
    void stateChanged();     // running, side states, speeds
    void teacherChanged();
    void historyChanged();

private:
    void remember(const GenerateSettings& settings);
    void judge(std::size_t side, const std::vector<core::TokenScore>& scores);
    Submit m_submit;
    GenerateSettings m_settings;
    std::array<Side, 2> m_sides;
    QList<GenerateSettings> m_history;
    bool m_running = false, m_chatTemplate = false;
};

// Of a settings' text: prompt, chat, tokens, greedy, temperature, top_p, top_k, seed; student is not kept.
QByteArray historyToJson(const QList<GenerateSettings>& history);
QList<GenerateSettings> historyFromJson(const QByteArray& json); // entries that can't be read are left out

} // namespace linnet::app
