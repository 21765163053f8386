// What the closed form of a run found, layer by layer and head by head: its files are read in the background, also while the run goes on.
#pragma once

#include <QObject>
#include <QString>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace linnet::app {

// One way to start a head. Not-a-number: the file does not say.
struct FitOption {
    double halfLife = 0; // tokens; infinity: no decay
    double beta = 0, residual = 0;
    bool histogramTaps = false, foldRope = false, foldBias = true, foldQkNorm = true, centredKeys = false, negatedValues = false;
    double queryScale = 1, keyPrior = 0;
    bool sameStart(const FitOption& other) const; // all but the residual
};
struct HeadFit {
    FitOption chosen;
    std::vector<FitOption> tried; // by residual, the smallest first
};
struct LayerFit {
    int layer = -1;
    double residual = 0; // squared error of the layer's output / square of the target
    double ridge = std::numeric_limits<double>::quiet_NaN(); // of o_proj; not-a-number: an older run does not say
    std::vector<HeadFit> heads;
};
using LayerFits = std::map<int, LayerFit>;

// closed_form.json of a run folder, or the files of single layers that a running one has; what can't be read is left out.
LayerFits readClosedForm(const std::filesystem::path& run);

class ClosedFormModel : public QObject {
    Q_OBJECT
public:
    explicit ClosedFormModel(QObject* parent = nullptr) : QObject(parent) {}
    void show(const QString& runFolder); // "" = none
    void reload();
    void adopt(LayerFits fits); // as if read
    const LayerFit* layer(int layer) const; // nullptr: not started by the closed form
    const HeadFit* head(int layer, int head) const;
    const LayerFits& layers() const { return m_fits; }

Q_SIGNALS:
    void changed();

private:
    QString m_folder;
    LayerFits m_fits;
    std::shared_ptr<int> m_request = std::make_shared<int>(0); // number of the latest; answers of others are dropped
};

} // namespace linnet::app
