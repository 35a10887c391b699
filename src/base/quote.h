// Names and values from files that nothing has checked, made fit for a message: quoted, cut to a
// length a person would read, always valid UTF-8 without control characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace prefix {

// "text" with \xNN for what may not be printed and ... where it was cut after `most` bytes.
std::string quote(std::string_view text, size_t most = 80);

// Paths come from the caller, who must be able to find the file: more of them is shown.
inline std::string quote_path(std::string_view path) { return quote(path, 1024); }

}  // namespace prefix
