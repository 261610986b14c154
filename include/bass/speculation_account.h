// Where the time of decoding went, what drafts were expected to bring, and what they brought.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bass {

/// Steps of one kind that carried no prompt token. draft_s + step_s + rest_s is the time that they took.
struct StepKindSums {
  int64_t n_steps = 0;
  int64_t n_tokens = 0;           ///< that were decoded, end tokens included
  double draft_s = 0;             ///< passes of the draft model
  double step_s = 0;              ///< planning, the main model's pass and verification
  double rest_s = 0;              ///< handing out the tokens
  double regular_s = 0;           ///< what regular decoding would have taken for the same tokens (an estimate)
  int64_t n_guessed = 0;          ///< steps for which that is a guess: so few rows were never measured
  double expected_s = 0;          ///< what draft_s and step_s were expected to be, and
  double expected_regular_s = 0;  ///< regular_s by the tokens that were expected: of policies that expect something
};

/// Drafts of one source. Tokens behind a rejected one were not reached.
struct DraftSourceSums {
  static constexpr int kPositions = 8;  ///< of a draft's tokens, that are counted one by one
  int64_t rounds = 0;
  int64_t drafted = 0;
  int64_t accepted = 0;
  double expected = 0;               ///< tokens that policies expected to be accepted, and
  int64_t accepted_of_expected = 0;  ///< what was accepted of those rounds
  int64_t n_expected = 0;            ///< rounds for which a policy expected something
  std::array<int64_t, kPositions> reached_at{};
  std::array<int64_t, kPositions> accepted_at{};
};

/// Steps of about so many rows, whose time was predicted from those before them (the draft model's passes not counted).
struct StepSizeSums {
  int64_t n_steps = 0;
  double step_s = 0;
  double predicted_s = 0;
  int64_t n_rows = 0;  ///< all steps together
};

/// Sums over the steps that carried no prompt token; of `sources`, over all.
struct SpeculationAccount {
  enum Kind : size_t { kRegular, kNgram, kModel };  ///< nothing was drafted; n-grams only; the draft model drafted
  static constexpr size_t kKinds = 3;
  static constexpr size_t kSources = 5;  ///< n-gram matches of 2, 3, 4, and of more tokens; the draft model
  /// sizes[i]: more than kSizes[i - 1] rows, at most kSizes[i]; the last one has no limit.
  static constexpr std::array<int, 19> kSizes = {1,  2,  3,  4,   6,   8,   12,  16,  24,       32,
                                                 48, 64, 96, 128, 192, 256, 384, 512, INT32_MAX};

  std::array<StepKindSums, kKinds> kinds{};
  std::array<DraftSourceSums, kSources> sources{};
  std::array<StepSizeSums, kSizes.size()> sizes{};
  double step_error_s = 0;       ///< sum over `sizes` of the distances from prediction to measurement
  int64_t n_draft_passes = 0;    ///< of the draft model
  double predicted_draft_s = 0;  ///< of these passes
  int64_t n_unpromising = 0;     ///< steps with drafts that were not expected to pay: tries, or for those that others
                                 ///< wait for
  double unpromising_s = 0;      ///< what they took
  /// What a drafted token was believed to cost where each sequence drafts one, in tokens that regular decoding makes in
  /// that time: drafts that are accepted less often do not pay. Sums over n_priced steps, whose time could be told.
  double row_price = 0;   ///< its row of the main model's step
  double pass_price = 0;  ///< its part of the draft model's pass; 0 while no pass was measured
  int64_t n_priced = 0;
};

}  // namespace bass
