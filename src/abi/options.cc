// Options as a handle, each checked when it is set, and the table of all that exist.
#include "abi/entry.h"
#include "base/json_text.h"
#include "engine/options_json.h"

namespace {

using prefix::OptionType;
using prefix::abi::array_in;
using prefix::abi::find;
using prefix::abi::guard;
using prefix::abi::Kind;
using prefix::abi::OptionsObject;
using prefix::abi::require;
using prefix::abi::text_in;

std::shared_ptr<OptionsObject> object_of(const prefix_options* options) {
  return find<OptionsObject>(Kind::kOptions, options, "options");
}

// As a whole number stands in a text where it is one: 1e+06 would be none.
std::string whole_or_shortest(double number) {
  const std::string whole = prefix::whole_text(number);
  return whole.empty() ? prefix::abi::number_text(number) : whole;
}

}  // namespace

extern "C" {

prefix_status prefix_options_create(prefix_options** out, prefix_error* err) {
  return guard("prefix_options_create", err, [&] {
    require(out, "out");
    *out = static_cast<prefix_options*>(
        prefix::abi::HandleTable::get().add(Kind::kOptions, std::make_shared<OptionsObject>()));
  });
}

prefix_status prefix_options_retain(prefix_options* options, prefix_error* err) {
  return guard("prefix_options_retain", err,
               [&] { prefix::abi::HandleTable::get().retain(Kind::kOptions, options, "options"); });
}

void prefix_options_release(prefix_options* options) {
  guard("prefix_options_release", nullptr,
        [&] { prefix::abi::HandleTable::get().release(Kind::kOptions, options); });
}

prefix_status prefix_options_set(prefix_options* options, const char* key, size_t key_len,
                                 const char* value, size_t value_len, prefix_error* err) {
  return guard("prefix_options_set", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    object->options.set(text_in(key, key_len, "key"), text_in(value, value_len, "value"));
  });
}

prefix_status prefix_options_set_int(prefix_options* options, const char* key, size_t key_len,
                                     int64_t number, prefix_error* err) {
  return guard("prefix_options_set_int", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    object->options.set(text_in(key, key_len, "key"), std::to_string(number), OptionType::kInt);
  });
}

prefix_status prefix_options_set_double(prefix_options* options, const char* key, size_t key_len,
                                        double number, prefix_error* err) {
  return guard("prefix_options_set_double", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    object->options.set(text_in(key, key_len, "key"), whole_or_shortest(number),
                        OptionType::kFloat);
  });
}

prefix_status prefix_options_set_bool(prefix_options* options, const char* key, size_t key_len,
                                      int32_t value, prefix_error* err) {
  return guard("prefix_options_set_bool", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    object->options.set(text_in(key, key_len, "key"), value != 0 ? "true" : "false",
                        OptionType::kBool);
  });
}

prefix_status prefix_options_set_ints(prefix_options* options, const char* key, size_t key_len,
                                      const prefix_token* values, size_t n_values,
                                      prefix_error* err) {
  return guard("prefix_options_set_ints", err, [&] {
    const auto object = object_of(options);
    std::string list;
    for (const prefix_token value : array_in(values, n_values, "values"))
      list += (list.empty() ? "" : ",") + std::to_string(value);
    std::lock_guard lock(object->mutex);
    object->options.set(text_in(key, key_len, "key"), list, OptionType::kIntList);
  });
}

prefix_status prefix_options_set_texts(prefix_options* options, const char* key, size_t key_len,
                                       const char* const* texts, const size_t* lengths,
                                       size_t n_texts, prefix_error* err) {
  return guard("prefix_options_set_texts", err, [&] {
    const auto object = object_of(options);
    const auto list = array_in(texts, n_texts, "texts");
    prefix::JsonText json;
    json.open('[');
    for (size_t i = 0; i < list.size(); ++i)
      json.value(text_in(list[i], lengths ? lengths[i] : PREFIX_NUL, "a text of texts"));
    std::lock_guard lock(object->mutex);
    object->options.set(text_in(key, key_len, "key"), json.close(']').text(),
                        OptionType::kStringList);
  });
}

prefix_status prefix_options_set_json(prefix_options* options, const char* json, size_t json_len,
                                      prefix_error* err) {
  return guard("prefix_options_set_json", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    object->options.set_json(text_in(json, json_len, "json"));
  });
}

prefix_status prefix_options_get(const prefix_options* options, const char* key, size_t key_len,
                                 char* buf, size_t cap, size_t* needed, prefix_error* err) {
  return guard("prefix_options_get", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    prefix::abi::text_out(object->options.get(text_in(key, key_len, "key")), buf, cap, needed);
  });
}

prefix_status prefix_options_set_pool(prefix_options* options, prefix_pool* pool,
                                      prefix_error* err) {
  return guard("prefix_options_set_pool", err, [&] {
    const auto object = object_of(options);
    auto threads = pool ? find<prefix::Threads>(Kind::kPool, pool, "the pool") : nullptr;
    std::lock_guard lock(object->mutex);
    threads = object->options.exchange_pool(std::move(threads));
  });
}

prefix_status prefix_options_json(const prefix_options* options, char* buf, size_t cap,
                                  size_t* needed, prefix_error* err) {
  return guard("prefix_options_json", err, [&] {
    const auto object = object_of(options);
    std::lock_guard lock(object->mutex);
    prefix::abi::text_out(object->options.to_json(), buf, cap, needed);
  });
}

size_t prefix_option_count(void) { return prefix::option_table().size(); }

prefix_status prefix_option_info(size_t index, prefix_option_details* out, prefix_error* err) {
  return guard("prefix_option_info", err, [&] {
    const auto table = prefix::option_table();
    if (index >= table.size())
      prefix::fail(prefix::Code::kOutOfRange, "option ", index, "; there are ", table.size());
    const prefix::OptionInfo& o = table[index];
    prefix_option_details d{};
    d.type = static_cast<int32_t>(o.type);
    d.scope = static_cast<int32_t>(o.scope);
    d.minimum = o.minimum;
    d.maximum = o.maximum;
    d.key = o.key.data();
    d.default_value = o.default_value.data();
    d.values = o.values.data();
    d.doc = o.doc.data();
    prefix::abi::struct_out(d, out);
  });
}

}  // extern "C"
