#include "cudnn/conv_search.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cudnn/cublas_gemm.h"
#include "cudnn/legacy_conv.h"
#include "runtime/cuda_check.h"

namespace mobicuda::cudnn {
namespace {

using Clock = std::chrono::steady_clock;

// For one layer's trials. The most promising candidates come first.
constexpr std::chrono::milliseconds kTrialBudget{1000};

// Bytes that read as small positive numbers in F16 and F32: neither zeros, which run faster than real data,
// nor subnormals.
constexpr int kTrialByte = 0x2C;

void grow(DeviceBuffer& buffer, std::int64_t bytes, const char* what) {
  if (bytes <= buffer.bytes()) return;
  buffer = DeviceBuffer();  // gives the old memory back first
  buffer = DeviceBuffer(bytes, what);
  cuda_check(cudaMemset(buffer.data(), kTrialByte, static_cast<std::size_t>(bytes)), "filling trial data");
}

Element element_of(DType dtype) { return dtype == DType::F16 ? Element::F16 : Element::F32; }

// The same layer with symmetric pads, and the zeros that must be put around its input first.
std::pair<ConvProblem, Padding> with_explicit_pad(const ConvProblem& problem) {
  const Padding& pads = problem.pads;
  const std::int64_t vertical = std::min(pads.top, pads.bottom);
  const std::int64_t horizontal = std::min(pads.left, pads.right);
  const Padding rest{pads.top - vertical, pads.left - horizontal, pads.bottom - vertical, pads.right - horizontal};
  ConvProblem padded = problem;
  padded.h += rest.top + rest.bottom;
  padded.w += rest.left + rest.right;
  padded.pads = {vertical, horizontal, vertical, horizontal};
  return {padded, rest};
}

}  // namespace

TensorShape input_shape(const ConvProblem& p) {
  return {p.n, p.c, p.h, p.w, p.layout == Layout::NHWC, element_of(p.element())};
}

TensorShape output_shape(const ConvProblem& p) {
  return {p.n, p.k, p.out_h(), p.out_w(), p.layout == Layout::NHWC, element_of(p.output_element())};
}

cudaError_t enqueue_epilogue(const ConvChoice& choice, const void* bias, const void* residual, void* y,
                             cudaStream_t stream) {
  if (!choice.needs_epilogue()) return cudaSuccess;
  return affine_clip(output_shape(choice.problem), y, nullptr, choice.needs_bias() ? bias : nullptr,
                     choice.needs_residual() ? residual : nullptr, choice.problem.activation.lo,
                     choice.problem.activation.hi, y, stream);
}

std::string describe(const ConvProblem& p) {
  const auto times = [](std::int64_t a, std::int64_t b) { return std::to_string(a) + "x" + std::to_string(b); };
  std::string text = std::to_string(p.n) + "x" + std::to_string(p.c) + "x" + times(p.h, p.w) + " -> " +
                     std::to_string(p.k) + ", " + times(p.kh, p.kw) + " stride " + times(p.strides[0], p.strides[1]) +
                     ", groups " + std::to_string(p.groups) + ", " + std::string(to_string(p.precision)) + " " +
                     std::string(to_string(p.layout));
  if (p.residual) text += ", residual";
  if (!p.activation.is_none()) text += ", " + to_string(p.activation);
  return text;
}

// ---- one problem's candidates --------------------------------------------------------------------

class ConvSearch::Trial {
 public:
  Trial(ConvSearch& search, const ConvProblem& problem, const Padding& explicit_pad, ConvChoice& best)
      : search_(search), problem_(problem), explicit_pad_(explicit_pad), best_(best) {
    arguments_ = {explicit_pad.any() ? search.padded_.data() : search.x_.data(),
                  search.w_.data(),
                  problem.bias ? search.bias_.data() : nullptr,
                  problem.residual ? search.residual_.data() : nullptr,
                  search.y_.data(),
                  nullptr};
  }

  void run() {
    const Clock::time_point deadline = Clock::now() + kTrialBudget;
    const KernelSink sink = [&](std::shared_ptr<const ConvKernel> kernel) {
      attempt(std::move(kernel));
      return Clock::now() < deadline;
    };
    offer(cublas_gemm_kernels, sink);
    for (const auto& kernel : search_.graph_candidates_.of(problem_)) {
      if (!sink(kernel)) break;
    }
    offer(legacy_conv_kernels, sink);
  }

