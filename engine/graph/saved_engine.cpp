#include <mobicuda/saved_engine.h>

#include <algorithm>
#include <new>
#include <utility>

#include "graph/huge_pages.h"
#include "graph/memory_planner.h"

namespace mobicuda {
namespace {

static_assert(kWeightAlignment == kBufferAlignment);
constexpr const char* kRemedy = "make it again from the model with this version, on this machine";

[[noreturn]] void refuse_option(const std::string& option, const std::string& made, const std::string& asked) {
  throw Error(ErrorCode::invalid_argument, "saved engine",
              "was compiled with " + option + " " + made + ", asked for is " + asked,
              "ask for what it has, or compile the model anew");
}

bool same_pictures(const std::optional<PictureInput>& a, const std::optional<PictureInput>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->scale == b->scale && a->shift == b->shift;
}

std::string told(const std::optional<std::vector<std::int64_t>>& batches) {
  if (!batches) return "chosen by itself";
  std::string text;
  for (const std::int64_t batch : *batches) text += (text.empty() ? "" : ", ") + std::to_string(batch);
  return text.empty() ? "for max_batch only" : text;
}

}  // namespace

WeightBytes::WeightBytes(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
  if (bytes < 0) {
    throw Error(ErrorCode::invalid_argument, "packed weights", "bytes must be >= 0, got " + std::to_string(bytes));
  }
  if (bytes == 0) return;
  const std::align_val_t alignment = block_alignment(bytes_, static_cast<std::size_t>(kWeightAlignment));
  auto* data = static_cast<std::byte*>(::operator new(bytes_, alignment, std::nothrow));
  if (data == nullptr) {
    throw Error(ErrorCode::out_of_memory, "packed weights", "no host memory for " + std::to_string(bytes) + " bytes");
  }
  data_.reset(data, [alignment](std::byte* memory) { ::operator delete(memory, alignment); });
  ask_for_huge_pages(data, bytes_);
}

Graph without_constants(const Graph& graph) {
  GraphBuilder builder(graph.name());
  std::size_t node = 0;
  // Values keep their numbers: they are in the order in which they were made.
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    const Value& value = graph.values()[id];
    if (value.constant) {
      builder.add_constant(value.name, HostTensor::shape_only(value.constant->dtype(), value.constant->shape()));
    } else if (static_cast<ValueId>(id) == graph.input()) {
      builder.set_input(value.name, value.desc);
    } else {
      const Node& next = graph.nodes()[node++];
      builder.add_node(next.op, next.inputs, next.origin, value.name);
    }
  }
  return std::move(builder).build(graph.output());
}

EngineOptions restored_options(const SavedEngine& saved, const EngineOptions& options) {
  const EngineOptions& made = saved.options;
  if (options.precision != made.precision) {
    refuse_option("precision", std::string(to_string(made.precision)), std::string(to_string(options.precision)));
  }
  if (options.max_batch != made.max_batch) {
    refuse_option("max_batch", std::to_string(made.max_batch), std::to_string(options.max_batch));
  }
  if (options.plan_batches && options.plan_batches != made.plan_batches) {
    refuse_option("plan_batches", told(made.plan_batches), told(options.plan_batches));
  }
  if (!same_pictures(options.picture_input, made.picture_input)) {
    refuse_option("picture_input", made.picture_input ? "of bytes" : "absent (floats)",
                  options.picture_input ? "bytes with other factors or none" : "floats");
  }
  if (!options.kernel_variants.empty() && options.kernel_variants != made.kernel_variants) {
    refuse_option("kernel_variants", "of its own", "others");
  }
  if (!options.timing_cache.empty()) {
    refuse_option("kernels", "already chosen", "a choice by timing_cache");
  }
  EngineOptions restored = options;
  restored.kernel_variants = made.kernel_variants;
  restored.plan_batches = made.plan_batches;
  check_options(restored);
  return restored;
}

void require_origin(const SavedEngine& saved, std::string_view backend, std::string_view processor) {
  if (saved.backend != backend) {
    throw Error(ErrorCode::unsupported, "saved engine",
                "is of the implementation '" + saved.backend + "', not of '" + std::string(backend) + "'",
                "load it with that implementation, or compile the model anew");
  }
  if (saved.processor != processor) {
    throw Error(ErrorCode::unsupported, "saved engine",
                "was made for " + saved.processor + ", this is " + std::string(processor), kRemedy);
  }
}

void require_plans(const SavedEngine& saved) {
  std::int64_t before = 0;
  for (const SavedPlan& plan : saved.plans) {
    if (plan.batch <= before) {
      throw Error(ErrorCode::invalid_model, "saved engine",
                  "has a plan for a batch of " + std::to_string(plan.batch) +
                      (before == 0 ? std::string() : " after one of " + std::to_string(before)),
                  kRemedy);
    }
    before = plan.batch;
  }
  if (before == saved.options.max_batch) return;
  throw Error(ErrorCode::invalid_model, "saved engine",
              "has no plan for its max_batch, " + std::to_string(saved.options.max_batch) + ", but up to " +
                  std::to_string(before),
              kRemedy);
}

std::int64_t WeightReplay::next(std::int64_t bytes) {
  const auto total = static_cast<std::int64_t>(saved_.weights.span().size());
  const std::string where = "saved engine, packed weight " + std::to_string(piece_);
  if (piece_ >= saved_.pieces.size() || saved_.pieces[piece_].bytes != bytes) {
    throw Error(ErrorCode::invalid_model, where,
                "should have " + std::to_string(bytes) + " bytes, has " +
                    (piece_ < saved_.pieces.size() ? std::to_string(saved_.pieces[piece_].bytes) : std::string("none")),
                kRemedy);
  }
  const std::int64_t offset = saved_.pieces[piece_].offset;
  if (offset < 0 || offset % kWeightAlignment != 0 || offset > total || bytes > total - offset) {
    throw Error(ErrorCode::invalid_model, where,
                "of " + std::to_string(bytes) + " bytes should lie within the " + std::to_string(total) +
                    " bytes of weights, from a multiple of " + std::to_string(kWeightAlignment) + " on, lies at " +
                    std::to_string(offset),
                kRemedy);
  }
  // Cannot overflow: both are at most the size of memory that exists.
  end_ = std::max(end_, std::min((offset + bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment, total));
  ++piece_;
  return offset;
}

void WeightReplay::finish() const {
  if (piece_ != saved_.pieces.size()) {
    throw Error(ErrorCode::invalid_model, "saved engine",
                "has " + std::to_string(saved_.pieces.size()) + " packed weights, " + std::to_string(piece_) +
                    " of them belong to its layers",
                kRemedy);
  }
  const auto total = static_cast<std::int64_t>(saved_.weights.span().size());
  if (end_ == total) return;
  throw Error(ErrorCode::invalid_model, "saved engine",
              "has " + std::to_string(total) + " bytes of weights, its packed weights end at " + std::to_string(end_),
              kRemedy);
}

}  // namespace mobicuda
