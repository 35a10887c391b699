#include "tree/overlap_depths.h"

#include <algorithm>
#include <map>

namespace prefix {

std::vector<int64_t> OverlapDepths::place(int64_t begin, int64_t prompt, int64_t end,
                                          int64_t states, double gain) const {
  // Places where a state may stand: where a request would part. All that part between one and the
  // next go back to the same.
  std::map<int64_t, int64_t> parts;  // position, requests
  for (const Sample& s : samples_)
    if (!s.whole && prompt + s.offset > begin && prompt + s.offset < end)
      ++parts[prompt + s.offset];
  if (parts.empty()) return {};
  struct Place {
    int64_t position;
    int64_t from_here;  // requests that part here or later
  };
  std::vector<Place> places;
  int64_t later = 0;
  for (auto p = parts.rbegin(); p != parts.rend(); ++p)
    places.push_back({p->first, later += p->second});
  std::reverse(places.begin(), places.end());

  // best[i]: tokens saved, summed over the requests, when the last state stands at places[i]. A
  // state at p after one at q saves p - q for all that diverge at p or later.
  const size_t n = places.size();
  const double least = gain * static_cast<double>(samples_.size());
  std::vector<std::vector<int32_t>> from;
  std::vector<double> best(n), next(n);
  std::pair<size_t, size_t> last{};  // states - 1, place
  double most = 0;
  for (size_t k = 0; k < static_cast<size_t>(states); ++k) {
    from.emplace_back(n, -1);
    for (size_t i = 0; i < n; ++i) {
      const auto requests = static_cast<double>(places[i].from_here);
      next[i] = k == 0 ? requests * static_cast<double>(places[i].position - begin) - least : -1;
      for (size_t j = 0; k > 0 && j < i; ++j) {
        const double sum = best[j] +
                           requests * static_cast<double>(places[i].position - places[j].position) -
                           least;
        if (best[j] < 0 || sum <= next[i]) continue;
        next[i] = sum;
        from[k][i] = static_cast<int32_t>(j);
      }
      if (next[i] <= most) continue;
      most = next[i];
      last = {k, i};
    }
    best.swap(next);
  }
  if (most <= 0) return {};
  std::vector<int64_t> chosen;
  auto at = static_cast<int32_t>(last.second);
  for (size_t k = last.first + 1; k-- > 0; at = from[k][static_cast<size_t>(at)])
    chosen.push_back(places[static_cast<size_t>(at)].position);
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace prefix
