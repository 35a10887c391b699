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
      {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"Q8_0", 32, 34},
      {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},
      {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
  };
  return kTypes[static_cast<size_t>(type)];
}

}  // namespace

std::string_view tensor_type_name(TensorType type) { return info(type).name; }
int64_t block_values(TensorType type) { return info(type).values; }
int64_t block_bytes(TensorType type) { return info(type).bytes; }

}  // namespace prefix::ops
