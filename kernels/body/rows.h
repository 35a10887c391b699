// The row-wise kernels: one block of kRowThreads per row (qkv: several; copies: per copy and head).
// Each twin of a CPU operation has the same contract (src/ops/op.h).
#pragma once

#include "body/portable.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

PREFIX_BODY float load_element(const void* from, int64_t i, Element e) {
  return e == Element::kBf16 ? from_bf16(static_cast<const uint16_t*>(from)[i])
                             : static_cast<const float*>(from)[i];
}
PREFIX_BODY void store_element(void* to, int64_t i, Element e, float x) {
  if (e == Element::kBf16) {
    static_cast<uint16_t*>(to)[i] = to_bf16(x);
  } else {
    static_cast<float*>(to)[i] = x;
  }
}

// Rows are read and written by fours of columns, in one access each where all of them are `whole`.
// Which thread has which columns, and so what it sums, does not depend on that.
PREFIX_BODY bool whole_fours(const void* row, int64_t n, Element e) {
  return n % 4 == 0 && is_aligned(row, 4 * element_bytes(e));
}
PREFIX_BODY Floats4 load_four(const void* row, int64_t i, int64_t n, Element e, bool whole) {
  Floats4 v{{0, 0, 0, 0}};
  if (!whole) {
    PREFIX_UNROLL
    for (int j = 0; j < 4; ++j)
      if (i + j < n) v.x[j] = load_element(row, i + j, e);
  } else if (e == Element::kF32) {
    v = load_whole<Floats4>(static_cast<const float*>(row) + i);
  } else {
    const auto bits = load_whole<Bits64>(static_cast<const uint16_t*>(row) + i);
    PREFIX_UNROLL
    for (int j = 0; j < 4; ++j)
      v.x[j] = from_bf16(static_cast<uint16_t>(bits.x[j / 2] >> (j % 2 * 16)));
  }
  return v;
}
PREFIX_BODY void store_four(void* row, int64_t i, int64_t n, Element e, bool whole, Floats4 v) {
  if (!whole) {
    PREFIX_UNROLL
    for (int j = 0; j < 4; ++j)
      if (i + j < n) store_element(row, i + j, e, v.x[j]);
  } else if (e == Element::kF32) {
    store_whole(static_cast<float*>(row) + i, v);
  } else {
    store_whole(static_cast<uint16_t*>(row) + i,
                Bits64{{pack_bf16(v.x[0], v.x[1]), pack_bf16(v.x[2], v.x[3])}});
  }
}
PREFIX_BODY void* element_at(void* data, int64_t i, Element e) {
  return static_cast<unsigned char*>(data) + i * element_bytes(e);
}
PREFIX_BODY const void* element_at(const void* data, int64_t i, Element e) {
  return static_cast<const unsigned char*>(data) + i * element_bytes(e);
}

// to[i] = f(from[i]) for a row of n; they may be the same.
template <class Block, class F>
PREFIX_BODY void map_row(Block& block, const void* from, Element e_from, void* to, Element e_to,
                         int64_t n, const F& f) {
  const bool whole = whole_fours(from, n, e_from) && whole_fours(to, n, e_to);
  block.each([&](int t) {
    for (int64_t i = 4 * t; i < n; i += 4 * kRowThreads) {
      Floats4 v = load_four(from, i, n, e_from, whole);
      PREFIX_UNROLL
      for (int j = 0; j < 4; ++j) v.x[j] = f(v.x[j]);
      store_four(to, i, n, e_to, whole, v);
    }
  });
}

template <class Block>
PREFIX_BODY void embed(Block& block, const EmbedArgs& a) {
  const int64_t row = block.x();
  const void* const from =
      element_at(a.weights, static_cast<int64_t>(a.ids[row]) * a.k_padded, a.element);
  map_row(block, from, a.element, a.out + row * a.ld, Element::kF32, a.k,
          [&](float x) { return x * a.scale; });
}

