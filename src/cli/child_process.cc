#include "cli/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/interrupt.h"

namespace bass {
namespace {

/// Signals that we ignore must be as usual in the child; those that we handle are so after exec.
void reset_signals(posix_spawnattr_t* attributes) {
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGPIPE, SIGXFSZ}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(attributes, &defaults);
  posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF);
}

int wait_for(pid_t child) {
  int state = 0;
  bool has_passed_on = false;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    if (!is_interrupted() || has_passed_on) continue;
    kill(child, SIGTERM);  // a SIGTERM to us alone does not reach the child
    has_passed_on = true;
  }
  constexpr int kSignalBase = 128;
  return WIFSIGNALED(state) ? kSignalBase + WTERMSIG(state) : WEXITSTATUS(state);
}

}  // namespace

Result<int> run_child(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  reset_signals(&attributes);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return unavailable(fmt::format("{}: cannot be started: {}", arguments[0], std::strerror(error)));
  return wait_for(child);
}

}  // namespace bass
