#include "text.h"

#include <dlfcn.h>
#include <prefix_text.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "api.h"
#include "common.h"

namespace prefix_cli {
namespace {

// The functions of the library, found by name at run time.
struct Functions {
#define PREFIX_CLI_POINTER(name) decltype(&::name) name = nullptr;
  PREFIX_TEXT_FUNCTIONS(PREFIX_CLI_POINTER)
#undef PREFIX_CLI_POINTER
};

constexpr const char* kLibrary = "libprefix_text.so.1";
constexpr const char* kNeeded =
    "text, messages and stop strings need libprefix_text.so.1; requests with tokens work without "
    "it";

// Beside the libprefix.so of this program first: an installed tree can be moved anywhere. Then
// wherever the system looks for libraries. Stays open until the process ends.
void* open_library() {
  std::string tried;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> names;
  if (!error) names.push_back((self.parent_path().parent_path() / "lib" / kLibrary).string());
  names.push_back(kLibrary);
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = dlerror();
    tried += cat(tried.empty() ? "" : "; ", why ? why : name);
  }
  fail(kNeeded, " (", tried, ")");
}

template <typename Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) fail(kNeeded, "; the one found lacks ", name);
}

Functions load_functions() {
  void* library = open_library();
  Functions f;
  // The version comes first: an older library may lack names, and this message says more.
  resolve(library, "prefix_text_abi_version", f.prefix_text_abi_version);
  const int32_t version = f.prefix_text_abi_version();
  if (version < PREFIX_TEXT_ABI_VERSION)
    fail(kNeeded, "; the one found has ABI ", version, ", at least ", PREFIX_TEXT_ABI_VERSION,
         " is needed");
#define PREFIX_CLI_RESOLVE(name) resolve(library, #name, f.name);
  PREFIX_TEXT_FUNCTIONS(PREFIX_CLI_RESOLVE)
#undef PREFIX_CLI_RESOLVE
  return f;
}

class LibraryText : public Text {
 public:
  explicit LibraryText(const std::string& model) : f_(load_functions()) {
    prefix_error error = PREFIX_ERROR_INIT;
    check(f_.prefix_tokenizer_open(model.data(), model.size(), &tokenizer_, &error), error);
  }
  ~LibraryText() override { f_.prefix_tokenizer_release(tokenizer_); }
  LibraryText(const LibraryText&) = delete;
  LibraryText& operator=(const LibraryText&) = delete;

  std::vector<int32_t> encode(const std::string& text, bool special) override {
    // Never more tokens than bytes, and a few that the model wants around them.
    return read<std::vector<int32_t>>(text.size() + 8, [&](int32_t* out, size_t n, size_t* needed,
                                                           prefix_error* error) {
      return f_.prefix_tokenizer_encode(tokenizer_, text.data(), text.size(),
                                        special ? PREFIX_ENCODE_SPECIAL : 0, out, n, needed, error);
    });
  }

  std::vector<int32_t> encode_chat(const std::string& messages) override {
    return read<std::vector<int32_t>>(
        messages.size() + 256, [&](int32_t* out, size_t n, size_t* needed, prefix_error* error) {
          return f_.prefix_tokenizer_chat_tokens(tokenizer_, messages.data(), messages.size(),
                                                 nullptr, 0, out, n, needed, nullptr, 0, error);
        });
  }

  std::vector<int32_t> end_tokens() override {
    return read<std::vector<int32_t>>(
        16, [&](int32_t* out, size_t n, size_t* needed, prefix_error* error) {
          return f_.prefix_tokenizer_end_tokens(tokenizer_, out, n, needed, error);
        });
  }

  std::string decode(const std::vector<int32_t>& tokens) override {
    return read<std::string>(
        8 * tokens.size() + 64, [&](char* out, size_t n, size_t* needed, prefix_error* error) {
          return f_.prefix_tokenizer_decode(tokenizer_, tokens.data(), tokens.size(),
                                            PREFIX_DECODE_SKIP_SPECIAL, out, n, needed, error);
        });
  }

  TextTaskResult run(prefix_engine* engine, const TextTask& task, int64_t interval_ms,
                     const Show& show) override {
    const Handle handle(f_, create(engine, task));
    prefix_error error = PREFIX_ERROR_INIT;
    for (prefix_status status = PREFIX_ERR_TIMEOUT; status != PREFIX_OK;) {
      status = f_.prefix_task_run(handle.task, interval_ms, &error);
      if (status != PREFIX_ERR_TIMEOUT) check(status, error);
      int64_t done = 0, total = 0;
      f_.prefix_task_progress(handle.task, &done, &total, nullptr);
      show(done, total);
    }
    return collect(handle.task, task);
  }

  std::unique_ptr<Stream> stream() override { return std::make_unique<LibraryStream>(*this); }

 private:
  class LibraryStream : public Stream {
   public:
    explicit LibraryStream(const LibraryText& text) : f_(text.f_) {
      prefix_error error = PREFIX_ERROR_INIT;
      check(f_.prefix_detok_create(text.tokenizer_, PREFIX_DECODE_SKIP_SPECIAL, &detok_, &error),
            error);
    }
    ~LibraryStream() override { f_.prefix_detok_release(detok_); }
    LibraryStream(const LibraryStream&) = delete;
    LibraryStream& operator=(const LibraryStream&) = delete;

