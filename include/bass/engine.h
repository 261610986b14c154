// The engine: loads a main model (and a draft), takes requests from any thread, answers by events.
//
//   auto engine = bass::Engine::load({.model_path = "model.gguf"});
//   auto events = std::make_shared<bass::EventQueue>();
//   bass::Request request;  request.prompt = "def fib(n):";  request.n = 8;
//   auto id = engine.value()->submit(request, events);
//   for (bass::Event event; events->wait(&event);) { ... if (event.kind == bass::Event::Kind::kDone) break; }
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bass/request.h"
#include "bass/speculation_account.h"
#include "bass/status.h"
#include "bass/types.h"
#include "bass/work.h"

namespace bass {

class DraftTrace;
class StepGate;
class StepProfile;
class Engine;

/// Layouts of the ragged attention, equal to the bit. kSplitGrouped: kSplit in one launch of a GPU; on the CPU, where
/// sequences are shared out over the threads anyway, the same as kSplit.
enum class AttentionKind : uint8_t { kPad, kSplit, kFused, kSplitGrouped };
/// kBf16, kW8A8, kFp8: of a GPU, whose library multiplies; see docs/cuda.md.
enum class ActivationKind : uint8_t { kInt8, kInt16, kBf16, kW8A8, kFp8 };
/// How keys and values are cached: whole numbers with a scale a token and head; kF16 and kBf16, of a GPU alone, as they
/// are.
enum class KvKind : uint8_t { kInt16, kInt8, kF16, kBf16 };

/// Fixed for the life of an engine.
struct EngineOptions {
  std::string model_path = {};    ///< a GGUF file or a Hugging Face checkpoint; names like "smollm2" are the program's
  std::string draft_path = {};    ///< the same, of the same vocabulary; empty: none
  std::string quantize = "none";  ///< what unquantised matrices become at load: q8_0, q5_1, q5_0, q4_1, q4_0; none
  int max_batch = 32;             ///< sequences at once, 1 to 4096
  int n_threads = 0;              ///< up to 1024; 0: all processors of this process, or its container's quota
  std::optional<int> context_len = {};  ///< tokens a sequence, >= 1: one that fills it ends with kLength; none: the
                                        ///< model's, or what the KV caches hold of it
  std::optional<int64_t> kv_memory_mib = {};  ///< budget of the KV caches, 1 to 1e9; none: a quarter of what the models
                                              ///< leave free (on a GPU half), at most what max_batch full contexts need
  /// Of the KV caches' memory, how much texts that have ended may keep, for texts that begin like them; what running
  /// texts share is not counted. Up to 1e9; 0: every prompt is read anew. None: a quarter.
  std::optional<int64_t> prefix_cache_mib = {};
  AttentionKind attention = AttentionKind::kFused;
  ActivationKind activations = ActivationKind::kInt8;
  KvKind kv = KvKind::kInt16;
  std::string device = "auto";    ///< auto | cpu | cuda[:N]
  int max_step_tokens = 256;      ///< rows of one step, 16 to 65536; longer prompts are prefilled in chunks
  std::string costs_folder = {};  ///< where what steps cost is kept between runs, and every ten minutes, made if it is
                                  ///< not there; what cannot be written there is not kept. Empty: nowhere
  /// These two and `gate` are the project's own tools': their types are not installed.
  StepProfile* profile = nullptr;  ///< filled while the engine runs, which it must outlive; none: nothing is timed
  DraftTrace* trace = nullptr;     ///< drafts are judged and thrown away; must outlive the engine; none: they are used
  /// Measurements only: a drafted token is accepted with this chance, from 0 to 1, whatever the models say of it, so
  /// texts mean nothing. Verification does all its work (under `block` that of the verdict without the script). Not
  /// with `trace`. None: drafts are verified.
  std::optional<float> scripted_acceptance = {};
  /// An engine whose weights this one reads too, if both run on the CPU and have the same `quantize` and model_path,
  /// and the draft's if they have the same draft_path: nothing of these files is read again, and the weights are in
  /// memory once. Needed while this one loads; none: weights of its own.
  const Engine* weights_from = nullptr;
  StepGate* gate = nullptr;  ///< asked before each step; must outlive the engine; none: nobody is asked
};

/// Events wait here until somebody takes them. Thread-safe: any number of producers and consumers; each event goes to
/// one of them. Engines number their requests each for itself, so one queue for two engines mixes them up.
class EventQueue {
 public:
  void push(Event event);
  /// The same for events that lie in memory already: allocates nothing.
  void push(std::list<Event> events) noexcept;
  /// Waits for an event; false when `timeout` passed without one. What *event held is taken in exchange: its memory
  /// serves a later event, so a consumer that keeps one Event and keeps up makes no allocations, nor does the engine.
  bool wait(Event* event, std::optional<std::chrono::duration<double>> timeout = std::nullopt);
  /// For producers: a list of one event, as new but for the memory of its tokens and text.
  std::list<Event> blank();

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::list<Event> events_;
  std::list<Event> spare_;  // of kTokens; used last, used next
};

/// Sums since load (or the last reset_stats).
struct EngineStats {
  double prefill_s = 0;        ///< steps that carried prompt tokens
  double decode_s = 0;         ///< the other steps
  int64_t prefill_tokens = 0;  ///< prompt tokens processed; the last of a prompt is each sample's own and not counted
  int64_t cached_tokens = 0;   ///< prompt tokens that other texts had brought into the cache (prefix_cache_mib)
  int64_t decode_tokens = 0;   ///< tokens emitted by the other steps
  int64_t steps = 0;
  Work work;                 ///< of both models, attention included
  int64_t decode_steps = 0;  ///< of `steps`, those that carried no prompt token
  Work decode_work;          ///< of `work`, theirs
  DraftTimes draft_times;    ///< of the steps that carried no prompt token
  GraphCounts graphs;        ///< of all passes
  double busy_s = 0;         ///< time spent in steps
  SpeculationStats speculation;
  SpeculationAccount account;
};

struct ModelInfo {
  std::string path;
  std::string name;  ///< general.name, or the file's name
  std::string architecture;
  int n_layers = 0;
  int d_model = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int context_len = 0;        ///< that the model was trained for
  bool is_synthetic = false;  ///< its weights are random numbers
  int64_t n_params = 0;
  int64_t file_bytes = 0;
  int64_t step_bytes = 0;  ///< weights read by one step; 0 of a draft
  int64_t kv_bytes_per_token = 0;
};

/// What a token adds to a text.
struct TokenText {
  std::string bytes;        ///< not necessarily valid UTF-8; of a special token its text
  bool is_special = false;  ///< it marks something: answers leave it out
  bool at_start = false;    ///< the text has still only begun behind it
};

/// All methods are thread-safe. Destruction cancels what runs and waits for the engine's thread. A child of fork() has
/// the engine without its threads, and must neither use nor destroy it.
/// The first `load` sets a handler of SIGBUS for the whole process, for model files that become shorter while they are
/// read; other faults go to the handler that was there. A program with a handler of its own sets it before.
/// Without memory a request is refused, or ends with kError; the engine takes the next one. Methods that give a plain
/// value may throw std::bad_alloc to their caller.
class Engine {
 public:
  /// Loads the models and starts the engine's thread. Errors: kInvalidArgument (option, or a GPU that a build without
  /// CUDA is asked for), kInvalidFile (model, or a draft of another vocabulary), kResourceExhausted (memory, with the
  /// bytes needed), kUnavailable (no GPU that it can use).
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options);

