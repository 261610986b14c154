#include "cli/results_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace bass {
namespace {

using ::testing::HasSubstr;

class ResultsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = ::testing::TempDir() + "results_" + name + ".jsonl";
    std::filesystem::remove(path_);
    for (int i = 0; i < 3; ++i) {
      PromptSpec prompt;
      prompt.index = i;
      prompt.request.prompt = "prompt " + std::to_string(i);
      prompt.request.seed = static_cast<uint64_t>(i);
      prompts_.push_back(prompt);
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static PromptResult result_of(int index, FinishReason reason = FinishReason::kLength) {
    PromptResult result;
    result.index = index;
    result.choices.resize(2);
    for (ChoiceResult& choice : result.choices) choice.add({7, -0.5F, TokenOrigin::kRegular});
    result.choices[0].finish_reason = FinishReason::kStop;
    result.choices[1].finish_reason = reason;
    rank_choices(&result);
    return result;
  }

  Result<std::unique_ptr<ResultsFile>> open() const { return ResultsFile::open(path_, nullptr); }

  /// The indices of the prompts that a run would still have to do.
  Result<std::vector<int>> left(const GenerateOptions& options = {}, const std::string& model = "digest") {
    Result<std::unique_ptr<ResultsFile>> file = open();
    if (!file.ok()) return file.status();
    std::vector<PromptSpec> prompts = prompts_;
    const Result<int> n_done = file.value()->skip_done(options, model, &prompts);
    if (!n_done.ok()) return n_done.status();
    EXPECT_EQ(static_cast<size_t>(n_done.value()), prompts_.size() - prompts.size());
    std::vector<int> indices;
    for (const PromptSpec& prompt : prompts) indices.push_back(prompt.index);
    return indices;
  }

  void write(const std::vector<PromptResult>& results) {
    const auto file = open().value();
    std::vector<PromptSpec> prompts = prompts_;
    ASSERT_TRUE(file->skip_done({}, "digest", &prompts).ok());
    for (const PromptResult& result : results) ASSERT_TRUE(file->append(result, false).ok());
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void set_text(const std::string& text) const { std::ofstream(path_) << text; }

  std::string path_;
  std::vector<PromptSpec> prompts_;
};

TEST_F(ResultsFileTest, WhatIsThereIsNotRunAgain) {
  EXPECT_EQ(left().value(), (std::vector{0, 1, 2}));
  write({result_of(2), result_of(0, FinishReason::kDeadline)});
  EXPECT_EQ(left().value(), std::vector{1});
  write({result_of(1)});
  EXPECT_EQ(left().value(), std::vector<int>{});
  std::istringstream lines(text());
  std::vector<int> indices;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["choices"].size(), 2u);
    EXPECT_EQ(json["choices"][0]["token_ids"], nlohmann::json({7}));
    indices.push_back(json["index"]);
  }
  EXPECT_EQ(indices, (std::vector{2, 0, 1}));
}

TEST_F(ResultsFileTest, WhatWasCancelledOrFailedIsRunAgain) {
  PromptResult not_begun = result_of(2, FinishReason::kDeadline);
  not_begun.choices[1].n_tokens = 0;
  write({result_of(0, FinishReason::kCancelled), result_of(1, FinishReason::kError), not_begun});
  EXPECT_FALSE(std::filesystem::exists(path_));  // it got no line
  EXPECT_EQ(left().value(), (std::vector{0, 1, 2}));
}

TEST_F(ResultsFileTest, ALineThatWasCutShortIsRemoved) {
  write({result_of(0), result_of(1)});
  const std::string whole = text();
  const size_t first_len = whole.find('\n') + 1;
  for (size_t len = first_len + 1; len + 1 < whole.size(); ++len) {
    set_text(whole.substr(0, len));
    ASSERT_EQ(left().value(), (std::vector{1, 2})) << len;
    ASSERT_EQ(text(), whole.substr(0, first_len)) << len;
  }
  set_text(whole.substr(0, whole.size() - 1));  // only the line's end is missing: an editor's work
  EXPECT_EQ(left().value(), std::vector{2});
  EXPECT_EQ(text(), whole);
}

TEST_F(ResultsFileTest, AnotherFileIsRefusedAndStaysAsItIs) {
  for (const std::string other : {"{\"prompt\": \"a\"}\n", "{\"index\":0,\"x\":1}", "{\"index\": 3",
                                  "{\"index\":3, \"te", "{\"index\":3,\"text\"", "notes", "notes\n", "[1, 2]\n",
                                  "{\"index\":-1,\"request\":\"\",\"choices\":[]}\n", "{\n"}) {
    set_text(other);
    const Result<std::vector<int>> found = left();
    ASSERT_FALSE(found.ok()) << other;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr(path_ + ":1: is no line that --results has written"));
    EXPECT_EQ(text(), other);
  }
}

