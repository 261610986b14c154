// Many callers at once, HTTP's odd ways, and the end of a server whose connections are in all states: what sanitizers
// are to see. What answers say is tested by tests/cli/test_serve.py.
#include "server/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "server/asio.h"
#include "support/engine_run.h"
#include "support/timed_executor.h"

namespace bass::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

std::string post(const std::string& path, const std::string& body, const std::string& headers = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{}\r\n{}", path, body.size(), headers, body);
}

/// What a caller says and hears, byte by byte.
class Caller {
 public:
  explicit Caller(int port) : socket_(io_) {
    socket_.connect({net::ip::make_address("127.0.0.1"), static_cast<uint16_t>(port)});
  }
  void say(const std::string& bytes) {
    ErrorCode error;
    net::write(socket_, net::buffer(bytes), error);
  }
  /// Up to the connection's end.
  std::string hear_all() {
    std::string text;
    ErrorCode error;
    net::read(socket_, net::dynamic_buffer(text), error);
    return text;
  }
  std::string hear_until(const std::string& what) {
    ErrorCode error;
    const size_t n = net::read_until(socket_, net::dynamic_buffer(heard_), what, error);
    std::string text = heard_.substr(0, error ? heard_.size() : n);
    heard_.erase(0, text.size());
    return text;
  }
  void hang_up() { socket_.close(); }

 private:
  net::io_context io_;
  tcp::socket socket_;
  std::string heard_;
};

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kLast = "Connection: close\r\n";

class ServerTest : public ::testing::Test {
 protected:
  static EngineOptions engine_options() {
    return {.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 2};
  }
  void serve(ServerOptions options = {}) {
    if (engine_ == nullptr) engine_ = load_engine(engine_options());
    options.port = 0;
    if (options.model.empty()) options.model = "tiny";
    Result<std::unique_ptr<HttpServer>> server = HttpServer::start(engine_.get(), std::move(options));
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(server).value();
  }
  [[nodiscard]] Caller caller() const { return Caller(server_->port()); }
  [[nodiscard]] std::string ask(const std::string& request) const {
    Caller one(server_->port());
    one.say(request);
    return one.hear_all();
  }
  [[nodiscard]] std::string metrics() const { return ask("GET /metrics HTTP/1.0\r\n\r\n"); }
  void wait_for(const std::string& line) const {
    for (int i = 0; i < 2000 && metrics().find(line + "\n") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_THAT(metrics(), HasSubstr(line + "\n"));
  }
  double seconds_to_stop() {
    const Clock::time_point start = Clock::now();
    server_->stop();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<HttpServer> server_;
};

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

TEST_F(ServerTest, ManyCallersGetTheirOwnAnswers) {
  serve();
  const auto text_of = [&](int i) {
    const std::string body = fmt::format(R"({{"prompt": [{}, 5, 9], "seed": {}, "max_tokens": 20}})", i + 1, i);
    return nlohmann::json::parse(body_of(ask(post(kCompletions, body, kLast))))["choices"][0]["text"]
        .get<std::string>();
  };
  std::vector<std::string> alone, together(8);
  for (int i = 0; i < 8; ++i) alone.push_back(text_of(i));
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) callers.emplace_back([&, i] { together[static_cast<size_t>(i)] = text_of(i); });
  }
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
}

std::string long_call(bool is_streamed) {
  return post(kCompletions, fmt::format(R"({{"prompt": [1, 5, 9], "n": 1000, "max_tokens": 200, "ignore_eos": true,
                                             "stream": {}}})",
                                        is_streamed));
}

