#include "cli/output.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "cli/interrupt.h"

namespace bass {
namespace {

using ::testing::ExitedWithCode;

// In processes of their own: a signal that has come stays come, and the console is the process's.

void interrupt() {
  std::signal(SIGINT, SIG_DFL);  // ignored, as of a script's `command &`, it would stay so
  install_signal_handlers();
  std::raise(SIGINT);
}

TEST(OutputDeathTest, ErrorsAreOneLineWithoutControlCharacters) {
  const auto body = [] {
    Console console;
    std::exit(fail(&console, invalid_argument("a\x1b[31m\nb\xff")));
  };
  EXPECT_EXIT(body(), ExitedWithCode(kExitUsage), "^error: a\xEF\xBF\xBD\\[31m b\xEF\xBF\xBD\n$");
}

TEST(OutputDeathTest, AnInterruptedCommandHasNoResult) {
  const auto body = [] {
    interrupt();
    Console console;
    console.out = Output(2);
    std::exit(finish(&console, "result"));
  };
  EXPECT_EXIT(body(), ExitedWithCode(kExitInterrupted), "^error: interrupted\n$");
}

TEST(OutputDeathTest, AnInterruptThatCameAfterTheFileWasThereChangesNothing) {
  const auto exit_of = [](const Status& status) {
    interrupt();
    Console console;
    std::exit(finish(&console, status));
  };
  EXPECT_EXIT(exit_of(ok_status()), ExitedWithCode(kExitDone), "^$");
  EXPECT_EXIT(exit_of({StatusCode::kCancelled, "interrupted"}), ExitedWithCode(kExitInterrupted),
              "^error: interrupted\n$");
}

TEST(OutputDeathTest, AResultIsWrittenWhenNothingHappened) {
  const auto body = [] {
    install_signal_handlers();
    Console console;
    console.out = Output(2);
    std::exit(finish(&console, "result"));
  };
  EXPECT_EXIT(body(), ExitedWithCode(kExitDone), "^result$");
}

}  // namespace
}  // namespace bass
