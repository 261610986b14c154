// What every device promises: the emulator, and a GPU where there is one.
#include "kernels/cuda/device.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/rows/activate_rows.h"

namespace bass::cuda {
namespace {

using testing::all_devices;
using testing::DeviceArray;

constexpr float kCap = 300.0f;

std::vector<float> capped(std::vector<float> values, int times) {
  for (float& value : values) {
    for (int i = 0; i < times; ++i) value = soft_cap(value, kCap);
  }
  return values;
}

TEST(GpuDevice, AGraphReadsWhatMemoryHoldsWhenItRuns) {
  for (const auto& device : all_devices()) {
    const std::vector<float> first{1.0f, -400.0f, 250.0f}, second{900.0f, 0.0f, 5.0f};
    const DeviceArray<float> x(device.get(), first), copied(device.get(), second);
    const CapRows cap{x.data(), 0, 1, 3, kCap};
    device->begin_graph();
    launch(*device, cap, cap.shape());
    device->copy(copied.data(), x.data(), sizeof(float) * 3);
    launch(*device, cap, cap.shape());
    const int graph = device->end_graph();
    EXPECT_EQ(x.read(), first) << "recorded, and not done";
    device->launch_graph(graph);
    EXPECT_EQ(x.read(), capped(first, 2));
    EXPECT_EQ(copied.read(), capped(first, 1));
    device->upload(x.data(), second.data(), sizeof(float) * 3);
    device->launch_graph(graph);
    device->launch_graph(graph);
    EXPECT_EQ(x.read(), capped(second, 4)) << device->info().name;
  }
}

TEST(GpuDevice, GraphsAndKernelsAreDoneInTheirOrder) {
  for (const auto& device : all_devices()) {
    const DeviceArray<uint8_t> bytes(device.get(), {9, 9, 9, 9});
    std::vector<int> graphs;
    for (const int value : {1, 2}) {
      device->begin_graph();
      device->fill(bytes.data(), value, 4 - static_cast<size_t>(value));
      graphs.push_back(device->end_graph());
    }
    device->launch_graph(graphs[1]);
    device->fill(bytes.data() + 1, 7, 1);
    EXPECT_EQ(bytes.read(), (std::vector<uint8_t>{2, 7, 9, 9}));
    device->launch_graph(graphs[0]);
    device->launch_graph(graphs[1]);
    EXPECT_EQ(bytes.read(), (std::vector<uint8_t>{2, 2, 1, 9}));
  }
}

}  // namespace
}  // namespace bass::cuda
