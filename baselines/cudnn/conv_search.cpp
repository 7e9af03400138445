#include "cudnn/conv_search.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "cudnn/cublas_gemm.h"
#include "cudnn/exact_probe.h"
#include "cudnn/legacy_conv.h"
#include "cudnn/tensor_formats.h"
#include "runtime/cuda_check.h"

namespace mobicuda::cudnn {
namespace {

using Clock = std::chrono::steady_clock;

// For one round of trials: of all layers together, and of a layer that is all launch. The most promising candidates
// come first.
constexpr std::chrono::milliseconds kTrialBudgetOfAll{40000};
constexpr std::chrono::milliseconds kTrialBudgetLaunchBound{200};

// The fastest candidates of a layer run against each other once more.
constexpr std::size_t kFinalists = 4;
constexpr double kClose = 1.1;  // times the best
constexpr int kFinalRounds = 2;

// Which layers get more kernels: those that could gain at least this, when all of them together were as fast
// as the hardware, a launch included.
constexpr double kWorthMilliseconds = 1e-3;
constexpr double kWorthShare = 0.005;  // of the whole network
constexpr std::size_t kMaxExtended = 16;
constexpr double kLaunchMilliseconds = 2e-3;

// For judging a layout by its slowest layers.
constexpr std::size_t kProbed = 4;
constexpr double kOutOfReach = 1.15;

// Bytes that read as small positive numbers in F16, F32 and F64: neither zeros, which run faster than real data,
// nor subnormals.
constexpr int kTrialByte = 0x2C;

void fill_trial_data(const DeviceBuffer& buffer) {
  cuda_check(cudaMemset(buffer.data(), kTrialByte, static_cast<std::size_t>(buffer.bytes())), "filling trial data");
}

void grow(DeviceBuffer& buffer, std::int64_t bytes, const char* what) {
  if (bytes <= buffer.bytes()) return;
  buffer = DeviceBuffer();  // gives the old memory back first
  buffer = DeviceBuffer(bytes, what);
  fill_trial_data(buffer);
}

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

// The problems, and those that arise where an explicit pad precedes the kernel.
std::vector<ConvProblem> with_padded(std::span<const ConvProblem> problems) {
  std::vector<ConvProblem> all(problems.begin(), problems.end());
  for (const ConvProblem& problem : problems) {
    if (!problem.symmetric_pads()) all.push_back(with_explicit_pad(problem).first);
  }
  return all;
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
  Affine op{output_shape(choice.problem), choice.problem.activation};
  op.x_pitch = op.y_pitch = choice.problem.y_pitch;
  return affine(op, y, nullptr, choice.needs_bias() ? bias : nullptr, choice.needs_residual() ? residual : nullptr, y,
                stream);
}

std::string describe(const ConvProblem& p) {
  const auto times = [](std::int64_t a, std::int64_t b) { return std::to_string(a) + "x" + std::to_string(b); };
  std::string text = std::to_string(p.n) + "x" + std::to_string(p.c) + "x" + times(p.h, p.w) + " -> " +
                     std::to_string(p.k) + ", " + times(p.kh, p.kw) + " stride " + times(p.strides[0], p.strides[1]) +
                     ", groups " + std::to_string(p.groups) + ", " + std::string(to_string(p.precision)) + " " +
                     std::string(to_string(p.layout));
  if (p.residual) text += ", residual";
  if (p.y_pitch != 0) text += ", into " + std::to_string(p.y_pitch) + " channels";
  if (!p.activation.is_none()) text += ", " + to_string(p.activation);
  return text;
}

// ---- one problem's candidates --------------------------------------------------------------------

class ConvSearch::Trial {
 public:
  Trial(ConvSearch& search, Known& known, const ConvProblem& problem, const Padding& explicit_pad)
      : search_(search),
        known_(known),
        problem_(problem),
        explicit_pad_(explicit_pad),
        deadline_(Clock::now() + (problem.launch_bound() ? kTrialBudgetLaunchBound : search.trial_budget_)) {}

