#include "engine/memory_estimate.h"

#include <algorithm>

#include "base/log.h"
#include "base/quote.h"
#include "base/status.h"
#include "engine/pool.h"
#include "engine/warnings.h"
#include "model/architecture.h"
#include "model/layer.h"
#include "model/load/weights.h"
#include "model/rope.h"
#include "model/step_memory.h"
#include "ops/devices.h"
#include "ops/packed_load.h"

namespace prefix {
namespace {

constexpr int64_t kGpuRows = 4096;

// All but those of a list.
uint32_t int8_matrices(const std::string& keep) {
  uint32_t left = ops::kInt8All;
  for (size_t begin = 0; begin < keep.size();) {
    const size_t end = std::min(keep.find(',', begin), keep.size());
    const std::string name = keep.substr(begin, end - begin);
    const auto* const found = std::ranges::find(ops::kMatrixKindNames, name);
    if (found == std::end(ops::kMatrixKindNames))
      fail(Code::kInvalidArgument, "option compute_keep: there are no matrices ", quote(name),
           "; it is a list of head, mixer_in, mixer_out, gate_up and down");
    left &= ~(1u << (found - std::begin(ops::kMatrixKindNames)));
    begin = end + 1;
  }
  return left;
}

}  // namespace

ops::DeviceOptions device_options_of(const Options& options) {
  const ops::CudaAttention attention = ops::cuda_attention_of(options.get("cuda_attention"));
  ops::NumericTypes types = options.get("dtype") == "f32" ? ops::kF32Types : ops::kBf16Types;
  if (options.get("compute") == "int8") types.int8 = int8_matrices(options.get("compute_keep"));
  if (types.int8 != 0 && options.get("device") != "cpu")
    fail(Code::kUnsupportedDevice, "compute=int8 runs on device \"cpu\" only; device is ",
         quote(options.get("device")));
  types.blocks = options.get("weights") == "packed";
  if (types.blocks && options.get("device") != "cpu")
    fail(Code::kUnsupportedDevice, "weights=packed runs on device \"cpu\" only; device is ",
         quote(options.get("device")));
  if (types.blocks && options.get("compute") == "int8")
    fail(
        Code::kInvalidArgument,
        "weights=packed keeps the numbers of the file, compute=int8 makes others of them; set one");
  if (options.get("kv") == "int8") types.kv = ops::KvType::kInt8;
  if (types.kv == ops::KvType::kInt8 && options.get("device") != "cpu")
    fail(Code::kUnsupportedDevice, "kv=int8 runs on device \"cpu\" only; device is ",
         quote(options.get("device")));
  return {.name = options.get("device"),
          .types = types,
          .isa = options.get("isa"),
          .invariant = options.get_bool("invariant"),
          .cuda_graphs = options.get_bool("cuda_graphs"),
          .small_steps = attention,
          .wide_items = attention,
          .workers = thread_count(options)};
}

int64_t row_budget(const Options& options) {
  // A GPU is busy with matrix products of a few thousand rows only.
  if (!options.is_set("rows") && options.get("device") != "cpu") return kGpuRows;
  return options.get_int("rows");
}

int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t state_bytes,
                  int64_t free_bytes, bool of_host) {
  const int64_t asked = options.get_int("cache_bytes");
  if (asked > 0 && state_bytes > 0 && asked < state_bytes + page_bytes)
    fail(Code::kOutOfRange, "cache_bytes is ", asked,
         "; a state of this model's recurrent layers takes ", state_bytes, " and a page of ",
         kPageTokens, " tokens ", page_bytes);
  if (asked > 0 && asked < page_bytes)
    fail(Code::kOutOfRange, "cache_bytes is ", asked, "; one page of ", kPageTokens,
         " tokens of this model takes ", page_bytes);
  if (asked > 0) return asked;
  return std::max(of_host ? free_bytes / 4 : free_bytes / 10 * 9,
                  64 * page_bytes + 4 * state_bytes);
}

int32_t context_length(const Options& options, const ModelConfig& config) {
  const int64_t asked = options.get_int("max_positions");
  if (asked > config.max_positions)
    fail(Code::kOutOfRange, "max_positions is ", asked, "; the context of this model holds ",
         config.max_positions, " tokens");
  int64_t length = asked > 0 ? asked : config.max_positions;
  if (config.bidirectional) length = std::min(length, row_budget(options));
  return static_cast<int32_t>(length);
}

void apply_attention(const Options& options, ModelConfig& config) {
  if (const std::string attention = options.get("attention"); attention != "auto") {
    config.bidirectional = attention == "bidirectional";
    check_config(config);
  }
  // A window that holds the longest sequence cuts nothing, so no device needs to know of it. It
  // stays one: such layers may rotate by a table of their own.
  const int32_t positions = context_length(options, config);
  for (int32_t i = 0; i < config.layers; ++i)
    if (config.window(i) >= positions)
      config.windows[static_cast<size_t>(i)] = ModelConfig::kWholeWindow;
}

MemoryEstimate estimate_of(const ModelFiles& files, const Options& options) {
  ModelConfig c = files.config;
  apply_attention(options, c);
  const Architecture& architecture = find_architecture(c.architecture);
  const ops::DeviceOptions device_options = device_options_of(options);
  const ops::NumericTypes& types = device_options.types;
  const auto device = ops::device_sizes(device_options);
  check_device(c, *device);
  const int32_t positions = context_length(options, c);

  MemoryEstimate e;
  e.weight_bytes =
      packed_bytes(weight_shapes(files, architecture, types)) + rope_table_bytes(c, positions);
  const ops::KvLayout kv = kv_layout_of(c, kv_layers(resolve_layers(c, architecture)), types.kv);
  const auto page_bytes = static_cast<int64_t>(kv.page_bytes());
  const int32_t state_pages = state_layout_of(c).pages(kv.page_bytes());
  const int64_t state_bytes = state_pages * page_bytes;
  e.kv_bytes_per_token = page_bytes / kPageTokens;

  const bool of_host = device->host_memory();
  const auto own = static_cast<int64_t>(device->own_bytes());
  // What others have of a GPU is not known, so the budget is the most there can be.
  int64_t free = device->usable_bytes();
  if (!of_host) free = std::max<int64_t>(0, free - e.weight_bytes - own);
  const int64_t pages = kv_budget(options, page_bytes, state_bytes, free, of_host) / page_bytes;
  const int64_t steps =
      step_bytes(c, *device, reserve_shape(c, *device, kv, row_budget(options), pages, positions));
  if (!of_host) free = std::max<int64_t>(0, free - steps);
  e.kv_budget_bytes = kv_budget(options, page_bytes, state_bytes, free, of_host);
  e.activation_bytes = steps + own;
  e.total_bytes = e.weight_bytes + e.kv_budget_bytes + e.activation_bytes;

  const auto held = static_cast<int32_t>(std::min<int64_t>(pages, INT32_MAX));
  for (const std::string& warning :
       warnings_of(options, c, files.declared, {positions, held, state_pages, page_bytes}, of_host))
    log_message(LogLevel::kWarning, warning);
  return e;
}

}  // namespace prefix
