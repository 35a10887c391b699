// prefix-random-checkpoint SHAPE DIR [LAYERS]: a model directory of that shape with random weights.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "random_checkpoint.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s tiny|qwen3-0.6b|qwen3-4b|qwen3-8b DIRECTORY [LAYERS]\n",
                 argv[0]);
    return 2;
  }
  try {
    prefix::tools::CheckpointShape shape = prefix::tools::named_shape(argv[1]);
    if (argc > 3) shape.layers = std::atoi(argv[3]);
    prefix::tools::write_checkpoint(argv[2], shape);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
  return 0;
}
