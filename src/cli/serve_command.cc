// An OpenAI-compatible HTTP server of one model (docs/server.md).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/interrupt.h"
#include "cli/served_model.h"
#include "cli/terminal_text.h"
#include "cli/validators.h"
#include "server/http_server.h"

namespace bass {
namespace {

constexpr const char* kKeyVariable = "BASS_API_KEY";

class ServeCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "serve"; }
  [[nodiscard]] std::string_view summary() const override { return "answer HTTP calls, OpenAI-compatible"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass serve -m smollm2\n"
           "  bass serve -m main.gguf -d draft.gguf --host 0.0.0.0 --port 8000 --max-batch 64\n"
           "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": "
           "\"Hello\"}]}'\n"
           "\n"
           "POST /v1/chat/completions, /v1/responses and /v1/completions (with \"stream\", too), /tokenize, "
           "/detokenize,\n"
           "GET /v1/models, /health and /metrics.\n"
           "What a call does not say is as the command line says.\n"
           "With the environment variable BASS_API_KEY callers must send that key (\"Authorization: Bearer KEY\").\n"
           "Ctrl-C or SIGTERM: no new calls; those that run may end. Docs: docs/server.md.";
  }

  void add_options(CLI::App* app) override {
    add_served_options(app, &arguments_);
    const auto add = [&](const char* flag, auto& value, const char* help, const char* type_name) {
      return app->add_option(flag, value, help)->type_name(type_name)->group("Server");
    };
    add("--host", server_.host, "address to listen on; 0.0.0.0: all of this machine [127.0.0.1]", "ADDRESS");
    add("--port", server_.port, "0: any that is free; it is printed [8080]", "N")->check(whole_number(0, 65535));
    add("--model-name", server_.model, kModelNameHelp, "NAME")->check(not_empty());
    add("--allow-origin", server_.origins, "web pages that may call from a browser; '*': all (repeatable) [none]",
        "ORIGIN")
        ->check(&check_origin)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    add("--max-calls", server_.max_calls, "calls that run or wait at most; further ones get 429 [256]", "N")
        ->check(whole_number(1, 4096));
    add("--drain", server_.drain_s, "calls that run have so long when the server ends [8]", "SECONDS")
        ->check(number_from(0, 1e6));
  }

  int run(Console* console) override { return finish(console, serve(console)); }

 private:
  // What a browser sends: scheme, host and, where it is not the scheme's own, port.
  static std::string check_origin(const std::string& text) {
    constexpr std::string_view kNever = "/?# ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t host = text.find("://");
    const bool is_origin = host != text.npos && host > 0 && text.size() > host + 3 &&
                           text.find_first_of(kNever) == host + 1 && text.find_first_of(kNever, host + 3) == text.npos;
    if (is_origin || text == "*" || text == "null") return "";
    return fmt::format("'{}': must be '*' or a page's address in lower case without a path: https://chat.example",
                       text);
  }

  Status serve(Console* console) {
    set_served_defaults(&options_);
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_RETURN_IF_ERROR(read_key());
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_, console));
    server_.defaults = options_;
    if (server_.model.empty()) server_.model = served_name(options_.engine.model_path);
    server_.on_failure = [&, console](const std::string& line) {
      const std::lock_guard lock(console_mutex_);
      console->err.write(fmt::format("{}\n", one_line_for_terminal(line)));
    };
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server, HttpServer::start(engine.get(), server_));
    say(*server, console);
    while (!is_interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server->stop();
    return ok_status();
  }

  Status read_key() {
    const char* key = std::getenv(kKeyVariable);
    if (key == nullptr) return ok_status();
    server_.api_key = key;
    if (!server_.api_key.empty()) return ok_status();
    return invalid_argument(
        fmt::format("{} is set and empty: set the key that callers must send, or unset it", kKeyVariable));
  }

  void say(const HttpServer& server, Console* console) {
    const std::lock_guard lock(console_mutex_);
    const bool is_ipv6 = server_.host.find(':') != std::string::npos;
    console->out.write(fmt::format("listening on http://{}:{} (model {}{})\n",
                                   is_ipv6 ? fmt::format("[{}]", server_.host) : server_.host, server.port(),
                                   server_.model, server_.api_key.empty() ? "" : ", with a key"));
  }

  TableArguments arguments_;
  GenerateOptions options_;
  ServerOptions server_;
  std::mutex console_mutex_;
};

}  // namespace

std::unique_ptr<Command> make_serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace bass
