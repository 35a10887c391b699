#include "ops/op_gpu.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "ops/cpu/pack.h"

namespace prefix::ops {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;
// Weights are read and sent in pieces of about this size.
constexpr int64_t kPackBytes = int64_t{32} << 20;
constexpr int32_t kMostSlowHead = 1024;  // columns that kAttentionSlow keeps in registers

struct AttentionKernel {
  gpu::Kernel kernel = gpu::Kernel::kAttentionSlow;
  int32_t d = 0;
  int32_t warps = 0;
};

// The tensor-core kernel for a head size and the packed rows of the largest tile.
AttentionKernel choose_kernel(DType type, int32_t head_dim, int32_t packed_rows) {
  using gpu::Kernel;
  const bool large = packed_rows > 64;
  if (type != DType::kBf16 || head_dim > 256) return {};
  if (head_dim > 128) return {Kernel::kAttention256x4, 256, 4};
  if (head_dim > 64)
    return large ? AttentionKernel{Kernel::kAttention128x8, 128, 8}
                 : AttentionKernel{Kernel::kAttention128x4, 128, 4};
  return large ? AttentionKernel{Kernel::kAttention64x8, 64, 8}
               : AttentionKernel{Kernel::kAttention64x4, 64, 4};
}

// The Hopper kernel for wide items of many rows; kCount where there is none.
gpu::Kernel choose_wide_kernel(DType type, int32_t head_dim, int32_t packed_rows) {
  if (type != DType::kBf16 || packed_rows <= gpu::kHopperRows) return gpu::Kernel::kCount;
  if (head_dim == 64) return gpu::Kernel::kAttentionHopper64;
  if (head_dim == 128) return gpu::Kernel::kAttentionHopper128;
  return gpu::Kernel::kCount;
}

// The kernel for small steps; kCount where there is none.
gpu::Kernel choose_decode_kernel(DType type, int32_t head_dim) {
  if (type != DType::kBf16) return gpu::Kernel::kCount;
  if (head_dim == 64) return gpu::Kernel::kAttentionDecode64;
  if (head_dim == 128) return gpu::Kernel::kAttentionDecode128;
  return gpu::Kernel::kCount;
}

AttentionKernel kernel_shape(gpu::Kernel kernel) {
  switch (kernel) {
    case gpu::Kernel::kAttention64x4:
      return {kernel, 64, 4};
    case gpu::Kernel::kAttention64x8:
      return {kernel, 64, 8};
    case gpu::Kernel::kAttention128x4:
      return {kernel, 128, 4};
    case gpu::Kernel::kAttention128x8:
      return {kernel, 128, 8};
    case gpu::Kernel::kAttention256x4:
      return {kernel, 256, 4};
    default:
      return {};
  }
}

}  // namespace

GpuDevice::GpuDevice(std::unique_ptr<gpu::Runtime> runtime, const GpuOptions& options)
    : runtime_(std::make_unique<gpu::StepGraphs>(std::move(runtime), options.graphs)),
      options_(options),
      threads_(std::max(1, options.threads)),
      isa_(cat("sm_", runtime_->properties().capability)),
      downloads_(*runtime_, uploads_, threads_),
      step_(*runtime_, uploads_),
      heads_(*runtime_, uploads_),
      call_(*runtime_, uploads_),
      gated_(*runtime_),
      states_(*runtime_),
      arrived_(*runtime_),
      logit_parts_(*runtime_) {
  const int32_t capability = runtime_->properties().capability;
  if (capability < 80)
    fail(Code::kUnsupportedDevice, "device \"", runtime_->properties().name,
         "\" has compute capability ", capability / 10, ".", capability % 10,
         "; bf16 tensor cores need 8.0");
  const auto wanted = [&](CudaAttention kernels) {
    const bool hopper = runtime_->properties().hopper;
    if (kernels != CudaAttention::kHopper)
      return kernels == CudaAttention::kAuto && hopper && !options.invariant;
    if (options.invariant)
      fail(Code::kInvalidArgument, "cuda_attention=hopper does not keep invariant=true");
    if (!hopper)
      fail(Code::kUnsupportedDevice, "cuda_attention=hopper needs compute capability 9.0; \"",
           runtime_->properties().name, "\" has ", capability / 10, ".", capability % 10);
    return true;
  };
  clusters_ = wanted(options.small_steps);
  warpgroups_ = wanted(options.wide_items);
  if (clusters_ && runtime_->properties().clusters[0] == 0)
    log_message(LogLevel::kWarning,
                "the device says that no cluster runs at once; attention of small steps is left to "
                "the other kernel");
}

