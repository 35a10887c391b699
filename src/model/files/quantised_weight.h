// One quantised weight: from its parts in a file to what its rows are made of, method by method.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config/quantization_config.h"
#include "model/files/quantised_matrix.h"
#include "model/files/tensor_file.h"

namespace prefix {

// The parts of a weight by the ends of their names, and checks of them. Throws kFormat naming the
// tensor that is missing or has the wrong shape, kUnsupportedModel naming one of another type.
class WeightParts {
 public:
  // stem: what the names of the parts begin with. All of them are in `source`.
  WeightParts(std::string stem, const TensorSource& source)
      : stem_(std::move(stem)), source_(source) {}

  std::string name(std::string_view part) const { return stem_ + std::string(part); }
  const Tensor* find(std::string_view part) const { return source_.find(name(part)); }
  const Tensor& at(std::string_view part) const;
  // Of that type and that many dimensions.
  const Tensor& at(std::string_view part, TensorType type, size_t dimensions) const;

  static void check_type(const Tensor& t, std::initializer_list<TensorType> types);
  static void check_float(const Tensor& t);
  static void check_dimensions(const Tensor& t, size_t dimensions);
  static void check_shape(const Tensor& t, const std::vector<int64_t>& shape);

 private:
  std::string stem_;
  const TensorSource& source_;
};

struct QuantisedWeight {
  QuantisedMatrix::Parts parts;
  std::vector<int64_t> shape;
};

// Reads headers, and the shape of a compressed-tensors weight, which lies in a tensor.
QuantisedWeight quantised_weight(const QuantConfig& config, const WeightParts& parts);

}  // namespace prefix