template <class Block>
PREFIX_BODY void norm(Block& block, const NormArgs& a) {
  const int64_t row = block.x();
  const float* const x = a.x + row * a.ld;
  const Element e_out = element_of(a.output, a.element);
  void* const out = element_at(a.out, row * a.ld_out, e_out);
  constexpr Element f32 = Element::kF32;
  const bool whole =
      whole_fours(x, a.n, f32) && whole_fours(a.weight, a.n, f32) && whole_fours(out, a.n, e_out);
  typename Block::template PerThread<float> sum(block);
  block.each([&](int t) {
    float s = 0;
    for (int64_t i = 4 * t; i < a.n; i += 4 * kRowThreads) {
      const Floats4 v = load_four(x, i, a.n, f32, whole);
      PREFIX_UNROLL
      for (int j = 0; j < 4; ++j) s += v.x[j] * v.x[j];
    }
    sum[t] = s;
  });
  const float total = block.sum(sum);
  const float scale = inverse_root(total / static_cast<float>(a.n) + a.eps);
  block.each([&](int t) {
    // x may be out: each thread its own columns.
    for (int64_t i = 4 * t; i < a.n; i += 4 * kRowThreads) {
      Floats4 y = load_four(x, i, a.n, f32, whole);
      const Floats4 weight = load_four(a.weight, i, a.n, f32, whole);
      PREFIX_UNROLL
      for (int j = 0; j < 4; ++j) y.x[j] = y.x[j] * scale * weight.x[j];
      if (a.output == Output::kF32Add) {
        const Floats4 before = load_four(out, i, a.n, f32, whole);
        PREFIX_UNROLL
        for (int j = 0; j < 4; ++j) y.x[j] = before.x[j] + y.x[j];
      }
      store_four(out, i, a.n, e_out, whole, y);
    }
  });
}

template <class Block>
PREFIX_BODY void gather(Block& block, const GatherArgs& a) {
  const int64_t row = block.x();
  map_row(block, a.x + static_cast<int64_t>(a.rows[row]) * a.ld, Element::kF32,
          a.out + row * a.ld_out, Element::kF32, a.n, [](float x) { return x; });
}

template <class Block>
PREFIX_BODY void convert(Block& block, const ConvertArgs& a) {
  const int64_t row = block.x();
  map_row(block, a.x + row * a.ld, Element::kF32, element_at(a.out, row * a.ld_out, a.element),
          a.element, a.n, [](float x) { return x; });
}

template <class Block>
PREFIX_BODY void gated(Block& block, const GatedArgs& a) {
  const int64_t row = block.x();
  const void* const both = element_at(a.both, row * a.ld, a.element);
  void* const out = element_at(a.out, row * a.ld_out, a.element);
  constexpr Element f32 = Element::kF32;
  // Without a bias: null is aligned.
  const bool whole = whole_fours(both, a.n, a.element) && whole_fours(out, a.n, a.element) &&
                     whole_fours(a.bias_gate, a.n, f32) && whole_fours(a.bias_up, a.n, f32);
  block.each([&](int t) {
    for (int64_t i = 4 * t; i < a.n; i += 4 * kRowThreads) {
      const int64_t at = i / 32 * 64 + i % 32;
      const int64_t end = at + a.n - i;
      Floats4 gate = load_four(both, at, end, a.element, whole);
      Floats4 up = load_four(both, at + 32, end + 32, a.element, whole);
      const Floats4 zero{{0, 0, 0, 0}};
      const Floats4 bias_gate = a.bias_gate ? load_four(a.bias_gate, i, a.n, f32, whole) : zero;
      const Floats4 bias_up = a.bias_up ? load_four(a.bias_up, i, a.n, f32, whole) : zero;
      PREFIX_UNROLL
      for (int j = 0; j < 4; ++j)
        gate.x[j] = silu(gate.x[j] + bias_gate.x[j]) * (up.x[j] + bias_up.x[j]);
      store_four(out, i, a.n, a.element, whole, gate);
    }
  });
}

// 1 / rms of x[0, n), the same in all lanes.
template <class Warp>
PREFIX_BODY float inverse_rms(Warp& warp, const float* x, int64_t n, float eps) {
  typename Warp::template Local<float> sum;
  warp.each([&](int lane) {
    float s = 0;
    for (int64_t i = lane; i < n; i += 32) s += x[i] * x[i];
    sum[lane] = s;
  });
  return inverse_root(warp.sum(sum) / static_cast<float>(n) + eps);
}

PREFIX_BODY bool finite_as(Element e, float x) {
  return e == Element::kF32 ? x - x == 0 : (to_bf16(x) & 0x7f80) != 0x7f80;
}

