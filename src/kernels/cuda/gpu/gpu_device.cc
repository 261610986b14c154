// The CUDA runtime behind Device.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/gpu/gpu_kernels.h"
#include "kernels/cuda/gpu/library_products.h"

namespace bass::cuda {
namespace {

constexpr size_t kKernels = static_cast<size_t>(KernelId::kCount);
constexpr size_t kMaxMadeGraphs = 1024;  // far above what two models record: making one allocates nothing here

class GpuDevice final : public Device {
 public:
  GpuDevice(int idx, const cudaDeviceProp& properties) : idx_(idx) {
    info_.name = properties.name;
    info_.total_bytes = properties.totalGlobalMem;
    info_.n_multiprocessors = properties.multiProcessorCount;
    info_.compute_capability = properties.major * 10 + properties.minor;
    info_.max_shared_bytes = properties.sharedMemPerBlockOptin;
  }
  ~GpuDevice() override {
    make_current();
    for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    library_.reset();
    for (const cudaEvent_t event : marks_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  /// Error (kResourceExhausted): other programs have the GPU's memory.
  Status open() {
    note(cudaSetDevice(idx_));
    note(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    kernels_ = {
#define BASS_FIND_KERNEL(Kernel) gpu_kernel<Kernel>(),
        BASS_GPU_KERNELS(BASS_FIND_KERNEL)
#undef BASS_FIND_KERNEL
    };
    info_.code_capability = info_.compute_capability;
    for (const GpuKernel& kernel : kernels_) {
      cudaFuncAttributes attributes{};
      note(cudaFuncGetAttributes(&attributes, kernel.function));
      info_.code_capability = std::min(info_.code_capability, attributes.ptxVersion);
      // More than 48 KiB must be asked for. The limit holds for what the kernel declares itself as well: nothing here.
      note(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(info_.max_shared_bytes)));
    }
    for (cudaEvent_t& event : marks_) note(cudaEventCreate(&event));
    graphs_.reserve(kMaxMadeGraphs);
    // Kernels that wait for what they read have the instruction only where they were compiled for it. Without it, a
    // launch that allows the next one's blocks to come early would have them read what is not written yet.
    constexpr int kHopper = 90;
    starts_early_ = info_.code_capability >= kHopper && std::getenv("BASS_NO_EARLY_START") == nullptr;
    return error_ == cudaErrorMemoryAllocation ? resource_exhausted(status().message()) : status();
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] size_t free_bytes() const override {
    size_t n_free = 0;
    size_t n_total = 0;
    make_current();
    return cudaMemGetInfo(&n_free, &n_total) == cudaSuccess ? n_free : 0;
  }

  std::byte* allocate(size_t n_bytes) override {
    void* memory = nullptr;
    make_current();
    return n_bytes > 0 && is_there(cudaMalloc(&memory, n_bytes)) ? static_cast<std::byte*>(memory) : nullptr;
  }
  void release(std::byte* memory) override {
    make_current();  // else a thread that has no GPU yet gets the first one's context
    note(cudaFree(memory));
  }
  std::byte* allocate_host(size_t n_bytes) override {
    void* memory = nullptr;
    make_current();
    return n_bytes > 0 && is_there(cudaMallocHost(&memory, n_bytes)) ? static_cast<std::byte*>(memory) : nullptr;
  }
  void release_host(std::byte* memory) override {
    make_current();
    note(cudaFreeHost(memory));
  }

  void upload(void* to, const void* from, size_t n_bytes) override {
    transfer(to, from, n_bytes, cudaMemcpyHostToDevice);
  }
  void download(void* to, const void* from, size_t n_bytes) override {
    transfer(to, from, n_bytes, cudaMemcpyDeviceToHost);
  }
  void copy(void* to, const void* from, size_t n_bytes) override {
    transfer(to, from, n_bytes, cudaMemcpyDeviceToDevice);
  }
  void fill(void* to, int byte, size_t n_bytes) override {
    if (is_in_vain()) return;
    make_current();
    note(cudaMemsetAsync(to, byte, n_bytes, stream_));
  }

  void launch(KernelId kernel, const void* arguments, size_t /*n_bytes*/, const LaunchShape& shape) override {
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0 || is_in_vain()) return;
    make_current();
    const auto size = [](int n) { return static_cast<unsigned>(n); };
    const dim3 grid(size(shape.grid.x), size(shape.grid.y), size(shape.grid.z));
    void* parameters[] = {const_cast<void*>(arguments)};
    // Blocks may come before the kernel in front has ended: they wait for what they read (GpuContext::wait_for_input).
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(size(shape.n_threads));
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream_;
    config.attrs = &attribute;
    config.numAttrs = starts_early_ ? 1 : 0;
    note(cudaLaunchKernelExC(&config, kernels_[static_cast<size_t>(kernel)].function, parameters));
  }

  Status open_library() override {
    if (library_ != nullptr) return ok_status();
    make_current();
    BASS_ASSIGN_OR_RETURN(library_, LibraryProducts::open());
    return ok_status();
  }
  bool multiply(const LibraryProduct& product, bool has_other_way) override {
    if (is_in_vain()) return true;
    make_current();
    const Status status = library_->multiply(product, stream_);
    if (status.ok() || has_other_way) return status.ok();
    if (is_recording_) {
      note(cudaErrorStreamCaptureUnsupported);  // it will be asked again, one by one
    } else if (library_status_.ok()) {
      library_status_ = status;
    }
    return false;
  }

  // Relaxed: a kernel of the library may be loaded while it is recorded, which takes memory.
  void begin_graph() override {
    make_current();
    is_recording_ = true;
    note(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  }
  int end_graph() override {
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t graph = nullptr;
    make_current();
    note(cudaStreamEndCapture(stream_, &recorded));
    if (graph_error_ == cudaSuccess) note(cudaGraphInstantiate(&graph, recorded, 0));
    // Takes the graph's memory, as its first launch would do else.
    if (graph_error_ == cudaSuccess) note(cudaGraphUpload(graph, stream_));
    is_recording_ = false;
    if (recorded != nullptr) note(cudaGraphDestroy(recorded));
    if (graph_error_ == cudaSuccess) {
      graphs_.push_back(graph);
      return static_cast<int>(graphs_.size()) - 1;
    }
    if (graph != nullptr) note(cudaGraphExecDestroy(graph));
    forgive_graph();
    return kNoGraph;  // the kernels can be launched one by one
  }
  void launch_graph(int graph) override {
    make_current();
    note(cudaGraphLaunch(graphs_[static_cast<size_t>(graph)], stream_));
  }

  void mark(int idx) override {
    make_current();
    note(cudaEventRecord(marks_[static_cast<size_t>(idx)], stream_));
  }
  double seconds_between(int first, int second) override {
    float ms = 0;
    make_current();
    note(cudaEventElapsedTime(&ms, marks_[static_cast<size_t>(first)], marks_[static_cast<size_t>(second)]));
    return error_ == cudaSuccess ? 1e-3 * static_cast<double>(ms) : std::numeric_limits<double>::quiet_NaN();
  }

  Status synchronize() override {
    make_current();
    note(cudaStreamSynchronize(stream_));
    return status();
  }

 private:
  /// The runtime keeps a current GPU for each thread: the engine's is not the one that loads, and a program's own
  /// threads may use other GPUs between our calls. Cheap where nothing changes.
  void make_current() const { (void)cudaSetDevice(idx_); }
  /// Whether there was memory. Want of it is no defect of what comes next; anything else is noted.
  bool is_there(cudaError_t error) {
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
    } else {
      note(error);
    }
    return error == cudaSuccess;
  }
  void transfer(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind) {
    if (is_in_vain()) return;
    make_current();
    if (n_bytes > 0) note(cudaMemcpyAsync(to, from, n_bytes, kind, stream_));
  }
  void note(cudaError_t error) {
    cudaError_t& first = is_recording_ ? graph_error_ : error_;
    if (first == cudaSuccess) first = error;
  }
  /// What would be recorded for a graph that has failed, and must not be done instead: all of it is queued again.
  [[nodiscard]] bool is_in_vain() const { return is_recording_ && graph_error_ != cudaSuccess; }
  /// A graph that could not be made leaves the queue as it was, unless the GPU itself has failed.
  void forgive_graph() {
    (void)cudaGetLastError();
    const cudaError_t queue = cudaStreamQuery(stream_);
    if (queue != cudaErrorNotReady) note(queue);
    graph_error_ = cudaSuccess;
  }
  [[nodiscard]] Status status() const {
    if (error_ == cudaSuccess) return library_status_;
    return internal_error(
        fmt::format("GPU {} ({}): {} ({})", idx_, info_.name, cudaGetErrorString(error_), cudaGetErrorName(error_)));
  }

  int idx_;
  DeviceInfo info_;
  bool starts_early_ = false;  // kernels, before those in front of them have ended
  cudaStream_t stream_ = nullptr;
  cudaError_t error_ = cudaSuccess;  // the first one
  bool is_recording_ = false;
  cudaError_t graph_error_ = cudaSuccess;  // the first one of the graph that is recorded
  Status library_status_;                  // the first product that the library refused, and nobody else can compute
  std::unique_ptr<LibraryProducts> library_;
  std::vector<cudaGraphExec_t> graphs_;
  std::array<GpuKernel, kKernels> kernels_{};
  std::array<cudaEvent_t, kMaxMarks> marks_{};
};

}  // namespace

bool has_gpu_backend() { return true; }

Result<std::unique_ptr<Device>> open_gpu(int idx) {
  int driver = 0;
  int runtime = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return unavailable("there is no NVIDIA driver; install one, or use --device cpu");
  }
  if (driver / 1000 < runtime / 1000) {
    return unavailable(
        fmt::format("the NVIDIA driver knows CUDA {}.{}, this build needs {}.{}; update the driver, or "
                    "use --device cpu",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10));
  }
  int n_gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&n_gpus);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && n_gpus == 0)) {
    return unavailable("there is no NVIDIA GPU; use --device cpu");
  }
  if (error != cudaSuccess) return unavailable(fmt::format("CUDA: {}; use --device cpu", cudaGetErrorString(error)));
  if (idx < 0 || idx >= n_gpus) {
    return invalid_argument(fmt::format("there is no GPU {}: the GPUs are 0 to {}", idx, n_gpus - 1));
  }
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, idx) != cudaSuccess) {
    return unavailable(fmt::format("GPU {} does not answer: {}", idx, cudaGetErrorString(cudaGetLastError())));
  }
  auto device = std::make_unique<GpuDevice>(idx, properties);
  if (const Status status = device->open(); !status.ok()) {
    if (status.code() == StatusCode::kResourceExhausted) {
      return unavailable(fmt::format("{}; other programs have taken the GPU's memory", status.message()));
    }
    return unavailable(fmt::format("{}; this build was made for other GPUs, or the GPU is broken", status.message()));
  }
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace bass::cuda
