// What a product reads, in memory of the device for as long as these live.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ops/op_cpu.h"

namespace prefix::ops::testing {

// Rows of k numbers as activations.
struct Activations {
  CpuDevice& device;
  ActivationBuffer act;
  size_t bytes;

  Activations(CpuDevice& d, const std::vector<float>& values, int64_t rows, int64_t k) : device(d) {
    act.ld = d.act_ld(k);
    bytes = static_cast<size_t>(rows * act.ld) * d.act_bytes();
    act.data = d.allocate(bytes);
    d.convert(values.data(), k, rows, k, act);
  }
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;
  ~Activations() { device.release(act.data, bytes); }
};

// A matrix that the device has packed.
struct Matrix {
  Device& device;
  PackedWeights w;

  Matrix(Device& d, PackedWeights packed) : device(d), w(std::move(packed)) {}
  // As a rule in the blocks of its file.
  Matrix(Device& d, const WeightSource& rows, int64_t n, int64_t k,
         WeightFormat format = WeightFormat::kBlocks)
      : Matrix(d, d.pack(format, n, k, rows)) {}
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { device.release(const_cast<std::byte*>(w.data), w.bytes()); }
};

}  // namespace prefix::ops::testing
