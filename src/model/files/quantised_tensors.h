// Makes one tensor of the parts that a file has of each quantised weight (quantised_matrix.h).
//
//   method              parts of NAME.weight, beside NAME
//   compressed-tensors  weight_packed I32 or weight I8, F8_E4M3; weight_scale, weight_zero_point,
//                       weight_shape, weight_g_idx
//   awq                 qweight, qzeros I32, scales
//   gptq                qweight, qzeros I32, scales, g_idx
//   fp8                 weight F8_E4M3, weight_scale_inv or weight_scale
//   mxfp4               of a tensor NAME: NAME_blocks, NAME_scales U8
//
// Scales of activations, keys and values are dropped: these are not quantised here.
#pragma once

#include <functional>
#include <string_view>

#include "model/config/quantization_config.h"
#include "model/files/tensor_file.h"

namespace prefix {

// Throws kFormat naming a part that is missing or has the wrong shape, kUnsupportedModel for a
// type. Tensors that are weights with scales only and have none stay (require_numbers), and so does
// every part of those that are left out, by their names: nothing reads them.
void assemble_quantised(const QuantConfig& config, TensorSource& source,
                        const std::function<bool(std::string_view)>& is_left_out = {});

}  // namespace prefix