  void run(bool only_graph) {
    const KernelSink sink = [this](std::shared_ptr<const ConvKernel> kernel) { return attempt(std::move(kernel)); };
    if (!only_graph) offer(cublas_gemm_kernels, sink);
    for (const auto& kernel : search_.graph_candidates_.of(problem_)) {
      if (!sink(kernel)) break;
    }
    // In half, and for matrix products, the other two have the same kernels and more.
    const bool covered = problem_.precision == Precision::Fp16 || problem_.is_pointwise();
    if (!only_graph && !(covered && !known_.ranked.empty())) offer(legacy_conv_kernels, sink);
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

  bool attempt(std::shared_ptr<const ConvKernel> kernel) {
    ++known_.tried;
    grow(search_.workspace_, kernel->workspace_bytes(), "a trial's scratch");
    ConvChoice candidate{explicit_pad_, problem_, std::move(kernel), 0.0};
    if (candidate.kernel->needs_probe() && !search_.passes_probe(candidate)) return true;
    candidate.milliseconds = search_.stopwatch_.milliseconds([&] { return search_.enqueue(candidate); }, best_);
    best_ = std::min(best_, candidate.milliseconds);
    if (candidate.milliseconds < kClose * best_) known_.ranked.push_back(std::move(candidate));
    return Clock::now() < deadline_;
  }

  ConvSearch& search_;
  Known& known_;
  const ConvProblem& problem_;
  Padding explicit_pad_;
  Clock::time_point deadline_;
  double best_ = known_.ranked.empty() ? Stopwatch::kRefused : known_.ranked.front().milliseconds;
};

void ConvSearch::try_candidates(Known& known, bool only_graph) {
  const ConvProblem& problem = known.problem;
  grow(x_, problem.x_bytes(), "a trial's input");
  grow(w_, problem.w_bytes(), "a trial's weights");
  grow(bias_, problem.bias_bytes(), "a trial's bias");
  grow(y_, problem.y_span_bytes(), "a trial's output");
  if (problem.residual) grow(residual_, problem.y_bytes(), "a trial's residual");
  Trial(*this, known, problem, Padding{}).run(only_graph);
  if (!problem.symmetric_pads()) {
    const auto [padded, rest] = with_explicit_pad(problem);
    grow(padded_, padded.x_bytes(), "a trial's padded input");
    rank(known);
    Trial(*this, known, padded, rest).run(only_graph);
  }
  rank(known);
}

// Times of single candidates differ by noise and by what ran before: the best few decide it among themselves.
void ConvSearch::rank(Known& known) const {
  std::vector<ConvChoice>& ranked = known.ranked;
  const auto sort = [&] {
    std::sort(ranked.begin(), ranked.end(),
              [](const ConvChoice& a, const ConvChoice& b) { return a.milliseconds < b.milliseconds; });
  };
  sort();
  while (ranked.size() > kFinalists ||
         (!ranked.empty() && ranked.back().milliseconds > kClose * ranked.front().milliseconds)) {
    ranked.pop_back();
  }
  if (ranked.size() < 2) return;
  for (int round = 0; round < kFinalRounds; ++round) {
    for (ConvChoice& choice : ranked) choice.milliseconds = std::min(choice.milliseconds, retime(choice));
  }
  sort();
}

double ConvSearch::retime(const ConvChoice& choice) const {
  return stopwatch_.replay_milliseconds([&] { return enqueue(choice); });
}

cudaError_t ConvSearch::enqueue(const ConvChoice& choice) const {
  if (const cudaError_t status = enqueue_kernel(choice); status != cudaSuccess) return status;
  const void* bias = choice.problem.bias ? bias_.data() : nullptr;
  const void* residual = choice.problem.residual ? residual_.data() : nullptr;
  return enqueue_epilogue(choice, bias, residual, y_.data(), handles_->stream());
}

cudaError_t ConvSearch::enqueue_kernel(const ConvChoice& choice) const {
  const ConvProblem& problem = choice.problem;
  const cudaStream_t stream = handles_->stream();
  const void* bias = problem.bias ? bias_.data() : nullptr;
  const void* residual = problem.residual ? residual_.data() : nullptr;
  if (choice.pads_first()) {
    TensorShape unpadded = input_shape(problem);
    unpadded.h -= choice.explicit_pad.top + choice.explicit_pad.bottom;
    unpadded.w -= choice.explicit_pad.left + choice.explicit_pad.right;
    const PadShape by{unpadded, input_shape(problem), choice.explicit_pad.top, choice.explicit_pad.left};
    const cudaError_t status = pad(by, x_.data(), padded_.data(), stream);
    if (status != cudaSuccess) return status;
  }
  const ConvArguments arguments{
      choice.pads_first() ? padded_.data() : x_.data(), w_.data(), bias, residual, y_.data(), workspace_.data()};
  return choice.kernel->enqueue(*handles_, arguments);
}

// Asked before timing: most kernels that a probe refuses would be fast.
bool ConvSearch::passes_probe(const ConvChoice& choice) {
  const ConvProblem& p = choice.problem;
  const Padding& rest = choice.explicit_pad;
  const ProbeTensors tensors{x_.data(), p.c * (p.h - rest.top - rest.bottom) * (p.w - rest.left - rest.right),
                             w_.data(), p.k * (p.c / p.groups) * p.kh * p.kw,
                             y_.data(), p.k * p.out_h() * p.out_w()};
  const bool passes = keeps_float_inputs(
      tensors, [&] { return enqueue_kernel(choice); }, handles_->stream());
  for (const DeviceBuffer* buffer : {&x_, &w_}) fill_trial_data(*buffer);
  return passes;
}

// ---- ConvSearch ----------------------------------------------------------------------------------

ConvSearch::ConvSearch(std::shared_ptr<const Handles> handles, int device, LogCallback log)
    : handles_(std::move(handles)), graph_candidates_(device), log_(std::move(log)), stopwatch_(handles_->stream()) {}

ConvSearch::Known& ConvSearch::know(const ConvProblem& problem) {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& known) { return known->problem == problem; });
  if (found != known_.end()) return **found;
  Known& known = *known_.emplace_back(std::make_unique<Known>(Known{problem, {}, 0, false}));
  try_candidates(known, false);
  return known;
}

const ConvChoice* ConvSearch::find(const ConvProblem& problem) {
  const Known& known = know(problem);
  return known.ranked.empty() ? nullptr : &known.ranked.front();
}

const ConvChoice* ConvSearch::best_of(std::span<const ConvProblem> alternatives) {
  const ConvChoice* best = nullptr;
  for (const ConvProblem& problem : alternatives) {
    const ConvChoice* choice = find(problem);
    if (choice != nullptr && (best == nullptr || choice->milliseconds < best->milliseconds)) best = choice;
  }
  return best;
}

std::size_t ConvSearch::fastest(std::span<const Way> ways, std::int64_t x_bytes, std::int64_t y_bytes) {
  if (ways.size() == 1) return 0;
  grow(x_, x_bytes, "a trial's input");
  grow(y_, y_bytes, "a trial's output");
  std::size_t best = 0;
  double least = Stopwatch::kRefused;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const double time = stopwatch_.milliseconds([&] { return ways[i].work(*handles_, x_.data(), y_.data()); }, least);
    if (time >= least) continue;
    least = time;
    best = i;
  }
  return best;
}

