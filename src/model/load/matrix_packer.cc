#include "model/load/matrix_packer.h"

#include <algorithm>
#include <array>

#include "base/quote.h"
#include "base/status.h"
#include "model/load/packed_model.h"

namespace prefix {
namespace {

// Rows as weights=packed keeps them.
class KeptRows final : public ops::WeightSource {
 public:
  explicit KeptRows(const TensorMatrix& rows) : rows_(rows) {}
  ops::TensorType type(int64_t row) const override { return rows_.kept_type(row); }
  void read(int64_t row, std::byte* out) const override { rows_.read_kept(row, out); }

 private:
  const TensorMatrix& rows_;
};

// PackedWeights::terms
int terms(ops::MatrixKind kind, ops::WeightFormat format) {
  return kind == ops::MatrixKind::kHead && ops::is_whole(format) ? 2 : 1;
}

}  // namespace

MatrixPacker::MatrixPacker(const ModelFiles& files, ops::Device* device,
                           const ops::NumericTypes& types, const LoadExtras& extras)
    : packed_(PackedModel::of(*files.tensors)), device_(device), types_(types), extras_(extras) {
  if (packed_) packed_->check(types_);
}

ops::WeightFormat MatrixPacker::format(ops::MatrixKind kind, int64_t k) const {
  const ops::WeightFormat format = types_.format(kind);
  if (format == ops::WeightFormat::kInt8 && k > ops::kMaxInt8K)
    fail(Code::kUnsupportedModel, "a matrix of this model adds ", k,
         " products to each number; compute=int8 is limited to ", ops::kMaxInt8K);
  return format;
}

ops::PackedWeights MatrixPacker::pack(const ops::PackedWeights& shape, int64_t n,
                                      std::span<const ops::WeightSource* const> sources,
                                      const ops::CalibrationRows* calibration) {
  if (!device_) return shape;
  return device_->pack_sources(shape.format, n, shape.k, sources, calibration);
}

ops::PackedWeights MatrixPacker::make(ops::MatrixKind kind, const std::string& place,
                                      const ops::PackedWeights& shape, int64_t n,
                                      std::span<const TensorMatrix* const> matrices) {
  const std::vector<const ops::WeightSource*> sources(matrices.begin(), matrices.end());
  if (shape.format != ops::WeightFormat::kInt8) return pack(shape, n, sources);
  std::vector<const Tensor*> tensors;
  for (const TensorMatrix* matrix : matrices)
    for (const Tensor* tensor : matrix->tensors()) tensors.push_back(tensor);
  const std::string name = packed_matrix_name(place, kind);
  const bool loaded =
      std::ranges::any_of(tensors, [](const Tensor* tensor) { return PackedModel::has(*tensor); });
  ops::PackedWeights packed = shape;
  if (loaded) {
    packed = packed_->load(name, shape, device_);
    loaded_.insert(name);
  } else {
    const ops::CalibrationRows* rows = nullptr;
    if (extras_.calibration)
      if (const auto found = extras_.calibration->find(name); found != extras_.calibration->end())
        rows = &found->second;
    packed = pack(shape, n, sources, rows);
  }
  try {
    if (extras_.observer) extras_.observer->matrix(name, packed, tensors);
  } catch (...) {
    if (packed.data) device_->release(const_cast<std::byte*>(packed.data), packed.bytes());
    throw;
  }
  return packed;
}

ops::PackedWeights MatrixPacker::in_blocks(std::span<const ops::WeightSource* const> sources,
                                           int64_t n, int64_t k) {
  if (!types_.blocks) return {};
  return ops::PackedWeights::of_blocks(sources, n, k);
}

ops::PackedWeights MatrixPacker::plain(ops::MatrixKind kind, const std::string& place, int64_t n,
                                       int64_t k, const TensorMatrix& rows) {
  const KeptRows kept(rows);
  const std::array<const ops::WeightSource*, 1> in_file = {&kept};
  ops::PackedWeights packed = in_blocks(in_file, n, k);
  if (packed.blocks)
    packed = pack(packed, n, in_file);
  else
    packed = make(kind, place, ops::PackedWeights::of_shape(format(kind, k), n, k), n,
                  std::array{&rows});
  packed.terms = terms(kind, packed.format);
  return packed;
}

ops::PackedWeights MatrixPacker::gated(ops::MatrixKind kind, const std::string& place, int64_t n,
                                       int64_t k, const TensorMatrix& gate,
                                       const TensorMatrix& up) {
  const KeptRows kept_gate(gate), kept_up(up);
  const std::array<const ops::WeightSource*, 2> in_file = {&kept_gate, &kept_up};
  if (const ops::PackedWeights shape = in_blocks(in_file, n, k); shape.blocks)
    return pack(shape, n, in_file);
  return make(kind, place, ops::PackedWeights::of_gated_shape(format(kind, k), n, k), n,
              std::array{&gate, &up});
}

ops::PackedWeights MatrixPacker::never_int8(int64_t n, int64_t k, const TensorMatrix& rows) {
  if (!device_) return ops::PackedWeights::of_shape(types_.weights, n, k);
  return device_->pack(types_.weights, n, k, rows);
}

void MatrixPacker::check_all_loaded() const {
  if (!packed_) return;
  for (const std::string& name : packed_->names())
    if (!loaded_.contains(name))
      fail(Code::kFormat, "tensor ", quote(panels_name(name)),
           " is not part of this architecture with this configuration");
}

}  // namespace prefix
