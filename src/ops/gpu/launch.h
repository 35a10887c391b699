// The kernels of the GPU backend by number, and the arguments of each: what the device layer
// (op_gpu.cc), the CUDA kernels (kernels/) and their emulator (tests/kernels/) agree on. Plain
// numbers and pointers to device memory only; nvcc compiles this file too.
//
// A block of threads is (x, y) of a grid; each kernel says below what one block does.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/attention_plan.h"
#include "ops/logits.h"

namespace prefix::ops::gpu {

enum class Kernel : int32_t {
  kCopyRows = 0,   // x: row of the output
  kRmsNorm,        // x: row
  kGated,          // x: row
  kQkv,            // x: row, y: kQkvVectors of its head vectors
  kCopyPages,      // x: copy, y: kv head
  kClearPages,     // x: page, y: one of kClearBlocks
  kGemmSlow,       // x: kRowThreads columns, y: row; for shapes that cuBLASLt refuses
  kAttentionSlow,  // x: row, y: query head; any head size, f32 and bf16
  // Tensor cores, bf16; x: item, the last first; y: kv head. Head sizes up to D, W warps: 16 W
  // packed rows.
  kAttention64x4,
  kAttention64x8,
  kAttention128x4,
  kAttention128x8,
  kAttention256x4,
  // Warpgroups of sm_90a, for wide items and heads of exactly D; x: one of wide_blocks.
  kAttentionHopper64,
  kAttentionHopper128,
  // Clusters of sm_90a, for small steps and heads of exactly D; x: split, y: kv head.
  kAttentionDecode64,
  kAttentionDecode128,
  // Heads: body/heads.h.
  kRowStatsParts,       // x: row, y: part
  kRowStats,            // x: kRowThreads rows
  kGatherLogits,        // x: kRowThreads targets
  kTopCandidatesParts,  // x: listed row, y: part
  kTopCandidatesMerge,  // x: listed row
  kCount,
};

// Those on tensor cores: X(number, D, W).
#define PREFIX_MMA_KERNELS(X) \
  X(kAttention64x4, 64, 4)    \
  X(kAttention64x8, 64, 8)    \
  X(kAttention128x4, 128, 4)  \
  X(kAttention128x8, 128, 8)  \
  X(kAttention256x4, 256, 4)

constexpr bool for_clusters(Kernel kernel) {
  return kernel == Kernel::kAttentionDecode64 || kernel == Kernel::kAttentionDecode128;
}
constexpr bool for_hopper(Kernel kernel) {
  return kernel == Kernel::kAttentionHopper64 || kernel == Kernel::kAttentionHopper128 ||
         for_clusters(kernel);
}

// Element types of activations, weights, keys and values.
enum class Element : int32_t { kBf16 = 0, kF32 = 1 };

constexpr int64_t element_bytes(Element e) { return e == Element::kBf16 ? 2 : 4; }

// Device memory that matrix products have for themselves, from the moment the device is opened.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

// Threads of a block of the row-wise kernels.
inline constexpr int kRowThreads = 128;
inline constexpr int kQkvVectors = kRowThreads / 32;
inline constexpr int kClearBlocks = 32;

// Keys and values of one layer. Inside a page (32 tokens) K and V lie as the tensor cores read them
// from shared memory, so that a page and head is one piece of memory to copy:
//
//   pool + page * page_stride ─> layer ─> head 0: K block, V block   head 1: ...
//
//   a block, bf16: strips of 64 columns, one after the other; d_padded = 160 has a last one of 32
//
//     columns      0..63                  64..127                128..159
//     token  0   [ 8 pieces of 16 B ]   [ 8 pieces of 16 B ]   [ 4 pieces ]
//     token  1   [                  ]   [                  ]   [          ]
//       ...      [     4 KB         ]   [     4 KB         ]   [   2 KB   ]
//     token 31   [                  ]   [                  ]   [          ]
//
//   inside a strip, which begins at a multiple of 1 KB in shared memory, the pieces of each line of
//   128 bytes are swizzled: number ^ (line % 8) in rows of 128 bytes, number ^ (line % 4) in rows
//   of 64. These are the 128-byte and the 64-byte swizzle of wgmma and TMA; eight rows of a piece
//   lie in different banks.
//
//   a block, f32: rows of tokens, [32][d_padded]; no kernel loads them into shared memory
//
// d_padded is a multiple of 32; the padding is zero. A change here is a change of kPageLayout.
struct Pages {
  unsigned char* layer;  // of page 0
  int64_t page_stride;   // bytes
  int64_t block_bytes;   // K (or V) of one page and head
  int32_t kv_heads;
  int32_t head_dim;
  int32_t d_padded;
  Element element;
};

// The element of a K or V block where (token, column) lies.
constexpr int page_at(int token, int column, int d_padded, Element e) {
  if (e == Element::kF32) return token * d_padded + column;
  const int strip = column / 64;
  const int left = d_padded - strip * 64;
  const int pieces = (left < 64 ? left : 64) / 8;  // of a row: 8 or 4
  const int piece = token * pieces + column % 64 / 8;
  return strip * (32 * 64) + (piece ^ (piece / 8 % pieces)) * 8 + column % 8;
}

// Part of what names stored pages: those of another layout are misses.
inline constexpr char kPageLayout[] = "pages of strips of 64 columns, swizzled";

// out[row] = scale * x[rows[row]]: embeddings, selected rows, other types of elements.
struct CopyRowsArgs {
  const void* x;
  const int32_t* rows;  // null: all, one behind the other
  void* out;
  int64_t ld, ld_out, n;
  float scale;
  Element from;
  Element element;  // of out
};

// How a result is written: as an activation, or as f32 over what is there or added to it.
enum class Output : int32_t { kActivation, kF32, kF32Add };
constexpr Element element_of(Output output, Element activation) {
  return output == Output::kActivation ? activation : Element::kF32;
}

struct RmsNormArgs {
  const float* x;
  const float* weight;
  void* out;
  int64_t ld, ld_out, n;
  float eps;
  Output output;
  Element element;  // of activations
};

// both[row]: blocks of 32 gate columns and 32 up columns in turn.
struct GatedArgs {
  const void* both;
  const float* bias_gate;  // or null
  const float* bias_up;
  void* out;
  int64_t ld, ld_out, n;
  ActivationFn fn;
  Element element;
};

struct QkvKernelArgs {
  const void* qkv;      // elements of the pages
  const float* bias;    // or null
  const float* q_norm;  // or null
  const float* k_norm;
  const float* cos;
  const float* sin;
  const int32_t* positions;  // rows of cos and sin
  const int32_t* slots;      // [rows][2]: page (< 0: none), slot in it
  int32_t* not_finite;       // [rows]: 1 where a key or value is not
  void* q;
  int64_t ld, ld_q;
  int32_t heads, rotary_dim;
  float eps;
  int32_t norm_whole_width;
  Pages pages;
};

struct CopyPagesArgs {
  const int32_t* copies;  // [count][3]: from, to, tokens; independent of one another
  Pages pages;
};

struct ClearPagesArgs {
  const int32_t* pages;
  unsigned char* pool;
  int64_t page_bytes;
};

// The plan of a step as the attention kernels read it (attention_schedule.h draws it).
using KvRun = AttentionRun;  // of packed rows; of rows for kAttentionSlow
struct WorkItem {
  int32_t row_begin, rows;     // packed rows
  int32_t run_begin, run_end;  // runs that may have pages for it
  int32_t narrow;              // 0: each warp has 16 rows; 1: all warps share 16, pages in turn
  int32_t partial;             // first row of its partial states; -1: it writes the result
  int32_t group;               // of items that are merged together; -1: none
};
// A wide item as kAttentionHopper reads it, and its pages: tiles of kHopperPages, the last one
// filled up with pages that belong to no row.
struct alignas(16) WideItem {
  int32_t row_begin, rows;       // 0: nothing to do
  int32_t page_begin, page_end;  // in AttentionKernelArgs::wide_pages
  int32_t partial;               // as that of a WorkItem
  int32_t unused[3];
};
struct alignas(16) WidePage {
  int32_t page, block;  // block: position / 32
  int16_t low, high;    // rows of the item that it belongs to
  int32_t masked;       // of a tile's first page: groups some rows of which do not see all, as bits
};
struct ReductionGroup {
  int32_t row_begin, rows;       // packed rows of the result
  int32_t item_begin, item_end;  // in merging order
};

// One layer. No bytes between members, here and below, that chance decides: graphs compare them.
struct AttentionOperands {
  const int32_t* positions;  // of rows
  const void* q;
  void* out;
  int64_t ld_q, ld_out;
  int32_t group_heads;  // query heads per kv head
  float scale_log2;     // scale * log2(e)
  Pages pages;
};
// Where the head of a packed row begins, in q or in the result, whose rows are `ld` apart.
constexpr int64_t head_at(const AttentionOperands& a, int packed, int kv_head, int head_dim,
                          int64_t ld) {
  const int head = kv_head * a.group_heads + packed % a.group_heads;
  return packed / a.group_heads * ld + static_cast<int64_t>(head) * head_dim;
}
struct AttentionKernelArgs : AttentionOperands {
  const WorkItem* items;
  const KvRun* runs;
  const int32_t* pages_list;
  const ReductionGroup* groups;
  float* partial_o;   // [states * kv_heads][d_padded]
  float* partial_ml;  // [states * kv_heads][2]
  int32_t* arrived;   // [groups * kv_heads], zero between launches
  int32_t item_count;
  int32_t wide_done;  // 1: the launch before did the wide items, up to merging
  // kAttentionHopper only: the wide items, those with most pages first.
  const WideItem* wide;
  const WidePage* wide_pages;
  int32_t wide_count;
  int32_t wide_blocks;  // of threads
  // kAttentionSlow only.
  const int32_t* tile_of_row;
  const AttentionTile* tiles;
};

// The plan of a small step as kAttentionDecode reads it (decode_schedule.h draws it).
struct alignas(16) DecodeSplit {  // of a block of packed rows; one access
  int32_t row_begin, rows;        // of the block; 0: nothing to do
  int32_t page_begin, page_end;   // of this split
};
struct alignas(16) DecodePage {
  int32_t page, block;  // block: position / 32
  int16_t low, high;    // rows of the block that it belongs to
  int32_t warps;        // that take it, as bits: of a group of four all, or one, or none
};

struct DecodeKernelArgs : AttentionOperands {
  const DecodeSplit* splits;
  const DecodePage* list;
  int32_t cluster;  // splits of a block of rows, a block of threads each
  int32_t unused;
};

// As many bytes as their members have.
static_assert(sizeof(Pages) == 40 && sizeof(AttentionOperands) == 48 + sizeof(Pages));
static_assert(sizeof(AttentionKernelArgs) == sizeof(AttentionOperands) + 104);
static_assert(sizeof(DecodeKernelArgs) == sizeof(AttentionOperands) + 24);

// y[rows, n] (+)= x[rows, k] w[n, k]^T (+ bias), f32 result, sums in f32.
struct GemmArgs {
  const void* w;      // [n, ld_w]
  const void* x;      // [rows, ld_x]
  const float* bias;  // [n] or null
  void* y;
  int64_t rows, n, k, ld_w, ld_x, ld_y;
  Output output;  // kActivation: without a bias
  Element element;
};

// A row of logits is read in parts, which depend on its length alone:
//
//   x[n] = [ part 0 | part 1 | ... ]     a block each
//              └────────┴─ ... ──> the row, in the order of the parts
inline constexpr int kMaxLogitParts = 16;
constexpr int64_t logit_part(int64_t n) {  // elements of a part
  constexpr int64_t step = 4 * kRowThreads;
  return ((n + kMaxLogitParts - 1) / kMaxLogitParts + step - 1) / step * step;
}
constexpr int logit_parts(int64_t n) {
  return static_cast<int>((n + logit_part(n) - 1) / logit_part(n));
}

struct LogitPart {
  uint64_t key;  // of the largest value (body/heads.h)
  double sum;    // of exp(x - that value)
  int32_t nan;
};

struct RowStatsArgs {  // of kRowStatsParts and kRowStats
  const float* x;
  int64_t ld, n, rows;
  LogitPart* parts;  // [rows][kMaxLogitParts]
  RowStats* out;
};

struct GatherLogitsArgs {
  const float* x;  // row `first`
  int64_t ld;
  const LogitAt* targets;
  int64_t count;
  int32_t first, rows;  // targets of other rows are left alone
  float* out;
};

struct TopCandidatesArgs {  // of kTopCandidatesParts and kTopCandidatesMerge
  const float* x;           // row `first`
  int64_t ld, n;
  const int32_t* listed;
  int32_t first, rows;  // listed rows outside are left alone
  int32_t k, unused;
  uint64_t* keys;  // [listed][logit_parts(n)][k]
  Candidate* out;  // [listed][k]
};

// Shared memory of these kernels. Stats: a key, a sum and a flag a thread. Top: the counts of warps
// for two passes, a count a thread, and for kTopCandidatesMerge a list of k keys and all keys of
// the parts.
constexpr int kStatsSharedBytes = kRowThreads * (8 + 8 + 4);
constexpr int kTopCountsBytes = 2 * kRowThreads / 32 * 4;
constexpr int kTopPartsSharedBytes = kTopCountsBytes + kRowThreads * 4;
constexpr int top_merge_shared_bytes(int parts, int k) {
  return kTopPartsSharedBytes + 8 * (kMaxCandidates + parts * k);
}

// Shared memory of the tensor-core kernels: queries [16 W][D], then a ring of pages, each K [32][D]
// and V [32][D]; all bf16. At most 96 KiB, which every GPU from sm_80 on has.
constexpr int attention_slots(int d) { return d <= 64 ? 8 : d <= 128 ? 4 : 2; }
constexpr int attention_slot_bytes(int d) { return 2 * 32 * d * 2; }
constexpr int attention_query_bytes(int d, int warps) { return 16 * warps * d * 2; }
constexpr int attention_shared_bytes(int d, int warps) {
  return attention_query_bytes(d, warps) + attention_slots(d) * attention_slot_bytes(d);
}

// The Hopper kernels: two groups of 64 packed rows and a producer, 128 threads each; queries, two
// stages of four pages (K, V), what the pages of four tiles are, barriers.
inline constexpr int kHopperGroups = 2;
inline constexpr int kHopperRows = 64;  // of a group
inline constexpr int kHopperPages = 4;
inline constexpr int kHopperStages = 2;
inline constexpr int kHopperBarriers = 4 * kHopperStages;
inline constexpr int kHopperThreads = 128 * (kHopperGroups + 1);
constexpr int hopper_shared_bytes(int d) {
  return kHopperGroups * kHopperRows * d * 2 +
         kHopperStages * kHopperPages * attention_slot_bytes(d) + 4 * kHopperPages * 16 +
         kHopperBarriers * 8;
}

// The kernels of small steps: eight warps that multiply and one that brings pages; a ring of pages,
// what each of them is, barriers.
inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeThreads = 32 * (kDecodeWarps + 1);
inline constexpr int kDecodeRows = 16 * kDecodeWarps;  // packed rows of a block, at most
inline constexpr int kDecodeGroupRows = 64;            // of four warps that multiply together
// Warp w has row tile w % tiles, of 16 rows. Four and eight are whole groups, of which one has the
// rows of the other where 64 are enough. With fewer every warp multiplies alone: four or eight
// pages at the same time take less than two of whole groups (12.5 us against 14.1 for two tiles on
// an H100, docs/cuda.md).
constexpr int decode_tiles(int rows) {
  return rows <= 16 ? 1 : rows <= 32 ? 2 : rows <= kDecodeGroupRows ? 4 : 8;
}
constexpr int decode_group(int group) { return 0xf << 4 * group; }  // as bits of warps
inline constexpr int kDecodeSlots = 12;
inline constexpr int kDecodeBarriers = 2 * kDecodeSlots;
inline constexpr int kMaxCluster = 8;  // blocks; every GPU with clusters takes so many
constexpr int decode_shared_bytes(int d) {
  return kDecodeSlots * (attention_slot_bytes(d) + 16) + kDecodeBarriers * 8;
}

// Threads and shared memory of a block. The kernels of heads have shared memory by their arguments.
struct BlockShape {
  int threads, shared_bytes;
};
constexpr BlockShape block_shape(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttentionSlow:
      return {32, 0};
#define PREFIX_CASE(number, D, W) \
  case Kernel::number:            \
    return {32 * W, attention_shared_bytes(D, W)};
      PREFIX_MMA_KERNELS(PREFIX_CASE)
#undef PREFIX_CASE
    case Kernel::kAttentionHopper64:
      return {kHopperThreads, hopper_shared_bytes(64)};
    case Kernel::kAttentionHopper128:
      return {kHopperThreads, hopper_shared_bytes(128)};
    case Kernel::kAttentionDecode64:
      return {kDecodeThreads, decode_shared_bytes(64)};
    case Kernel::kAttentionDecode128:
      return {kDecodeThreads, decode_shared_bytes(128)};
    default:
      return {kRowThreads, 0};
  }
}

}  // namespace prefix::ops::gpu
