// The inputs of a model's matrices, by which compute=int8 rounds their weights
// (ops/cpu/calibrated_rounding.h).
//
//   files ── load, rounded to the nearest ──> Model ── 16 tokens ──> the rows that each matrix meets
//     │                                                                            │
//     └───── load of the engine, or into a packed model <──────── Calibration ─────┘
//
// The tokens are spread over the vocabulary, more of them where it begins, as frequent ones do,
// and mean nothing: what inputs have in common is what all tokens share. All of it is computed
// as with kv=int8 in bf16, so the bits are the same at every level, with any number of threads
// and either dtype.
#pragma once

#include "model/model.h"
#include "ops/devices.h"

namespace prefix {

// Empty where the load rounds no matrix, because options.types has none in whole numbers or the
// files have them so already. In memory meanwhile: the model with these matrices in whole numbers
// and the others in bf16. Throws as Model does.
Calibration calibrate(const ModelFiles& files, const ops::DeviceOptions& options,
                      const Model::Progress& progress);

}  // namespace prefix