GpuDevice::~GpuDevice() { runtime_->release_pinned(flags_); }

// Processors, clusters and the versions of the libraries decide how attention is cut and which
// algorithms multiply matrices.
std::string GpuDevice::numerics() const {
  const gpu::Properties& p = runtime_->properties();
  std::string text = cat(isa_, options_.invariant ? " invariant " : " ", p.processors, ' ',
                         p.products_version, warpgroups_ ? " warpgroups" : "");
  if (!clusters_) return text;
  text += " clusters";
  for (const int32_t count : p.clusters) text += cat(' ', count);
  return text;
}

// --- memory --------------------------------------------------------------------------------------

std::byte* GpuDevice::allocate(size_t bytes) {
  void* data = nullptr;
  check(*runtime_, runtime_->allocate(bytes, &data), "device memory");
  return static_cast<std::byte*>(data);
}

void GpuDevice::release(std::byte* data, size_t) { runtime_->release(data); }

std::byte* GpuDevice::allocate_host(size_t bytes) {
  void* data = nullptr;
  check(*runtime_, runtime_->allocate_pinned(bytes, &data), "pinned memory");
  return static_cast<std::byte*>(data);
}

void GpuDevice::release_host(std::byte* data, size_t) { runtime_->release_pinned(data); }

void GpuDevice::upload(void* device, const void* host, size_t bytes) {
  check(*runtime_, runtime_->upload(device, host, bytes), "upload");
}

void GpuDevice::download(void* host, const void* device, size_t bytes) {
  const uint64_t sent = uploads_.sent();
  check(*runtime_, runtime_->download(host, device, bytes), "download");
  if (bytes > 0) uploads_.finished(sent);
  flags_here_ = flags_here_ || (flags_coming_ && bytes > 0);
}

void GpuDevice::finish_step() {
  fetch_flags();
  const uint64_t sent = uploads_.sent();
  check(*runtime_, runtime_->synchronize(), "a step");
  uploads_.finished(sent);
  flags_here_ = flags_coming_;
}

// The flags went up as zeros with the other arrays of the step. They come back with whatever is
// waited for next, so that they cost no wait of their own.
void GpuDevice::fetch_flags() {
  const std::span<const int32_t> flags(no_flags_);
  if (flags_coming_ || flags.empty()) return;
  reserve_flags(flags.size());
  check(*runtime_, runtime_->begin_download(flags_, on_device(flags), flags.size_bytes()),
        "the flags of a step");
  flags_coming_ = true;
}

void GpuDevice::reserve_flags(size_t rows) {
  if (rows <= flags_room_) return;
  runtime_->release_pinned(flags_);
  flags_ = nullptr;
  flags_room_ = 0;
  flags_ = reinterpret_cast<int32_t*>(allocate_host(rows * sizeof(int32_t)));
  flags_room_ = rows;
}

std::span<const int32_t> GpuDevice::not_finite() {
  if (!flags_here_) finish_step();
  return {flags_, no_flags_.size()};
}

void GpuDevice::parallel(int64_t n, const std::function<void(int64_t)>& task) {
  threads_.run(n, [&](int64_t index, int) { task(index); });
}

gpu::Pages GpuDevice::pages(const KvLayout& kv, const std::byte* pool, int32_t layer) const {
  PREFIX_CHECK(kv.type == options_.dtype);
  gpu::Pages p{};
  p.layer = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(pool)) +
            static_cast<size_t>(layer) * kv.layer_bytes();
  p.page_stride = static_cast<int64_t>(kv.page_bytes());
  p.block_bytes = static_cast<int64_t>(kv.block_bytes());
  p.kv_heads = kv.kv_heads;
  p.head_dim = kv.head_dim;
  p.d_padded = static_cast<int32_t>(kv.d_padded());
  p.element = element();
  return p;
}

// --- weights -------------------------------------------------------------------------------------

