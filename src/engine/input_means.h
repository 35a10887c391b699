// What the inputs of a model's matrices are on average, by which compute=int8 rounds its weights
// (ops/cpu/shaped_rounding.h).
//
//   files ── load, rounded to the nearest ──> Model ── 64 tokens ──> sum of the rows of each matrix
//     │                                                                            │
//     └───── load of the engine, or into a packed model <──────── InputMeans ──────┘
//
// The tokens are spread evenly over the vocabulary, and mean nothing: what inputs have in common are the
// few large channels that all tokens share. All of it is computed as with kv=int8, and sums are of whole numbers,
// so the bits are the same at every level and with any number of threads.
#pragma once

#include "model/model.h"
#include "ops/devices.h"

namespace prefix {

// Empty where no matrix would be rounded, by options.types, or none of it is not in whole numbers
// already. In memory meanwhile: the model as options.types has it. Throws as Model does.
InputMeans input_means(const ModelFiles& files, const ops::DeviceOptions& options,
                       const Model::Progress& progress);

}  // namespace prefix
