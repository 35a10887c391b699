// Which documents fit a query best: rerank MODEL QUERY < FILE
//
// Each line of standard input is a document. The interface is prefix_text.hpp.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <prefix_text.hpp>

static std::vector<prefix::Ranked> rank(const std::string& model, std::string_view query,
                                        const std::vector<std::string>& documents) {
  const prefix::Engine engine(model);
  const prefix::Tokenizer tokenizer(model);
  prefix::Task task(engine, tokenizer, "rerank");
  task.add_product({query}, documents);
  task.submit();
  task.wait();
  const std::vector<prefix::Ranked> ranking = task.ranking(0, documents.size());

  if (const auto failure = task.first_failure())
    std::fprintf(stderr, "rerank: document %zu: %s\n", failure->request, failure->error.message);
  return ranking;
}

int main(int argc, char** argv) try {
  constexpr const char* kUsage = "usage: rerank MODEL QUERY < FILE\n";
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout), 0;
  if (argc != 3) return std::fprintf(stderr, "rerank: two arguments are needed; %s", kUsage), 2;
  std::vector<std::string> documents;
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty()) documents.push_back(line);

  const std::vector<prefix::Ranked> ranking = rank(argv[1], argv[2], documents);
  for (const auto& [place, score] : ranking)
    std::printf("%9.4f  %s\n", static_cast<double>(score), documents[place].c_str());
  return ranking.size() == documents.size() ? 0 : 1;
} catch (const prefix::Error& e) {
  std::fprintf(stderr, "rerank: %s (%s)\n", e.what(), e.name());
  return 1;
}