void ConvSearch::prepare(std::span<const ConvAlternatives> layers) {
  std::vector<ConvProblem> problems;
  for (const ConvAlternatives& layer : layers) {
    for (const ConvProblem& problem : layer) {
      if (std::find(problems.begin(), problems.end(), problem) == problems.end()) problems.push_back(problem);
    }
  }
  if (!problems.empty()) {
    trial_budget_ = std::min<std::chrono::milliseconds>(kTrialBudget,
                                                        kTrialBudgetOfAll / static_cast<std::int64_t>(problems.size()));
  }

  const Clock::time_point begin = Clock::now();
  graph_candidates_.build(with_padded(problems));
  const Clock::time_point built = Clock::now();
  for (const ConvProblem& problem : problems) know(problem);
  const Clock::time_point timed = Clock::now();

  const std::vector<ConvProblem> more = worth_more(layers);
  graph_candidates_.extend(with_padded(more));
  const Clock::time_point extended = Clock::now();
  for (const ConvProblem& problem : more) try_candidates(know(problem), true);

  int tried = 0;
  for (const auto& known : known_) {
    report(*known);
    tried += known->tried;
  }
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  char text[192];
  std::snprintf(
      text, sizeof(text),
      "%d graph kernels built in %.1f + %.1f s, %d candidates timed in %.1f + %.1f s, %d layers in a second round",
      graph_candidates_.built(), seconds(built - begin), seconds(extended - timed), tried, seconds(timed - built),
      seconds(Clock::now() - extended), static_cast<int>(more.size()));
  log(text);
}

