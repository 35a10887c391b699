#include "ops/tensor_type.h"

#include <cstddef>

namespace prefix::ops {
namespace {

struct TypeInfo {
  std::string_view name;
  int64_t values;
  int64_t bytes;
};

const TypeInfo& info(TensorType type) {
  static constexpr TypeInfo kTypes[] = {
      {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"Q8_0", 32, 34},
      {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
      {"Q2_K", 256, 84},  {"Q3_K", 256, 110}, {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
      {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17},
      {"I8", 1, 1},       {"U8", 1, 1},       {"I32", 1, 4},        {"I64", 1, 8},
      {"F8_E4M3", 1, 1},  {"F8_E8M0", 1, 1},  {"", 1, 1},
  };
  return kTypes[static_cast<size_t>(type)];
}

}  // namespace

bool needs_scales(TensorType type) { return type >= TensorType::kI8; }
std::string_view tensor_type_name(TensorType type) { return info(type).name; }
int64_t block_values(TensorType type) { return info(type).values; }
int64_t block_bytes(TensorType type) { return info(type).bytes; }

}  // namespace prefix::ops
