// JSON files of a model, which nothing has checked.
#pragma once

#include <functional>
#include <string>

#include "base/input_file.h"
#include "base/json.h"

namespace prefix {

// Runs `read`, and names `file` in what it complains about.
void naming(const InputFile& file, const std::function<void()>& read);

// Calls use(tree, text) for the JSON of a file, with the text as it was parsed.
// Errors name the file.
void with_json_text(const InputFile& file,
                    const std::function<void(const Json&, const std::string&)>& use,
                    const JsonLimits& limits = {});
// Calls use(tree) for the JSON of a file. Errors name the file.
void with_json(const InputFile& file, const std::function<void(const Json&)>& use,
               const JsonLimits& limits = {});

}  // namespace prefix
