// Counters of an engine in Prometheus text format.
#pragma once

#include <string>
#include <vector>

#include "engine/engine_reports.h"

namespace prefix::abi {

// Every series has the label model_name, so that those of several engines of one process can be
// joined. Series that mean what vLLM's do have its names.
std::string metrics_text(const EngineStats& stats, const EngineInfo& info,
                         const std::vector<TierInfo>& tiers);

}  // namespace prefix::abi
