// Writes a packed model (packed_model.h):
//
//   shapes of the model  ──>  OUT.part-..., with the begin of its file
//   load_weights()       ──>  one matrix after the other: only one of them is in memory
//   then                      the tensors of no matrix, the other files of the directory, its name
#pragma once

#include <functional>
#include <string>

#include "model/files/model_files.h"
#include "model/model.h"
#include "ops/op.h"

namespace prefix {

// A directory `path`, or for a model that is a GGUF file such a file. The device packs; its types
// say which matrices; `calibrate` is called once, in front of `progress`, when nothing of the
// following is known to be in the way. Throws kInvalidArgument when there is something at the path,
// when there are no matrices to pack and when they are packed already; kUnsupportedModel for
// numbers that are not finite, kIo, and as load_weights() does. Nothing is left at the path
// when it throws.
void write_packed(const ModelSource& source, const ModelFiles& files, ops::Device& device,
                  const std::string& path, const std::function<Calibration()>& calibrate,
                  const Model::Progress& progress);

}  // namespace prefix
