// The row-wise kernels: one block of kRowThreads per row (qkv: several; copies: per copy and head).
// Contracts are in src/ops/op.h and step.h, as for the CPU.
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
    unrolled<4>([&](int j) {
      if (i + j < n) v.x[j] = load_element(row, i + j, e);
    });
  } else if (e == Element::kF32) {
    v = load_whole<Floats4>(static_cast<const float*>(row) + i);
  } else {
    const auto bits = load_whole<Bits64>(static_cast<const uint16_t*>(row) + i);
    unrolled<4>(
        [&](int j) { v.x[j] = from_bf16(static_cast<uint16_t>(bits.x[j / 2] >> (j % 2 * 16))); });
  }
  return v;
}
PREFIX_BODY void store_four(void* row, int64_t i, int64_t n, Element e, bool whole, Floats4 v) {
  if (!whole) {
    unrolled<4>([&](int j) {
      if (i + j < n) store_element(row, i + j, e, v.x[j]);
    });
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

template <class Block>
PREFIX_BODY void copy_rows(Block& block, const CopyRowsArgs& a) {
  const int64_t row = block.x(), of = a.rows ? a.rows[row] : row;
  const void* const from = element_at(a.x, of * a.ld, a.from);
  void* const to = element_at(a.out, row * a.ld_out, a.element);
  const bool whole = whole_fours(from, a.n, a.from) && whole_fours(to, a.n, a.element);
  block.each([&](int t) {
    for (int64_t i = 4 * t; i < a.n; i += 4 * kRowThreads) {
      Floats4 v = load_four(from, i, a.n, a.from, whole);
      unrolled<4>([&](int j) { v.x[j] *= a.scale; });
      store_four(to, i, a.n, a.element, whole, v);
    }
  });
}

template <class Block>
PREFIX_BODY void rms_norm(Block& block, const RmsNormArgs& a) {
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
      unrolled<4>([&](int j) { s += v.x[j] * v.x[j]; });
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
      unrolled<4>([&](int j) { y.x[j] = y.x[j] * scale * weight.x[j]; });
      if (a.output == Output::kF32Add) {
        const Floats4 before = load_four(out, i, a.n, f32, whole);
        unrolled<4>([&](int j) { y.x[j] = before.x[j] + y.x[j]; });
      }
      store_four(out, i, a.n, e_out, whole, y);
    }
  });
}

PREFIX_BODY float activated(ActivationFn fn, float x) {
  return fn == ActivationFn::kGeluTanh ? gelu_tanh(x) : silu(x);
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
      unrolled<4>([&](int j) {
        gate.x[j] = activated(a.fn, gate.x[j] + bias_gate.x[j]) * (up.x[j] + bias_up.x[j]);
      });
      store_four(out, i, a.n, a.element, whole, gate);
    }
  });
}

// --- queries, keys and values --------------------------------------------------------------------
//
// A warp per head vector of a row: query heads, then key heads, then value heads.

// Of one head vector.
struct HeadVector {
  int64_t at;  // its first element in the row of the projection
  const float* bias;
  const float* weight;  // of its norm; null: none
  float scale;          // of the norm, where all heads of the part have one
  const float* cos;
  const float* sin;  // null: it is not rotated
  void* to;
  int slot;             // in the page; -1: a query, whose columns follow one another
  int32_t* not_finite;  // of the row; null: a query, which may be anything
};

// A page holds 0 for what is not finite in its type, and the row is marked. All that mark a row
// write the same.
PREFIX_BODY float finite_or_marked(Element e, float x, int32_t* not_finite) {
  const bool finite = e == Element::kF32 ? x - x == 0 : (to_bf16(x) & 0x7f80) != 0x7f80;
  if (finite || !not_finite) return x;
  *not_finite = 1;
  return 0;
}
// The same of two bf16.
PREFIX_BODY uint32_t finite_or_marked(uint32_t pair, int32_t* not_finite) {
  const bool low = (pair & 0x7f80u) == 0x7f80u, high = (pair & 0x7f800000u) == 0x7f800000u;
  if (!(low || high) || !not_finite) return pair;
  *not_finite = 1;
  return pair & (low ? 0xffff0000u : ~0u) & (high ? 0xffffu : ~0u);
}