 private:
  // A library that refuses the problem is no error; a lost device or full memory is.
  template <class Enumerate>
  void offer(const Enumerate& enumerate, const KernelSink& sink) {
    try {
      enumerate(*search_.handles_, problem_, sink);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::internal) throw;
    }
  }

  void attempt(std::shared_ptr<const ConvKernel> kernel) {
    ++search_.tried_;
    grow(search_.workspace_, kernel->workspace_bytes(), "a trial's scratch");
    arguments_.workspace = search_.workspace_.data();
    ConvChoice candidate{explicit_pad_, problem_, std::move(kernel), 0.0};
    const cudaStream_t stream = search_.handles_->stream();
    candidate.milliseconds =
        search_.stopwatch_.milliseconds([&] { return enqueue(candidate, stream); }, best_.milliseconds);
    if (candidate.milliseconds < best_.milliseconds) best_ = std::move(candidate);
  }

  cudaError_t enqueue(const ConvChoice& candidate, cudaStream_t stream) const {
    if (candidate.pads_first()) {
      TensorShape unpadded = input_shape(problem_);
      unpadded.h -= explicit_pad_.top + explicit_pad_.bottom;
      unpadded.w -= explicit_pad_.left + explicit_pad_.right;
      const cudaError_t status = pad(unpadded, input_shape(problem_), explicit_pad_.top, explicit_pad_.left, 0.0F,
                                     search_.x_.data(), search_.padded_.data(), stream);
      if (status != cudaSuccess) return status;
    }
    if (const cudaError_t status = candidate.kernel->enqueue(*search_.handles_, arguments_); status != cudaSuccess) {
      return status;
    }
    return enqueue_epilogue(candidate, arguments_.bias, arguments_.residual, arguments_.y, stream);
  }

  ConvSearch& search_;
  const ConvProblem& problem_;
  Padding explicit_pad_;
  ConvChoice& best_;
  ConvArguments arguments_;
};

// ---- ConvSearch ----------------------------------------------------------------------------------

ConvSearch::ConvSearch(std::shared_ptr<const Handles> handles, int device, LogCallback log)
    : handles_(std::move(handles)), graph_candidates_(device), log_(std::move(log)), stopwatch_(handles_->stream()) {}

const ConvChoice* ConvSearch::find(const ConvProblem& problem) {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& entry) { return entry.first == problem; });
  if (found != known_.end()) return found->second.get();
  ConvChoice choice = search(problem);
  auto stored = choice.kernel == nullptr ? nullptr : std::make_unique<ConvChoice>(std::move(choice));
  return known_.emplace_back(problem, std::move(stored)).second.get();
}

void ConvSearch::prepare(std::span<const ConvProblem> problems) {
  std::vector<ConvProblem> all(problems.begin(), problems.end());
  for (const ConvProblem& problem : problems) {
    if (!problem.symmetric_pads()) all.push_back(with_explicit_pad(problem).first);
  }
  graph_candidates_.build(all);
}

ConvChoice ConvSearch::search(const ConvProblem& problem) {
  tried_ = 0;
  grow(x_, problem.x_bytes(), "a trial's input");
  grow(w_, problem.w_bytes(), "a trial's weights");
  grow(bias_, problem.bias_bytes(), "a trial's bias");
  grow(y_, problem.y_bytes(), "a trial's output");
  if (problem.residual) grow(residual_, problem.y_bytes(), "a trial's residual");

  ConvChoice best;
  Trial(*this, problem, Padding{}, best).run();
  if (!problem.symmetric_pads()) {
    const auto [padded, rest] = with_explicit_pad(problem);
    grow(padded_, padded.x_bytes(), "a trial's padded input");
    Trial(*this, padded, rest, best).run();
  }
  report(problem, best, tried_);
  return best;
}

void ConvSearch::report(const ConvProblem& problem, const ConvChoice& choice, int tried) const {
  if (!log_) return;
  std::string text = "cudnn: " + describe(problem) + ": ";
  if (choice.kernel == nullptr) {
    text += "nothing runs it";
  } else {
    constexpr double kMicroseconds = 1000.0;
    char time[32];
    std::snprintf(time, sizeof(time), "%.1f us, ", choice.milliseconds * kMicroseconds);
    text += time + std::string(choice.pads_first() ? "pad + " : "") + choice.kernel->name() +
            (choice.needs_epilogue() ? " + elementwise" : "");
  }
  log_(LogLevel::Info, text + " (" + std::to_string(tried) + " tried)");
}

}  // namespace mobicuda::cudnn
