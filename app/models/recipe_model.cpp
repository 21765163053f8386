#include "app/models/recipe_model.h"

#include "app/commands/recipe_command.h"
#include "app/models/layer_choice.h"
#include "core/base/json.h"
#include "core/convert/recipe_checks.h"
#include "widgets/plurals.h"

#include <QDateTime>
#include <QFile>
#include <QFileInfo>
#include <QStandardPaths>

namespace linnet::app {
namespace {

constexpr int kAutosaveMs = 1500, kRetryMs = 5000; // an edit is on disk within 2 s

std::optional<double>& fieldOf(core::HeadTarget& target, TargetField field) {
    switch (field) {
    case TargetField::HalfLife: return target.halfLife;
    case TargetField::Beta: return target.beta;
    case TargetField::ValueScale: return target.valueScale;
    case TargetField::OutputGate: break;
    }
    return target.outputGate;
}

void dropEmpty(core::Recipe& recipe, HeadId head) {
    auto& heads = recipe.targets[head.layer];
    if (const auto found = heads.find(head.head); found != heads.end() && found->second.empty())
        heads.erase(found);
    if (heads.empty())
        recipe.targets.erase(head.layer);
}

QString fieldName(TargetField field) {
    return QString::fromLatin1(targetKey(field)).replace(QLatin1Char('_'), QLatin1Char(' '));
}

} // namespace

const char* targetKey(TargetField field) {
    switch (field) {
    case TargetField::HalfLife: return "half_life";
    case TargetField::Beta: return "beta";
    case TargetField::ValueScale: return "value_scale";
    case TargetField::OutputGate: break;
    }
    return "output_gate";
}

std::optional<double> targetValue(const core::HeadTarget& target, TargetField field) {
    return fieldOf(const_cast<core::HeadTarget&>(target), field);
}

RecipeModel::RecipeModel(QObject* parent) : QObject(parent) {
    m_autosave.setSingleShot(true);
    m_autosave.setInterval(kAutosaveMs);
    connect(&m_autosave, &QTimer::timeout, this, &RecipeModel::autosave);
    connect(&m_journal, &FileJournal::written, this, [this] {
        m_lastAutosave = QDateTime::currentDateTime();
        m_autosaveProblem.reset();
        Q_EMIT autosaved();
    });
    connect(&m_journal, &FileJournal::failed, this, [this](const core::Error& error) {
        if (!m_autosave.isActive())
            m_autosave.start(kRetryMs);
        m_autosaveProblem = error;
        Q_EMIT autosaveFailed(error);
    });
}

RecipeModel::~RecipeModel() {
    if (m_autosave.isActive())
        autosave();
}

bool RecipeModel::convertedBefore(int layer) const {
    return layer >= 0 && layer < static_cast<int>(m_kinds.size()) && m_kinds[static_cast<std::size_t>(layer)] != "softmax";
}

void RecipeModel::setShape(int layers, int heads, std::vector<std::string> kinds) {
    m_layers = layers;
    m_heads = heads;
    m_kinds = std::move(kinds);
    Q_EMIT layersChanged();
    Q_EMIT targetsChanged();
    Q_EMIT changed();
}

void RecipeModel::setTeacher(const std::string& hash) {
    if (hash == m_slot.teacher())
        return;
    if (m_autosave.isActive()) { // an edit of the teacher before
        m_autosave.stop();
        autosave();
    }
    m_slot.take(hash);
}

void RecipeModel::load(const core::Recipe& recipe) {
    if (m_autosave.isActive() && recipe.teacherHash != m_recipe.teacherHash && m_slot.teacher().empty())
        autosave(); // of the teacher before
    m_undo.clear();
    apply(recipe);
}

void RecipeModel::apply(const core::Recipe& recipe) {
    const bool layers = !(recipe.keep == m_recipe.keep) || recipe.never != m_recipe.never || recipe.always != m_recipe.always;
    const bool targets = recipe.targets != m_recipe.targets || recipe.preset != m_recipe.preset;
    m_recipe = recipe;
    m_keepText.clear();
    m_keepProblem.reset();
    if (layers)
        Q_EMIT layersChanged();
    if (targets)
        Q_EMIT targetsChanged();
    Q_EMIT changed();
    if (!m_autosave.isActive())
        m_autosave.start(kAutosaveMs);
}

void RecipeModel::replace(const core::Recipe& recipe, const QString& what) {
    if (recipe == m_recipe)
        return;
    m_undo.push(new RecipeCommand(m_recipe, recipe, what, [this](const core::Recipe& r) { apply(r); }));
}

core::HeadTarget RecipeModel::target(HeadId head) const {
    const auto layer = m_recipe.targets.find(head.layer);
    if (layer == m_recipe.targets.end())
        return {};
    const auto found = layer->second.find(head.head);
    return found == layer->second.end() ? core::HeadTarget{} : found->second;
}

std::optional<std::vector<std::int64_t>> RecipeModel::converted() const {
    if (m_layers == 0)
        return std::vector<std::int64_t>{};
    const auto kept = core::guarded([&] { return core::keptLayers(core::recipeOn(m_recipe, m_kinds), m_layers); });
    if (!kept || !*kept)
        return std::nullopt;
    std::vector<std::int64_t> result;
    for (std::int64_t l = 0; l < m_layers; ++l)
        if (!std::binary_search((*kept)->begin(), (*kept)->end(), l))
            result.push_back(l);
    return result;
}

void RecipeModel::setConverted(const std::vector<std::int64_t>& layers, const QString& what) {
    core::Recipe recipe = m_recipe;
    recipe.keep = {};
    recipe.keep.kind = core::KeepRule::Kind::Layers;
    for (std::int64_t l = 0; l < m_layers; ++l)
        if (std::find(layers.begin(), layers.end(), l) == layers.end())
            recipe.keep.layers.push_back(l);
    replace(recipe, what);
}

void RecipeModel::setLayersConverted(const QList<int>& layers, bool convertThem) {
    auto current = converted().value_or(std::vector<std::int64_t>{});
    for (const int layer : layers) {
        current.erase(std::remove(current.begin(), current.end(), layer), current.end());
        if (convertThem)
            current.push_back(layer);
    }
    std::sort(current.begin(), current.end());
    setConverted(current, layers.size() == 1 ? tr("%1 layer %2").arg(convertThem ? tr("Convert") : tr("Keep")).arg(layers[0])
                                             : tr("%1 %2 layers").arg(convertThem ? tr("Convert") : tr("Keep")).arg(layers.size()));
}

void RecipeModel::setKeepRule(const core::KeepRule& rule) {
    core::Recipe recipe = m_recipe;
    recipe.keep = rule;
    replace(recipe, tr("Keep %1").arg(QString::fromStdString(rule.text())));
}

void RecipeModel::setKeepText(const QString& text) {
    const auto typed = text.trimmed();
    if (typed == keepText())
        return;
    const auto rule = core::guarded([&] { return core::parseKeepRule(typed.toStdString()); });
    if (rule && !(*rule == m_recipe.keep))
        return setKeepRule(*rule);
    m_keepText = rule ? QString() : typed;
    m_keepProblem = rule ? std::nullopt : std::optional(rule.error());
    Q_EMIT changed();
}

QString RecipeModel::keepText() const {
    if (m_keepProblem)
        return m_keepText;
    if (m_recipe.keep.kind != core::KeepRule::Kind::Layers)
        return QString::fromStdString(m_recipe.keep.text());
    return QStringLiteral("layers:") + layerRanges(m_recipe.keep.layers, QStringLiteral(","));
}

Pin RecipeModel::pin(int layer) const {
    return m_recipe.never.contains(layer) ? Pin::Never : m_recipe.always.contains(layer) ? Pin::Always : Pin::None;
}

void RecipeModel::setPins(const QList<int>& layers, Pin pin) {
    core::Recipe recipe = m_recipe;
    for (const int layer : layers) {
        recipe.never.erase(layer);
        recipe.always.erase(layer);
        if (pin != Pin::None)
            (pin == Pin::Never ? recipe.never : recipe.always).insert(layer);
    }
    const auto which = layers.size() == 1 ? tr("layer %1").arg(layers.front()) : tr("%1 layers").arg(layers.size());
    replace(recipe, pin == Pin::Never ? tr("Never convert %1").arg(which) : pin == Pin::Always ? tr("Always convert %1").arg(which) : tr("Unpin %1").arg(which));
}

void RecipeModel::setTarget(const QList<HeadId>& heads, TargetField field, std::optional<double> value) {
    core::Recipe recipe = m_recipe;
    for (const auto& head : heads) {
        fieldOf(recipe.targets[head.layer][head.head], field) = value;
        dropEmpty(recipe, head);
    }
    replace(recipe, tr("Set %1 of %n head(s)", nullptr, static_cast<int>(heads.size())).arg(fieldName(field)));
}

void RecipeModel::editTargets(const QList<TargetEdit>& edits, const QString& what) {
    core::Recipe recipe = m_recipe;
    for (const auto& edit : edits) {
        auto& target = recipe.targets[edit.head.layer][edit.head.head];
        fieldOf(target, edit.field) = edit.value;
        if (edit.unlock)
            target.locked.erase(targetKey(edit.field));
        dropEmpty(recipe, edit.head);
    }
    replace(recipe, what);
}

void RecipeModel::scaleTarget(const QList<HeadId>& heads, TargetField field, double factor, const std::vector<double>& from) {
    core::Recipe recipe = m_recipe;
    for (qsizetype i = 0; i < heads.size() && i < static_cast<qsizetype>(from.size()); ++i)
        fieldOf(recipe.targets[heads[i].layer][heads[i].head], field) = from[static_cast<std::size_t>(i)] * factor;
    replace(recipe, tr("Scale %1 of %n head(s)", nullptr, static_cast<int>(heads.size())).arg(fieldName(field)));
}

void RecipeModel::setLocked(const QList<HeadId>& heads, TargetField field, bool locked) {
    core::Recipe recipe = m_recipe;
    for (const auto& head : heads) {
        auto& set = recipe.targets[head.layer][head.head].locked;
        if (locked)
            set.insert(targetKey(field));
        else
            set.erase(targetKey(field));
        dropEmpty(recipe, head);
    }
    replace(recipe, (locked ? tr("Lock %1 of %n head(s)", nullptr, static_cast<int>(heads.size())) : tr("Unlock %1 of %n head(s)", nullptr, static_cast<int>(heads.size()))).arg(fieldName(field)));
}

void RecipeModel::resetTargets(const QList<HeadId>& heads) {
    core::Recipe recipe = m_recipe;
    for (const auto& head : heads) {
        recipe.targets[head.layer].erase(head.head);
        dropEmpty(recipe, head);
    }
    replace(recipe, tr("Reset %n head(s)", nullptr, static_cast<int>(heads.size())));
}

std::vector<core::Error> RecipeModel::problems() const {
    std::vector<core::Error> list;
    if (m_keepProblem)
        list.push_back(*m_keepProblem);
    if (!m_slot.teacher().empty() && !m_recipe.teacherHash.empty() && m_recipe.teacherHash != m_slot.teacher())
        list.push_back({core::ErrorCode::Usage, "teacher.hash: the recipe is for " + m_recipe.teacherSource + ", which is not the model that is open: open that one, or load the recipe again to take its settings",
                        {{"key", "teacher.hash"}, {"expected", m_slot.teacher()}, {"found", m_recipe.teacherHash}}});
    for (auto& problem : core::validateRecipe(m_recipe, m_layers, m_heads))
        list.push_back(std::move(problem));
    return list;
}

QString RecipeModel::autosaveFile(const std::string& teacherHash) const {
    const auto& open = m_slot.teacher();
    const auto& hash = !teacherHash.empty() ? teacherHash : open.empty() ? m_recipe.teacherHash : open;
    return AutosaveSlot::file(hash, hash == open ? m_slot.number() : 1);
}

void RecipeModel::autosave() {
    const auto& open = m_slot.teacher();
    if (m_recipe.teacherHash.empty() || (!open.empty() && m_recipe.teacherHash != open))
        return; // nothing that could be told apart later, or nothing of this teacher: its file is not for another's recipe
    m_journal.write(autosaveFile(), core::recipeToText(m_recipe));
}

core::Result<std::optional<core::Recipe>> RecipeModel::takeAutosave(const std::string& teacherHash) const {
    auto file = autosaveFile(teacherHash);
    if (!QFileInfo::exists(file)) // a second window begins with what the first has
        file = AutosaveSlot::file(teacherHash);
    if (!QFileInfo::exists(file))
        return std::nullopt;
    const auto saved = core::readRecipe(file.toStdString());
    if (saved && saved->teacherHash == teacherHash)
        return *saved; // problems and all: the window lists them
    const auto aside = file + QStringLiteral(".broken");
    QFile::remove(aside);
    QFile::rename(file, aside);
    auto error = saved ? core::Error{core::ErrorCode::Malformed, "it belongs to another teacher", {}} : saved.error();
    error.message = "The recipe that was saved last time can't be used: " + error.message + ". It is kept as " + aside.toStdString() + "; the window starts from the default recipe.";
    return tl::unexpected(error);
}

} // namespace linnet::app
