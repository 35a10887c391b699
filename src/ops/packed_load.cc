#include "ops/packed_load.h"

#include <algorithm>

#include "base/status.h"
#include "ops/rotation.h"

namespace prefix::ops {

PackedWeights load_packed(Device& device, const PackedWeights& shape, const PackedSource& from) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  PREFIX_CHECK(shape.format == WeightFormat::kInt8 && device.host_memory());
  std::byte* const data = device.allocate(shape.bytes());
  try {
    const size_t bytes = static_cast<size_t>(shape.panels()) * shape.panel_bytes();
    float* const scales = reinterpret_cast<float*>(data + bytes);
    float* const signs = scales + shape.scale_count();
    from.read_scales(scales);
    fill_rotation_signs(shape.k, signs);
    const size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
    device.parallel(static_cast<int64_t>(pieces), [&](int64_t piece) {
      const size_t at = static_cast<size_t>(piece) * kPieceBytes;
      from.read_panels(at, std::min(kPieceBytes, bytes - at), data + at);
    });
    PackedWeights loaded = shape;
    loaded.data = data;
    loaded.scales = scales;
    loaded.signs = signs;
    return loaded;
  } catch (...) {
    device.release(data, shape.bytes());
    throw;
  }
}

}  // namespace prefix::ops