    std::string push(int32_t token) override {
      return read<std::string>(256, [&](char* out, size_t n, size_t* needed, prefix_error* error) {
        return f_.prefix_detok_push(detok_, &token, 1, out, n, needed, error);
      });
    }

    std::string flush() override {
      return read<std::string>(256, [&](char* out, size_t n, size_t* needed, prefix_error* error) {
        return f_.prefix_detok_flush(detok_, out, n, needed, error);
      });
    }

   private:
    const Functions& f_;
    prefix_detok* detok_ = nullptr;
  };

  struct Handle {
    Handle(const Functions& f, prefix_task* t) : functions(f), task(t) {}
    ~Handle() { functions.prefix_task_release(task); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    const Functions& functions;
    prefix_task* task;
  };

  // Texts in a row, and where each begins and ends.
  struct List {
    explicit List(const std::vector<std::string>& list) {
      for (const std::string& text : list) {
        bytes += text;
        ends.push_back(static_cast<int64_t>(bytes.size()));
      }
    }
    std::string bytes;
    std::vector<int64_t> ends{0};
  };

  prefix_task* create(prefix_engine* engine, const TextTask& task) {
    const std::string options = task.options.dump();
    const List queries(task.queries), documents(task.documents), labels(task.labels);
    prefix_task* out = nullptr;
    prefix_error error = PREFIX_ERROR_INIT;
    prefix_status status = PREFIX_OK;
    switch (task.kind) {
      case TextTask::Kind::kRerank:
        status =
            f_.prefix_rerank(engine, tokenizer_, queries.bytes.data(), queries.bytes.size(),
                             queries.ends.data(), queries.ends.size(), documents.bytes.data(),
                             documents.bytes.size(), documents.ends.data(), documents.ends.size(),
                             options.data(), options.size(), &out, &error);
        break;
      case TextTask::Kind::kAnswer:
        status =
            f_.prefix_answer(engine, tokenizer_, documents.bytes.data(), documents.bytes.size(),
                             queries.bytes.data(), queries.bytes.size(), queries.ends.data(),
                             queries.ends.size(), options.data(), options.size(), &out, &error);
        break;
      case TextTask::Kind::kClassify:
        status = f_.prefix_classify(
            engine, tokenizer_, documents.bytes.data(), documents.bytes.size(),
            documents.ends.data(), documents.ends.size(), labels.bytes.data(), labels.bytes.size(),
            labels.ends.data(), labels.ends.size(), options.data(), options.size(), &out, &error);
        break;
    }
    check(status, error);
    return out;
  }

  TextTaskResult collect(prefix_task* task, const TextTask& given) {
    TextTaskResult r;
    prefix_error error = PREFIX_ERROR_INIT;
    int64_t rows = 0, columns = 0;
    check(f_.prefix_task_shape(task, &rows, &columns, &error), error);
    r.rows = static_cast<size_t>(rows);
    r.columns = static_cast<size_t>(columns);
    r.values = read<std::vector<float>>(r.rows * r.columns,
                                        [&](float* out, size_t n, size_t* needed, prefix_error* e) {
                                          return f_.prefix_task_values(task, out, n, needed, e);
                                        });
    const auto statuses = read<std::vector<int32_t>>(
        64, [&](int32_t* out, size_t n, size_t* needed, prefix_error* e) {
          return f_.prefix_task_statuses(task, out, n, needed, e);
        });
    for (size_t i = 0; i < statuses.size(); ++i) item(task, i, given, r);
    for (int64_t row = 0; row < rows && given.kind != TextTask::Kind::kAnswer; ++row)
      r.order.push_back(read<std::vector<int64_t>>(
          r.columns, [&](int64_t* out, size_t n, size_t* needed, prefix_error* e) {
            return f_.prefix_task_order(task, row, out, n, needed, e);
          }));
    return r;
  }

  void item(prefix_task* task, size_t index, const TextTask& given, TextTaskResult& r) {
    const auto at = static_cast<int64_t>(index);
    prefix_error error = PREFIX_ERROR_INIT;
    prefix_result_info info{};
    info.struct_size = sizeof(info);
    check(f_.prefix_task_item_info(task, at, &info, &error), error);
    r.usage.prompt += info.prompt_tokens;
    r.usage.cached += info.cached_tokens;
    r.usage.shared += info.shared_tokens;
    r.usage.computed += info.computed_tokens;
    r.usage.generated += info.generated_tokens;
    const auto words = [&](auto get) {
      return read<std::string>(256, [&](char* out, size_t n, size_t* needed, prefix_error* e) {
        return get(task, at, out, n, needed, e);
      });
    };
    if (info.status != PREFIX_OK)
      r.failed.push_back(
          {index, prefix_status_name(info.status), words(f_.prefix_task_item_message)});
    else if (info.user_tag != 0)
      r.cut.push_back(index);
    if (given.kind == TextTask::Kind::kAnswer)
      r.answers.push_back(words(f_.prefix_task_item_partial_text));
  }

  Functions f_;
  prefix_tokenizer* tokenizer_ = nullptr;
};

}  // namespace

std::unique_ptr<Text> Text::open(const std::string& model) {
  return std::make_unique<LibraryText>(model);
}

Text* LazyText::get() {
  if (!tried_) {
    tried_ = true;
    try {
      text_ = Text::open(model_);
    } catch (const std::exception& e) {
      why_ = e.what();
    }
  }
  return text_.get();
}

Text& LazyText::need() {
  if (!get()) throw Failure(why_);
  return *text_;
}

}  // namespace prefix_cli
