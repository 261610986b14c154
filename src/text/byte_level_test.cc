#include "text/byte_level.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(ByteLevelMapTest, SpellsBytes) {
  const ByteLevelMap map;
  EXPECT_EQ(map.spell('A'), "A");
  EXPECT_EQ(map.spell(' '), "\u0120");
  EXPECT_EQ(map.spell('\n'), "\u010A");
  EXPECT_EQ(map.spell(0x00), "\u0100");
  EXPECT_EQ(map.spell(0x7F), "\u0121");
  EXPECT_EQ(map.spell(0xAD), "\u0143");
  EXPECT_EQ(map.spell(0xFF), "\u00FF");
}

TEST(ByteLevelMapTest, EveryByteRoundTrips) {
  const ByteLevelMap map;
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(map.to_bytes(map.spell(static_cast<uint8_t>(byte))), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(map.to_bytes("\u0120the"), " the");
}

TEST(ByteLevelMapTest, OtherCharactersSpellNothing) {
  const ByteLevelMap map;
  EXPECT_EQ(map.to_bytes(" "), std::nullopt);
  EXPECT_EQ(map.to_bytes("\u0144"), std::nullopt);
  EXPECT_EQ(map.to_bytes("a\u4e00"), std::nullopt);
  EXPECT_EQ(map.to_bytes("\xFF"), std::nullopt);
}

}  // namespace
}  // namespace bass
