// A depthwise convolution and the convolutions around it as one step, by bands of output rows: what the first
// convolution and the depthwise one write for a band stays in the thread's scratch memory, small enough for the L2
// cache. The loops are those of single layers, and so are the bits.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "baselines/cpu/fp32_layers.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/depthwise_conv.h"
#include "graph/memory_planner.h"

namespace mobicuda::cpu {
namespace {

// The rows of an image that a thread's scratch memory holds, at the beginning of which this lies, through a loop.
struct HeldRows {
  std::int64_t image = -1;
  std::int64_t first = 0, end = 0;
};
constexpr std::int64_t kHeldElements = kBufferAlignment / kFloatBytes;  // that it takes
static_assert(sizeof(HeldRows) <= kBufferAlignment);

struct FusedConvolutions {
  std::optional<Product> expand;
  Depthwise depthwise;
  std::optional<Product> project;
  int x = kNoBuffer, residual = kNoBuffer, y = kNoBuffer;
  std::int64_t bands = 1;  // of an image

  Range band_rows(std::int64_t band) const { return part_of(depthwise.out_h(), band, bands); }
  std::int64_t y_row_elements() const {
    return project ? project->image_rows() / depthwise.out_h() * project->columns() : depthwise.row_elements();
  }

  // A thread's scratch memory: that of the products, expanded rows, of which row i of an image takes the place i modulo
  // their number, and filtered rows.
  std::int64_t product_elements() const {
    const std::int64_t bytes = std::max(expand ? expand->scratch_bytes() : 0, project ? project->scratch_bytes() : 0);
    return ceil_div(bytes, kBufferAlignment) * kBufferAlignment / kFloatBytes;
  }
  std::int64_t most_band_rows() const { return ceil_div(depthwise.out_h(), bands); }
  std::int64_t expanded_rows() const { return depthwise.most_window_rows(most_band_rows()); }
  std::int64_t expanded_elements() const {
    return expand ? checked_multiply(expanded_rows(), depthwise.x_row_elements()) : 0;
  }
  std::int64_t filtered_elements() const {
    return project ? checked_multiply(most_band_rows(), depthwise.row_elements()) : 0;
  }
  std::int64_t workspace_bytes() const {
    return checked_multiply(kHeldElements + product_elements() + expanded_elements() + filtered_elements(),
                            kFloatBytes);
  }

  // As few as let a band's rows stay in the cache.
  void choose_bands(const FusionLimits& limits) {
    while (bands < depthwise.out_h() && (expanded_elements() + filtered_elements()) * kFloatBytes > limits.band_bytes) {
      ++bands;
    }
  }
};

// Runs bands in one thread. Neighbours share input rows of the depthwise convolution: those stay where they are.
class BandRunner {
 public:
  BandRunner(const FusedConvolutions& step, const StepContext& context, int worker)
      : step_(step),
        x_(context.buffer<const float>(step.x)),
        residual_(context.buffer<const float>(step.residual)),
        y_(context.buffer<float>(step.y)),
        held_(held_rows(context, worker)),
        scratch_(context.scratch(worker) + kHeldElements),
        expanded_(scratch_ + step.product_elements()),
        filtered_(expanded_ + step.expanded_elements()) {}

  // Before a loop: what lies in the threads' scratch memory is of another step.
  static void begin(const StepContext& context) {
    for (int worker = 0; worker < context.pool.threads(); ++worker) held_rows(context, worker) = {};
  }

