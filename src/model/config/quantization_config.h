// What config.json says of quantised weights: "quantization_config".
//
// Which modules are quantised follows from the tensors that a file has of them; the lists of
// modules that are not must not contradict it. What a method can say that is not read here is
// refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace prefix {

enum class QuantMethod : uint8_t { kNone, kCompressedTensors, kAwq, kGptq, kFp8, kMxfp4 };

// How weights of a module were quantised.
struct QuantScheme {
  enum class Scales : uint8_t { kTensor, kRow, kGroup, kBlock };

  int bits = 8;
  bool is_float = false;  // F8_E4M3, or with 4 bits E2M1
  bool has_zeros = false;
  Scales scales = Scales::kRow;
  int64_t group = 0;       // columns of a group
  int64_t block_rows = 0;  // of a block
  int64_t block_columns = 0;
};

struct QuantConfig {
  QuantMethod method = QuantMethod::kNone;
  std::vector<QuantScheme> schemes;  // one of them fits a module; empty: FP8 says it by its shapes
  bool zeros_less_one = false;       // GPTQ: a zero point is stored as one less
  std::vector<std::string> plain;    // modules that are not quantised, and those inside them
};

struct QuantLimits {
  static constexpr int64_t kGroup = 1 << 20;
  static constexpr size_t kModules = 100000;
};

// "quantization_config" of a configuration, or its older name "compression_config". Throws
// kUnsupportedModel and kFormat.
QuantConfig quant_config_from_json(const Json& config);

// As in config.json: "gptq"; empty for kNone.
std::string_view quant_method_name(QuantMethod method);

}  // namespace prefix
