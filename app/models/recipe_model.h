// The recipe under edit: every change is one undoable command; autosaved within 2 s of an edit.
#pragma once

#include "app/models/autosave_slot.h"
#include "app/models/file_journal.h"
#include "app/models/selection_model.h"
#include "core/recipe/recipe.h"

#include <QDateTime>
#include <QObject>
#include <QTimer>
#include <QUndoStack>

namespace linnet::app {

enum class TargetField { HalfLife, Beta, ValueScale, OutputGate };
const char* targetKey(TargetField field); // "half_life", ...: as recipes have it
struct TargetEdit {
    HeadId head;
    TargetField field = TargetField::HalfLife;
    std::optional<double> value; // nullopt = automatic again
    bool unlock = false;
};
std::optional<double> targetValue(const core::HeadTarget& target, TargetField field);

enum class Pin { None, Never, Always }; // of a layer: never converted, always converted

class RecipeModel : public QObject {
    Q_OBJECT
public:
    explicit RecipeModel(QObject* parent = nullptr);
    ~RecipeModel() override; // an edit that waits is written
    const core::Recipe& recipe() const { return m_recipe; }
    QUndoStack* undoStack() { return &m_undo; }
    int layers() const { return m_layers; }
    int heads() const { return m_heads; }
    // Of the opened teacher; 0, 0 = none. `kinds` as ModelInfo::layerKinds: what a hybrid has converted already stays so (core::recipeOn).
    void setShape(int layers, int heads, std::vector<std::string> kinds = {});
    bool convertedBefore(int layer) const; // in the opened model
    // Of the opened teacher, "" = none: edits are saved in its file, and a recipe of another is a problem. What waits is written first.
    void setTeacher(const std::string& hash);
    int window() const { return m_slot.number(); } // 1; from 2 on this teacher is open in other windows too

    void load(const core::Recipe& recipe); // no command: clears the undo stack
    void replace(const core::Recipe& recipe, const QString& what); // one undoable command for any edit
    core::HeadTarget target(HeadId head) const;

    // Layer choice: sorted converted layers, or nullopt while a measurement (bypass:N) decides.
    std::optional<std::vector<std::int64_t>> converted() const;
    void setConverted(const std::vector<std::int64_t>& layers, const QString& what); // becomes layers:... of the kept ones
    void setLayersConverted(const QList<int>& layers, bool converted);
    void setKeepRule(const core::KeepRule& rule);
    // As typed. What is no rule stays typed, and is a problem until the layers are set otherwise; the recipe keeps its rule.
    void setKeepText(const QString& text);
    QString keepText() const; // typed, or the rule's: with runs of layers as 4-9
    const std::optional<core::Error>& keepProblem() const { return m_keepProblem; }
    Pin pin(int layer) const;
    void setPins(const QList<int>& layers, Pin pin);
    void setTarget(const QList<HeadId>& heads, TargetField field, std::optional<double> value); // nullopt = automatic again
    void editTargets(const QList<TargetEdit>& edits, const QString& what); // many cells, one command
    void scaleTarget(const QList<HeadId>& heads, TargetField field, double factor, const std::vector<double>& from); // from: current values
    void setLocked(const QList<HeadId>& heads, TargetField field, bool locked);
    void resetTargets(const QList<HeadId>& heads);
    std::vector<core::Error> problems() const;

    // AppDataLocation/autosave-HASH.json (autosave_slot.h): each teacher has its own; "" = the one that edits go to.
    QString autosaveFile(const std::string& teacherHash = {}) const;
    // What was being edited for this teacher: nullopt where nothing is saved; an error where it can't be read: the file
    // is then kept beside as autosave-HASH.json.broken. Nothing is loaded.
    core::Result<std::optional<core::Recipe>> takeAutosave(const std::string& teacherHash) const;
    QDateTime lastAutosave() const { return m_lastAutosave; }
    const std::optional<core::Error>& autosaveProblem() const { return m_autosaveProblem; } // until it works again
Q_SIGNALS:
    void changed();      // anything
    void layersChanged();
    void targetsChanged();
    void autosaved();
    void autosaveFailed(const core::Error& error); // tried again until it works

private:
    friend class RecipeCommand;
    void apply(const core::Recipe& recipe);
    void autosave();
    core::Recipe m_recipe;
    QUndoStack m_undo;
    QTimer m_autosave;
    AutosaveSlot m_slot; // freed once the journal below has written what waits
    FileJournal m_journal;
    QDateTime m_lastAutosave;
    QString m_keepText; // that is no rule
    std::optional<core::Error> m_keepProblem, m_autosaveProblem;
    int m_layers = 0, m_heads = 0;
    std::vector<std::string> m_kinds; // of the layers
};

} // namespace linnet::app
