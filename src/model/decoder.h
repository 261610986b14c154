// The decoder's forward pass, written once, against the fused operations of a device.
#pragma once

#include "model/config.h"

namespace bass {

enum class NormKind { kAttention, kFeedForward };

/// Runs all layers over the rows of the batch that `ops` holds. On the CPU every thread of the team runs this whole
/// function and each operation ends at a barrier; on a GPU it records a graph. What a row's result depends on is the
/// row's own sequence and nothing else (docs/architecture.md, "Row invariance").
///
/// Residual stream x: [n_rows, d_model]. Each operation says what it reads and writes:
template <class Ops>
void decoder_forward(const ModelConfig& config, Ops& ops) {
  ops.embed();  // x = embedding[tokens]
  for (int layer = 0; layer < config.n_layers; ++layer) {
    ops.norm(layer, NormKind::kAttention);    // a = quantise(rms_norm(x))
    ops.project_qkv(layer);                   // q, k, v = a Wq, a Wk, a Wv
    ops.rope_and_write_kv(layer);             // rotates q and k; k and v go to their pages
    ops.attend(layer);                        // o = quantise(ragged attention(q, pages))
    ops.project_output(layer);                // x += o Wo
    ops.norm(layer, NormKind::kFeedForward);  // a = quantise(rms_norm(x))
    ops.gate_up(layer);                       // h = quantise(silu(a Wgate) * (a Wup))
    ops.project_down(layer);                  // x += h Wdown
  }
}

}  // namespace bass
