// Rows that experts gather give the bits of vectors where their products take panels (AMX, here of plain loops).
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "executor/cpu/forward.h"
#include "model/model_file.h"
#include "support/engine_run.h"

namespace bass::cpu {
namespace {

/// Products of so many rows that they may take panels, those of them whose rows have none, and products of fewer rows.
std::atomic<int> n_large_products, n_without_panels, n_small_products;

/// A table whose products are counted.
Kernels counting(const Kernels& kernels) {
  static Kernels counted;
  counted = kernels;
  Kernels table = kernels;
  table.matmul = [](const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out,
                    int out_stride, int first_channel, bool accumulate, FetchQueue* fetch) {
    n_large_products += n_rows >= counted.min_panel_rows ? 1 : 0;
    n_without_panels += n_rows >= counted.min_panel_rows && x.panels == nullptr ? 1 : 0;
    n_small_products += n_rows < counted.min_panel_rows ? 1 : 0;
    counted.matmul(w, x, n_rows, tiles, out, out_stride, first_channel, accumulate, fetch);
  };
  return table;
}

/// The logits of the last rows of a prompt.
std::vector<float> logits(const std::string& model_name, const Kernels& kernels, int n_rows, int n_planes) {
  constexpr int kContext = 160;
  constexpr int kPages = (kContext + kKvPageLen - 1) / kKvPageLen;
  ThreadTeam team(2);
  const Result<ModelFile> file = load_model_file(bass::testing::data_file("architectures/" + model_name + ".gguf"));
  if (!file.ok()) throw std::runtime_error(file.status().message());
  Result<std::unique_ptr<CpuModel>> model = CpuModel::load(file.value(), {KvKind::kInt16, kPages, kContext, 1}, &team);
  if (!model.ok()) throw std::runtime_error(model.status().message());
  model.value()->prepare_positions(kContext);
  ForwardOptions options;
  options.max_rows = n_rows;
  options.n_planes = n_planes;
  options.n_threads = 2;
  CpuForward forward(model.value().get(), &kernels, options);
  EXPECT_TRUE(forward.ok());
  forward.reserve(1, kPages);
  forward.begin_batch();
  std::vector<PageId> pages(kPages);
  std::iota(pages.begin(), pages.end(), 0);
  forward.add_segment(0, /*is_decode=*/false, pages, kContext);
  for (int t = 0; t < n_rows; ++t) forward.add_token(3 + 31 * t % 90);
  forward.end_batch();
  std::vector<int> rows(32);
  std::iota(rows.begin(), rows.end(), n_rows - 32);
  std::vector<float> out(rows.size() * static_cast<size_t>(file.value().config.vocab_size));
  team.run([&](const TeamContext& context) {
    forward.run(context);
    forward.logits(context, rows, out.data());
  });
  return out;
}

// Each row goes to two of four experts; those with 24 rows and more begin where a panel does.
TEST(ExpertRows, OnPanelsGiveTheBitsOfVectors) {
  if (emulated_amx() == nullptr) GTEST_SKIP() << "this processor has no AVX-512 VNNI, which tiles are used with";
  const Kernels tiles = counting(*emulated_amx());
  for (const int n_planes : {1, 2}) {
    n_large_products = n_without_panels = n_small_products = 0;
    for (const int n_rows : {40, 47, 53, 150}) {
      EXPECT_EQ(logits("mixtral_q8_0", tiles, n_rows, n_planes),
                logits("mixtral_q8_0", *find_kernels(Isa::kAvx512Vnni), n_rows, n_planes));
    }
    EXPECT_GT(n_large_products, 0);
    EXPECT_GT(n_small_products, 0) << "no expert with few rows lay between others";
    EXPECT_EQ(n_without_panels, 0) << n_planes << " planes";
  }
}

}  // namespace
}  // namespace bass::cpu
