#include "cli/hub/hub_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HubListing listing(std::initializer_list<const char*> names) {
  HubListing result;
  for (const char* name : names) result.files.push_back({.name = name, .n_bytes = 1536});
  return result;
}

Result<HubChoice> choose(const HubListing& files, const std::string& file = "") {
  return choose_hub_files(files, {.repo = "org/model", .file = file});
}

/// The names of what was chosen, or the error.
std::vector<std::string> chosen(const HubListing& files, const std::string& file = "") {
  const Result<HubChoice> choice = choose(files, file);
  if (!choice.ok()) return {choice.status().message()};
  std::vector<std::string> names;
  for (const HubFile& found : choice.value().files) names.push_back(found.name);
  return names;
}

TEST(HubChoiceTest, TheOnlyGgufFileIsTaken) {
  const HubListing files = listing({"README.md", "mmproj-F16.gguf", "config.json", "x/model.gguf"});
  EXPECT_THAT(chosen(files), ElementsAre("x/model.gguf"));
  EXPECT_EQ(choose(files)->model, "x/model.gguf");
  EXPECT_THAT(chosen(files, "mmproj-F16.gguf"), ElementsAre("mmproj-F16.gguf")) << "whoever names it gets it";
}

TEST(HubChoiceTest, AKindIsAWordOfTheName) {
  const HubListing files = listing({"m-BF16.gguf", "m-F16.gguf", "m-IQ4_XS.gguf", "m-Q4_0.gguf", "m-Q4_0_4_4.gguf",
                                    "m-Q4_K_M.gguf", "m.Q6_K.gguf", "UD-Q5_K_XL.gguf"});
  EXPECT_THAT(chosen(files, "f16"), ElementsAre("m-F16.gguf"));
  EXPECT_THAT(chosen(files, "Q4_0"), ElementsAre("m-Q4_0.gguf"));
  EXPECT_THAT(chosen(files, "q6_k"), ElementsAre("m.Q6_K.gguf"));
  EXPECT_THAT(chosen(files, "q5_k_xl"), ElementsAre("UD-Q5_K_XL.gguf"));
  EXPECT_THAT(chosen(files, "Q4_XS"), ElementsAre(HasSubstr("did you mean org/model:IQ4_XS?")));
  EXPECT_THAT(chosen(files, "Q4_K"), ElementsAre(HasSubstr("no such file")));
  EXPECT_THAT(chosen(files, "m"), ElementsAre(HasSubstr("can be 7 files")));
}

TEST(HubChoiceTest, SeveralAreListedWithTheirSizes) {
  const Result<HubChoice> choice =
      choose(listing({"a-Q4_0.gguf", "a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf"}));
  EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(choice.status().message(),
              AllOf(HasSubstr("org/model: that can be 2 files; say which as org/model:FILE"),
                    HasSubstr("a-Q4_0.gguf (1.5 KiB), a-Q8_0-00001-of-00002.gguf (2 parts, 3.0 KiB)")));
}

TEST(HubChoiceTest, ASplitFileIsTakenWhole) {
  const HubListing files = listing({"a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf", "b-00001-of-00002.gguf",
                                    "c-00003-of-00002.gguf", "d-0001-of-0002.gguf"});
  for (const char* file : {"Q8_0", "a-Q8_0-00002-of-00002.gguf"}) {
    EXPECT_THAT(chosen(files, file), ElementsAre("a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf"));
    EXPECT_EQ(choose(files, file)->model, "a-Q8_0-00001-of-00002.gguf");
  }
  EXPECT_EQ(choose(files, "b").status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(chosen(files, "b"), ElementsAre(HasSubstr("part 2 of 2 is missing")));
  EXPECT_THAT(chosen(files, "c-00003-of-00002.gguf"), ElementsAre("c-00003-of-00002.gguf")) << "no part number";
}

TEST(HubChoiceTest, ACheckpointIsConfigurationTokenizerAndWeights) {
  const HubListing single = listing({"README.md", "chat_template.jinja", "config.json", "model.safetensors",
                                     "other.safetensors", "pytorch_model.bin", "sub/config.json", "tokenizer.json"});
  EXPECT_THAT(chosen(single), ElementsAre("config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"));
  EXPECT_EQ(choose(single)->model, "");
  const HubListing both = listing({"a.gguf", "config.json", "model.safetensors"});
  EXPECT_THAT(chosen(both), ElementsAre("a.gguf"));
  EXPECT_THAT(chosen(both, "Safetensors"), ElementsAre("config.json", "model.safetensors"));
  EXPECT_THAT(chosen(listing({"model.safetensors"})), ElementsAre(HasSubstr("neither GGUF files nor a checkpoint")));
  EXPECT_THAT(chosen(listing({})), ElementsAre(HasSubstr("neither GGUF files nor a checkpoint")));
}

TEST(HubChoiceTest, PickledWeightsAreNotTaken) {
  for (const char* file : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "x.pth", "x.pt", "x.ckpt"}) {
    EXPECT_THAT(chosen(listing({"README.md", "config.json", file, "tokenizer.json"})),
                ElementsAre(AllOf(HasSubstr(std::string("org/model: has no model.safetensors, only ") + file),
                                  HasSubstr("can run any code"),
                                  HasSubstr("AutoModelForCausalLM.from_pretrained('org/model').save_pretrained("))));
  }
}

TEST(HubChoiceTest, AnIndexBringsItsShards) {
  const HubListing files = listing({"a.safetensors", "b.safetensors", "config.json", "model.safetensors.index.json"});
  Result<HubChoice> choice = choose(files);
  ASSERT_TRUE(choice.ok() && choice->has_index);
  EXPECT_TRUE(add_indexed_files(files, R"({"weight_map": {"x": "b.safetensors"}})", &choice.value()).ok());
  EXPECT_EQ(choice->files.back().name, "b.safetensors");
  EXPECT_FALSE(choice->has_index);
  EXPECT_THAT(add_indexed_files(files, R"({"weight_map": {"x": "c"}})", &choice.value()).message(),
              HasSubstr("c, which it names, is missing"));
}

}  // namespace
}  // namespace bass