// Any head size and type: a lane has columns lane, lane + 32 ...
template <class Warp>
PREFIX_BODY float inverse_rms(Warp& warp, const QkvKernelArgs& a, const void* row, int64_t at,
                              int64_t n) {
  typename Warp::template Local<float> sum;
  warp.each([&](int lane) {
    float s = 0;
    for (int64_t i = at + lane; i < at + n; i += 32) {
      const float x = load_element(row, i, a.pages.element) + (a.bias ? a.bias[i] : 0.0f);
      s += x * x;
    }
    sum[lane] = s;
  });
  return inverse_root(warp.sum(sum) / static_cast<float>(n) + a.eps);
}
template <class Warp>
PREFIX_BODY void write_head(Warp& warp, const QkvKernelArgs& a, const void* row,
                            const HeadVector& v) {
  const int d = a.pages.head_dim;
  const int half = a.rotary_dim / 2;
  const Element e = a.pages.element;
  const float scale =
      v.weight && !a.norm_whole_width ? inverse_rms(warp, a, row, v.at, d) : v.scale;
  warp.each([&](int lane) {
    const auto normed = [&](int i) {
      const float x = load_element(row, v.at + i, e) + (v.bias ? v.bias[i] : 0.0f);
      return v.weight ? x * scale * v.weight[i] : x;
    };
    for (int i = lane; i < d; i += 32) {
      float y = normed(i);
      if (v.sin && i < half) {
        y = y * v.cos[i] - normed(i + half) * v.sin[i];
      } else if (v.sin && i < 2 * half) {
        y = y * v.cos[i - half] + normed(i - half) * v.sin[i - half];
      }
      store_element(v.to, v.slot < 0 ? i : page_at(v.slot, i, a.pages.d_padded, e), e,
                    finite_or_marked(e, y, v.not_finite));
    }
  });
}

// bf16, heads of 64 kPairs columns that are rotated as a whole, in one pass: lane i has columns
// 64 j + 2 i and the next of each j, in registers from the load to the store.
template <int kPairs, class Warp>
PREFIX_BODY void write_pairs(Warp& warp, const QkvKernelArgs& a, const uint16_t* row,
                             const HeadVector& v) {
  constexpr int d = 64 * kPairs;
  constexpr int half = d / 2;
  struct Pairs {
    Floats2 x[kPairs];
  };
  typename Warp::template Local<Pairs> own, other;
  const auto column = [](int lane, int j) { return 64 * j + 2 * lane; };
  typename Warp::template Local<float> sum;
  warp.each([&](int lane) {
    float s = 0;
    unrolled<kPairs>([&](int j) {
      const auto bits = load_whole<uint32_t>(row + v.at + column(lane, j));
      Floats2 x{
          {from_bf16(static_cast<uint16_t>(bits)), from_bf16(static_cast<uint16_t>(bits >> 16))}};
      if (v.bias) {
        const auto bias = load_whole<Floats2>(v.bias + column(lane, j));
        x = {{x.x[0] + bias.x[0], x.x[1] + bias.x[1]}};
      }
      own[lane].x[j] = x;
      s += x.x[0] * x.x[0] + x.x[1] * x.x[1];
    });
    sum[lane] = s;
  });
  if (v.weight) {
    const float scale =
        a.norm_whole_width ? v.scale : inverse_root(warp.sum(sum) / static_cast<float>(d) + a.eps);
    warp.each([&](int lane) {
      unrolled<kPairs>([&](int j) {
        const auto weight = load_whole<Floats2>(v.weight + column(lane, j));
        unrolled<2>(
            [&](int i) { own[lane].x[j].x[i] = own[lane].x[j].x[i] * scale * weight.x[i]; });
      });
    });
  }
  if (v.sin) {
    // The columns that these are rotated with: of the same lane, or of the one 16 further.
    warp.each([&](int lane) {
      unrolled<kPairs>([&](int j) { other[lane].x[j] = own[lane].x[(j + kPairs / 2) % kPairs]; });
    });
    if constexpr (kPairs == 1) warp.exchange(other, 16);
    warp.each([&](int lane) {
      unrolled<kPairs>([&](int j) {
        const bool left = column(lane, j) < half;
        const int at = left ? column(lane, j) : column(lane, j) - half;
        const auto cos = load_whole<Floats2>(v.cos + at);
        const auto sin = load_whole<Floats2>(v.sin + at);
        unrolled<2>([&](int i) {
          float& x = own[lane].x[j].x[i];
          const float y = other[lane].x[j].x[i] * sin.x[i];
          x = left ? x * cos.x[i] - y : x * cos.x[i] + y;
        });
      });
    });
  }
  warp.each([&](int lane) {
    auto* const to = static_cast<uint16_t*>(v.to);
    unrolled<kPairs>([&](int j) {
      const int i = column(lane, j);
      const Floats2& y = own[lane].x[j];
      store_whole(to + (v.slot < 0 ? i : page_at(v.slot, i, d, Element::kBf16)),
                  finite_or_marked(pack_bf16(y.x[0], y.x[1]), v.not_finite));
    });
  });
}

