// The memory of a step's activations, of one model on one device.
//
//   x         [rows, hidden]       f32: the residual
//   a         [rows, hidden]       activations: the normed input of a block
//   q         [rows, heads x d]    activations: rotated queries
//   mixed     [rows, heads x d]    activations: what attention gives, or a recurrence
//   inner     [narrow, intermediate]  activations: what the feed-forward block brings down
//   c         [rows, hidden]       f32: the result of a projection; or
//             [narrow, q, k, v, gate]  as Device::project() writes them, with qkv_ld; or
//             [rows, projection]   f32: of a recurrent layer, with recurrent_ld. Its convolved
//                                  columns are free for the result of the scan after that; or
//             [narrow, intermediate] f32: of a feed-forward block without a gate, with up_ld
//             [rows, experts]      f32: scores of a router, with router_ld
//   conv      [rows, channels]     f32: of a recurrent layer, convolved
//
// narrow: rows in the longest step without blocks (ActivationRows).
// Steps with blocks have c, a and inner of a block on each thread.
//
// Of models with routed experts, a slot for each expert that a row uses (ops/experts.h):
//   expert_in     [slots, hidden]  activations
//   expert_inner  [slots, their intermediate]  activations
//   expert_out    [slots, hidden]  f32, with x_ld
//
// Of a step with adapters, x A^T (ops/low_rank.h):
//   thin_sums     [rows, widest]   f32
//   thin          [rows, widest]   activations
//
// Heads run when the layers are done, so the selected rows lie in c and, normed, in a.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config/config.h"
#include "ops/buffers.h"
#include "ops/op.h"

namespace prefix {

class ActivationBuffers {
 public:
  explicit ActivationBuffers(ops::Device& device)
      : logits(device),
        answers(device),
        fetched(device),
        thin_sums_(device),
        thin_(device),
        device_(device) {}
  ~ActivationBuffers() { drop(); }
  ActivationBuffers(const ActivationBuffers&) = delete;
  ActivationBuffers& operator=(const ActivationBuffers&) = delete;

  // Grows to so many rows; what was there is gone. Throws kOutOfMemory, kOutOfDeviceMemory, and
  // then no row fits any more.
  void ensure_rows(int64_t rows, const ModelConfig& config);
  int64_t rows() const { return rows_; }
  // The same of those that pieces of layers need for a block of a step's
  // rows (row_pieces.h): a, c, inner.
  void ensure_block(int64_t step_rows, const ModelConfig& config);
  // x, q and mixed are those of `whole` from row `first` on.
  void begin_at(const ActivationBuffers& whole, int64_t first);
  // Memory for products of so many columns with thin matrices, for as many rows as there are.
  void ensure_thin(int64_t columns);
  // Of everything here.
  int64_t bytes() const {
    return bytes_ + static_cast<int64_t>(logits.bytes() + answers.bytes() + thin_sums_.bytes() +
                                         thin_.bytes());
  }

  float* selected() const { return c; }  // [selected rows, hidden]
  ops::ActivationBuffer normed() const { return a; }

  float* x = nullptr;
  float* c = nullptr;
  float* conv = nullptr;
  float* expert_out = nullptr;
  int64_t x_ld = 0, c_ld = 0, qkv_ld = 0, recurrent_ld = 0, conv_ld = 0, up_ld = 0, router_ld = 0;
  ops::ActivationBuffer a, q, mixed, inner, expert_in, expert_inner;
  ops::Device::LowRankArgs adapted;  // rows: of the matrix that is being multiplied
  std::vector<ops::LowRankRows> adapted_rows;
  ops::ExpertSlots slots;     // of the layer that is being computed
  ops::DeviceBuffer logits;   // of a block of selected rows
  ops::DeviceBuffer answers;  // what heads read of them
  ops::HostBuffer fetched;    // results of a head, where the device's memory is not the host's

 private:
  // One piece of device memory.
  struct Piece {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  void drop();
  std::byte* add(size_t bytes);

  ops::DeviceBuffer thin_sums_, thin_;
  ops::Device& device_;
  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
  int64_t rows_ = 0;
};

}  // namespace prefix
