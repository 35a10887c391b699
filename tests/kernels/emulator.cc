#include "kernels/emulator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "block_emulated.h"
#include "body/attention.h"
#include "body/attention_decode.h"
#include "body/attention_hopper.h"
#include "body/heads.h"
#include "body/rows.h"
#include "cluster_emulated.h"
#include "hopper_emulated.h"
#include "ops/gpu/workspace.h"

namespace prefix::ops::gpu {
namespace {

template <class Args>
const Args& args_of(const Command& launch) {
  if (launch.arg_bytes != sizeof(Args)) throw std::logic_error("a launch with other arguments");
  return *reinterpret_cast<const Args*>(launch.args);
}

thread_local std::string error_text;

using Blocks = std::map<const unsigned char*, size_t>;  // their bytes, by where they begin
bool holds(const Blocks& blocks, const unsigned char* at, size_t bytes) {
  const auto behind = blocks.upper_bound(at);
  return behind != blocks.begin() &&
         at + bytes <= std::prev(behind)->first + std::prev(behind)->second;
}

// Shared memory of a block, at most.
constexpr uint32_t kSharedBytes = 96 << 10, kHopperSharedBytes = 227 << 10;

template <int D>
void run_decode(const Command& launch, EmulatedCluster& cluster) {
  const auto& args = args_of<DecodeKernelArgs>(launch);
  if (static_cast<uint32_t>(args.cluster) != launch.cluster)
    throw std::logic_error("clusters of another size than their kernel knows");
  cluster.run([&](EmulatedCluster::Block& block) { attention_decode<D>(block, args); });
}

// One block, whose parts take turns as `seed` decides, or the blocks of a cluster from x on.
void run_for_hopper(const Command& launch, int x, int y, bool backwards, uint64_t seed,
                    const Sabotage& sabotage) {
  Turns turns(seed);
  if (for_clusters(launch.kernel)) {
    EmulatedCluster cluster(turns, sabotage, launch.shared_bytes, x, y,
                            static_cast<int>(launch.cluster), backwards);
    if (launch.kernel == Kernel::kAttentionDecode64) return run_decode<64>(launch, cluster);
    return run_decode<128>(launch, cluster);
  }
  EmulatedHopper block(turns, sabotage, launch.shared_bytes, x, backwards);
  const auto& args = args_of<AttentionKernelArgs>(launch);
  if (launch.kernel == Kernel::kAttentionHopper64) return attention_hopper<64>(block, args);
  attention_hopper<128>(block, args);
}

void run_block(const Command& launch, int x, int y, bool backwards) {
  SharedMemory shared(launch.shared_bytes);
  EmulatedBlock block(shared, x, y, static_cast<int>(launch.threads), backwards);
  switch (launch.kernel) {
#define PREFIX_CASE(number, body, Args) \
  case Kernel::number:                  \
    body(block, args_of<Args>(launch)); \
    break;
    PREFIX_ROW_KERNELS(PREFIX_CASE)
    PREFIX_HEAD_KERNELS(PREFIX_CASE)
#undef PREFIX_CASE
#define PREFIX_CASE(number, D, W)                                                      \
  case Kernel::number:                                                                 \
    Attention<D, W, EmulatedBlock>(block, args_of<AttentionKernelArgs>(launch)).run(); \
    break;
    PREFIX_MMA_KERNELS(PREFIX_CASE)
#undef PREFIX_CASE
    default:
      throw std::logic_error("no such kernel");
  }
  shared.finish();
}

}  // namespace

EmulatedRuntime::EmulatedRuntime(int32_t processors, uint64_t seed) : random_(seed) {
  std::strcpy(properties_.name, "emulator");
  properties_.capability = 90;
  properties_.processors = processors;
  properties_.total_bytes = int64_t{1} << 30;
  used_bytes_ = kGemmWorkspaceBytes;  // as on a GPU
  properties_.hopper = true;
  for (int i = 0; i < kMaxCluster; ++i) properties_.clusters[i] = processors / (i + 1);
}

EmulatedRuntime::~EmulatedRuntime() {
  while (!memory_.empty()) release(const_cast<unsigned char*>(memory_.begin()->first));
}

const char* EmulatedRuntime::error() const { return error_text.c_str(); }

Code EmulatedRuntime::failure(Code code, std::string text) {
  error_text = std::move(text);
  return code;
}

bool EmulatedRuntime::fails_now() {
  if (fail_in_ < 0 || fail_in_-- > 0) return false;
  error_text = "the emulator was told to fail";
  return true;
}

Code EmulatedRuntime::allocate(size_t bytes, void** out) {
  if (fails_now()) return fail_code_;
  ++counters_.allocations;
  if (bytes > static_cast<size_t>(free_bytes()))
    return failure(Code::kOutOfDeviceMemory,
                   cat("cannot allocate ", bytes, " bytes, ", free_bytes(), " of ",
                       properties_.total_bytes, " are free"));
  const size_t size = (std::max<size_t>(bytes, 1) + 255) / 256 * 256;
  // Lazily backed and zero, as a large pool on a GPU would be too much for a test.
  auto* const data = static_cast<unsigned char*>(std::calloc(1, size + 256));
  if (!data) return failure(Code::kOutOfDeviceMemory, "the host has no memory for the emulator");
  const size_t skip = 256 - reinterpret_cast<uintptr_t>(data) % 256;
  unsigned char* const aligned = data + skip;
  std::memcpy(aligned - sizeof(void*), &data, sizeof data);
  const std::lock_guard lock(mutex_);
  memory_[aligned] = bytes;
  used_bytes_ += static_cast<int64_t>(bytes);
  *out = aligned;
  return Code::kOk;
}

void EmulatedRuntime::release(void* data) {
  if (!data) return;
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(static_cast<unsigned char*>(data));
  if (found == memory_.end()) std::abort();
  used_bytes_ -= static_cast<int64_t>(found->second);
  memory_.erase(found);
  void* raw;
  std::memcpy(&raw, static_cast<unsigned char*>(data) - sizeof(void*), sizeof raw);
  std::free(raw);
}

Code EmulatedRuntime::allocate_pinned(size_t bytes, void** out) {
  if (fails_now()) return fail_code_;
  ++counters_.pinned_allocations;
  *out = std::malloc(std::max<size_t>(bytes, 1));
  if (!*out) return failure(Code::kOutOfMemory, "no pinned memory");
  const std::lock_guard lock(mutex_);
  pinned_[static_cast<unsigned char*>(*out)] = bytes;
  return Code::kOk;
}

void EmulatedRuntime::release_pinned(void* data) {
  if (!data) return;
  if (finish_copies() != Code::kOk) std::abort();
  const std::lock_guard lock(mutex_);
  pinned_.erase(static_cast<unsigned char*>(data));
  std::free(data);
}

Code EmulatedRuntime::finish_copies() {
  const std::lock_guard lock(mutex_);
  for (const Copy<unsigned char>& d : std::exchange(downloads_, {}))
    std::memcpy(d.host, d.bytes.data(), d.bytes.size());
  for (const Copy<const unsigned char>& u : std::exchange(in_flight_, {}))
    if (std::memcmp(u.host, u.bytes.data(), u.bytes.size()) != 0)
      return failure(Code::kInternal, "pinned memory changed before the device was done with it");
  return Code::kOk;
}

Code EmulatedRuntime::synchronize() {
  ++counters_.waits;
  if (fails_now()) return fail_code_;
  return finish_copies();
}

Code EmulatedRuntime::check(const void* data, size_t bytes, const char* what) {
  const auto* const at = static_cast<const unsigned char*>(data);
  const std::lock_guard lock(mutex_);
  if (holds(memory_, at, bytes)) return Code::kOk;
  return failure(Code::kInternal, cat(what, ": ", bytes, " bytes are not in device memory"));
}

Code EmulatedRuntime::upload(void* device, const void* host, size_t bytes) {
  ++counters_.uploads;
  if (fails_now()) return fail_code_;
  if (const Code code = check(device, bytes, "upload"); code != Code::kOk) return code;
  if (bytes == 0) return Code::kOk;
  std::memcpy(device, host, bytes);
  const auto* const from = static_cast<const unsigned char*>(host);
  const std::lock_guard lock(mutex_);
  if (holds(pinned_, from, bytes)) in_flight_.push_back({from, {from, from + bytes}});
  return Code::kOk;
}

Code EmulatedRuntime::download(void* host, const void* device, size_t bytes) {
  ++counters_.downloads;
  if (fails_now()) return fail_code_;
  if (const Code code = check(device, bytes, "download"); code != Code::kOk) return code;
  counters_.downloaded_bytes += static_cast<int64_t>(bytes);
  if (bytes == 0) return Code::kOk;
  std::memcpy(host, device, bytes);
  return finish_copies();
}

// Until somebody waits, nobody knows what is in the memory.
Code EmulatedRuntime::begin_download(void* pinned, const void* device, size_t bytes) {
  if (fails_now()) return fail_code_;
  if (const Code code = check(device, bytes, "download"); code != Code::kOk) return code;
  counters_.downloaded_bytes += static_cast<int64_t>(bytes);
  auto* const to = static_cast<unsigned char*>(pinned);
  const auto* const from = static_cast<const unsigned char*>(device);
  const std::lock_guard lock(mutex_);
  if (!holds(pinned_, to, bytes))
    return failure(Code::kInternal, "a download that nobody waits for needs pinned memory");
  downloads_.push_back({to, {from, from + bytes}});
  std::memset(to, 0xa5, bytes);
  return Code::kOk;
}

Code EmulatedRuntime::launch(const Command& launch) {
  if (fails_now()) return fail_code_;
  ++counters_.launches[static_cast<size_t>(launch.kernel)];
  return run(launch);
}

Code EmulatedRuntime::run(const Command& launch) {
  const auto count = static_cast<int64_t>(launch.grid_x) * launch.grid_y;
  const uint32_t cluster = launch.cluster;
  const BlockShape shape = block_shape(launch.kernel);
  // Those of heads have shared memory by their arguments.
  if (count == 0 || cluster == 0 || cluster > kMaxCluster || launch.grid_x % cluster != 0 ||
      (cluster > 1 && !for_clusters(launch.kernel)) ||
      launch.threads != static_cast<uint32_t>(shape.threads) || launch.grid_y > 65535 ||
      (shape.shared_bytes > 0 &&
       launch.shared_bytes != static_cast<uint32_t>(shape.shared_bytes)) ||
      launch.shared_bytes > (for_hopper(launch.kernel) ? kHopperSharedBytes : kSharedBytes))
    return failure(Code::kInternal, "a launch that no GPU accepts");
  std::vector<int64_t> order(static_cast<size_t>(count / cluster));  // of clusters
  const uint32_t columns = launch.grid_x / cluster;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::shuffle(order.begin(), order.end(), random_);
  const bool backwards = random_() % 2 == 0;
  try {
    for (const int64_t i : order) {
      const int x = static_cast<int>(i % columns * cluster), y = static_cast<int>(i / columns);
      if (for_hopper(launch.kernel))
        run_for_hopper(launch, x, y, backwards, random_(), sabotage_);
      else
        run_block(launch, x, y, backwards);
    }
  } catch (const std::exception& e) {
    return failure(Code::kInternal,
                   cat("kernel ", static_cast<int>(launch.kernel), ": ", e.what()));
  }
  return Code::kOk;
}

Code EmulatedRuntime::gemm(const GemmArgs& a) {
  if (fails_now()) return fail_code_;
  ++counters_.gemms;
  if (!known_products_.contains(shape_of(a))) ++counters_.new_gemms;
  return run(a);
}

Code EmulatedRuntime::run(const GemmArgs& a) {
  const Element result = element_of(a.output, a.element);
  const auto outside = [&](const void* data, int64_t rows, int64_t ld, int64_t columns, Element e) {
    const int64_t span = rows == 0 ? 0 : (rows - 1) * ld + columns;
    return check(data, span * element_bytes(e), "gemm") != Code::kOk;
  };
  if (outside(a.w, a.n, a.ld_w, a.k, a.element) || outside(a.x, a.rows, a.ld_x, a.k, a.element) ||
      outside(a.y, a.rows, a.ld_y, a.n, result))
    return Code::kInternal;
  if (a.bias && a.output == Output::kActivation)
    return failure(Code::kInternal, "cuBLASLt has no such epilogue");
  // Sixteen columns of y, from those columns of the transpose of w. Their sums have names of their
  // own: g++ keeps an array of them in memory.
  using Four = float __attribute__((vector_size(16)));
  struct Columns {
    Four four[4];
  };
  constexpr int64_t kColumns = 16;
  std::vector<float> x(static_cast<size_t>(a.rows * a.k));
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t i = 0; i < a.k; ++i) x[r * a.k + i] = load_element(a.x, r * a.ld_x + i, a.element);
  std::vector<Columns> w(static_cast<size_t>(a.k));
  for (int64_t first = 0; first < a.n; first += kColumns) {
    const int64_t columns = std::min(kColumns, a.n - first);
    for (int64_t i = 0; i < a.k; ++i)
      for (int64_t c = 0; c < columns; ++c)
        w[i].four[c / 4][c % 4] = load_element(a.w, (first + c) * a.ld_w + i, a.element);
    for (int64_t r = 0; r < a.rows; ++r) {
      const float* const row = &x[r * a.k];
      Four y0 = {}, y1 = {}, y2 = {}, y3 = {};
      for (int64_t i = 0; i < a.k; ++i) {
        const Columns& column = w[i];
        y0 += row[i] * column.four[0];
        y1 += row[i] * column.four[1];
        y2 += row[i] * column.four[2];
        y3 += row[i] * column.four[3];
      }
      const Columns y = {{y0, y1, y2, y3}};
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t j = first + c, at = r * a.ld_y + j;
        const float before = a.output == Output::kF32Add ? load_element(a.y, at, result) : 0.0f;
        store_element(a.y, at, result, y.four[c / 4][c % 4] + (a.bias ? a.bias[j] : 0.0f) + before);
      }
    }
  }
  return Code::kOk;
}

Code EmulatedRuntime::record(std::span<const Command> commands, int32_t* graph) {
  if (fails_now()) return fail_code_;
  if (!records_) return failure(Code::kInternal, "the emulator was told not to record");
  ++counters_.records;
  *graph = next_graph_++;
  graphs_[*graph].assign(commands.begin(), commands.end());
  return Code::kOk;
}

Code EmulatedRuntime::replay(int32_t graph) {
  if (fails_now()) return fail_code_;
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return failure(Code::kInternal, "a graph that was never recorded");
  ++counters_.replays;
  for (const Command& command : found->second) {
    const Code code = command.kernel == Command::kGemm ? run(gemm_of(command)) : run(command);
    if (code != Code::kOk) return code;
  }
  return Code::kOk;
}

}  // namespace prefix::ops::gpu