// Row-major [n rounded up to 32][k_padded]: 32 rows take as many bytes as a panel of the CPU, so
// that Matrix::panel_of() is right here too. With two readers, blocks of 32 rows take turns.
Matrix GpuDevice::pack_from(int64_t n_total, int64_t k, std::span<const RowReader* const> readers,
                            int64_t n_each) {
  Matrix m = matrix_shape(options_.dtype, n_total, k);
  std::byte* const data = allocate(m.bytes());
  const size_t element = dtype_bytes(m.type);
  const size_t row_bytes = static_cast<size_t>(m.k_padded) * element;
  const auto sources = static_cast<int64_t>(readers.size());
  try {
    const int64_t rows = m.panels() * 32;
    const int64_t step = std::max<int64_t>(1, kPackBytes / static_cast<int64_t>(row_bytes));
    std::vector<std::byte> piece(static_cast<size_t>(std::min(step, rows)) * row_bytes);
    std::vector<std::vector<float>> buffers(static_cast<size_t>(threads_.count()));
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      threads_.run(count, [&](int64_t i, int worker) {
        std::byte* const out = piece.data() + static_cast<size_t>(i) * row_bytes;
        std::memset(out, 0, row_bytes);
        const int64_t panel = (begin + i) / 32;
        const int64_t row = panel / sources * 32 + (begin + i) % 32;
        if (row >= n_each) return;
        std::vector<float>& values = buffers[static_cast<size_t>(worker)];
        values.resize(static_cast<size_t>(k));
        (*readers[static_cast<size_t>(panel % sources)])(row, values.data());
        if (m.type == DType::kF32) {
          std::memcpy(out, values.data(), values.size() * sizeof(float));
        } else {
          auto* const to = reinterpret_cast<uint16_t*>(out);
          for (size_t c = 0; c < values.size(); ++c) to[c] = bf16_from_f32(values[c]);
        }
      });
      upload(data + static_cast<size_t>(begin) * row_bytes, piece.data(),
             static_cast<size_t>(count) * row_bytes);
    }
  } catch (...) {
    release(data, m.bytes());
    throw;
  }
  m.data = data;
  return m;
}

Matrix GpuDevice::pack(int64_t n, int64_t k, const RowReader& rows) {
  const RowReader* const readers[] = {&rows};
  return pack_from(n, k, readers, n);
}

Matrix GpuDevice::pack_gated(int64_t n, int64_t k, const RowReader& gate, const RowReader& up) {
  const RowReader* const readers[] = {&gate, &up};
  return pack_from((n + 31) / 32 * 64, k, readers, n);
}

// --- launches ------------------------------------------------------------------------------------

namespace {

// Arguments are compared byte by byte: those behind the last member must not be chance.
template <typename Args>
void clear_tail([[maybe_unused]] Args& args) {
  if constexpr (requires { args.element; }) {
    constexpr size_t kEnd = offsetof(Args, element) + sizeof args.element;
    static_assert(sizeof args - kEnd < alignof(Args), "element is the last member");
    std::memset(reinterpret_cast<unsigned char*>(&args) + kEnd, 0, sizeof args - kEnd);
  }
}

}  // namespace

template <typename Args>
void GpuDevice::launch(gpu::Kernel kernel, int64_t x, int64_t y, const Args& args, int shared_bytes,
                       int cluster) {
  if (x == 0 || y == 0) return;
  gpu::Launch l{};
  l.kernel = kernel;
  l.grid_x = static_cast<uint32_t>(x);
  l.grid_y = static_cast<uint32_t>(y);
  l.threads = gpu::kRowThreads;
  l.cluster = static_cast<uint32_t>(cluster);
  if (const AttentionKernel shape = kernel_shape(kernel); shape.d > 0) {
    l.threads = static_cast<uint32_t>(32 * shape.warps);
    l.shared_bytes = static_cast<uint32_t>(gpu::attention_shared_bytes(shape.d, shape.warps));
  } else if (kernel == gpu::Kernel::kAttentionSlow) {
    l.threads = 32;
  } else if (kernel == gpu::Kernel::kAttentionHopper64 ||
             kernel == gpu::Kernel::kAttentionHopper128) {
    l.threads = gpu::kHopperThreads;
    l.shared_bytes = static_cast<uint32_t>(
        gpu::hopper_shared_bytes(kernel == gpu::Kernel::kAttentionHopper64 ? 64 : 128));
  } else if (kernel == gpu::Kernel::kAttentionDecode64 ||
             kernel == gpu::Kernel::kAttentionDecode128) {
    l.threads = gpu::kDecodeThreads;
    l.shared_bytes = static_cast<uint32_t>(
        gpu::decode_shared_bytes(kernel == gpu::Kernel::kAttentionDecode64 ? 64 : 128));
  } else {
    l.shared_bytes = static_cast<uint32_t>(shared_bytes);
  }
  Args clean = args;
  clear_tail(clean);
  l.args = &clean;
  l.arg_bytes = sizeof clean;
  check(*runtime_, runtime_->launch(l), "launch");
}

