#include "logit_bias.h"

#include <algorithm>

#include "common.h"
#include "json_in.h"

namespace prefix_cli {

std::string logit_bias_text(const nlohmann::ordered_json& value) {
  // Signs in a token would make another list of it.
  const auto is_bias = [](const auto& item) {
    return !item.key().empty() && item.key().find_first_not_of("0123456789") == std::string::npos &&
           item.value().is_number();
  };
  std::string text;
  const auto items = value.items();
  if (!value.is_object() || !std::all_of(items.begin(), items.end(), is_bias))
    fail("logit_bias = ", json_shown(value), " is not an object of token ids with numbers");
  for (const auto& [token, bias] : items)
    text += cat(text.empty() ? "" : ",", token, ":", bias.dump());
  return text;
}

}  // namespace prefix_cli
