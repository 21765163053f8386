// Per-head statistics of a teacher's attention (method.md section 1), streamed: memory grows with T, never T x T.
#pragma once

#include "core/base/control.h"
#include "core/base/json.h"
#include "core/data/text_data.h"
#include "core/model/model_api.h"

#include <filesystem>
#include <string>
#include <vector>

namespace linnet::core {

struct Measured {
    double mean = 0, se = 0; // standard error over sequences; NaN with one sequence (null in JSON)
};

struct HeadProfile {
    Measured distance; // tokens
    // Of attention mass by distance, tokens: from the histogram, linear inside a bin over the whole distances that it holds (a
    // bin of one distance gives that distance).
    double p10 = 0, p50 = 0, p90 = 0;
    Measured distanceNoSink; // tokens; first 4 keys dropped, first 8 rows left out
    double medianNoSink = 0; // tokens, found as p50 is
    Measured entropy;        // nats
    double concentrationLayer = 0, concentrationAbsolute = 0;
    double rmsPreO = 0, rmsPostO = 0;                    // of A V, and of W_O's columns of this head applied to it
    double sinkMass = 0, previousMass = 0, selfMass = 0; // of the first 4 keys, of t - 1 (rows t >= 1), of t
    double rmsPreOSe = 0, rmsPostOSe = 0, sinkSe = 0, previousSe = 0, selfSe = 0; // standard errors over sequences
    std::vector<double> histogram, histogramNoSink; // mass by distance over Profile::edges, each sums to 1
};

struct Profile {
    int schema = 1;
    std::string modelName, modelHash, dataHash;
    std::int64_t tokens = 0, sequences = 0, seqLen = 0;
    std::int64_t kvHeads = 0;
    std::vector<double> edges;                    // bin i holds distances edges[i] <= d < edges[i + 1]
    std::vector<std::vector<HeadProfile>> layers; // [layer][head]; no heads where the layer is converted
};

struct ProfileOptions {
    int binsPerOctave = 2;             // 0 = exact, one bin a distance
    std::filesystem::path cacheFolder; // "" = no cache; key: teacher hash + data hash + settings. Holds finished sequences too:
                                       // a stopped profile goes on where it was.
    bool measure = true;               // false: only what the cache has; NotFound where that is nothing
};

// What is not defined is NaN (null in JSON): the NoSink values with seqLen <= 8, previousMass and
// concentrationAbsolute with seqLen 1. A hybrid's softmax layers are measured inside it; its converted layers have no heads in
// the profile. A model without a softmax layer is refused (Unsupported).
Result<Profile> profileModel(const Model& model, const TokenWindows& windows, const ProfileOptions& options,
                             const Control& control = {});
Json profileToJson(const Profile& profile);                           // the keys of the command-line contract
Profile profileFromJson(const Json& json, const std::string& origin); // throws Failure

} // namespace linnet::core