// Whether all accesses of write_pairs() are aligned; cos and sin begin at rows of half a head.
PREFIX_BODY bool whole_pairs(const QkvKernelArgs& a) {
  const int d = a.pages.head_dim;
  return a.pages.element == Element::kBf16 && (d == 64 || d == 128 || d == 256) &&
         (a.rotary_dim == d || a.rotary_dim == 0) && a.ld % 2 == 0 && a.ld_q % 2 == 0 &&
         is_aligned(a.qkv, 4) && is_aligned(a.q, 4) && is_aligned(a.bias, 8) &&
         is_aligned(a.q_norm, 8) && is_aligned(a.k_norm, 8) && is_aligned(a.cos, 8) &&
         is_aligned(a.sin, 8);
}

template <class Block>
PREFIX_BODY void qkv(Block& block, const QkvKernelArgs& a) {
  const int64_t row = block.x();
  const int d = a.pages.head_dim;
  const int kv_heads = a.pages.kv_heads;
  const Element e = a.pages.element;
  const void* const x = element_at(a.qkv, row * a.ld, e);
  const int64_t angles = static_cast<int64_t>(a.positions[row]) * (a.rotary_dim / 2);
  const int page = a.slots[2 * row];
  const bool whole = whole_pairs(a);
  block.each_warp([&](auto& warp) {
    const int index = block.y() * kQkvVectors + warp.index();
    const bool is_query = index < a.heads;
    const bool is_value = index >= a.heads + kv_heads;
    if (index >= a.heads + 2 * kv_heads || (page < 0 && !is_query)) return;
    const int head = is_query ? index : index - a.heads - (is_value ? kv_heads : 0);  // of its part
    HeadVector v{};
    v.at = static_cast<int64_t>(index) * d;
    if (a.bias) v.bias = a.bias + v.at;
    if (!is_value) {
      v.weight = is_query ? a.q_norm : a.k_norm;
      if (a.rotary_dim > 0) {
        v.cos = a.cos + angles;
        v.sin = a.sin + angles;
      }
    }
    if (v.weight && a.norm_whole_width) {
      const int64_t width = static_cast<int64_t>(is_query ? a.heads : kv_heads) * d;
      v.scale = inverse_rms(warp, a, x, is_query ? 0 : static_cast<int64_t>(a.heads) * d, width);
      v.weight += static_cast<int64_t>(head) * d;
    }
    if (is_query) {
      v.to = element_at(a.q, row * a.ld_q + v.at, e);
      v.slot = -1;
    } else {
      v.to = a.pages.layer + page * a.pages.page_stride + head * 2 * a.pages.block_bytes +
             (is_value ? a.pages.block_bytes : 0);
      v.slot = a.slots[2 * row + 1];
      v.not_finite = a.not_finite + row;
    }
    const auto* const halves = static_cast<const uint16_t*>(x);
    if (!whole) {
      write_head(warp, a, x, v);
    } else if (d == 64) {
      write_pairs<1>(warp, a, halves, v);
    } else if (d == 128) {
      write_pairs<2>(warp, a, halves, v);
    } else {
      write_pairs<4>(warp, a, halves, v);
    }
  });
}

