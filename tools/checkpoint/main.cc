// prefix-random-checkpoint SHAPE DIR [LAYERS]: a model directory of that shape with random weights.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "random_checkpoint.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SHAPE DIRECTORY [LAYERS]\n", argv[0]);
    return 2;
  }
  try {
    prefix::tools::CheckpointShape shape = prefix::tools::named_shape(argv[1]);
    if (argc > 3) shape.layers = std::atoi(argv[3]);
    if (std::string& kinds = shape.recurrent.layers; !kinds.empty()) {
      kinds.resize(
          static_cast<size_t>(std::clamp(shape.layers, 1, static_cast<int>(kinds.size()))));
      shape.layers = static_cast<int>(kinds.size());
      // A hybrid model has a layer of attention.
      if (kinds.find('a') == std::string::npos) kinds.back() = 'a';
    }
    prefix::tools::write_checkpoint(argv[2], shape);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
  return 0;
}