template <typename T>
const T* GpuDevice::on_device(std::span<const T> array) {
  if (const T* known = step_.find(array.data())) return known;
  if (const T* known = heads_.find(array.data())) return known;
  if (const T* known = call_.find(array.data())) return known;
  PREFIX_CHECK(array.empty());
  return nullptr;
}

template <typename... Spans>
void GpuDevice::stage_call(const Spans&... spans) {
  const auto known = [&](const auto& span) {
    return span.empty() || step_.find(span.data()) || heads_.find(span.data());
  };
  if ((known(spans) && ...)) return;
  call_.begin();
  (call_.place(spans), ...);
  call_.send();
}

void GpuDevice::embed(const Matrix& w, std::span<const int32_t> ids, float scale, float* out,
                      int64_t ld) {
  for (const int32_t id : ids) PREFIX_CHECK(id >= 0 && id < w.n);
  stage_call(ids);
  gpu::EmbedArgs a{};
  a.weights = w.data;
  a.ids = on_device(ids);
  a.out = out;
  a.k_padded = w.k_padded;
  a.k = w.k;
  a.ld = ld;
  a.scale = scale;
  a.element = element();
  launch(gpu::Kernel::kEmbed, padded(static_cast<int64_t>(ids.size())), 1, a);
}

void GpuDevice::rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                         int64_t n, Act out) {
  gpu::NormArgs a{x, weight, out.data, ld, out.ld, n, eps, gpu::Output::kActivation, element()};
  launch(gpu::Kernel::kNorm, padded(rows), 1, a);
}

void GpuDevice::rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                             int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) {
  const auto output = add ? gpu::Output::kF32Add : gpu::Output::kF32;
  gpu::NormArgs a{x, weight, out, ld, ld_out, n, eps, output, element()};
  launch(gpu::Kernel::kNorm, padded(rows), 1, a);
}

void GpuDevice::multiply(const gpu::GemmArgs& args) {
  if (rehearsing_) {
    runtime_->prepare_gemm(args);
  } else {
    check(*runtime_, runtime_->gemm(args), "matrix product");
  }
}

void GpuDevice::linear(const Matrix& w, const float* bias, Act x, int64_t rows, float* y,
                       int64_t ld, bool add) {
  if (rows == 0) return;
  const auto output = add ? gpu::Output::kF32Add : gpu::Output::kF32;
  gpu::GemmArgs a{w.data, x.data,     bias, y,  padded(rows), w.n,
                  w.k,    w.k_padded, x.ld, ld, output,       element()};
  multiply(a);
}

// qkv() adds the bias: cuBLASLt has no f32 bias for a result of bf16.
void GpuDevice::project(const Matrix& w, const float*, Act x, int64_t rows, void* y, int64_t ld) {
  if (rows == 0) return;
  const auto output = gpu::Output::kActivation;
  multiply({w.data, x.data, nullptr, y, padded(rows), w.n, w.k, w.k_padded, x.ld, ld, output,
            element()});
}

void GpuDevice::linear_gated(const Matrix& w, int64_t n, const float* bias_gate,
                             const float* bias_up, Activation act, Act x, int64_t rows, Act out) {
  PREFIX_CHECK(act == Activation::kSilu);
  PREFIX_CHECK(w.panels() == (n + 31) / 32 * 2);
  if (rows == 0) return;
  rows = padded(rows);
  const int64_t columns = w.panels() * 32;
  unsigned char* const both =
      gated_.reserve(static_cast<size_t>(rows * columns) * dtype_bytes(options_.dtype));
  const auto output = gpu::Output::kActivation;
  gpu::GemmArgs g{w.data, x.data,     nullptr, both,    rows,   columns,
                  w.k,    w.k_padded, x.ld,    columns, output, element()};
  multiply(g);
  if (rehearsing_) return;
  gpu::GatedArgs a{both, bias_gate, bias_up, out.data, columns, out.ld, n, element()};
  launch(gpu::Kernel::kGated, rows, 1, a);
}

void GpuDevice::gather_rows(const float* x, int64_t ld, std::span<const int32_t> rows, int64_t n,
                            float* out, int64_t ld_out) {
  // Heads are not part of the graph: how many rows are selected changes from step to step.
  rows_ = padded_rows_ = 0;
  check(*runtime_, runtime_->cut(), "a step");
  fetch_flags();
  stage_call(rows);
  gpu::GatherArgs a{x, on_device(rows), out, ld, ld_out, n};
  launch(gpu::Kernel::kGather, static_cast<int64_t>(rows.size()), 1, a);
}

void GpuDevice::convert(const float* x, int64_t ld, int64_t rows, int64_t n, Act out) {
  gpu::ConvertArgs a{x, out.data, ld, out.ld, n, element()};
  launch(gpu::Kernel::kConvert, padded(rows), 1, a);
}

