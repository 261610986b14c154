#include "kernels/cuda/gpu/library_products.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <bit>
#include <map>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace bass::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr size_t kMaxPlans = 4096;                    // of shapes, a KiB each
constexpr uint32_t kMaxAlignment = 256;

/// The library's functions, found when it is opened.
struct Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

/// What a dynamic library holds. It stays open: handles of it live in static objects of its own.
bool find_functions(void* library, Functions* found) {
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  return find("cublasLtCreate", found->create) && find("cublasLtDestroy", found->destroy) &&
         find("cublasLtMatmulDescCreate", found->create_operation) &&
         find("cublasLtMatmulDescSetAttribute", found->set_operation) &&
         find("cublasLtMatmulDescDestroy", found->destroy_operation) &&
         find("cublasLtMatrixLayoutCreate", found->create_layout) &&
         find("cublasLtMatrixLayoutDestroy", found->destroy_layout) &&
         find("cublasLtMatmulPreferenceCreate", found->create_preference) &&
         find("cublasLtMatmulPreferenceSetAttribute", found->set_preference) &&
         find("cublasLtMatmulPreferenceDestroy", found->destroy_preference) &&
         find("cublasLtMatmulAlgoGetHeuristic", found->choose) && find("cublasLtMatmul", found->matmul);
}

/// The largest power of two that divides an address and all rows' distances from it.
uint32_t alignment_of(const void* data, int64_t row_bytes) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(row_bytes) | kMaxAlignment;
  return uint32_t{1} << std::countr_zero(bits);
}

/// The library's objects are freed by its own functions.
template <class T>
struct Owned {
  T object = nullptr;
  cublasStatus_t (*destroy)(T) = nullptr;

  Owned() = default;
  Owned(Owned&& other) noexcept : object(std::exchange(other.object, nullptr)), destroy(other.destroy) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object, other.object);
    std::swap(destroy, other.destroy);
    return *this;
  }
  ~Owned() {
    if (object != nullptr) destroy(object);
  }
};

/// The library thinks in columns: its D = A^T B + beta D of [n_in, n_out], [n_in, n_rows] and [n_out, n_rows] is our
/// product of rows.
struct Shape {
  LibraryNumbers numbers;
  int32_t n_rows, n_out, n_in;
  int64_t out_stride;
  bool accumulates;
  uint32_t w_alignment, x_alignment, out_alignment;

  explicit Shape(const LibraryProduct& p)
      : numbers(p.numbers),
        n_rows(p.n_rows),
        n_out(p.n_out),
        n_in(p.n_in),
        out_stride(p.out_stride),
        accumulates(p.accumulates),
        w_alignment(alignment_of(p.w, p.n_in * static_cast<int64_t>(library_number_bytes(p.numbers)))),
        x_alignment(alignment_of(p.x, p.n_in * static_cast<int64_t>(library_number_bytes(p.numbers)))),
        out_alignment(alignment_of(p.out, p.out_stride * 4)) {}
  auto operator<=>(const Shape&) const = default;
};

