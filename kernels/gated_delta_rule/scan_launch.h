// Launches of the scans and of the kernel that chains segments, for the public entry points.
#pragma once

#include "linnet/kernels/gated_delta_rule.h"

namespace linnet::kernels::gdr {

struct ScanParams;

// direction: kForward or kReverse of scan.cuh. A state pass fills p.local and, forward, p.transitions.
LaunchError launchPortableScan(const ScanParams& p, DataType type, int direction, bool statePass, void* stream);
LaunchError launchHopperScan(const ScanParams& p, DataType type, int direction, bool statePass, void* stream);

// segmentStart of every segment from p.start, p.local and p.transitions (of the forward state pass in both directions), into `states`.
LaunchError launchChain(const ScanParams& p, float* states, DataType type, int direction, int sequences, void* stream);

} // namespace linnet::kernels::gdr
