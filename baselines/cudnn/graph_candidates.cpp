#include "cudnn/graph_candidates.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "cudnn/cudnn_graph.h"
#include "runtime/cuda_check.h"

namespace mobicuda::cudnn {
namespace {

constexpr int kMaxCompiled = 5;  // of one graph: the heuristics put the best ones first
constexpr int kMaxKernels = 40;  // of one graph
constexpr unsigned kMaxWorkers = 16;

// Collects the kernels of one graph.
class Collector {
 public:
  Collector(const ConvGraph& graph, GraphCandidates::Kernels& kernels) : graph_(graph), kernels_(kernels) {}

  void take(cudnnBackendHeurMode_t mode) {
    for (const EngineConfig& config : graph_.propose(mode)) {
      if (std::ssize(names_) >= kMaxKernels) return;
      // The fallback list names engines with their default knobs; those the heuristics know are covered.
      if (mode == CUDNN_HEUR_MODE_FALLBACK && engines_.contains(config.engine)) continue;
      if (config.compiled_at_run_time && compiled_ >= kMaxCompiled) continue;
      if (!names_.insert(config.name).second) continue;
      try {
        kernels_.push_back(graph_.build(config));
        engines_.insert(config.engine);
        if (config.compiled_at_run_time) ++compiled_;
      } catch (const Error&) {
        continue;  // the engine does not run this graph after all
      }
    }
  }

 private:
  const ConvGraph& graph_;
  GraphCandidates::Kernels& kernels_;
  std::set<std::string> names_;
  std::set<std::int64_t> engines_;
  int compiled_ = 0;
};

}  // namespace

struct GraphCandidates::Job {
  ConvProblem problem;
  GraphForm form;
  Kernels kernels;

  void run(const std::shared_ptr<const Handles>& handles) {
    try {
      const ConvGraph graph(handles, problem, form);
      Collector collector(graph, kernels);
      collector.take(CUDNN_HEUR_MODE_A);
      if (form == GraphForm::Bare) collector.take(CUDNN_HEUR_MODE_B);
      collector.take(CUDNN_HEUR_MODE_FALLBACK);
    } catch (const Error&) {
      return;  // cuDNN does not take the graph: no kernels
    }
  }
};

bool GraphCandidates::has(const ConvProblem& problem) const {
  return std::any_of(built_.begin(), built_.end(), [&](const auto& entry) { return entry.first == problem; });
}

// A library that does not start, or a lost device, shows again on the thread that compiles.
void GraphCandidates::run(std::vector<Job>& jobs) const {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    try {
      select_device(device_);
      const auto handles = std::make_shared<const Handles>(nullptr);
      for (std::size_t i = next++; i < jobs.size(); i = next++) jobs[i].run(handles);
    } catch (const Error&) {
      return;
    }
  };
  const std::size_t workers =
      std::min<std::size_t>({jobs.size(), kMaxWorkers, std::max(1U, std::thread::hardware_concurrency())});
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < workers; ++i) threads.emplace_back(work);
}

void GraphCandidates::build(std::span<const ConvProblem> problems) {
  std::vector<Job> jobs;
  for (const ConvProblem& problem : problems) {
    if (has(problem)) continue;
    built_.emplace_back(problem, std::make_unique<Kernels>());
    for (const GraphForm form : graph_forms(problem)) jobs.push_back({problem, form, {}});
  }
  run(jobs);
  for (Job& job : jobs) {
    const auto entry =
        std::find_if(built_.begin(), built_.end(), [&](const auto& known) { return known.first == job.problem; });
    std::move(job.kernels.begin(), job.kernels.end(), std::back_inserter(*entry->second));
  }
}

const GraphCandidates::Kernels& GraphCandidates::of(const ConvProblem& problem) {
  build({&problem, 1});
  const auto entry =
      std::find_if(built_.begin(), built_.end(), [&](const auto& known) { return known.first == problem; });
  return *entry->second;
}

}  // namespace mobicuda::cudnn
