// The measurements of `bass bench`, each a command of its own.
#pragma once

#include <memory>

#include "cli/command.h"

namespace bass {

std::unique_ptr<Command> make_bench_machine();
std::unique_ptr<Command> make_bench_decode();
std::unique_ptr<Command> make_bench_step();
std::unique_ptr<Command> make_bench_context();
std::unique_ptr<Command> make_bench_prompt();
std::unique_ptr<Command> make_bench_ops();
std::unique_ptr<Command> make_bench_attention();
std::unique_ptr<Command> make_bench_rows();
std::unique_ptr<Command> make_bench_policies();
std::unique_ptr<Command> make_bench_paper();
std::unique_ptr<Command> make_bench_trace();
std::unique_ptr<Command> make_bench_replay();

}  // namespace bass
