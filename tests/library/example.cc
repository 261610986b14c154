#include <bass/engine.h>

#include <iostream>
#include <map>
#include <string>

int main(int argc, char** argv) {
  bass::EngineOptions options;
  options.model_path = argc > 1 ? argv[1] : "model.gguf";
  bass::Result<std::unique_ptr<bass::Engine>> engine = bass::Engine::load(options);
  if (!engine.ok()) {
    std::cerr << engine.status().message() << '\n';
    return 2;
  }

  bass::Request request;
  request.prompt = "def fibonacci(n):";
  request.n = 4;
  request.max_tokens = 32;
  request.seed = 1;  // the same bytes in every run
  auto events = std::make_shared<bass::EventQueue>();
  bass::Result<bass::RequestId> id = engine.value()->submit(request, events);
  if (!id.ok()) {
    std::cerr << id.status().message() << '\n';
    return 2;
  }

  std::map<int, std::string> texts;
  for (bass::Event event; events->wait(&event);) {
    texts[event.choice_idx] += event.text;  // a piece of a choice
    if (event.kind == bass::Event::Kind::kDone) break;
  }
  for (const auto& [choice_idx, text] : texts) std::cout << "== " << choice_idx << '\n' << text << '\n';
  return 0;
}