// --- heads ---------------------------------------------------------------------------------------

void GpuDevice::begin_heads(const HeadArrays& heads) {
  heads_.begin();
  heads_.place(heads.targets);
  heads_.place(heads.candidate_rows);
  heads_.send();
}

namespace {

void check_logits(const LogitBlock& block) {
  PREFIX_CHECK(block.ld % 4 == 0 && block.ld >= block.n && block.n > 0);
  PREFIX_CHECK(reinterpret_cast<uintptr_t>(block.x) % 16 == 0);
}

}  // namespace

void GpuDevice::row_stats(const LogitBlock& block, std::span<const uint8_t>, RowStats* out) {
  check_logits(block);
  const auto parts = static_cast<size_t>(block.rows) * gpu::kLogitPartsMost;
  gpu::LogitStatsArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.n = block.n;
  a.rows = block.rows;
  a.parts = reinterpret_cast<gpu::LogitPart*>(logit_parts_.reserve(parts * sizeof(gpu::LogitPart)));
  a.out = out + block.first;
  launch(gpu::Kernel::kLogitParts, block.rows, gpu::logit_parts(block.n), a,
         gpu::kStatsSharedBytes);
  launch(gpu::Kernel::kLogitStats, (block.rows + gpu::kRowThreads - 1) / gpu::kRowThreads, 1, a);
}

void GpuDevice::gather_logits(const LogitBlock& block, std::span<const LogitAt> targets,
                              float* out) {
  stage_call(targets);
  gpu::GatherLogitsArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.targets = on_device(targets);
  a.count = static_cast<int64_t>(targets.size());
  a.first = static_cast<int32_t>(block.first);
  a.rows = static_cast<int32_t>(block.rows);
  a.out = out;
  launch(gpu::Kernel::kGatherLogits, (a.count + gpu::kRowThreads - 1) / gpu::kRowThreads, 1, a);
}

void GpuDevice::top_candidates(const LogitBlock& block, std::span<const int32_t> rows, int32_t k,
                               Candidate* out) {
  check_logits(block);
  PREFIX_CHECK(k >= 1 && k <= kMostCandidates && k <= block.n);
  stage_call(rows);
  const int parts = gpu::logit_parts(block.n);
  const size_t keys = rows.size() * static_cast<size_t>(parts * k);
  gpu::TopArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.n = block.n;
  a.listed = on_device(rows);
  a.first = static_cast<int32_t>(block.first);
  a.rows = static_cast<int32_t>(block.rows);
  a.k = k;
  a.keys = reinterpret_cast<uint64_t*>(logit_parts_.reserve(keys * sizeof(uint64_t)));
  a.out = out;
  const auto listed = static_cast<int64_t>(rows.size());
  launch(gpu::Kernel::kTopParts, listed, parts, a, gpu::kTopPartsSharedBytes);
  launch(gpu::Kernel::kTopMerge, listed, 1, a, gpu::top_merge_shared_bytes(parts, k));
}

void GpuDevice::qkv(const QkvArgs& args, std::span<const int32_t> positions,
                    std::span<const KvSlot> slots, const KvLayout& kv, std::byte* pool,
                    int32_t layer, Act q) {
  PREFIX_CHECK(slots.size() == positions.size());
  PREFIX_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= kv.head_dim);
  if (no_flags_.size() < positions.size()) no_flags_.assign(positions.size(), 0);
  const std::span<const int32_t> not_finite(no_flags_);
  stage_call(positions, slots, not_finite);
  gpu::QkvArguments a{};
  a.qkv = args.qkv;
  a.bias = args.bias;
  a.q_norm = args.q_norm;
  a.k_norm = args.k_norm;
  a.cos = args.cos;
  a.sin = args.sin;
  a.positions = on_device(positions);
  a.slots = reinterpret_cast<const int32_t*>(on_device(slots));
  a.not_finite = const_cast<int32_t*>(on_device(not_finite));
  a.q = q.data;
  a.ld = args.ld;
  a.ld_q = q.ld;
  a.heads = args.heads;
  a.rotary_dim = args.rotary_dim;
  a.eps = args.norm_eps;
  a.norm_whole_width = args.norm_whole_width ? 1 : 0;
  a.pages = pages(kv, pool, layer);
  const int32_t vectors = args.heads + 2 * kv.kv_heads;
  launch(gpu::Kernel::kQkv, padded(static_cast<int64_t>(positions.size())),
         (vectors + gpu::kQkvVectors - 1) / gpu::kQkvVectors, a);
}