// A warp per head vector of the row, kQkvVectors a block: query heads, then key heads, then value
// heads.
template <class Block>
PREFIX_BODY void qkv(Block& block, const QkvArguments& a) {
  const int64_t row = block.x();
  const int d = a.pages.head_dim;
  const int kv_heads = a.pages.kv_heads;
  const int half = a.rotary_dim / 2;
  const float* const x = a.qkv + row * a.ld;
  const float* const cos = a.cos + static_cast<int64_t>(a.positions[row]) * half;
  const float* const sin = a.sin + static_cast<int64_t>(a.positions[row]) * half;
  const int page = a.slots[2 * row];
  const int slot = a.slots[2 * row + 1];
  block.each_warp([&](auto& warp) {
    const int end = page < 0 ? a.heads : a.heads + 2 * kv_heads;
    if (const int v = block.y() * kQkvVectors + warp.index(); v < end) {
      const bool is_query = v < a.heads;
      const bool is_value = v >= a.heads + kv_heads;
      const int head = is_query ? v : (v - a.heads) % kv_heads;  // inside its part
      const float* const from = x + static_cast<int64_t>(v) * d;
      const float* weight = is_value ? nullptr : is_query ? a.q_norm : a.k_norm;
      float scale = 1;
      if (weight && a.norm_whole_width) {
        const int heads = is_query ? a.heads : kv_heads;
        const float* const part = is_query ? x : x + static_cast<int64_t>(a.heads) * d;
        scale = inverse_rms(warp, part, static_cast<int64_t>(heads) * d, a.eps);
        weight += static_cast<int64_t>(head) * d;
      } else if (weight) {
        scale = inverse_rms(warp, from, d, a.eps);
      }
      unsigned char* const block_of_page = a.pages.layer + page * a.pages.page_stride +
                                           head * 2 * a.pages.block_bytes +
                                           (is_value ? a.pages.block_bytes : 0);
      warp.each([&](int lane) {
        const auto normed = [&](int i) { return weight ? from[i] * scale * weight[i] : from[i]; };
        for (int i = lane; i < d; i += 32) {
          float y = normed(i);
          if (!is_value && i < half) {
            y = y * cos[i] - normed(i + half) * sin[i];
          } else if (!is_value && i < 2 * half) {
            y = y * cos[i - half] + normed(i - half) * sin[i - half];
          }
          if (is_query) {
            store_element(a.q, row * a.ld_q + static_cast<int64_t>(v) * d + i, a.pages.element, y);
          } else {
            if (!finite_as(a.pages.element, y)) {
              a.not_finite[row] = 1;  // whoever else writes it writes the same
              y = 0;
            }
            store_element(block_of_page, page_at(slot, i, a.pages.d_padded, a.pages.element),
                          a.pages.element, y);
          }
        }
      });
    }
  });
}

// The first tokens of each strip of K and V lie in one piece.
template <class Block>
PREFIX_BODY void copy_pages(Block& block, const CopyArgs& a) {
  const int32_t* const copy = a.copies + 3 * block.x();
  const int width =
      static_cast<int>(a.pages.d_padded * element_bytes(a.pages.element));  // of a row
  const int strip = a.pages.element == Element::kBf16 ? 128 : width;
  const int64_t head = block.y() * 2 * a.pages.block_bytes;
  const unsigned char* const from = a.pages.layer + copy[0] * a.pages.page_stride + head;
  unsigned char* const to = a.pages.layer + copy[1] * a.pages.page_stride + head;
  block.each([&](int t) {
    for (int begin = 0; begin < width; begin += strip) {
      const int bytes = copy[2] * smaller(strip, width - begin);
      PREFIX_UNROLL_BY(1)
      for (int i = begin * 32 + t * 16; i < begin * 32 + bytes; i += kRowThreads * 16) {
        store16(to + i, load16(from + i));
        store16(to + a.pages.block_bytes + i, load16(from + a.pages.block_bytes + i));
      }
    }
  });
}

// head_dim is a multiple of 8: whole pieces of 16 bytes. Pieces of a token side by side, so that
// threads write whole lines.
template <class Block>
PREFIX_BODY void unpack_pages(Block& block, const UnpackArgs& a) {
  const Pages& p = a.pages;
  const int pieces = p.head_dim / 8;
  const unsigned char* const keys = p.layer +
                                    static_cast<int64_t>(a.listed[block.x()]) * p.page_stride +
                                    block.y() * 2 * p.block_bytes;
  const int64_t first = static_cast<int64_t>(block.x()) * 32;
  block.each([&](int t) {
    PREFIX_UNROLL_BY(2)
    for (int i = t; i < 32 * pieces; i += kRowThreads) {
      const int token = i / pieces;
      const int column = i % pieces * 8;
      const int from = 2 * page_at(token, column, p.d_padded, Element::kBf16);
      const int64_t to = 2 * (((first + token) * p.kv_heads + block.y()) * p.head_dim + column);
      store16(static_cast<unsigned char*>(a.k) + to, load16(keys + from));
      store16(static_cast<unsigned char*>(a.v) + to, load16(keys + p.block_bytes + from));
    }
  });
}

