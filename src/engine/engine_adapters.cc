// Adapters: loaded and unloaded while the engine runs,
// and which of them a request is computed with.
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/quote.h"
#include "engine/engine.h"
#include "engine/schedule/scheduler.h"

namespace prefix {

void Engine::load_adapter(const std::string& name, const InputFolder& folder) {
  if (name.empty()) fail(Code::kInvalidArgument, "the name of an adapter is empty");
  // Not held: a shutdown would wait for the reader, who takes as long as he likes.
  std::shared_ptr<ops::Device> device;  // goes after the model
  std::shared_ptr<Model> model;
  {
    std::lock_guard lock(mutex_);
    require_open();
    device = device_;
    model = model_;
  }
  const AdapterFiles files = open_adapter(folder);
  const std::string part = adapter_part(files.digest);
  AdapterNames::Entry entry;
  entry.part = part;
  {
    std::lock_guard lock(mutex_);
    require_open();
    if (const AdapterNames::Entry* same = adapters_.loaded(part)) {
      entry.bytes = same->bytes;
      entry.matrices = same->matrices;
      name_adapter(name, std::move(entry));
      return;
    }
  }
  const std::shared_ptr<const Adapter> adapter = model->load_adapter(files, [this] {
    std::lock_guard lock(mutex_);
    return !stop_;
  });
  entry.bytes = adapter->bytes();
  entry.matrices = adapter->matrices();
  // While nothing has changed: it may find no memory.
  const std::string done = cat("loaded adapter ", quote(name), " from ", folder.name(), ": ",
                               adapter->matrices(), " matrices, ", adapter->bytes(), " bytes");
  {
    std::lock_guard lock(mutex_);
    require_open();
    const int32_t number = adapters_.number_of(part);
    if (!adapters_.loaded(part)) adapters_.retire(part);  // until it has the name, which may fail
    model->adapters().put(number, adapter);
    name_adapter(name, std::move(entry));
  }
  log_message(LogLevel::kInfo, done);
}

// What had the name before loses it.
void Engine::name_adapter(const std::string& name, AdapterNames::Entry entry) {
  const AdapterNames::Entry* const found = adapters_.find(name);
  const bool other = found && found->part != entry.part;
  change_adapter(other ? found->part : "", [&] { adapters_.set(name, std::move(entry)); });
}

void Engine::unload_adapter(const std::string& name) {
  std::lock_guard lock(mutex_);
  require_open();
  change_adapter(require_adapter(name).part, [&] { adapters_.erase(name); });
}

// Runs f, by which an adapter loses a name, or none does when `part` is empty. Without its last one
// its namespaces are closed; requests that run there end as they would have, and the weights go
// with the last of them. What needs memory comes before f.
void Engine::change_adapter(const std::string& part, const std::function<void()>& f) {
  AdapterNames::Retired retired;
  if (!part.empty()) retired.insert(part);
  std::vector<int32_t> namespaces;
  for (const int32_t name_space : part.empty() ? std::vector<int32_t>() : namespaces_.numbers())
    if (adapter_part(namespaces_.parts(name_space)) == part) namespaces.push_back(name_space);
  f();  // `part` may be gone then
  if (retired.empty() || adapters_.loaded(*retired.begin())) return;
  adapters_.retire(std::move(retired));
  for (const int32_t name_space : namespaces) close_one(name_space);
  free_closed_namespaces();
}

void Engine::free_retired_adapters() {
  AdapterNames::Retired& retired = adapters_.retired();
  for (auto at = retired.begin(); at != retired.end();) {
    bool used = false;
    for (const auto& [number, parts] : namespaces_.closed()) used |= adapter_part(parts) == *at;
    if (used) {
      ++at;
      continue;
    }
    model_->adapters().remove(adapters_.number_of(*at));
    at = retired.erase(at);
  }
}

const AdapterNames::Entry& Engine::require_adapter(const std::string& name) const {
  const AdapterNames::Entry* const found = adapters_.find(name);
  if (!found) fail(Code::kNotFound, "adapter ", quote(name), " is not loaded");
  return *found;
}

// Of namespaces that are open those whose requests have an adapter, beside this one.
std::vector<int32_t> Engine::adapter_namespaces(int32_t name_space) const {
  std::vector<int32_t> found;
  const NamespaceParts& parts = namespaces_.parts(name_space);
  for (const auto& [part, number] : adapters_.numbers())
    if (const int32_t one = namespaces_.find(with_adapter(parts, part)); one >= 0)
      found.push_back(one);
  return found;
}

int32_t Engine::adapter_namespace(int32_t name_space, const std::string& adapter) {
  std::lock_guard lock(mutex_);
  require_open();
  return open_adapter_namespace(name_space, adapter);
}

int32_t Engine::open_adapter_namespace(int32_t name_space, const std::string& adapter) {
  namespaces_.require(name_space);
  const AdapterNames::Entry& entry = require_adapter(adapter);
  const NamespaceParts& parts = namespaces_.parts(name_space);
  if (!adapter_part(parts).empty())
    fail(Code::kInvalidArgument, "namespace ", name_space, " is that of an adapter already; ",
         quote(adapter), " cannot come on top");
  return namespaces_.open(with_adapter(parts, entry.part));
}

// The request goes to the namespace of its adapter. Throws what is wrong with this request.
void Engine::adapt(RequestSpec& spec) {
  if (!spec.adapter.empty())
    spec.name_space = open_adapter_namespace(spec.name_space, spec.adapter);
  if (!namespaces_.has(spec.name_space)) return;  // which is refused with all else
  const std::string_view part = adapter_part(namespaces_.parts(spec.name_space));
  if (!part.empty() && !adapters_.loaded(part))
    fail(Code::kNotFound, "namespace ", spec.name_space, " is that of an adapter, ", part,
         ", which is not loaded");
  spec.adapter_number = adapters_.number_of(part);
}

int32_t Engine::adapter_of(int32_t name_space) {
  return adapters_.number_of(adapter_part(namespaces_.parts(name_space)));
}

std::string Engine::adapters_json() {
  std::lock_guard lock(mutex_);
  require_open();
  JsonText json;
  json.open('[');
  for (const auto& [name, entry] : adapters_.entries()) {
    json.open('{').field("name", name).field("part", entry.part);
    json.field("matrices", entry.matrices).field("bytes", entry.bytes).close('}');
  }
  return json.close(']').text();
}

}  // namespace prefix
