#include "model/file_checks.h"

#include <fmt/format.h>

#include <atomic>

#include "base/check.h"
#include "io/gguf_format.h"
#include "tensor/finite.h"
#include "text/utf8.h"

namespace bass {
namespace {

Status check_text(const GgufFile& gguf, std::string_view what, std::string_view key, std::string_view text) {
  const std::optional<size_t> at = find_invalid_utf8(text);
  if (!at.has_value()) return ok_status();
  return invalid_file(fmt::format("{}: {} has invalid UTF-8 at its byte {} (key {})", gguf.path(), what, *at,
                                  gguf_format::in_quotes(key)));
}

bool is_finite(const TensorInfo& tensor, ThreadTeam* team) {
  const DTypeInfo& info = dtype_info(tensor.type);
  const auto n_blocks = static_cast<int64_t>(tensor.data.size()) / info.block_bytes;
  std::atomic<bool> is_finite{true};
  team->run([&](const TeamContext& context) {
    const int64_t begin = n_blocks * context.thread_idx() / context.n_threads();
    const int64_t end = n_blocks * (context.thread_idx() + 1) / context.n_threads();
    const std::byte* at = tensor.data.data() + begin * info.block_bytes;
    if (!is_finite_row(tensor.type, at, (end - begin) * info.block_len)) is_finite = false;
  });
  return is_finite;
}

}  // namespace

Status check_texts(const GgufFile& gguf) {
  for (const auto& [key, value] : gguf.metadata()) {
    BASS_RETURN_IF_ERROR(check_text(gguf, "a metadata key", key, key));
    const auto* text = std::get_if<std::string_view>(&value);
    if (text != nullptr) BASS_RETURN_IF_ERROR(check_text(gguf, "the text", key, *text));
  }
  for (const TensorInfo& tensor : gguf.tensors()) {
    BASS_RETURN_IF_ERROR(check_text(gguf, "a tensor's name", tensor.name, tensor.name));
  }
  return ok_status();
}

Status check_vocab_size(const std::string& path, int64_t n_tokens, int64_t n_rows) {
  if (n_tokens <= n_rows) return ok_status();
  return invalid_file(
      fmt::format("{}: the vocabulary has {} tokens, but the embedding has {} rows", path, n_tokens, n_rows));
}

Status check_weights(const GgufFile& gguf, ThreadTeam* team) {
  for (const TensorInfo& tensor : gguf.tensors()) {
    if (is_finite(tensor, team)) continue;
    BASS_RETURN_IF_ERROR(gguf.check_intact());
    return invalid_file(fmt::format("{}: tensor '{}' holds a number that is not finite", gguf.path(), tensor.name));
  }
  return gguf.check_intact();
}

}  // namespace bass