// The blocks of a page take turns.
template <class Block>
PREFIX_BODY void clear_pages(Block& block, const ClearArgs& a) {
  unsigned char* const page = a.pool + a.pages[block.x()] * a.page_bytes;
  block.each([&](int t) {
    for (int64_t i = (block.y() * kRowThreads + t) * 16; i < a.page_bytes;
         i += kClearBlocks * kRowThreads * 16)
      store16(page + i, Bits128{{0, 0, 0, 0}});
  });
}

template <class Block>
PREFIX_BODY void gemm_slow(Block& block, const GemmArgs& a) {
  const int64_t row = block.y();
  block.each([&](int t) {
    const int64_t column = static_cast<int64_t>(block.x()) * kRowThreads + t;
    if (column >= a.n) return;
    float sum = a.bias ? a.bias[column] : 0.0f;
    for (int64_t i = 0; i < a.k; ++i)
      sum += load_element(a.x, row * a.ld_x + i, a.element) *
             load_element(a.w, column * a.ld_w + i, a.element);
    const Element e = element_of(a.output, a.element);
    const int64_t at = row * a.ld_y + column;
    if (a.output == Output::kF32Add) sum += load_element(a.y, at, e);
    store_element(a.y, at, e, sum);
  });
}

// Attention without tensor cores, for f32 and for heads that are too large for them: one warp per
// row and query head, a lane per key for the scores, a lane per column for the values.
template <class Block>
PREFIX_BODY void attention_slow(Block& block, const AttentionArguments& a) {
  constexpr int kColumns = 32;  // per lane: heads up to 1024
  const int row = block.x();
  const int q_head = block.y();
  const int d = a.pages.head_dim;
  const int tile = a.tile_of_row[row];
  const int position = a.positions[row];
  const Element e = a.pages.element;
  block.each_warp([&](auto& warp) {
    using W = std::remove_reference_t<decltype(warp)>;
    typename W::template Local<float> score, weight;
    typename W::template Local<float[kColumns]> sum;
    warp.each([&](int lane) {
      PREFIX_UNROLL
      for (int c = 0; c < kColumns; ++c) sum[lane][c] = 0;
    });
    float m = minus_infinity(), l = 0;
    const int64_t q_at = row * a.ld_q + static_cast<int64_t>(q_head) * d;
    const unsigned char* const heads =
        a.pages.layer + (q_head / a.group_heads) * 2 * a.pages.block_bytes;
    for (int r = a.tile_runs[2 * tile]; r < a.tile_runs[2 * tile + 1]; ++r) {
      const Run run = a.runs[r];
      if (row < run.row_begin || row >= run.row_end) continue;
      for (int b = 0; b < run.blocks; ++b) {
        const int first = (run.block_begin + b) * 32;
        if (first > position) break;
        const int keys = smaller(32, position - first + 1);
        const unsigned char* const k =
            heads + a.pages_list[run.page_begin + b] * a.pages.page_stride;
        const unsigned char* const v = k + a.pages.block_bytes;
        warp.each([&](int lane) {
          float s = 0;
          for (int i = 0; i < d; ++i)
            s += load_element(a.q, q_at + i, e) *
                 load_element(k, page_at(lane, i, a.pages.d_padded, e), e);
          score[lane] = lane < keys ? s * a.scale_log2 : minus_infinity();
        });
        const float top = larger(warp.max(score), m);
        const float shift = top == minus_infinity() ? 0.0f : top;
        const float keep = exp2_of(m - shift);
        warp.each([&](int lane) { weight[lane] = exp2_of(score[lane] - shift); });
        l = l * keep + warp.sum(weight);
        m = top;
        warp.each([&](int lane) {
          PREFIX_UNROLL
          for (int c = 0; c < kColumns; ++c) sum[lane][c] *= keep;
        });
        for (int key = 0; key < keys; ++key) {
          const float p = warp.broadcast(weight, key);
          warp.each([&](int lane) {
            PREFIX_UNROLL
            for (int c = 0; c < kColumns; ++c)
              if (c * 32 + lane < d)
                sum[lane][c] +=
                    p * load_element(v, page_at(key, c * 32 + lane, a.pages.d_padded, e), e);
          });
        }
      }
    }
    const float inverse = l == 0 ? 0.0f : 1.0f / l;
    warp.each([&](int lane) {
      PREFIX_UNROLL
      for (int c = 0; c < kColumns; ++c)
        if (c * 32 + lane < d)
          store_element(a.out, row * a.ld_out + static_cast<int64_t>(q_head) * d + c * 32 + lane, e,
                        sum[lane][c] * inverse);
    });
  });
}

}  // namespace prefix::ops::gpu