TEST_F(ServerTest, EndsInTimeWhateverItsConnectionsDo) {
  std::atomic<int> n_failures = 0;
  serve({.drain_s = 0.2, .on_failure = [&](const std::string&) { ++n_failures; }});
  Caller idle = caller(), silent = caller(), half = caller(), heads = caller();
  idle.say("GET /health HTTP/1.1\r\n\r\n");
  idle.hear_until("}\n");
  half.say("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  heads.say("GET /hea");
  Caller stream = caller(), whole = caller(), stalled = caller();
  stream.say(long_call(true));
  whole.say(long_call(false));
  stalled.say(long_call(true));  // and never listens
  wait_for("bass_calls_running 3");
  std::string streamed;
  std::jthread listener([&] { streamed = stream.hear_all(); });
  EXPECT_LT(seconds_to_stop(), 5);
  listener.join();
  EXPECT_THAT(streamed, HasSubstr(R"({"error":{"message":"the server is ending")"));
  EXPECT_THAT(streamed, ::testing::Not(HasSubstr("[DONE]")));
  EXPECT_THAT(whole.hear_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(n_failures, 3);
  server_->stop();  // once more does nothing
}

TEST_F(ServerTest, WithNothingToDoItEndsAtOnce) {
  serve({.drain_s = 60});
  Caller idle = caller(), silent = caller();
  idle.say("GET /health HTTP/1.1\r\n\r\n");
  idle.hear_until("}\n");
  EXPECT_LT(seconds_to_stop(), 10);
  EXPECT_EQ(silent.hear_all(), "");
}

TEST_F(ServerTest, ACallerThatGoesAwayStopsItsSamples) {
  serve();
  for (const bool is_streamed : {true, false}) {
    Caller one = caller();
    one.say(long_call(is_streamed));
    if (is_streamed) one.hear_until("data: ");
    wait_for("bass_calls_running 1");
    one.hang_up();
    wait_for("bass_calls_running 0");
  }
  EXPECT_THAT(metrics(), HasSubstr("bass_calls_broken_total 2\n"));
}

TEST_F(ServerTest, AConnectionServesARequestBehindTheOther) {
  serve({.api_key = "k"});
  const std::string refused = post(kCompletions, "GET /health HTTP/1.1\r\n\r\n");  // its body is no request
  const std::string bad = post(kCompletions, "{", "authorization: bearer k\r\n");
  const std::string good = post(kCompletions, R"({"prompt": [1], "max_tokens": 2})", "Authorization: Bearer k\r\n");
  const std::string heard = ask(refused + bad + good + "HEAD /health?a=b HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::vector<std::string> wanted{"HTTP/1.1 401 ", "invalid_api_key", "HTTP/1.1 400 ", "not valid JSON",
                                        "HTTP/1.1 200 ", "text_completion", "HTTP/1.1 200 ", "Content-Length: 16"};
  size_t at = 0;
  for (const std::string& text : wanted) {
    at = heard.find(text, at);
    ASSERT_NE(at, std::string::npos) << text << " in " << heard;
    at += text.size();
  }
  EXPECT_EQ(heard.find("HTTP/1.1", at), std::string::npos) << heard;
  EXPECT_THAT(heard, EndsWith("\r\n\r\n")) << "HEAD has no body";
}

TEST_F(ServerTest, OldCallersGetAnAnswerWithoutChunks) {
  serve();
  const std::string body = R"({"prompt": [1, 5], "max_tokens": 2, "stream": true, "ignore_eos": true})";
  const std::string heard =
      ask(fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kCompletions, body.size(), body));
  EXPECT_THAT(body_of(heard), StartsWith("data: {"));
  EXPECT_THAT(heard, EndsWith("data: [DONE]\n\n"));
}

TEST_F(ServerTest, BodiesMayComeInChunksAndWithA100) {
  serve();
  EXPECT_THAT(ask("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                  "c\r\n{\"prompt\": [\r\n3\r\n1]}\r\n0\r\n\r\n"),
              HasSubstr("text_completion"));
  Caller one = caller();
  one.say("POST /v1/completions HTTP/1.1\r\nContent-Length: 15\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(one.hear_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
  one.say(R"({"prompt": [1]})");
  EXPECT_THAT(one.hear_all(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, WhatIsNoHttpOrTooLongIsToldSo) {
  serve();
  EXPECT_THAT(ask("Guten Tag\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(std::string("\x16\x03\x01\x02\x00\x01", 6)), HasSubstr("plain HTTP, not HTTPS"));
  EXPECT_THAT(ask("POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n{"), StartsWith("HTTP/1.1 413 "));
  std::string chunks = "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 33; ++i) chunks += "100000\r\n" + std::string(1 << 20, 'a') + "\r\n";
  EXPECT_THAT(ask(chunks), StartsWith("HTTP/1.1 413 "));
}

TEST_F(ServerTest, PathsAreWhatClientsMean) {
  serve();
  for (const char* path : {"/v1/completions", "/completions", "//v1//completions/", "/v1/completions/"}) {
    EXPECT_THAT(ask(post(path, R"({"prompt": [1], "max_tokens": 1})", kLast)), HasSubstr(" 200 ")) << path;
    const std::string got = ask(fmt::format("GET {} HTTP/1.1\r\nConnection: close\r\n\r\n", path));
    EXPECT_THAT(got, StartsWith("HTTP/1.1 405 ")) << path;
    EXPECT_THAT(got, HasSubstr("\r\nAllow: POST\r\n")) << path;
  }
  EXPECT_THAT(ask("GET /models HTTP/1.1\r\nConnection: close\r\n\r\n"), HasSubstr("\"object\":\"list\""));
  EXPECT_THAT(ask(post("/health", "{}", kLast)), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(ask(post("/v2/completions", "{}", kLast)), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ServerTest, AModelMayBeNamedByAPath) {
  serve({.model = "/data//models/tiny/"});
  const auto get = [&](const std::string& path) {
    return ask(fmt::format("GET {} HTTP/1.1\r\nConnection: close\r\n\r\n", path));
  };
  EXPECT_THAT(get("/v1/models"), HasSubstr(R"("id":"/data//models/tiny/")"));
  for (const char* path : {"/v1/models//data//models/tiny/", "/v1/models/%2Fdata%2F%2Fmodels%2Ftiny%2F"})
    EXPECT_THAT(get(path), HasSubstr(R"("id":"/data//models/tiny/")")) << path;
  EXPECT_THAT(get("/v1/models/data/models/small"), StartsWith("HTTP/1.1 404 "));
}

// Proxies end connections on which nothing comes for a while.
TEST_F(ServerTest, AStreamThatHasNothingToSaySaysSo) {
  const Pace pace = constant_pace(0.25);
  engine_ = load_timed_engine(engine_options(), &pace);
  serve({.max_silence_s = 0.05});
  const std::string body = R"({"prompt": [1, 5, 9], "max_tokens": 3, "ignore_eos": true, "stream": true})";
  const std::string heard = ask(post(kCompletions, body, kLast));
  EXPECT_THAT(heard, HasSubstr("Content-Type: text/event-stream; charset=utf-8\r\n"));
  EXPECT_THAT(heard, HasSubstr("\r\nX-Accel-Buffering: no\r\n"));
  size_t n_comments = 0, n_pieces = 0;
  for (size_t at = 0; (at = heard.find("\r\n:\n\n\r\n", at)) != heard.npos; ++at) ++n_comments;
  for (size_t at = 0; (at = heard.find("\r\ndata: ", at)) != heard.npos; ++at) ++n_pieces;
  EXPECT_GE(n_comments, 6u) << "three steps of a quarter of a second";
  EXPECT_GE(n_pieces, 1u);
  EXPECT_THAT(heard, HasSubstr("data: [DONE]"));
}

TEST_F(ServerTest, ErrorsSayWhichKeyAndClientsKnowATextThatIsTooLong) {
  serve();
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "temperature": -3})", kLast)),
              HasSubstr(R"("param":"temperature")"));
  std::string tokens = "1";
  for (int i = 0; i < 9999; ++i) tokens += ",1";
  const std::string said = ask(post(kCompletions, "{\"prompt\": [" + tokens + "]}", kLast));
  EXPECT_THAT(said, HasSubstr("maximum context length"));
  EXPECT_THAT(said, HasSubstr(R"("code":"context_length_exceeded")"));
  EXPECT_THAT(said, HasSubstr("10000 tokens"));
  EXPECT_THAT(said, HasSubstr(R"("param":"prompt")"));
}

std::string asked_by(const std::string& origin, const std::string& method, const std::string& path) {
  return fmt::format("{} {} HTTP/1.1\r\nOrigin: {}\r\n{}Content-Length: 0\r\n\r\n", method, path, origin, kLast);
}

TEST_F(ServerTest, PagesOfOriginsThatAreAllowedMayCall) {
  constexpr const char* kPage = "https://chat.example";
  const std::string line = fmt::format("Access-Control-Allow-Origin: {}\r\n", kPage);
  serve({.api_key = "k", .origins = {kPage, "http://localhost:3000"}});
  const std::string preflight = ask(asked_by(kPage, "OPTIONS", kCompletions));
  EXPECT_THAT(preflight, HasSubstr("HTTP/1.1 200 "));
  EXPECT_THAT(preflight, HasSubstr(line));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Methods: GET, POST\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Headers: *, Authorization\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Vary: Origin\r\n"));
  EXPECT_THAT(ask(asked_by(kPage, "GET", "/v1/models")), HasSubstr(line)) << "so that the page can read the error";
  const std::string call = fmt::format("Origin: {}\r\nAuthorization: Bearer k\r\n{}", kPage, kLast);
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "max_tokens": 1})", call)), HasSubstr(line));
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "max_tokens": 1, "stream": true})", call)), HasSubstr(line));
  for (const char* other : {"https://chat.example.com", "https://chat.example:8443", "null", ""}) {
    const std::string answer = ask(asked_by(other, "OPTIONS", kCompletions));
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 401 ")) << other;
    EXPECT_EQ(answer.find("Access-Control"), answer.npos) << other;
  }
}

TEST_F(ServerTest, AnswersNameTheirRequest) {
  serve({});
  const std::string own = fmt::format("X-Request-Id: proxy-7\r\n{}", kLast);
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "max_tokens": 1})", own)),
              HasSubstr("X-Request-Id: proxy-7\r\n"));
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "max_tokens": 1, "stream": true})", own)),
              HasSubstr("X-Request-Id: proxy-7\r\n"));
  EXPECT_THAT(ask(post(kCompletions, "{}", own)), HasSubstr("X-Request-Id: proxy-7\r\n")) << "a refusal, too";
  const std::string anew = "X-Request-Id: req_";
  EXPECT_THAT(ask("GET /health HTTP/1.0\r\n\r\n"), HasSubstr(anew));
  for (const std::string& bad : {std::string("two words"), std::string(129, 'x'), std::string("\xC3\xA9")}) {
    EXPECT_THAT(ask(fmt::format("GET /health HTTP/1.0\r\nX-Request-Id: {}\r\n\r\n", bad)), HasSubstr(anew)) << bad;
  }
}

