// All kernels: a line here, its header in all_kernels.h, and a line in the file of gpu/ that compiles it.
#pragma once

// Of a format, by the rows of a block.
#define BASS_TILE_KERNELS_OF(X, Format) \
  X(Format##Split) X(Format##Rows8) X(Format##Rows16) X(Format##Rows32) X(Format##Rows64)
#define BASS_TILE_4_KERNELS(X)         \
  BASS_TILE_KERNELS_OF(X, Tile4)       \
  BASS_TILE_KERNELS_OF(X, Tile4Minima) \
  BASS_TILE_KERNELS_OF(X, Tile4Whole)
#define BASS_TILE_8_KERNELS(X)         \
  BASS_TILE_KERNELS_OF(X, Tile8)       \
  BASS_TILE_KERNELS_OF(X, Tile8Minima) \
  BASS_TILE_KERNELS_OF(X, Tile8Whole)  \
  BASS_TILE_KERNELS_OF(X, Tile8Half)   \
  BASS_TILE_KERNELS_OF(X, Tile8HalfMinima)
#define BASS_TILE_KERNELS(X) BASS_TILE_4_KERNELS(X) BASS_TILE_8_KERNELS(X)

#define BASS_ATTENTION_KERNELS(X) \
  X(AttendSegment)                \
  X(CountTiles)                   \
  X(AttendGrouped)                \
  X(AttendFused64)                \
  X(AttendFused80)                \
  X(AttendFused96)                \
  X(AttendFused128)               \
  X(AttendFusedAny)               \
  X(AttendBytes64)                \
  X(AttendBytes80)                \
  X(AttendBytes96)                \
  X(AttendBytes128)               \
  X(AttendBytesAny)               \
  X(AttendF16x64)                 \
  X(AttendF16x80)                 \
  X(AttendF16x96)                 \
  X(AttendF16x128)                \
  X(AttendF16xAny)                \
  X(AttendBf16x64)                \
  X(AttendBf16x80)                \
  X(AttendBf16x96)                \
  X(AttendBf16x128)               \
  X(AttendBf16xAny)               \
  X(PlanFused)                    \
  X(PlanPadded)                   \
  X(PaddedScores)                 \
  X(PaddedSoftmax)                \
  X(PaddedValues)                 \
  X(AttendFloatSegment)           \
  X(AttendFloatGrouped)           \
  X(PaddedFloatScores)            \
  X(PaddedFloatSoftmax)           \
  X(PaddedFloatValues)

#define BASS_EXPERT_KERNELS(X) \
  X(ChooseExperts)             \
  X(PlaceExperts)              \
  X(GatherActivations)         \
  X(AddExperts)                \
  X(ExpertFloat)               \
  X(Expert4)                   \
  X(Expert4Minima)             \
  X(Expert4Whole)              \
  X(Expert8)                   \
  X(Expert8Minima)             \
  X(Expert8Whole)              \
  X(Expert8Half)               \
  X(Expert8HalfMinima)

#define BASS_SAMPLING_KERNELS(X) \
  X(DraftRows)                   \
  X(VerifyRows)                  \
  X(WeighRows)                   \
  X(JudgeRounds)

#define BASS_SKINNY_KERNELS(X) \
  X(SkinnyBf16x1x1)            \
  X(SkinnyBf16x1x2)            \
  X(SkinnyBf16x2x1)            \
  X(SkinnyBf16x2x2)            \
  X(SkinnyBf16x4x1)            \
  X(ResidentBf16x1x4)          \
  X(ResidentBf16x1x8)          \
  X(ResidentBf16x1x14)         \
  X(ResidentBf16x2x4)          \
  X(SkinnyInt8x1x1)            \
  X(SkinnyInt8x1x2)            \
  X(SkinnyInt8x2x1)            \
  X(SkinnyInt8x2x2)            \
  X(SkinnyInt8x4x1)            \
  X(ResidentInt8x1x4)          \
  X(ResidentInt8x1x8)          \
  X(ResidentInt8x1x14)         \
  X(ResidentInt8x2x4)          \
  X(SkinnyFp8x1x1)             \
  X(SkinnyFp8x1x2)             \
  X(SkinnyFp8x2x1)             \
  X(SkinnyFp8x2x2)             \
  X(SkinnyFp8x4x1)             \
  X(ResidentFp8x1x4)           \
  X(ResidentFp8x1x8)           \
  X(ResidentFp8x1x14)          \
  X(ResidentFp8x2x4)

#define BASS_GPU_KERNELS(X) \
  X(EmbedRows)              \
  X(GatherRows)             \
  X(NormRows)               \
  X(RopeAndWriteKv)         \
  X(ActivateRows)           \
  X(CapRows)                \
  X(TapRows)                \
  X(FeatureRows)            \
  X(JoinRows)               \
  X(QuantiseTokens)         \
  X(AddBias)                \
  X(ScaleSums)              \
  X(FloatProduct)           \
  X(Product4)               \
  X(Product4Minima)         \
  X(Product4Whole)          \
  X(Product8)               \
  X(Product8Minima)         \
  X(Product8Whole)          \
  X(Product8Half)           \
  X(Product8HalfMinima)     \
  BASS_SKINNY_KERNELS(X)    \
  BASS_TILE_KERNELS(X)      \
  BASS_ATTENTION_KERNELS(X) \
  BASS_EXPERT_KERNELS(X)    \
  BASS_SAMPLING_KERNELS(X)

namespace bass::cuda {

#define BASS_DECLARE_KERNEL(Kernel) struct Kernel;
BASS_GPU_KERNELS(BASS_DECLARE_KERNEL)
#undef BASS_DECLARE_KERNEL

enum class KernelId : int {
#define BASS_NAME_KERNEL(Kernel) k##Kernel,
  BASS_GPU_KERNELS(BASS_NAME_KERNEL)
#undef BASS_NAME_KERNEL
      kCount
};

template <class Kernel>
inline constexpr KernelId kKernelId = KernelId::kCount;
#define BASS_IDENTIFY_KERNEL(Kernel) \
  template <>                        \
  inline constexpr KernelId kKernelId<Kernel> = KernelId::k##Kernel;
BASS_GPU_KERNELS(BASS_IDENTIFY_KERNEL)
#undef BASS_IDENTIFY_KERNEL

}  // namespace bass::cuda