void GpuDevice::clear_pages(std::span<const int32_t> list, const KvLayout& kv, std::byte* pool) {
  for (size_t at = 0; at < list.size(); at += gpu::kMostCleared) {
    const std::span<const int32_t> piece =
        list.subspan(at, std::min(gpu::kMostCleared, list.size() - at));
    stage_call(piece);
    gpu::ClearArgs a{on_device(piece), reinterpret_cast<unsigned char*>(pool),
                     static_cast<int64_t>(kv.page_bytes())};
    launch(gpu::Kernel::kClearPages, static_cast<int64_t>(piece.size()), gpu::kClearBlocks, a);
  }
}

// Copies that wait for one another go into different launches (waves): a copy comes after every
// earlier one that wrote its source, or read or wrote its target.
void GpuDevice::order_copies(std::span<const PageCopy> copies) {
  std::unordered_map<int32_t, int32_t> written, read;  // page -> last wave that did
  std::vector<std::pair<int32_t, size_t>> order;
  const auto wave_of = [](const std::unordered_map<int32_t, int32_t>& map, int32_t page) {
    const auto found = map.find(page);
    return found == map.end() ? -1 : found->second;
  };
  for (size_t i = 0; i < copies.size(); ++i) {
    const PageCopy& c = copies[i];
    const int32_t wave =
        1 + std::max({wave_of(written, c.from), wave_of(written, c.to), wave_of(read, c.to)});
    written[c.to] = std::max(wave, wave_of(written, c.to));
    read[c.from] = std::max(wave, wave_of(read, c.from));
    order.emplace_back(wave, i);
  }
  std::sort(order.begin(), order.end());
  copies_.clear();
  waves_.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    copies_.push_back(copies[order[i].second]);
    if (i + 1 == order.size() || order[i + 1].first != order[i].first)
      waves_.push_back(static_cast<int32_t>(i) + 1);
  }
  ordered_ = copies.data();
}

void GpuDevice::copy_pages(std::span<const PageCopy> copies, const KvLayout& kv, std::byte* pool,
                           int32_t layer) {
  if (copies.empty()) return;
  if (ordered_ != copies.data() || !step_.find(copies_.data())) {
    order_copies(copies);
    stage_call(std::span<const PageCopy>(copies_));
    ordered_ = nullptr;
  }
  const auto* const list =
      reinterpret_cast<const int32_t*>(on_device(std::span<const PageCopy>(copies_)));
  int32_t begin = 0;
  for (const int32_t end : waves_) {
    gpu::CopyArgs a{list + 3 * begin, pages(kv, pool, layer)};
    launch(gpu::Kernel::kCopyPages, end - begin, kv.kv_heads, a);
    begin = end;
  }
}

// --- attention -----------------------------------------------------------------------------------

void GpuDevice::plan_attention(const AttentionPlan& plan, std::span<const int32_t> positions,
                               int32_t heads, const KvLayout& kv) {
  const int32_t group = heads / kv.kv_heads;
  int32_t rows = 0;
  for (const AttentionTile& tile : plan.tiles)
    rows = std::max(rows, (tile.row_end - tile.row_begin) * group);
  // Invariant results come from one kernel, whatever the company.
  const AttentionKernel chosen =
      choose_kernel(kv.type, kv.head_dim, options_.invariant ? 64 : rows);
  kernel_ = chosen.kernel;
  wide_kernel_ = warpgroups_ ? choose_wide_kernel(kv.type, kv.head_dim, rows) : gpu::Kernel::kCount;
  plan_.clear();
  tiles_.of_row.clear();
  tiles_.runs.clear();
  planned_ = &plan;
  if (plan_decode(plan, positions, group, kv)) return;
  if (kernel_ != gpu::Kernel::kAttentionSlow) {
    gpu::AttentionShape shape;
    shape.kv_heads = kv.kv_heads;
    shape.group_heads = group;
    shape.warps = chosen.warps;
    shape.processors = runtime_->properties().processors;
    shape.invariant = options_.invariant;
    shape.most_states = most_states_;
    gpu::plan_attention(plan, positions, shape, plan_);
    return;
  }
  if (kv.head_dim > kMostSlowHead)
    fail(Code::kUnsupportedModel, "head_dim is ", kv.head_dim, "; device=cuda has at most ",
         kMostSlowHead);
  tiles_.of_row.resize(positions.size());
  for (size_t t = 0; t < plan.tiles.size(); ++t) {
    const AttentionTile& tile = plan.tiles[t];
    std::fill(tiles_.of_row.begin() + tile.row_begin, tiles_.of_row.begin() + tile.row_end,
              static_cast<int32_t>(t));
    tiles_.runs.insert(tiles_.runs.end(), {tile.run_begin, tile.run_end});
  }
}

