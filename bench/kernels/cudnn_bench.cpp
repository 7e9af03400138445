// cuDNN and cuBLASLt on the layers of networks, found by the search of the cudnn baseline.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cudnn/conv_search.h"
#include "cudnn_problems.h"
#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using cudnn::ConvChoice;

double milliseconds_of(const std::vector<ConvChoice>& choices) {
  double sum = 0;
  for (const ConvChoice& choice : choices) sum += choice.milliseconds;
  return sum;
}

/// What cuDNN's fastest kernels need of memory besides operands, and how they are enqueued.
class Sequence {
 public:
  Sequence(std::shared_ptr<const cudnn::Handles> handles, std::vector<ConvChoice> choices)
      : handles_(std::move(handles)), choices_(std::move(choices)) {
    std::int64_t scratch = 0;
    for (const ConvChoice& choice : choices_) {
      scratch = std::max(scratch, choice.kernel->workspace_bytes());
      padded_.emplace_back(choice.pads_first() ? choice.problem.x_bytes() : 0, "padded inputs");
      between_.emplace_back(&choice == &choices_.back() ? 0 : choice.problem.y_bytes(), "values between layers");
    }
    workspace_ = DeviceBuffer(scratch, "cuDNN's scratch");
  }

  cudaError_t enqueue(const TimedOperands& at, cudaStream_t stream) const {
    const void* x = at.x;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const bool last = i + 1 == choices_.size();
      const void* residual = at.residual != nullptr ? at.residual : at.x;  // a block's own input
      void* y = last ? at.y : between_[i].data();
      const cudaError_t status =
          enqueue_layer(i, {x, at.weights[2 * i], at.weights[2 * i + 1], residual, y, nullptr}, stream);
      if (status != cudaSuccess) return status;
      x = y;
    }
    return cudaSuccess;
  }

 private:
  cudaError_t enqueue_layer(std::size_t layer, cudnn::ConvArguments at, cudaStream_t stream) const {
    const ConvChoice& choice = choices_[layer];
    const cudnn::ConvProblem& problem = choice.problem;
    if (!problem.bias) at.bias = nullptr;
    if (!problem.residual) at.residual = nullptr;
    at.workspace = workspace_.data();
    if (choice.pads_first()) {
      cudnn::TensorShape from = cudnn::input_shape(problem);
      from.h -= choice.explicit_pad.top + choice.explicit_pad.bottom;
      from.w -= choice.explicit_pad.left + choice.explicit_pad.right;
      const cudnn::PadShape by{from, cudnn::input_shape(problem), choice.explicit_pad.top, choice.explicit_pad.left};
      const cudaError_t status = cudnn::pad(by, at.x, padded_[layer].data(), stream);
      if (status != cudaSuccess) return status;
      at.x = padded_[layer].data();
    }
    const cudaError_t status = choice.kernel->enqueue(*handles_, at);
    return status != cudaSuccess ? status : cudnn::enqueue_epilogue(choice, at.bias, at.residual, at.y, stream);
  }

  std::shared_ptr<const cudnn::Handles> handles_;
  std::vector<ConvChoice> choices_;
  std::vector<DeviceBuffer> padded_, between_;
  DeviceBuffer workspace_;
};

/// Finds cuDNN's kernels for the cases that will run, some at a time: building them is parallel.
class Searcher {
 public:
  void expect(const std::string& name, std::vector<LayerChain> chains) { cases_.push_back({name, std::move(chains)}); }

  const std::vector<ConvChoice>& best(const std::string& name) {
    constexpr std::ptrdiff_t kAtATime = 24;
    if (const auto known = found_.find(name); known != found_.end()) return known->second;
    auto first = std::ranges::find(cases_, name, &Case::name);
    if (first == cases_.end()) throw std::logic_error(name + " was not expected");
    const auto last = first + std::min(kAtATime, cases_.end() - first);
    if (!search_) search_ = std::make_unique<cudnn::ConvSearch>(handles(), 0, LogCallback());
    std::vector<cudnn::ConvAlternatives> layers;
    for (auto it = first; it != last; ++it) {
      for (const LayerChain& chain : it->chains) layers.insert(layers.end(), chain.begin(), chain.end());
    }
    search_->prepare(layers);
    for (auto it = first; it != last; ++it) found_[it->name] = fastest(it->chains);
    return found_[name];
  }

