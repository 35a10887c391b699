#include "ops/onednn_gemm.h"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

// oneDNN runs on OpenMP; only its thread count is wanted here, not a compiler with OpenMP.
extern "C" void omp_set_num_threads(int count);

namespace prefix::ops {

using dnnl::memory;

struct OnednnGemm::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul::primitive_desc description;
  dnnl::matmul matmul;
  memory x, w, y;
  int64_t m = 0, n = 0;
};

OnednnGemm::OnednnGemm(WeightFormat format, int64_t m, int64_t n, int64_t k,
                       const std::vector<float>& x, const std::vector<float>& w)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  const auto number =
      format == WeightFormat::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const auto f32 = memory::data_type::f32;
  using Tag = memory::format_tag;
  const memory::desc x_desc({m, k}, number, Tag::ab);
  const memory::desc y_desc({m, n}, f32, Tag::ab);
  const memory::desc w_any({k, n}, number, Tag::any);
  s.description = dnnl::matmul::primitive_desc(dnnl::matmul::desc(x_desc, w_any, y_desc), s.engine);
  s.matmul = dnnl::matmul(s.description);
  s.m = m;
  s.n = n;
  s.y = memory(y_desc, s.engine);

  // Both operands are converted (and w packed) by oneDNN's own reorder.
  const auto load = [&](const std::vector<float>& values, memory::dims dims, Tag tag,
                        const memory::desc& wanted) {
    memory from({dims, f32, tag}, s.engine);
    std::memcpy(from.get_data_handle(), values.data(), values.size() * sizeof(float));
    memory to(wanted, s.engine);
    dnnl::reorder(from, to).execute(s.stream, from, to);
    s.stream.wait();
    return to;
  };
  s.x = load(x, {m, k}, Tag::ab, x_desc);
  s.w = load(w, {k, n}, Tag::ba, s.description.weights_desc());
}

OnednnGemm::~OnednnGemm() = default;

void OnednnGemm::run(int threads) {
  omp_set_num_threads(threads);
  State& s = *state_;
  s.matmul.execute(s.stream, {{DNNL_ARG_SRC, s.x}, {DNNL_ARG_WEIGHTS, s.w}, {DNNL_ARG_DST, s.y}});
  s.stream.wait();
}

std::vector<float> OnednnGemm::result() const {
  std::vector<float> y(static_cast<size_t>(state_->m * state_->n));
  std::memcpy(y.data(), state_->y.get_data_handle(), y.size() * sizeof(float));
  return y;
}

std::string OnednnGemm::implementation() const { return state_->description.impl_info_str(); }

}  // namespace prefix::ops
