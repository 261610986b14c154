// Mixture of experts on a device. Which experts a row sees is known there alone: the host knows how many slots there
// are in all, and no more.
#include "executor/cuda/gpu_forward.h"
#include "kernels/cuda/experts/launch_expert_product.h"
#include "kernels/cuda/experts/route_rows.h"

namespace bass::cuda {

void GpuForward::make_experts() {
  const ModelConfig& config = model_->config();
  const int64_t max_rows = options_.max_rows;
  const int64_t max_slots = max_rows * config.n_experts_used;
  static_assert(sizeof(float) == sizeof(int32_t));
  experts_.probabilities = floats(max_rows * config.n_experts);
  experts_.weights = floats(max_slots);
  experts_.chosen = floats(max_slots);
  experts_.slots = floats(max_slots);
  experts_.rows = floats(max_slots);
  experts_.begins = floats(config.n_experts + 1);
  experts_.results = floats(max_slots * config.d_model);
  experts_.input = make_stage(static_cast<int>(max_slots), config.d_model);
}

void GpuOps::route(int layer) {
  GpuExpertRows& experts = f_.experts_;
  const DeviceMatrix& router = model_.layer(layer).router;
  multiply(router, f_.normed_.rows, experts.probabilities.as<float>(), config_.n_experts);
  ChooseExperts choose;
  choose.probabilities = experts.probabilities.as<float>();
  choose.n_rows = n_rows();
  choose.n_experts = config_.n_experts;
  choose.n_used = config_.n_experts_used;
  choose.sum_to_one = config_.expert_weights_sum_to_one ? 1 : 0;
  choose.chosen = experts.chosen.as<int32_t>();
  choose.weights = experts.weights.as<float>();
  launch(device_, choose, choose.shape());
  PlaceExperts place;
  place.chosen = choose.chosen;
  place.n_rows = n_rows();
  place.n_used = config_.n_experts_used;
  place.n_experts = config_.n_experts;
  place.begins = experts.begins.as<int32_t>();
  place.slots = experts.slots.as<int32_t>();
  place.rows = experts.rows.as<int32_t>();
  launch(device_, place, place.shape());
  const GatherActivations gather{f_.normed_.rows, place.rows, n_slots(), experts.input.rows};
  launch(device_, gather, gather.shape());
}

void GpuOps::multiply_experts(const GpuExpertMatrix& weights, const DeviceActivations& input, float* out) {
  const ExpertSlots slots{config_.n_experts, f_.experts_.begins.as<int32_t>()};
  launch_expert_product(device_, {weights.first, weights.all, slots, input, out, n_rows()});
}

void GpuOps::gate_up_experts(int layer) {
  const GpuLayer& weights = model_.layer(layer);
  const int64_t up_offset = int64_t{n_slots()} * config_.d_ff;
  float* out = f_.gate_up_.as<float>();
  multiply_experts(weights.expert_gate, f_.experts_.input.rows, out);
  multiply_experts(weights.expert_up, f_.experts_.input.rows, out + up_offset);
  activate_gated(n_slots(), config_.d_ff, up_offset);
}

void GpuOps::project_down_experts(int layer) {
  GpuExpertRows& experts = f_.experts_;
  multiply_experts(model_.layer(layer).expert_down, f_.gated_.rows, experts.results.as<float>());
  AddExperts add;
  add.results = experts.results.as<float>();
  add.slots = experts.slots.as<int32_t>();
  add.weights = experts.weights.as<float>();
  add.n_rows = n_rows();
  add.n_used = config_.n_experts_used;
  add.n = config_.d_model;
  add.x = f_.residual_.as<float>();
  launch(device_, add, add.shape());
}

}  // namespace bass::cuda