  void run(std::int64_t image, Range rows) {
    const Depthwise& depthwise = step_.depthwise;
    const float* input = x_ + image * depthwise.x_rows() * depthwise.x_row_elements();
    std::int64_t ring = depthwise.x_rows();
    if (step_.expand) {
      expand(image, depthwise.window_of(rows));
      input = expanded_;
      ring = step_.expanded_rows();
    }
    const std::int64_t at = (image * depthwise.out_h() + rows.first) * step_.y_row_elements();
    const float* const residual = residual_ == nullptr ? nullptr : residual_ + at;
    float* const filtered = step_.project ? filtered_ : y_ + at;
    depthwise.run_rows(rows, input, ring, step_.project ? nullptr : residual, filtered);
    if (!step_.project) return;
    const std::int64_t pixels = step_.project->image_rows() / depthwise.out_h();
    step_.project->run_rows({0, (rows.last - rows.first) * pixels}, {filtered_, residual, y_ + at}, scratch_);
  }

 private:
  static HeldRows& held_rows(const StepContext& context, int worker) {
    return *reinterpret_cast<HeldRows*>(context.scratch(worker));
  }

  // Makes the rows of `window` those that are held: computes what the window before has not.
  void expand(std::int64_t image, Range window) {
    const std::int64_t rows = step_.depthwise.x_rows();
    const std::int64_t pixels = step_.expand->image_rows() / rows;
    const std::int64_t ring = step_.expanded_rows();
    const bool follows = image == held_.image && window.first >= held_.first;
    std::int64_t row = follows ? std::max(window.first, held_.end) : window.first;
    while (row < window.last) {
      const std::int64_t place = row % ring;
      const std::int64_t end = std::min(window.last, row + ring - place);  // before the ring begins again
      step_.expand->run_rows({(image * rows + row) * pixels, (image * rows + end) * pixels},
                             {x_, nullptr, expanded_ + place * step_.depthwise.x_row_elements()}, scratch_);
      row = end;
    }
    held_ = {image, window.first, window.last};
  }

  const FusedConvolutions& step_;
  const float* const x_;
  const float* const residual_;
  float* const y_;
  HeldRows& held_;
  float* const scratch_;
  float* const expanded_;
  float* const filtered_;
};

void run_bands(const FusedConvolutions& step, const StepContext& context) {
  BandRunner::begin(context);
  context.pool.for_ranges(context.n * step.bands, 1, [&](std::int64_t first, std::int64_t last, int worker) {
    BandRunner runner(step, context, worker);
    for (std::int64_t item = first; item < last; ++item) {
      runner.run(item / step.bands, step.band_rows(item % step.bands));
    }
  });
}

const Conv2d& conv_of(const NodeView& view) { return std::get<Conv2d>(view.node.op); }

bool is_depthwise_node(const NodeView& view) {
  return is_depthwise(conv_of(view), view.desc(Conv2d::kInput).shape, view.desc(Conv2d::kWeight).shape);
}

}  // namespace

LoweredNode lower_fused(std::span<const NodeView> views, const FusionLimits& limits) {
  const NodeView& first = views.front();
  const NodeView& last = views.back();
  std::optional<Product> expand;
  if (!is_depthwise_node(first)) expand.emplace(conv_of(first), first, first.zeros);
  const NodeView& middle = views[expand ? 1 : 0];
  FusedConvolutions step{std::move(expand),
                         Depthwise(conv_of(middle), middle),
                         std::nullopt,
                         first.inputs[Conv2d::kInput],
                         last.inputs[Conv2d::kResidual],
                         last.output};
  if (&last != &middle) step.project.emplace(conv_of(last), last, last.zeros);
  step.choose_bands(limits);

  LoweredNode lowered;
  lowered.kernel = with_isa((step.expand ? step.expand->kernel() + "+" : "") + "depthwise_conv" +
                                (step.project ? "+" + step.project->kernel() : ""),
                            first);
  lowered.weight_bytes = step.depthwise.weight_bytes() + (step.expand ? step.expand->weight_bytes() : 0) +
                         (step.project ? step.project->weight_bytes() : 0);
  lowered.workspace_bytes = step.workspace_bytes();
  lowered.run = [step = std::move(step)](const StepContext& context) { run_bands(step, context); };
  return lowered;
}

}  // namespace mobicuda::cpu