/// The library's names of what is multiplied.
struct Types {
  cudaDataType numbers;
  cudaDataType sums;
  cublasComputeType_t compute;
};
Types types_of(LibraryNumbers numbers) {
  switch (numbers) {
    case LibraryNumbers::kInt8:
      return {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I};
    case LibraryNumbers::kFp8:
      return {CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case LibraryNumbers::kBf16:
    case LibraryNumbers::kNone:
      break;
  }
  return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

/// 1 and 0 in the type of the sums.
union Factor {
  float real;
  int32_t whole;
};
Factor factor_of(LibraryNumbers numbers, int value) {
  Factor factor{};
  if (numbers == LibraryNumbers::kInt8) {
    factor.whole = value;
  } else {
    factor.real = static_cast<float>(value);
  }
  return factor;
}

struct Plan {
  Owned<cublasLtMatmulDesc_t> operation;
  Owned<cublasLtMatrixLayout_t> w, x, out;
  cublasLtMatmulAlgo_t algorithm{};
};

class CublasLtProducts final : public LibraryProducts {
 public:
  explicit CublasLtProducts(const Functions& functions) : functions_(functions) {}
  ~CublasLtProducts() override {
    plans_.clear();
    if (handle_ != nullptr) functions_.destroy(handle_);
    if (workspace_ != nullptr) cudaFree(workspace_);
  }
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  Status start() {
    if (functions_.create(&handle_) != CUBLAS_STATUS_SUCCESS) {
      return unavailable("cuBLASLt does not start on this GPU; its version may not suit the driver");
    }
    if (cudaMalloc(&workspace_, kWorkspaceBytes) == cudaSuccess) return ok_status();
    (void)cudaGetLastError();  // want of memory is no defect of what comes next
    return resource_exhausted(fmt::format("no {} MiB of the GPU's memory for cuBLASLt", kWorkspaceBytes >> 20));
  }

  Status multiply(const LibraryProduct& p, cudaStream_t stream) override {
    if (p.n_rows == 0) return ok_status();
    const Shape shape(p);
    auto found = plans_.find(shape);
    if (found == plans_.end()) {
      if (plans_.size() >= kMaxPlans) plans_.clear();  // prompts come in many lengths
      Result<Plan> plan = make_plan(shape);
      if (!plan.ok() && plan.status().code() != StatusCode::kInvalidArgument) return plan.status();  // it may pass
      found = plans_.emplace(shape, std::move(plan)).first;
    }
    if (!found->second.ok()) return found->second.status();
    const Plan& plan = found->second.value();
    const Factor one = factor_of(p.numbers, 1);
    const Factor beta = factor_of(p.numbers, p.accumulates ? 1 : 0);
    const cublasStatus_t status = functions_.matmul(
        handle_, plan.operation.object, &one, p.w, plan.w.object, p.x, plan.x.object, &beta, p.out, plan.out.object,
        p.out, plan.out.object, &plan.algorithm, workspace_, kWorkspaceBytes, stream);
    return status == CUBLAS_STATUS_SUCCESS ? ok_status() : failed("run", shape, status);
  }

 private:
  static Status failed(const char* what, const Shape& shape, cublasStatus_t status) {
    const bool is_refused = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
    return {is_refused ? StatusCode::kInvalidArgument : StatusCode::kInternal,
            fmt::format("cuBLASLt cannot {} a product of {} rows, {} -> {} (status {})", what, shape.n_rows, shape.n_in,
                        shape.n_out, static_cast<int>(status))};
  }

  cublasStatus_t add_layout(cudaDataType type, int n_rows, int n_columns, int64_t stride,
                            Owned<cublasLtMatrixLayout_t>* layout) const {
    layout->destroy = functions_.destroy_layout;
    return functions_.create_layout(&layout->object, type, static_cast<uint64_t>(n_rows),
                                    static_cast<uint64_t>(n_columns), stride);
  }

  cublasStatus_t describe(const Shape& shape, Plan* plan) const {
    plan->operation.destroy = functions_.destroy_operation;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const Types types = types_of(shape.numbers);
    for (const cublasStatus_t status :
         {functions_.create_operation(&plan->operation.object, types.compute, types.sums),
          functions_.set_operation(plan->operation.object, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                   sizeof(transposed)),
          add_layout(types.numbers, shape.n_in, shape.n_out, shape.n_in, &plan->w),
          add_layout(types.numbers, shape.n_in, shape.n_rows, shape.n_in, &plan->x),
          add_layout(types.sums, shape.n_out, shape.n_rows, shape.out_stride, &plan->out)}) {
      if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
    return CUBLAS_STATUS_SUCCESS;
  }

  // Unless it is told otherwise the library takes all memory for aligned to 256 bytes.
  cublasStatus_t choose(const Shape& shape, Plan* plan) const {
    Owned<cublasLtMatmulPreference_t> preference;
    preference.destroy = functions_.destroy_preference;
    cublasStatus_t status = functions_.create_preference(&preference.object);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      if (status == CUBLAS_STATUS_SUCCESS) {
        status = functions_.set_preference(preference.object, attribute, &value, sizeof(value));
      }
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.w_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.x_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    cublasLtMatmulHeuristicResult_t found{};
    int n_found = 0;
    status = functions_.choose(handle_, plan->operation.object, plan->w.object, plan->x.object, plan->out.object,
                               plan->out.object, preference.object, 1, &found, &n_found);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    plan->algorithm = found.algo;
    return n_found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }

  Result<Plan> make_plan(const Shape& shape) const {
    Plan plan;
    cublasStatus_t status = describe(shape, &plan);
    if (status == CUBLAS_STATUS_SUCCESS) status = choose(shape, &plan);
    if (status != CUBLAS_STATUS_SUCCESS) return failed("plan", shape, status);
    return plan;
  }

  Functions functions_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Shape, Result<Plan>> plans_;  // or why there is none
};

}  // namespace

Result<std::unique_ptr<LibraryProducts>> LibraryProducts::open() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUDART_VERSION / 1000);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  Functions functions;
  if (library == nullptr || !find_functions(library, &functions)) {
    return unavailable(
        fmt::format("--activations bf16, w8a8 and fp8 need NVIDIA's cuBLAS ({}), which is not found; install it "
                    "(package libcublas, or CUDA's toolkit), or use int8",
                    name));
  }
  auto products = std::make_unique<CublasLtProducts>(functions);
  BASS_RETURN_IF_ERROR(products->start());
  return std::unique_ptr<LibraryProducts>(std::move(products));
}

}  // namespace bass::cuda