TEST_F(ServerTest, AllPagesMayCallWhereThatIsWanted) {
  serve({.origins = {"*"}});
  EXPECT_THAT(ask(asked_by("null", "OPTIONS", kCompletions)), HasSubstr("Access-Control-Allow-Origin: *\r\n"));
  EXPECT_EQ(ask("GET /health HTTP/1.0\r\n\r\n").find("Access-Control"), std::string::npos) << "no page asks";
}

TEST_F(ServerTest, CallsAndSamplesAreBounded) {
  serve({.max_calls = 2});
  Caller one = caller(), two = caller();
  one.say(post(kCompletions, R"({"prompt": [1, 5], "n": 65000, "max_tokens": 200, "ignore_eos": true})"));
  while (engine_->stats().steps == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "n": 600})", kLast)), HasSubstr("more than 65536 samples"));
  two.say(post(kCompletions, R"({"prompt": [1, 5], "n": 500, "max_tokens": 200, "ignore_eos": true})"));
  wait_for("bass_calls_running 2");
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1]})", kLast)), HasSubstr("2 calls run or wait already"));
  one.hang_up();
  two.hang_up();
  wait_for("bass_calls_running 0");
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "n": 600, "max_tokens": 1})", kLast)), HasSubstr(" 200 "));
}

