#include "text.h"

#include <dlfcn.h>
#include <prefix_text.h>

#include <cstdlib>
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

  std::vector<int32_t> encode(const std::string& text, Encode how) override {
    const int32_t flags = how == Encode::kWhole       ? PREFIX_ENCODE_SPECIAL
                          : how == Encode::kContinues ? PREFIX_ENCODE_CONTINUES
                                                      : 0;
    // Seldom more tokens than bytes, and a few that the model wants around them.
    return read<std::vector<int32_t>>(
        text.size() + 8, [&](int32_t* out, size_t n, size_t* needed, prefix_error* error) {
          return f_.prefix_tokenizer_encode(tokenizer_, text.data(), text.size(), flags, out, n,
                                            needed, error);
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

  std::optional<std::string> token_text(int32_t token) override {
    prefix_error error = PREFIX_ERROR_INIT;
    auto text = read<std::string>(
        64,
        [&](char* out, size_t n, size_t* needed, prefix_error* e) {
          return f_.prefix_tokenizer_token_bytes(tokenizer_, token, out, n, needed, e);
        },
        &error);
    if (error.code == PREFIX_OK) return text;
    if (error.code != PREFIX_ERR_OUT_OF_RANGE) check(error.code, error);
    return std::nullopt;
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
    const prefix::Options options(task.options.dump());
    const Handle handle(f_, create(engine, task, options));
    fill(handle.task, task);
    prefix_error error = PREFIX_ERROR_INIT;
    check(f_.prefix_task_submit(handle.task, &error), error);
    for (prefix_status status = PREFIX_ERR_TIMEOUT; status != PREFIX_OK;) {
      status = f_.prefix_task_wait(handle.task, interval_ms, &error);
      if (status != PREFIX_ERR_TIMEOUT) check(status, error);
      size_t done = 0, all = 0;
      f_.prefix_task_finished_count(handle.task, &done, nullptr);
      f_.prefix_task_count(handle.task, &all, nullptr);
      show(static_cast<int64_t>(done), static_cast<int64_t>(all));
    }
    return collect(handle.task, task, options);
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

  // Texts as the library takes them.
  struct List {
    explicit List(const std::vector<std::string>& list) {
      for (const std::string& text : list) {
        texts.push_back(text.data());
        lengths.push_back(text.size());
      }
    }
    std::vector<const char*> texts;
    std::vector<size_t> lengths;
  };

  prefix_task* create(prefix_engine* engine, const TextTask& task, const prefix::Options& options) {
    prefix_task* out = nullptr;
    prefix_error error = PREFIX_ERROR_INIT;
    check(f_.prefix_task_create(engine, tokenizer_, task.kind.data(), task.kind.size(),
                                options.get(), &out, &error),
          error);
    return out;
  }

  void fill(prefix_task* task, const TextTask& given) {
    const List firsts(given.firsts), seconds(given.seconds), labels(given.labels);
    prefix_error error = PREFIX_ERROR_INIT;
    if (!given.labels.empty())
      check(f_.prefix_task_set_labels(task, labels.texts.data(), labels.lengths.data(),
                                      labels.texts.size(), &error),
            error);
    check(given.is_product ? f_.prefix_task_add_product(
                                 task, firsts.texts.data(), firsts.lengths.data(),
                                 firsts.texts.size(), seconds.texts.data(), seconds.lengths.data(),
                                 seconds.texts.size(), 0, nullptr, &error)
                           : f_.prefix_task_add(task, firsts.texts.data(), firsts.lengths.data(),
                                                firsts.texts.size(), 0, nullptr, &error),
          error);
  }

  // What the options make the library say of each text; it reads their values in every form.
  static void ask(const prefix::Options& options, TextTaskResult& r) {
    r.has_top = options.value("top_logprobs") != "0";
    r.has_scored = r.has_top || options.value("logprobs") == "true";
    r.has_seeds = std::strtod(options.value("temperature").c_str(), nullptr) > 0 &&
                  options.value("seed") == "-1";
  }

  TextTaskResult collect(prefix_task* task, const TextTask& given, const prefix::Options& options) {
    TextTaskResult r;
    if (given.writes_text()) ask(options, r);
    prefix_error error = PREFIX_ERROR_INIT;
    size_t items = 0, width = 0;
    check(f_.prefix_task_count(task, &items, &error), error);
    check(f_.prefix_task_width(task, &width, &error), error);
    for (size_t i = 0; i < items; ++i) item(task, i, given, r);
    if (given.writes_text()) return r;
    r.values = read<std::vector<float>>(items * width,
                                        [&](float* out, size_t n, size_t* needed, prefix_error* e) {
                                          return f_.prefix_task_all_values(task, out, n, needed, e);
                                        });
    if (given.kind == "classify" && given.labels.empty()) r.labels = head_labels(task);
    // One value for each document of a query or each label of a text.
    r.rows = given.kind == "classify" ? items : given.is_product ? given.firsts.size() : 1;
    r.columns = r.rows ? items * width / r.rows : 0;
    for (size_t row = 0; given.has_order() && row < r.rows; ++row)
      r.order.push_back(read<std::vector<int64_t>>(
          r.columns, [&](int64_t* out, size_t n, size_t* needed, prefix_error* e) {
            return f_.prefix_task_ranking(task, row * r.columns, r.columns, out, n, needed, nullptr,
                                          0, e);
          }));
    return r;
  }

  // As JSON.
  std::string head_labels(prefix_task* task) {
    const auto info =
        read<std::string>(4096, [&](char* out, size_t n, size_t* needed, prefix_error* e) {
          return f_.prefix_task_info_json(task, out, n, needed, e);
        });
    return nlohmann::json::parse(info).at("labels").dump();
  }

  void item(prefix_task* task, size_t index, const TextTask& given, TextTaskResult& r) {
    prefix_error error = PREFIX_ERROR_INIT;
    prefix_result_info info = PREFIX_RESULT_INFO_INIT;
    check(f_.prefix_task_item_info(task, index, &info, &error), error);
    r.usage.add(info);
    const auto words = [&](auto get) {
      return read<std::string>(256, [&](char* out, size_t n, size_t* needed, prefix_error* e) {
        return get(task, index, out, n, needed, e);
      });
    };
    if (info.status != PREFIX_OK)
      r.failed.push_back(
          {index, prefix_status_name(info.status), words(f_.prefix_task_item_message)});
    else if (info.flags & PREFIX_RESULT_CUT)
      r.cut.push_back(index);
    if (!given.writes_text()) return;
    r.texts.push_back(words(f_.prefix_task_item_partial_text));
    r.finish.emplace_back(finish_name(info.finish));
    if (r.has_seeds) r.seeds.push_back(info.seed);
    if (r.has_scored) r.scored.push_back(scored(task, index, r.has_top));
  }

  TextTaskResult::Scored scored(prefix_task* task, size_t index, bool with_top) {
    TextTaskResult::Scored found;
    prefix_error error = PREFIX_ERROR_INIT;
    size_t n = 0;
    check(f_.prefix_task_item_logprobs(task, index, 0, nullptr, 0, &n, nullptr, 0, nullptr, 0,
                                       &error),
          error);
    found.tokens.resize(n);
    found.logprobs.resize(n);
    check(f_.prefix_task_item_logprobs(task, index, 0, found.tokens.data(), n, &n,
                                       found.logprobs.data(), n, nullptr, 0, &error),
          error);
    for (size_t place = 0; with_top && place < n; ++place)
      found.top.push_back(likely(task, index, place));
    return found;
  }

  std::vector<TopToken> likely(prefix_task* task, size_t index, size_t place) {
    prefix_error error = PREFIX_ERROR_INIT;
    size_t n = 0;
    check(f_.prefix_task_item_top(task, index, place, nullptr, 0, &n, nullptr, 0, &error), error);
    std::vector<int32_t> tokens(n);
    std::vector<float> logprobs(n);
    check(f_.prefix_task_item_top(task, index, place, tokens.data(), n, &n, logprobs.data(), n,
                                  &error),
          error);
    std::vector<TopToken> top;
    for (size_t i = 0; i < n; ++i) top.push_back({tokens[i], logprobs[i], token_text(tokens[i])});
    return top;
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
    if (model_.empty()) {
      why_ = "text needs a tokenizer; --model names the model that has it";
      return nullptr;
    }
    try {
      text_ = Text::open(model_);
    } catch (const prefix::Error&) {
      of_files_ = std::current_exception();
    } catch (const std::exception& e) {
      why_ = e.what();
    }
  }
  return text_.get();
}

Text& LazyText::need(int64_t line) {
  if (get()) return *text_;
  if (of_files_) std::rethrow_exception(of_files_);
  fail(line > 0 ? cat("line ", line, ": ") : "", why_);
}

}  // namespace prefix_cli
