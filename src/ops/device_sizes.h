// What is known of a device without one: how its buffers lie, and what memory it takes for itself.
// Engines are sized by it before they are made, and a Device lays out its buffers by the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/kv_layout.h"
#include "ops/weights.h"

namespace prefix::ops {

// What a device multiplies activations in; an activation buffer has elements of it.
enum class ComputeType : int32_t { kBf16 = 0, kF32 = 1 };

constexpr size_t compute_bytes(ComputeType type) { return type == ComputeType::kBf16 ? 2 : 4; }

// The matrices of a model, by what they are for.
enum class MatrixKind : uint32_t {
  kHead,      // the output head and the embedding, which are one matrix in many models
  kMixerIn,   // queries, keys and values; what goes into a recurrent layer
  kMixerOut,  // back from attention or recurrence
  kGateUp,    // into the feed-forward layer, or into its experts
  kDown,      // back from it
};
constexpr uint32_t int8_bit(MatrixKind kind) { return 1u << static_cast<uint32_t>(kind); }
inline constexpr uint32_t kInt8All = 31;

// What an engine keeps, of each kind of number a type. What it computes in follows from them and
// from the device: a CPU without bf16 units multiplies bf16 weights by f32 activations.
struct NumericTypes {
  WeightFormat weights = WeightFormat::kBf16;
  KvType kv = KvType::kBf16;
  uint32_t int8 = 0;    // matrices in int8 instead, and products with them: bits of int8_bit()
  bool blocks = false;  // matrices stay in the blocks of their file where kernels multiply those

  constexpr WeightFormat format(MatrixKind kind) const {
    return (int8 & int8_bit(kind)) != 0 ? WeightFormat::kInt8 : weights;
  }
};
// The values of option dtype.
inline constexpr NumericTypes kBf16Types = {WeightFormat::kBf16, KvType::kBf16};
inline constexpr NumericTypes kF32Types = {WeightFormat::kF32, KvType::kF32};

// Single logits that heads read at once of the rows of a step, for each row that it may have.
inline constexpr int64_t kTargetsOfARow = 8;

// States of recurrent layers that a step is taken to have at a time for segments still to come
// (scan_plan.h): one for each of so many prefixes that continue one another. Requests that nest
// deeper make it have more.
inline constexpr int64_t kNestedStates = 8;

// Device::tile_rows() of devices that have no number of their own.
inline constexpr int32_t kAttentionTileRows = 96;

// The recurrent layers of a model, as steps compute them (step.h).
struct RecurrentShape {
  int64_t channels = 0;            // of the convolution; 0: there are no such layers
  int64_t width = 0;               // its taps
  int64_t heads = 0;               // that have a state; 0: there is the convolution alone
  int64_t lines = 0, columns = 0;  // of the state of one
  int64_t gates = 0;               // numbers of a row besides
  int64_t state_pages = 0;         // of a stored state
};

// The largest step that a model on a device will run.
struct ReserveShape {
  int64_t rows = 0;
  int64_t block = 0;  // of them in the longest block (RowBlock); 0: no step has blocks
  int32_t heads = 0;
  int64_t inner = 0;          // columns of linear_gated
  int64_t widest = 0;         // numbers of a row that one product reads
  int64_t hidden = 0;         // numbers of a row that a head reads
  int64_t experts = 0;        // of a row; 0: there are none
  int64_t expert_widest = 0;  // numbers that a product of one of them reads
  RecurrentShape recurrent;
  int64_t pages = 0;       // of the pool, at most
  int64_t positions = 0;   // of the longest sequence
  int64_t logit_rows = 0;  // rows of logits that are held at a time
  KvLayout kv;
};

class DeviceSizes {
 public:
  virtual ~DeviceSizes() = default;
  virtual ComputeType compute_type() const = 0;
  size_t act_bytes() const { return compute_bytes(compute_type()); }
  // Bytes of an element that Device::project() writes: of f32, or of activations.
  virtual size_t projection_bytes() const = 0;
  // Leading dimensions for buffers of `columns` of activations, of f32: where rows do not alias in
  // a cache of the CPU, or begin with whole lines on a GPU.
  virtual int64_t act_ld(int64_t columns) const = 0;
  virtual int64_t f32_ld(int64_t columns) const = 0;
  // Whether the device's memory is the host's.
  virtual bool host_memory() const = 0;
  // Bytes for engines: what is available of the host's, all of a GPU's.
  virtual int64_t usable_bytes() const = 0;
  // Rows of a step in blocks: what an operation leaves of a block is still in the fastest memory of
  // its thread when the next one reads it (Device::over_blocks). How many rows a block of so many
  // has at most; 0: so few that they are computed operation by operation.
  virtual int64_t block_rows(int64_t /*rows*/) const { return 0; }
  // Of steps of up to so many rows: the longest without blocks, and the longest block.
  virtual int64_t max_rows_without_blocks(int64_t rows) const { return rows; }
  virtual int64_t longest_block(int64_t /*rows*/) const { return 0; }
  virtual int32_t workers() const { return 1; }  // that take blocks at the same time
  // Bytes that the device takes when it is made, and for steps up to this shape.
  virtual size_t own_bytes() const = 0;
  virtual size_t workspace_bytes(const ReserveShape& shape) const = 0;
};

}  // namespace prefix::ops
