// prefix-random-checkpoint SHAPE DIR [LAYERS]: a model directory of that shape with random weights.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "random_checkpoint.h"

namespace {

constexpr char kUsage[] =
    "usage: prefix-random-checkpoint SHAPE DIRECTORY [LAYERS]\n\n"
    "Writes a model of random weights (config.json, model.safetensors) into DIRECTORY, which is made.\n"
    "SHAPE is tiny, qwen3-0.6b or another one; a name that is none lists them. LAYERS: 1 to 1000, those of\n"
    "the shape by default. Of a shape with recurrent layers the first ones, one of attention among them.\n";

constexpr int kMaxLayers = 1000;

int layers_of(std::string_view text) {
  int layers = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layers);
  if (error != std::errc() || end != text.data() + text.size() || layers < 1 || layers > kMaxLayers)
    throw std::invalid_argument("LAYERS = \"" + std::string(text) +
                                "\" is no whole number from 1 to " + std::to_string(kMaxLayers));
  return layers;
}

void set_layers(prefix::tools::CheckpointShape& shape, int layers) {
  shape.layers = layers;
  std::string& kinds = shape.recurrent.layers;
  if (kinds.empty()) return;
  kinds.resize(static_cast<size_t>(std::min(layers, static_cast<int>(kinds.size()))));
  shape.layers = static_cast<int>(kinds.size());
  // A hybrid model has a layer of attention.
  if (kinds.find('a') == std::string::npos) kinds.back() = 'a';
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (const std::string_view word = argv[i]; word == "--help" || word == "-h")
      return std::fputs(kUsage, stdout) < 0 || std::fflush(stdout) != 0 ? 2 : 0;
  if (argc < 3 || argc > 4) {
    std::fputs("prefix-random-checkpoint: it takes SHAPE DIRECTORY [LAYERS]; see --help\n", stderr);
    return 2;
  }
  try {
    prefix::tools::CheckpointShape shape = prefix::tools::named_shape(argv[1]);
    if (argc > 3) set_layers(shape, layers_of(argv[3]));
    prefix::tools::write_checkpoint(argv[2], shape);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "prefix-random-checkpoint: %s\n", e.what());
    return 2;
  }
  return 0;
}
