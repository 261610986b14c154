// Tables of what schemas accept, reject, and of schemas that are refused: for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_schema.h"

namespace bass {

struct SchemaCase {
  std::string schema;
  std::vector<std::string> accepted;
  std::vector<std::string> rejected;
};

inline void expect(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& c : cases) {
    const Result<Grammar> grammar = json_schema_grammar(c.schema);
    ASSERT_TRUE(grammar.ok()) << c.schema << ": " << grammar.status().message();
    for (const std::string& text : c.accepted) {
      EXPECT_TRUE(matches(grammar.value(), text)) << c.schema << " wants " << ::testing::PrintToString(text);
    }
    for (const std::string& text : c.rejected) {
      EXPECT_FALSE(matches(grammar.value(), text)) << c.schema << " not " << ::testing::PrintToString(text);
    }
  }
}

struct RefusedSchema {
  std::string schema;
  std::string message;
};

inline void expect_refused(const std::vector<RefusedSchema>& cases) {
  for (const RefusedSchema& c : cases) {
    const Result<Grammar> grammar = json_schema_grammar(c.schema);
    EXPECT_FALSE(grammar.ok()) << c.schema.substr(0, 200);
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(grammar.status().message(), ::testing::HasSubstr(c.message)) << c.schema.substr(0, 200);
  }
}

}  // namespace bass
