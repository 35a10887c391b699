// What attention must keep to on every device, however that computes it: `attend` does.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ops/attention_reference.h"

namespace prefix::ops::testing {

// Scores up to about 1e4, which carry an f32 error of 1e-3 each, and all the same. attend(tree, rows).
template <class Attend>
void expect_sharp_scores_stay_finite(Tree tree, double bound, Rng& rng, const Attend& attend) {
  for (const float scale : {0.0f, 100.0f, 3000.0f}) {
    tree.query_scale = scale;
    grow(tree, rng, 6, 160);
    const std::vector<RowRef> rows = some_rows(tree, 50, rng);
    const std::vector<float> got = attend(tree, rows);
    for (const float value : got) ASSERT_TRUE(std::isfinite(value)) << "scale " << scale;
    EXPECT_LE(relative_l2(got, attention_f64(tree, rows)), scale > 100 ? 1e-2 : 5 * bound);
  }
}

// The promise of invariance: a base result, then other ways to compute some of its rows.
// attend(variant, step); the base is variant -1.
template <class Attend>
void expect_bits_of_position_and_keys_only(const Tree& tree, const std::vector<RowRef>& rows,
                                           int variants, Rng& rng, const Attend& attend) {
  const size_t width = static_cast<size_t>(tree.heads) * static_cast<size_t>(tree.head_dim);
  StepOptions base;
  base.tile_rows = 96;
  base.ragged = false;
  const std::vector<float> want = attend(-1, make_step(tree, rows, base, rng));
  for (int variant = 0; variant < variants; ++variant) {
    StepOptions options;
    options.sharing = static_cast<Sharing>(pick(rng, 0, 2));
    options.tile_rows = variant == 0 ? 1 : static_cast<int32_t>(pick(rng, 1, 100));
    options.split_runs = pick(rng, 0, 1) == 1;
    options.split_chunks = pick(rng, 0, 1) == 1;
    options.cut_tail = pick(rng, 0, 1) == 1;
    options.cut_head = pick(rng, 0, 1) == 1;
    options.nan_keys = pick(rng, 0, 1) == 1;
    std::vector<size_t> chosen;  // some of the rows, one row alone in every fourth variant
    for (size_t r = 0; r < rows.size(); ++r)
      if (variant < 2 || pick(rng, 0, 1) == 1) chosen.push_back(r);
    if (variant % 4 == 3) chosen = {static_cast<size_t>(pick(rng, 0, rows.size() - 1))};
    std::vector<RowRef> part;
    for (const size_t r : chosen) part.push_back(rows[r]);
    const std::vector<float> got = attend(variant, make_step(tree, part, options, rng));
    for (size_t i = 0; i < chosen.size(); ++i)
      ASSERT_EQ(0, std::memcmp(&got[i * width], &want[chosen[i] * width], width * sizeof(float)))
          << "variant " << variant << " node " << part[i].node << " position " << part[i].position;
  }
}

}  // namespace prefix::ops::testing