// The first tokens of each strip of K and V lie in one piece.
template <class Block>
PREFIX_BODY void copy_pages(Block& block, const CopyPagesArgs& a) {
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

// The blocks of a page take turns.
template <class Block>
PREFIX_BODY void clear_pages(Block& block, const ClearPagesArgs& a) {
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
PREFIX_BODY void attention_slow(Block& block, const AttentionKernelArgs& a) {
  constexpr int kColumns = 32;  // per lane: heads up to 1024
  const int row = block.x();
  const int q_head = block.y();
  const int d = a.pages.head_dim;
  const AttentionTile& tile = a.tiles[a.tile_of_row[row]];
  const int position = a.positions[row];
  const Element e = a.pages.element;
  block.each_warp([&](auto& warp) {
    using W = std::remove_reference_t<decltype(warp)>;
    typename W::template Local<float> score, weight;
    typename W::template Local<float[kColumns]> sum;
    warp.each([&](int lane) { unrolled<kColumns>([&](int c) { sum[lane][c] = 0; }); });
    float m = minus_infinity(), l = 0;
    const int64_t q_at = row * a.ld_q + static_cast<int64_t>(q_head) * d;
    const unsigned char* const heads =
        a.pages.layer + (q_head / a.group_heads) * 2 * a.pages.block_bytes;
    for (int r = tile.run_begin; r < tile.run_end; ++r) {
      const KvRun run = a.runs[r];
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
        warp.each([&](int lane) { unrolled<kColumns>([&](int c) { sum[lane][c] *= keep; }); });
        for (int key = 0; key < keys; ++key) {
          const float p = warp.broadcast(weight, key);
          warp.each([&](int lane) {
            unrolled<kColumns>([&](int c) {
              if (c * 32 + lane < d)
                sum[lane][c] +=
                    p * load_element(v, page_at(key, c * 32 + lane, a.pages.d_padded, e), e);
            });
          });
        }
      }
    }
    const float inverse = l == 0 ? 0.0f : 1.0f / l;
    warp.each([&](int lane) {
      unrolled<kColumns>([&](int c) {
        if (c * 32 + lane < d)
          store_element(a.out, row * a.ld_out + static_cast<int64_t>(q_head) * d + c * 32 + lane, e,
                        sum[lane][c] * inverse);
      });
    });
  });
}

// The kernels of this file: X(number, body, arguments).
#define PREFIX_ROW_KERNELS(X)                 \
  X(kCopyRows, copy_rows, CopyRowsArgs)       \
  X(kRmsNorm, rms_norm, RmsNormArgs)          \
  X(kGated, gated, GatedArgs)                 \
  X(kQkv, qkv, QkvKernelArgs)                 \
  X(kCopyPages, copy_pages, CopyPagesArgs)    \
  X(kClearPages, clear_pages, ClearPagesArgs) \
  X(kGemmSlow, gemm_slow, GemmArgs)           \
  X(kAttentionSlow, attention_slow, AttentionKernelArgs)

}  // namespace prefix::ops::gpu