std::vector<ConvSearch::Cost> ConvSearch::costs(std::span<const ConvAlternatives> layers) {
  std::vector<Cost> all;
  for (const ConvAlternatives& layer : layers) {
    double best = Stopwatch::kRefused;
    const ConvProblem* problem = nullptr;
    for (const ConvProblem& alternative : layer) {
      const ConvChoice* choice = find(alternative);
      if (choice == nullptr || choice->milliseconds >= best) continue;
      best = choice->milliseconds;
      problem = &alternative;
    }
    if (problem == nullptr) continue;
    auto same = std::find_if(all.begin(), all.end(), [&](const Cost& cost) { return cost.problem == *problem; });
    if (same == all.end()) same = all.insert(all.end(), Cost{*problem, 0, 0.0});
    ++same->times;
    same->milliseconds += best;
  }
  return all;
}

std::vector<ConvProblem> ConvSearch::worth_more(std::span<const ConvAlternatives> layers) {
  std::vector<Cost> gains = costs(layers);
  double total = 0.0;
  for (Cost& cost : gains) {
    total += cost.milliseconds;
    cost.milliseconds -= cost.times * (cost.problem.ideal_milliseconds() + kLaunchMilliseconds);
  }
  const double least = std::max(kWorthMilliseconds, kWorthShare * total);
  std::erase_if(gains, [&](const Cost& gain) { return gain.milliseconds < least; });
  std::sort(gains.begin(), gains.end(), [](const Cost& a, const Cost& b) { return a.milliseconds > b.milliseconds; });
  std::vector<ConvProblem> chosen;
  for (const Cost& gain : gains) {
    if (chosen.size() < kMaxExtended) chosen.push_back(gain.problem);
  }
  return chosen;
}

bool ConvSearch::may_be_faster_in(Layout layout, std::span<const ConvAlternatives> layers) {
  std::vector<Cost> slowest = costs(layers);
  std::sort(slowest.begin(), slowest.end(),
            [](const Cost& a, const Cost& b) { return a.milliseconds > b.milliseconds; });
  slowest.resize(std::min(slowest.size(), kProbed));
  std::vector<ConvProblem> probes;
  double here = 0.0;
  for (const Cost& cost : slowest) {
    probes.push_back(cost.problem);
    probes.back().layout = layout;
    if (layout == Layout::NCHW) probes.back().y_pitch = 0;
    here += cost.milliseconds;
  }
  graph_candidates_.build(with_padded(probes));
  double there = 0.0;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const ConvChoice* choice = find(probes[i]);
    if (choice == nullptr) return false;
    there += slowest[i].times * choice->milliseconds;
  }
  char text[96];
  std::snprintf(text, sizeof(text), "the slowest layers take %.4f ms, in %s %.4f ms", here,
                std::string(to_string(layout)).c_str(), there);
  log(text);
  return there < kOutOfReach * here;
}

void ConvSearch::report(Known& known) const {
  if (!log_ || std::exchange(known.reported, true)) return;
  if (known.ranked.empty()) return log(describe(known.problem) + ": nothing runs it");
  const ConvChoice& choice = known.ranked.front();
  constexpr double kMicroseconds = 1000.0;
  char time[64];
  std::snprintf(time, sizeof(time), ": %.2f us (ideal %.2f), ", choice.milliseconds * kMicroseconds,
                known.problem.ideal_milliseconds() * kMicroseconds);
  log(describe(known.problem) + time + (choice.pads_first() ? "pad + " : "") + choice.kernel->name() +
      (choice.needs_epilogue() ? " + elementwise" : "") + " (" + std::to_string(known.tried) + " tried)");
}

void ConvSearch::log(const std::string& text) const {
  if (log_) log_(LogLevel::Info, "cudnn: " + text);
}

}  // namespace mobicuda::cudnn
