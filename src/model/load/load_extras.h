// What a load of weights may have beside files and a device.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/calibration_rows.h"
#include "ops/weights.h"

namespace prefix {

struct Tensor;

// Sees what a load makes of the tensors.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  // An int8 matrix, by the name of packed_matrix_name(), and what it is made of. It has data when
  // there is a device; an observer that takes it leaves null.
  virtual void matrix(const std::string& name, ops::PackedWeights& packed,
                      const std::vector<const Tensor*>& tensors) = 0;
  // Once, at the end: the tensors of the architecture.
  virtual void used(const std::set<std::string>& tensors) = 0;
};

// Inputs of matrices (Device::pack_sources()), by the names of packed_matrix_name();
// of some there are none.
using Calibration = std::map<std::string, ops::CalibrationRows, std::less<>>;

struct LoadExtras {
  LoadObserver* observer = nullptr;
  const Calibration* calibration = nullptr;  // for matrices that the load rounds itself
};

}  // namespace prefix