bool GpuDevice::plan_decode(const AttentionPlan& plan, std::span<const int32_t> positions,
                            int32_t group, const KvLayout& kv) {
  decode_.clear();
  if (!clusters_) return false;
  const gpu::Kernel kernel = choose_decode_kernel(kv.type, kv.head_dim);
  if (kernel == gpu::Kernel::kCount) return false;
  const gpu::DecodeShape shape{kv.kv_heads, group, runtime_->properties().clusters};
  if (!gpu::plan_decode(plan, positions, shape, decode_)) return false;
  kernel_ = kernel;
  return true;
}

// Items without rows, which do nothing: the grid of a launch stays the same for many steps.
void GpuDevice::pad_attention() {
  gpu::Item nothing{};
  nothing.state = nothing.group = -1;
  if (plan_.waves.size() != 1) return;
  const auto items = static_cast<int64_t>(plan_.items.size());
  plan_.items.resize(static_cast<size_t>(gpu::padded_items(items)), nothing);
  plan_.waves.back().item_end = static_cast<int32_t>(plan_.items.size());
  plan_.states = std::max(plan_.states, static_cast<int32_t>(std::min<int64_t>(
                                            gpu::padded_items(plan_.states), most_states_)));
}

size_t GpuDevice::reserve(const ReserveShape& shape) {
  const gpu::Workspace w = gpu::workspace_for(shape, runtime_->properties().processors);
  gated_.reserve(w.gated);
  states_.reserve(w.states);
  arrived_.reserve(w.arrived);
  step_.reserve(w.step);
  call_.reserve(w.call);
  heads_.reserve(w.heads);
  logit_parts_.reserve(w.logit_parts);
  most_states_ = w.most_states;
  reserve_flags(static_cast<size_t>(shape.rows));
  return w.bytes();
}

// Steps up to 256 rows are padded to few sizes; of longer ones, of any size, the largest stands for
// all.
void GpuDevice::rehearse(int64_t most, const std::function<void(int64_t rows)>& step) {
  rehearsing_ = true;
  int64_t last = 0;
  for (int64_t rows = 1; rows <= std::min<int64_t>(most, 256); ++rows)
    if (const int64_t size = gpu::padded_rows(rows); size != last) step(last = size);
  if (most > last) step(most);
  rehearsing_ = false;
}

int64_t GpuDevice::padded_rows(int64_t rows) const {
  return rows <= 256 ? gpu::padded_rows(rows) : gpu::padded_items(rows);
}

void GpuDevice::begin_step(const StepArrays& step) {
  runtime_->launches_here();
  rows_ = static_cast<int64_t>(step.tokens.size());
  padded_rows_ = gpu::padded_rows(rows_);
  heads_.forget();
  step_.begin();
  step_.place(step.tokens, padded_rows_, 0);
  step_.place(step.positions, padded_rows_, 0);
  step_.place(step.rope_rows, padded_rows_, 0);
  step_.place(step.slots, padded_rows_, 0xff);  // page -1: none
  no_flags_.assign(step.tokens.size(), 0);
  flags_coming_ = flags_here_ = false;
  step_.place(std::span<const int32_t>(no_flags_), padded_rows_, 0);
  plan_attention(*step.attention, step.positions, step.heads, step.kv);
  if (is_small()) pad_attention();
  step_.place(std::span<const int32_t>(step.attention->pages));
  step_.place(std::span<const gpu::Item>(plan_.items));
  step_.place(std::span<const gpu::Run>(plan_.runs));
  step_.place(std::span<const gpu::Group>(plan_.groups));
  step_.place(std::span<const gpu::DecodePart>(decode_.parts));
  step_.place(std::span<const gpu::DecodePage>(decode_.pages));
  step_.place(std::span<const int32_t>(tiles_.of_row));
  step_.place(std::span<const int32_t>(tiles_.runs));
  if (kernel_ == gpu::Kernel::kAttentionSlow)
    step_.place(std::span<const AttentionRun>(step.attention->runs));
  // What not every step has comes last: the rest keeps its addresses.
  step_.place(step.reads);
  if (step.clear.size() <= gpu::kMostCleared) step_.place(step.clear);
  order_copies(step.copies);
  step_.place(std::span<const PageCopy>(copies_));
  step_.send();
}

