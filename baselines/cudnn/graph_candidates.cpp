#include "cudnn/graph_candidates.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "cudnn/cudnn_graph.h"
#include "runtime/device_guard.h"

namespace mobicuda::cudnn {
namespace {

// Kernels compiled at run time for one form of a layer; the heuristics put the best ones first.
constexpr int kCompiledFirst = 2;
constexpr int kCompiledFirstBare = 1;  // what it leaves to an elementwise step seldom pays
constexpr int kCompiledLater = 3;
constexpr int kCompiledLaunchBound = 1;  // of all forms together
constexpr int kMaxKernels = 40;          // of one form and round
constexpr unsigned kMaxWorkers = 16;

std::vector<GraphForm> fused_forms(const ConvProblem& problem) {
  std::vector<GraphForm> forms = graph_forms(problem);
  std::erase(forms, GraphForm::Bare);
  return forms;
}

// Collects the kernels of one layer.
class Collector {
 public:
  Collector(std::set<std::string> known, bool only_compiled)
      : names_(std::move(known)), only_compiled_(only_compiled) {}

  int compiled() const { return compiled_; }

  /// Compiles until there are `max_compiled`.
  void take(const ConvGraph& graph, std::span<const cudnnBackendHeurMode_t> modes, int max_compiled) {
    int attempts = 0;
    std::set<std::int64_t> engines;
    for (const cudnnBackendHeurMode_t mode : modes) {
      for (const EngineConfig& config : graph.propose(mode)) {
        // The fallback list names engines with their default knobs; those the heuristics know are covered.
        if (mode == CUDNN_HEUR_MODE_FALLBACK && engines.contains(config.engine)) continue;
        if (config.compiled_at_run_time ? compiled_ >= max_compiled : only_compiled_) continue;
        // Two forms of a layer may lead to the same kernel.
        if (names_.contains(graph.kernel_name(config))) continue;
        if (++attempts > kMaxKernels) return;
        try {
          kernels_.push_back(graph.build(config));
        } catch (const Error&) {
          continue;  // the engine does not run this graph after all
        }
        names_.insert(graph.kernel_name(config));
        engines.insert(config.engine);
        if (config.compiled_at_run_time) ++compiled_;
      }
    }
  }

  GraphCandidates::Kernels take_kernels() { return std::move(kernels_); }

 private:
  std::set<std::string> names_;
  bool only_compiled_;
  int compiled_ = 0;
  GraphCandidates::Kernels kernels_;
};

}  // namespace

// The forms that state the whole layer are one job, the bare convolution is another.
struct GraphCandidates::Job {
  Entry* entry;
  std::vector<GraphForm> forms;
  bool only_compiled;
  int max_compiled;  // of one form
  Kernels kernels;

  void run(const std::shared_ptr<const Handles>& handles) {
    Collector collector({entry->names.begin(), entry->names.end()}, only_compiled);
    const bool shared = entry->problem.launch_bound();
    for (const GraphForm form : forms) {
      try {
        const ConvGraph graph(handles, entry->problem, form);
        constexpr cudnnBackendHeurMode_t kModes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
        constexpr cudnnBackendHeurMode_t kFusedModes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
        const int limit = shared ? kCompiledLaunchBound : collector.compiled() + max_compiled;
        if (form == GraphForm::Bare) {
          collector.take(graph, kModes, limit);
        } else {
          collector.take(graph, kFusedModes, limit);
        }
      } catch (const Error&) {
        continue;  // cuDNN does not take the graph: no kernels
      }
    }
    kernels = collector.take_kernels();
  }
};

GraphCandidates::Entry* GraphCandidates::find(const ConvProblem& problem) {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& known) { return known->problem == problem; });
  return entry == entries_.end() ? nullptr : entry->get();
}

// A library that does not start, or a lost device, shows again on the thread that compiles.
void GraphCandidates::run(std::vector<Job>& jobs) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    try {
      const DeviceGuard guard(open_device(device_));
      const auto handles = std::make_shared<const Handles>(nullptr);
      for (std::size_t i = next++; i < jobs.size(); i = next++) jobs[i].run(handles);
    } catch (const Error&) {
      return;
    }
  };
  {
    const std::size_t workers =
        std::min<std::size_t>({jobs.size(), kMaxWorkers, std::max(1U, std::thread::hardware_concurrency())});
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < workers; ++i) threads.emplace_back(work);
  }
  for (Job& job : jobs) {
    kernels_built_ += static_cast<int>(job.kernels.size());
    for (auto& kernel : job.kernels) {
      job.entry->names.push_back(kernel->name());
      job.entry->kernels.push_back(std::move(kernel));
    }
  }
}

void GraphCandidates::build(std::span<const ConvProblem> problems) {
  std::vector<Job> jobs;
  for (const ConvProblem& problem : problems) {
    if (find(problem) != nullptr) continue;
    if (problem.precision == Precision::Fp64) {  // the fixed-function API has all kernels of double
      entries_.push_back(std::make_unique<Entry>(Entry{problem, {}, {}}));
      continue;
    }
    Entry* entry = entries_.emplace_back(std::make_unique<Entry>(Entry{problem, {}, {}})).get();
    std::vector<GraphForm> fused = fused_forms(problem);
    const int bare = fused.empty() ? kCompiledFirst : kCompiledFirstBare;
    if (!fused.empty()) jobs.push_back({entry, std::move(fused), false, kCompiledFirst, {}});
    jobs.push_back({entry, {GraphForm::Bare}, false, bare, {}});
  }
  run(jobs);
}

void GraphCandidates::extend(std::span<const ConvProblem> problems) {
  std::vector<Job> jobs;
  for (const ConvProblem& problem : problems) {
    Entry* entry = find(problem);
    if (entry == nullptr || problem.precision == Precision::Fp64) continue;
    entry->kernels.clear();
    std::vector<GraphForm> forms = fused_forms(problem);
    if (forms.empty()) forms.push_back(GraphForm::Bare);
    jobs.push_back({entry, std::move(forms), true, kCompiledLater, {}});
  }
  run(jobs);
}

const GraphCandidates::Kernels& GraphCandidates::of(const ConvProblem& problem) {
  build({&problem, 1});
  return find(problem)->kernels;
}

}  // namespace mobicuda::cudnn