  virtual ~Engine() = default;

  /// Whether `submit` would take the request, with its errors. Takes as long as making its text tokens: a caller with
  /// many requests can look at all of them before the first one runs.
  [[nodiscard]] virtual Status check(const Request& request) const = 0;

  /// Queues a request; its events go to `events`, which the engine keeps alive until kDone. Errors (no event follows):
  /// kInvalidArgument for options out of range, a prompt that is empty or leaves no room for a token in the context, or
  /// a request that can never fit the KV budget; kResourceExhausted without memory; kUnavailable while the engine ends.
  virtual Result<RequestId> submit(Request request, std::shared_ptr<EventQueue> events) = 0;

  /// Has the system find the memory of the KV caches that the longest max_batch samples of these requests will fill,
  /// which happens otherwise where a token is the first one in its page: in a step, 2 MiB at a time. That takes 0.1 ms,
  /// or 5 ms on a virtual machine whose host has lent the memory to others meanwhile. To be called before requests run
  /// (the pages counted are the first ones); once is enough, as memory stays with the engine. Computes nothing. On a
  /// GPU, where all of it is there since load, it does nothing. Errors: those of `submit`; kResourceExhausted where
  /// that is more than half of what is available: nothing is lost, steps find it.
  virtual Status populate_kv(std::span<const Request> requests) = 0;

  /// Ends a request soon: its choices finish with kCancelled and keep what they have. Unknown ids are ignored.
  virtual void cancel(RequestId id) noexcept = 0;

  [[nodiscard]] virtual EngineStats stats() const = 0;
  /// A step that runs meanwhile is counted or not.
  virtual void reset_stats() = 0;
  [[nodiscard]] virtual const EngineOptions& options() const = 0;  ///< with what was chosen where none was given
  [[nodiscard]] virtual ModelInfo model_info() const = 0;
  [[nodiscard]] virtual std::optional<ModelInfo> draft_info() const = 0;
  /// The instruction set that the CPU's kernels use ("avx512vnni"), or the GPU's name.
  [[nodiscard]] virtual std::string isa_name() const = 0;
  /// Why `auto` took the CPU, where this build could use a GPU; empty otherwise.
  [[nodiscard]] virtual std::string device_note() const = 0;

  /// Text to token ids, as the main model does it: bytes that its vocabulary has no token for are left out, as
  /// transformers leave them out (FileTokenizer::encode refuses them). `add_special`: begin and end tokens, if the
  /// vocabulary asks for them; `parse_special`: the text of a special token becomes that token. Error: the text is not
  /// valid UTF-8 where the vocabulary's rules need that.
  [[nodiscard]] virtual Result<std::vector<TokenId>> tokenize(std::string_view text, bool add_special,
                                                              bool parse_special) const = 0;
  /// What the model would read of the request: its prompt, or its messages as the chat template writes them, however
  /// long that is. Errors: no template, one that refuses the messages, what `submit` says of options.
  [[nodiscard]] virtual Result<std::vector<TokenId>> prompt_tokens(const Request& request) const = 0;
  /// Error: an id outside the vocabulary. The bytes need not be valid UTF-8.
  [[nodiscard]] virtual Result<std::string> detokenize(std::span<const TokenId> tokens) const = 0;
  /// One token of a text: put together they are `detokenize` of all. `at_start`: the text has only begun, where
  /// SentencePiece shows no space; true for the first token, then what the one before said. Error: an id outside the
  /// vocabulary.
  [[nodiscard]] virtual Result<TokenText> token_text(TokenId token, bool at_start) const = 0;
};

}  // namespace bass