void GpuDevice::launch_decode(const gpu::AttentionArguments& a) {
  gpu::DecodeArguments d{};
  d.parts = on_device(std::span<const gpu::DecodePart>(decode_.parts));
  d.list = on_device(std::span<const gpu::DecodePage>(decode_.pages));
  d.positions = a.positions;
  d.q = a.q;
  d.out = a.out;
  d.ld_q = a.ld_q;
  d.ld_out = a.ld_out;
  d.group_heads = a.group_heads;
  d.cluster = decode_.cluster;
  d.scale_log2 = a.scale_log2;
  d.pages = a.pages;
  launch(kernel_, static_cast<int64_t>(decode_.parts.size()), a.pages.kv_heads, d, 0, d.cluster);
}

void GpuDevice::attend(std::span<const gpu::Item> items, bool folds, gpu::AttentionArguments a) {
  if (wide_kernel_ != gpu::Kernel::kCount) {
    launch(wide_kernel_, a.item_count, a.pages.kv_heads, a);
    a.wide_done = 1;
    const bool narrow = std::any_of(items.begin(), items.end(),
                                    [](const gpu::Item& item) { return item.narrow != 0; });
    if (!narrow && !folds) return;
  }
  launch(kernel_, a.item_count, a.pages.kv_heads, a);
}

void GpuDevice::attention(const AttentionArgs& args, const KvLayout& kv, const std::byte* pool) {
  const AttentionPlan& plan = *args.plan;
  if (plan.tiles.empty()) return;
  const auto rows = static_cast<size_t>(plan.tiles.back().row_end);
  const std::span<const int32_t> positions(args.positions, rows);
  const bool staged = planned_ == &plan && step_.find(args.positions);
  if (!staged) {
    StepArrays alone;  // as a step of its own
    alone.positions = positions;
    alone.attention = &plan;
    alone.heads = args.heads;
    alone.kv = kv;
    begin_step(alone);
  }
  static_assert(sizeof(AttentionRun) == sizeof(gpu::Run));
  const bool slow = kernel_ == gpu::Kernel::kAttentionSlow;
  gpu::AttentionArguments a{};
  a.items = on_device(std::span<const gpu::Item>(plan_.items));
  a.runs =
      slow ? reinterpret_cast<const gpu::Run*>(on_device(std::span<const AttentionRun>(plan.runs)))
           : on_device(std::span<const gpu::Run>(plan_.runs));
  a.pages_list = on_device(std::span<const int32_t>(plan.pages));
  a.groups = on_device(std::span<const gpu::Group>(plan_.groups));
  a.positions = on_device(positions);
  a.q = args.q.data;
  a.out = args.out.data;
  a.ld_q = args.q.ld;
  a.ld_out = args.out.ld;
  a.group_heads = args.heads / kv.kv_heads;
  a.rows = static_cast<int32_t>(slow ? rows : padded(static_cast<int64_t>(rows)));
  a.scale_log2 = args.scale * kLog2E;
  a.pages = pages(kv, pool, args.layer);
  a.tile_of_row = on_device(std::span<const int32_t>(tiles_.of_row));
  a.tile_runs = on_device(std::span<const int32_t>(tiles_.runs));
  if (decode_.cluster > 0) launch_decode(a);
  if (!staged) step_.forget();
  if (decode_.cluster > 0) return;
  if (slow) {
    launch(kernel_, static_cast<int64_t>(rows), args.heads, a);
    return;
  }
  const auto states = static_cast<size_t>(plan_.states) * static_cast<size_t>(kv.kv_heads);
  const size_t o_floats = states * static_cast<size_t>(a.pages.d_padded);
  a.state_o = reinterpret_cast<float*>(states_.reserve((o_floats + 2 * states) * sizeof(float)));
  a.state_ml = a.state_o + o_floats;
  a.arrived = reinterpret_cast<int32_t*>(
      arrived_.reserve(plan_.groups.size() * static_cast<size_t>(kv.kv_heads) * sizeof(int32_t)));
  const gpu::Item* const items = a.items;
  const gpu::Group* const groups = a.groups;
  gpu::Wave begin{0, 0};
  for (const gpu::Wave& end : plan_.waves) {
    a.items = items + begin.item_end;
    a.groups = groups + begin.group_end;
    a.item_count = end.item_end - begin.item_end;
    attend(std::span(plan_.items)
               .subspan(static_cast<size_t>(begin.item_end), static_cast<size_t>(a.item_count)),
           end.group_end > begin.group_end, a);
    begin = end;
  }
}

}  // namespace prefix::ops