  std::shared_ptr<const cudnn::Handles> handles() {
    if (!handles_) handles_ = std::make_shared<cudnn::Handles>(measuring_stream());
    return handles_;
  }

 private:
  struct Case {
    std::string name;
    std::vector<LayerChain> chains;
  };

  /// Empty where nothing runs any of the chains.
  std::vector<ConvChoice> fastest(const std::vector<LayerChain>& chains) {
    std::vector<ConvChoice> best;
    for (const LayerChain& chain : chains) {
      std::vector<ConvChoice> choices;
      for (const cudnn::ConvAlternatives& layer : chain) {
        const ConvChoice* choice = search_->best_of(layer);
        if (choice == nullptr && layer.front().float_output) {  // as the baseline does: halves instead
          cudnn::ConvProblem in_half = layer.front();
          in_half.float_output = false;
          choice = search_->find(in_half);
        }
        if (choice == nullptr) break;
        choices.push_back(*choice);
      }
      if (choices.size() != chain.size()) continue;
      if (best.empty() || milliseconds_of(choices) < milliseconds_of(best)) best = std::move(choices);
    }
    return best;
  }

  std::vector<Case> cases_;
  std::map<std::string, std::vector<ConvChoice>> found_;
  std::shared_ptr<const cudnn::Handles> handles_;
  std::unique_ptr<cudnn::ConvSearch> search_;
};

TimedKernel timed(const std::shared_ptr<const cudnn::Handles>& handles, const std::vector<ConvChoice>& choices) {
  if (choices.empty()) throw std::runtime_error("neither cuDNN nor cuBLASLt runs it");
  TimedKernel kernel{"cudnn"};
  cudnn::ConvProblem first = choices.front().problem;
  first.h -= choices.front().explicit_pad.top + choices.front().explicit_pad.bottom;
  first.w -= choices.front().explicit_pad.left + choices.front().explicit_pad.right;
  kernel.x_bytes = first.x_bytes();
  for (const ConvChoice& choice : choices) {
    kernel.weight_bytes.push_back(choice.problem.w_bytes());
    kernel.weight_bytes.push_back(choice.problem.bias_bytes());
  }
  const cudnn::ConvProblem& last = choices.back().problem;
  kernel.y_bytes = last.y_bytes();
  if (last.residual && choices.size() == 1) kernel.residual_bytes = last.y_bytes();
  kernel.enqueue = [sequence = std::make_shared<Sequence>(handles, choices)](const TimedOperands& at,
                                                                             const kernels::Launch& where) {
    return sequence->enqueue(at, where.stream);
  };
  return kernel;
}

/// "pad, engine 34", of each layer.
std::string describe(const std::vector<ConvChoice>& choices) {
  std::string text;
  for (const ConvChoice& choice : choices) {
    if (!text.empty()) text += "; ";
    if (choice.pads_first()) text += "pad, ";
    text += choice.kernel->name();
    if (choice.problem.layout == Layout::NCHW) text += " (NCHW)";
    if (choice.needs_epilogue()) text += ", elementwise";
  }
  return text;
}

using Chains = std::vector<LayerChain> (*)(const LayerCase&);

void add_case(const std::shared_ptr<Searcher>& searcher, const char* own_kernel, const LayerCase& at, Chains chains) {
  const std::string kernel = std::string("cudnn/") + own_kernel;
  const std::string name = kernel + "/" + name_of(at);
  const bool wanted =
      std::ranges::any_of(kCaches, [&](Cache cache) { return at.registry.wants(name + "/" + to_string(cache)); });
  if (!wanted) return;
  searcher->expect(name, chains(at));
  add_layer(
      kernel, at, [=] { return timed(searcher->handles(), searcher->best(name)); },
      [=] { return describe(searcher->best(name)); });
}

}  // namespace

bool has_cudnn() { return true; }

void register_cudnn(const Selection& selection) {
  const auto searcher = std::make_shared<Searcher>();
  for (const char* kernel : {"gemm", "depthwise_conv", "conv2d", "inverted_residual", "stem_block"}) {
    for_each_case(selection, LayerKind::named(kernel),
                  [&](const LayerCase& at) { add_case(searcher, kernel, at, chains_of); });
  }
  for_each_case(selection, LayerKind::named("inverted_residual"), [&](const LayerCase& at) {
    if (at.layer.shape.expand) add_case(searcher, "expand_depthwise", at, expand_depthwise_chains);
  });
}

}  // namespace mobicuda::bench
