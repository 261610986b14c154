// The decoder's forward pass, written once, against the fused operations of a device.
#pragma once

#include "model/config.h"

namespace bass {

enum class NormKind { kAttention, kFeedForward };

/// Runs all layers over the rows of the batch that `ops` holds. On the CPU every thread of the team runs this whole
/// function, and each operation ends at a barrier unless what follows reads nothing of other threads; on a GPU it
/// records a graph. What a row's result depends on is the row's own sequence and nothing else (docs/architecture.md,
/// "Row invariance").
///
/// Residual stream x: [n_rows, d_model]. Each operation says what it reads and writes, for a llama; what else a model
/// has (ModelConfig: biases, norms of q, k and results, soft caps, windows, ...) is part of the operation it belongs
/// to.
template <class Ops>
void decoder_forward(const ModelConfig& config, Ops& ops) {
  ops.embed();  // x = embedding[tokens], or what a draft makes of it and of hidden states
  for (int layer = 0; layer < config.n_layers; ++layer) {
    ops.norm(layer, NormKind::kAttention);  // a = quantise(norm(x))
    ops.project_qkv(layer);                 // q, k, v = a Wq, a Wk, a Wv
    ops.rope_and_write_kv(layer);           // rotates q and k; k and v go to their pages
    // Behind the last keys x and q keep only rows whose result is read; where it is none, that was all.
    if (layer + 1 == config.n_layers && !ops.keep_results()) return;
    ops.attend(layer);  // o = quantise(ragged attention(q, pages))
    if (config.block_order == BlockOrder::kParallel) ops.norm(layer, NormKind::kFeedForward);
    ops.project_output(layer);  // x += o Wo
    if (config.block_order == BlockOrder::kSequential)
      ops.norm(layer, NormKind::kFeedForward);   // a = quantise(norm(x))
    if (config.n_experts > 0) ops.route(layer);  // which experts see which rows of a
    ops.gate_up(layer);                          // h = quantise(silu(a Wgate) * (a Wup))
    ops.project_down(layer);                     // x += h Wdown
    ops.tap(layer);                              // x goes to the pages, where a draft reads it there
  }
}

}  // namespace bass
