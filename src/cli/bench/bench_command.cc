#include "cli/bench/bench_command.h"

#include <vector>

namespace bass {
namespace {

class BenchCommand final : public Command {
 public:
  BenchCommand() {
    commands_.push_back(make_bench_machine());
    commands_.push_back(make_bench_decode());
    commands_.push_back(make_bench_prompt());
    commands_.push_back(make_bench_step());
    commands_.push_back(make_bench_context());
    commands_.push_back(make_bench_ops());
    commands_.push_back(make_bench_attention());
    commands_.push_back(make_bench_rows());
    commands_.push_back(make_bench_policies());
    commands_.push_back(make_bench_paper());
    commands_.push_back(make_bench_trace());
    commands_.push_back(make_bench_replay());
  }
  [[nodiscard]] std::string_view name() const override { return "bench"; }
  [[nodiscard]] std::string_view summary() const override {
    return "measure speed, and how near it is to the machine's limit";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench machine\n"
           "  bass bench decode -m smollm2 --batch 1,2,4,8\n"
           "  bass bench step -m smollm2 --batch 8";
  }
  void add_options(CLI::App* app) override {}
  [[nodiscard]] std::span<const std::unique_ptr<Command>> subcommands() const override { return commands_; }
  int run(Console* console) override { return kExitUsage; }  // one of the subcommands is run instead

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace bass
