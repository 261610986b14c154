// The OpenAI-compatible HTTP server (docs/server.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bass/engine.h"
#include "engine/options.h"

namespace bass {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;      ///< 0: any that is free
  std::string model;    ///< what the model is called
  std::string api_key;  ///< callers must send it; empty: anyone may call
  /// Of pages that may call from a browser and read the answers ("https://chat.example"); "*": of all pages.
  std::vector<std::string> origins;
  int max_calls = 256;  ///< that run or wait; further ones are refused
  /// Calls that run have so long to end when the server does; a container is killed after 10 unless told otherwise.
  double drain_s = 8;
  /// A stream that has nothing to say for so long sends a comment: proxies take one that is silent for a minute for
  /// broken.
  double max_silence_s = 15;
  GenerateOptions defaults;  ///< of what a call does not say
  /// Called from the server's thread with a line about a call that failed; none: nobody is told.
  std::function<void(const std::string&)> on_failure;
};

/// Answers calls with one engine, which it must not outlive. Methods are not thread-safe.
class HttpServer {
 public:
  /// Binds the port and begins to answer, in threads of its own. Error: kUnavailable, a port that cannot be had.
  static Result<std::unique_ptr<HttpServer>> start(Engine* engine, ServerOptions options);

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  virtual ~HttpServer() = default;

  [[nodiscard]] virtual int port() const = 0;
  /// Takes no calls any more, waits for those that run for at most drain_s, cancels what is left. The destructor does
  /// so, too.
  virtual void stop() = 0;

 protected:
  HttpServer() = default;
};

}  // namespace bass
