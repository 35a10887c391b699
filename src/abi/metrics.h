// Counters and histograms of an engine in Prometheus text format; docs/metrics.md explains each.
#pragma once

#include <string>
#include <vector>

#include "engine/engine_reports.h"
#include "engine/request_histograms.h"

namespace prefix::abi {

// Every series has the label model_name, so that those of several engines of one process can be
// joined. Series that mean what vLLM's do have its names.
std::string metrics_text(const EngineStats& stats, const RequestHistograms& requests,
                         const EngineInfo& info, const std::vector<TierInfo>& tiers);

}  // namespace prefix::abi