TEST_F(ResultsFileTest, AnswersToOtherQuestionsAreRefused) {
  write({result_of(1)});
  const std::string written = text();
  EXPECT_THAT(left({}, "other").status().message(), HasSubstr(":1: prompt 1 was another one then"));
  GenerateOptions options;
  options.engine.kv = KvKind::kInt8;
  EXPECT_FALSE(left(options).ok());
  const std::vector<PromptSpec> before = prompts_;
  options = {};
  options.engine.context_len = 512;  // it ends samples
  EXPECT_FALSE(left(options).ok());
  prompts_[1].request.max_tokens = 7;
  EXPECT_FALSE(left().ok());
  prompts_ = before;
  prompts_[1].id = "a name";
  EXPECT_FALSE(left().ok());
  prompts_ = before;
  prompts_[1].request.messages = {{"user", "Hello"}};
  EXPECT_FALSE(left().ok());
  prompts_ = before;
  std::swap(prompts_[1].request.prompt, prompts_[0].request.prompt);
  EXPECT_FALSE(left().ok());
  prompts_ = {before[0]};
  EXPECT_THAT(left().status().message(), HasSubstr("prompt 1, which is not there (the last is 0)"));
  EXPECT_EQ(text(), written);
  set_text(written + "{\"index\":2,\"re");
  EXPECT_FALSE(left().ok());
  EXPECT_EQ(text(), written + "{\"index\":2,\"re") << "a run that is refused changes nothing";
}

TEST_F(ResultsFileTest, PromptsWithAnIdMayMove) {
  for (PromptSpec& prompt : prompts_) {
    prompt.id = "id " + std::to_string(prompt.index);
    prompt.request.seed.reset();
  }
  write({result_of(0), result_of(2)});
  PromptSpec added = prompts_[0];
  added.id = "another";
  prompts_ = {prompts_[2], added, prompts_[1], prompts_[0]};
  for (size_t i = 0; i < prompts_.size(); ++i) prompts_[i].index = static_cast<int>(i);
  EXPECT_EQ(left().value(), (std::vector{1, 2}));
  write({result_of(1)});
  EXPECT_EQ(left().value(), std::vector{2});
  prompts_[3].request.prompt = "asked in other words";
  EXPECT_THAT(left().status().message(), HasSubstr(":1: prompt 0 was another one then"));
}

TEST_F(ResultsFileTest, EqualPromptsHaveALineEach) {
  for (PromptSpec& prompt : prompts_) {
    prompt.id = "the same";
    prompt.request.prompt = "the same";
    prompt.request.seed.reset();
  }
  write({result_of(0), result_of(1)});
  EXPECT_EQ(left().value(), std::vector{2});
  PromptSpec other = prompts_[0];
  other.request.prompt = "another";
  prompts_ = {other, other, prompts_[0], prompts_[1], prompts_[2]};
  for (size_t i = 0; i < prompts_.size(); ++i) prompts_[i].index = static_cast<int>(i);
  EXPECT_EQ(left().value().size(), 3U) << "of five, two have a line";
}

TEST_F(ResultsFileTest, AMovedPromptWithAnotherSeedIsAnother) {
  for (PromptSpec& prompt : prompts_) prompt.id = prompt.index;
  write({result_of(0)});
  std::swap(prompts_[0], prompts_[1]);
  for (size_t i = 0; i < prompts_.size(); ++i) {
    prompts_[i].index = static_cast<int>(i);
    prompts_[i].request.seed = i;
  }
  EXPECT_FALSE(left().ok());
}

TEST_F(ResultsFileTest, WhatChangesNoSampleMayChange) {
  write({result_of(1)});
  GenerateOptions options;
  options.engine.n_threads = 1;
  options.engine.draft_path = "draft.gguf";
  prompts_[1].request.speculation.drafter = DrafterChoice::kOff;
  prompts_[1].request.time_budget_s = 3;
  prompts_[2].request.max_tokens = 7;
  EXPECT_EQ(left(options).value(), (std::vector{0, 2}));
}

TEST_F(ResultsFileTest, OneRunAtATimeWritesToAFile) {
  write({result_of(0)});
  const auto file = open().value();
  EXPECT_THAT(left().status().message(), HasSubstr("another run writes to it"));
}

TEST_F(ResultsFileTest, AFileThatWasRemovedMeanwhileIsMadeAgain) {
  {
    const auto first = open().value();  // fails behind this, and removes the file
    std::filesystem::remove(path_);
    write({result_of(0)});
  }
  EXPECT_EQ(left().value(), (std::vector{1, 2}));
}

TEST_F(ResultsFileTest, AFileThatIsGoneIsTold) {
  const auto file = open().value();
  EXPECT_TRUE(file->check_kept().ok());
  std::filesystem::remove(path_);
  EXPECT_THAT(file->check_kept().message(), HasSubstr("was moved, replaced or removed while the run wrote to it"));
}

TEST_F(ResultsFileTest, ALinkStays) {
  std::string link = path_ + ".link";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(path_, link);
  std::swap(path_, link);
  write({result_of(0, FinishReason::kCancelled)});
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  write({result_of(0)});
  EXPECT_EQ(left().value(), (std::vector{1, 2}));
  std::swap(path_, link);
  EXPECT_EQ(left().value(), (std::vector{1, 2}));
  std::filesystem::remove(link);
}

TEST_F(ResultsFileTest, AFullDiskIsAnError) {
  const auto file = ResultsFile::open("/dev/full", nullptr).value();
  std::vector<PromptSpec> prompts = prompts_;
  EXPECT_EQ(file->skip_done({}, "digest", &prompts).value(), 0);
  const Result<bool> appended = file->append(result_of(0), false);
  EXPECT_EQ(appended.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(appended.status().message(), HasSubstr("--results /dev/full: cannot be written: No space left"));
}

}  // namespace
}  // namespace bass
