#include "cli/bench/timing.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"

namespace bass {
namespace {

constexpr int kTimedRounds = 5;
constexpr double kRoundSeconds = 5e-3;
constexpr int kMaxCalls = 1 << 20;

double seconds_of_calls(ThreadTeam* team, int n_calls, const std::function<void(const TeamContext&)>& body) {
  using Clock = std::chrono::steady_clock;
  double seconds = 0;
  team->run([&](const TeamContext& context) noexcept {
    context.barrier();  // all threads are awake
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < n_calls; ++i) {
      body(context);
      context.barrier();
    }
    if (context.thread_idx() == 0) seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  });
  return seconds;
}

}  // namespace

Timing time_on_team(ThreadTeam* team, const std::function<void(const TeamContext&)>& body) {
  int n_calls = 1;
  double seconds = seconds_of_calls(team, n_calls, body);  // caches and branch predictors learn meanwhile
  while (seconds < kRoundSeconds / 2 && n_calls < kMaxCalls) {
    n_calls *= 2;
    seconds = seconds_of_calls(team, n_calls, body);
  }
  std::array<double, kTimedRounds> rounds{};
  for (double& round : rounds) round = seconds_of_calls(team, n_calls, body) / n_calls;
  std::sort(rounds.begin(), rounds.end());
  return {rounds.front(), rounds[kTimedRounds / 2]};
}

Result<std::vector<double>> time_in_turns(size_t n_pieces, const std::function<Result<double>(size_t, int)>& seconds) {
  constexpr double kTurnSeconds = 4e-3;
  constexpr int kMaxTurnCalls = 1 << 14;
  struct Piece {
    int n_calls = 1;
    std::array<double, kTimedRounds> rounds{};
  };
  std::vector<Piece> pieces(n_pieces);
  for (size_t i = 0; i < n_pieces; ++i) {
    BASS_ASSIGN_OR_RETURN(const double once_s, seconds(i, 1));
    pieces[i].n_calls = std::clamp(static_cast<int>(kTurnSeconds / std::max(once_s, 1e-7)), 1, kMaxTurnCalls);
  }
  for (size_t round = 0; round < kTimedRounds; ++round) {
    for (size_t i = 0; i < n_pieces; ++i) {
      BASS_ASSIGN_OR_RETURN(const double turn_s, seconds(i, pieces[i].n_calls));
      pieces[i].rounds[round] = turn_s / pieces[i].n_calls;
    }
  }
  std::vector<double> medians;
  for (Piece& piece : pieces) {
    std::sort(piece.rounds.begin(), piece.rounds.end());
    medians.push_back(piece.rounds[kTimedRounds / 2]);
  }
  return medians;
}

}  // namespace bass
