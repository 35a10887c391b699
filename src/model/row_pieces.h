// What layers do to each row alone, between what they do to all rows together.
//
//             layer 0                                    layer 1
//   norm, q k v ┃ attention ┃ out, norm, feed forward, norm, q k v ┃ attention ┃ out, ...
//   ─ pieces ─                ────────────── pieces ──────────────
//
// The pieces between two attentions go over the rows block by block (ops/op.h): a thread takes a
// block through all of them, so what one leaves for the next is still in its fastest memory, and
// threads wait for each other only where rows meet. What is too wide for that memory, q k v, is
// projected in slices (blocks/attention.cc). Bits do not depend on it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "model/blocks/block.h"

namespace prefix {

// What each thread that takes blocks has of its own.
struct BlockWorker {
  std::unique_ptr<ActivationBuffers> buffers;
  ModelTimes times;
};

class RowPieces {
 public:
  using Piece = void (*)(const Pass&, const LayerSpec&, const LayerWeights&);

  // `pass`: over all rows.
  RowPieces(Pass& pass, const std::vector<LayerSpec>& layers,
            const std::vector<LayerWeights>& weights, std::vector<BlockWorker>& workers)
      : pass_(pass), layers_(layers), weights_(weights), workers_(workers) {}

  void add(size_t layer, Piece piece) { pieces_.push_back({layer, piece}); }
  // All that were added since the last run.
  void run();

 private:
  struct OfLayer {
    size_t layer;
    Piece piece;
  };
  void run_in(Pass pass) const;
  void run_blocks();

  Pass& pass_;
  const std::vector<LayerSpec>& layers_;
  const std::vector<LayerWeights>& weights_;
  std::vector<BlockWorker>& workers_;
  std::vector<OfLayer> pieces_;
};

}  // namespace prefix