TEST_F(ServerTest, ACallOfWhichAPartIsRefusedLeavesNothing) {
  serve();
  std::string tokens = "1";
  for (int i = 0; i < 9999; ++i) tokens += ",1";
  const std::string body = fmt::format(R"({{"prompt": [[1, 5], [{}]], "n": 30000, "max_tokens": 200,
                                           "ignore_eos": true}})",
                                       tokens);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(ask(post(kCompletions, body, kLast)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(metrics(), HasSubstr("bass_calls_running 0\n"));
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1], "max_tokens": 1})", kLast)), HasSubstr(" 200 "));
  EXPECT_LT(engine_->stats().decode_tokens, 1'000'000) << "of 18 million that were asked for in vain";
}

// Whoever has no key, or asks for what is not there, need not be read to the end.
TEST_F(ServerTest, BodiesThatNobodyWantsAreNotTaken) {
  serve({.api_key = "k"});
  const std::string key = "Authorization: Bearer k\r\nConnection: close\r\n";
  const std::string large(200'000, ' ');
  EXPECT_THAT(ask(post(kCompletions, large)), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask(post("/v1/embeddings", large, key)), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("POST /v1/completions HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask(post(kCompletions, large + R"({"prompt": [1]})", key)), StartsWith("HTTP/1.1 200 "));
}

// Some callers announce 32 MiB each, and send nothing of it.
TEST_F(ServerTest, BodiesTogetherAreBounded) {
  serve();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 32; ++i) {
    callers.push_back(std::make_unique<Caller>(server_->port()));
    callers.back()->say("POST /v1/completions HTTP/1.1\r\nContent-Length: 33554432\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_THAT(callers.back()->hear_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
  }
  EXPECT_THAT(ask(post(kCompletions, R"({"prompt": [1]})", kLast)), StartsWith("HTTP/1.1 503 "));
  callers.back()->hang_up();
  std::string answer;
  for (int i = 0; i < 1000 && !answer.starts_with("HTTP/1.1 200 "); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answer = ask(post(kCompletions, R"({"prompt": [1]})", kLast));
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, PathsMayBeEscapedAndWhole) {
  serve();
  EXPECT_THAT(ask("GET /v1/models/%74iny HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 "));
  EXPECT_THAT(ask("GET /v1/models/tin%7 HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 404 "));
  EXPECT_THAT(ask("GET http://somewhere:80/health?x HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 "));
  EXPECT_THAT(ask("GET http://somewhere HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 404 "));
}

TEST_F(ServerTest, ACallerThatGoesAwayIsNoticedBehindItsNextRequest) {
  serve();
  Caller one = caller();
  one.say(long_call(false));
  wait_for("bass_calls_running 1");
  one.say("GET /health HTTP/1.1\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(metrics(), HasSubstr("bass_calls_running 1\n"));
  one.hang_up();
  wait_for("bass_calls_running 0");
  EXPECT_THAT(metrics(), HasSubstr("bass_calls_broken_total 1\n"));
}

TEST_F(ServerTest, APortThatIsTakenIsAnError) {
  serve();
  const Result<std::unique_ptr<HttpServer>> other = HttpServer::start(engine_.get(), {.port = server_->port()});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(HttpServer::start(engine_.get(), {.host = "203.0.113.7", .port = 0}).ok());
}

}  // namespace
}  // namespace bass::testing
