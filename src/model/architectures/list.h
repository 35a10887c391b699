// Every architecture has a file in this folder and a line here and in architecture.cc.
#pragma once

#include "model/architecture.h"

namespace prefix {

extern const Architecture kLlama;
extern const Architecture kQwen3;
extern const Architecture kOlmo2;
extern const Architecture kPhi3;

}  // namespace prefix
