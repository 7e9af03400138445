#include "report/report_changes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "report/layer_names.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {
namespace {

constexpr double kSmallestNoise = 0.01;
constexpr std::size_t kFewestRuns = 10;
constexpr double kLayerNoise = 0.1;   // layers are timed a few times each, and their spread is not known
constexpr double kLayerShare = 0.01;  // of the time of all layers
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double relative_change(double before, double after) {
  if (before == after) return 0;
  return before > 0 ? (after - before) / before : kNothing;
}

Verdict counted_verdict(double before, double after, bool less_is_better) {
  if (before == after) return Verdict::Same;
  return (after < before) == less_is_better ? Verdict::Better : Verdict::Worse;
}

std::string subject_of(const CaseResult& result) { return result.label() + ", batch " + std::to_string(result.batch); }

bool same_case(const CaseResult& a, const CaseResult& b) {
  return a.label() == b.label() && a.batch == b.batch && a.includes_transfers == b.includes_transfers;
}

Change time_change(const std::string& subject, const char* quantity, const Statistics& before,
                   const Statistics& after) {
  Change change{subject, quantity, fixed(before.median, 4), fixed(after.median, 4)};
  change.relative = relative_change(before.median, after.median);
  change.noise = noise(before, after);
  if (std::min(before.count, after.count) < kFewestRuns || !std::isfinite(change.relative)) {
    change.verdict = Verdict::NotJudged;
  } else if (std::abs(change.relative) <= change.noise) {
    change.verdict = Verdict::WithinNoise;
  } else {
    change.verdict = change.relative < 0 ? Verdict::Better : Verdict::Worse;
  }
  return change;
}

void compare_case(const CaseResult& before, const CaseResult& after, std::vector<Change>& changes) {
  const std::string subject = subject_of(before);
  const auto add_time = [&](const char* quantity, const Statistics& a, const Statistics& b) {
    if (a.count > 0 && b.count > 0) changes.push_back(time_change(subject, quantity, a, b));
  };
  add_time("median ms", before.device_statistics, after.device_statistics);
  add_time("median ms, host to host", before.host_statistics, after.host_statistics);
  const auto a = static_cast<double>(before.memory.total());
  const auto b = static_cast<double>(after.memory.total());
  changes.push_back({subject, "memory", megabytes(before.memory.total()), megabytes(after.memory.total()),
                     relative_change(a, b), 0, counted_verdict(a, b, true)});
  if (before.comparison && after.comparison) {
    const double was = before.comparison->max_abs;
    const double is = after.comparison->max_abs;
    changes.push_back({subject, "largest difference", scientific(was), scientific(is), relative_change(was, is), 0,
                       counted_verdict(was, is, true)});
  }
}

// Layer times that both files have, measured in the same way.
struct TimedAlike {
  const LayerProfile& before;
  const LayerProfile& after;
  const char* quantity;
};

std::optional<TimedAlike> timed_alike(const CaseResult& before, const CaseResult& after) {
  if (!before.profile.empty() && !after.profile.empty()) {
    return TimedAlike{before.profile, after.profile, "us, as the network runs"};
  }
  if (!before.serialized_profile.empty() && !after.serialized_profile.empty()) {
    return TimedAlike{before.serialized_profile, after.serialized_profile, "us, one by one"};
  }
  return std::nullopt;
}

bool has_layer_times(const CaseResult& result) { return !result.profile.empty() || !result.serialized_profile.empty(); }

std::string layers_left_out(std::size_t cases) {
  if (cases == 0) return {};
  return "Layer times of " + std::to_string(cases) + (cases == 1 ? " case" : " cases") +
         " are not compared: the profiles are of two kinds, as the network runs in one file, one by one in the other.";
}

void compare_layers(const CaseResult& before, const CaseResult& after, std::vector<Change>& changes) {
  const std::optional<TimedAlike> timed = timed_alike(before, after);
  const double total = timed ? timed->before.sum_ms() : 0;
  const LayerNames names(after.layers);
  for (std::size_t i = 0; i < after.layers.size(); ++i) {
    const Layer& layer = after.layers[i];
    const auto found = std::find_if(before.layers.begin(), before.layers.end(),
                                    [&](const Layer& one) { return one.name == layer.name; });
    if (found == before.layers.end()) continue;
    const std::string subject = subject_of(after) + ": " + names.shortened(layer.name);
    if (found->kernel != layer.kernel) {
      changes.push_back({subject, "kernel", found->kernel, layer.kernel, kNothing, 0, Verdict::Changed, layer.name});
    }
    if (!timed) continue;
    const double was = timed->before.layer_ms[static_cast<std::size_t>(found - before.layers.begin())];
    const double is = timed->after.layer_ms[i];
    if (std::abs(is - was) <= std::max(kLayerNoise * was, kLayerShare * total)) continue;
    changes.push_back({subject, timed->quantity, fixed(1e3 * was, 2), fixed(1e3 * is, 2), relative_change(was, is),
                       kLayerNoise, is < was ? Verdict::Better : Verdict::Worse, layer.name});
  }
}

void compare_logits(const std::string& subject, const char* against, const std::optional<Comparison>& before,
                    const std::optional<Comparison>& after, std::vector<Change>& changes) {
  if (!before || !after) return;
  changes.push_back({subject, std::string("top-1 equals ") + against, percent(before->top1_agreement(), 1),
                     percent(after->top1_agreement(), 1),
                     relative_change(before->top1_agreement(), after->top1_agreement()), 0,
                     counted_verdict(before->top1_agreement(), after->top1_agreement(), false)});
  changes.push_back({subject, std::string("largest difference from ") + against, scientific(before->max_abs),
                     scientific(after->max_abs), relative_change(before->max_abs, after->max_abs), 0,
                     counted_verdict(before->max_abs, after->max_abs, true)});
}

void compare_pictures(const ImageReport& before, const ImageReport& after, std::vector<Change>& changes) {
  const auto share = [](std::int64_t hits, std::size_t labelled) {
    return labelled == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(labelled);
  };
  for (const AccuracyResult& a : before.results) {
    for (const AccuracyResult& b : after.results) {
      if (a.label() != b.label()) continue;
      if (before.labelled > 0 && after.labelled > 0) {
        const auto add = [&](const char* quantity, double was, double is) {
          changes.push_back({a.label(), quantity, percent(was, 1), percent(is, 1), relative_change(was, is), 0,
                             counted_verdict(was, is, false)});
        };
        add("top-1", share(a.top1, before.labelled), share(b.top1, after.labelled));
        add("top-5", share(a.top5, before.labelled), share(b.top5, after.labelled));
      }
      compare_logits(a.label(), "the reference", a.with_reference, b.with_reference, changes);
      compare_logits(a.label(), "--referenceLogits", a.with_reference_file, b.with_reference_file, changes);
    }
  }
}

void add_difference(std::vector<std::string>& setup, const std::string& name, const std::string& before,
                    const std::string& after) {
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("nothing") : text; };
  if (before != after) setup.push_back(name + ": " + shown(before) + " -> " + shown(after));
}

std::vector<std::string> setup_differences(const ReportFile& before, const ReportFile& after) {
  std::vector<std::string> setup;
  // A record may lack these.
  const auto add_known = [&](const char* name, const std::string& was, const std::string& is) {
    if (!was.empty() && !is.empty()) add_difference(setup, name, was, is);
  };
  add_known("version", before.version, after.version);
  const Machine& a = before.report.machine;
  const Machine& b = after.report.machine;
  add_difference(setup, "CPU", a.cpu, b.cpu);
  add_difference(setup, "CPU threads", std::to_string(a.cpu_threads), std::to_string(b.cpu_threads));
  add_difference(setup, "compiler", a.compiler, b.compiler);
  add_difference(setup, "GPU", a.gpu, b.gpu);
  add_difference(setup, "driver", a.driver, b.driver);
  add_difference(setup, "CUDA driver", a.cuda_driver, b.cuda_driver);
  add_difference(setup, "CUDA runtime", a.cuda_runtime, b.cuda_runtime);
  add_difference(setup, "cuDNN", a.cudnn, b.cudnn);
  add_known("model", before.report.model.path.filename().string(), after.report.model.path.filename().string());
  add_difference(setup, "bytes of the model", std::to_string(before.report.model.bytes),
                 std::to_string(after.report.model.bytes));
  add_difference(setup, "FLOP a picture", std::to_string(before.report.model.flops),
                 std::to_string(after.report.model.flops));
  add_difference(setup, "reference", before.report.reference, after.report.reference);
  for (const auto& [name, value] : after.options) {
    const auto found = std::find_if(before.options.begin(), before.options.end(),
                                    [&, &wanted = name](const auto& one) { return one.first == wanted; });
    if (found != before.options.end()) add_difference(setup, name, found->second, value);
  }
  if (before.report.images && after.report.images) {
    add_difference(setup, "pictures evaluated", std::to_string(before.report.images->evaluated),
                   std::to_string(after.report.images->evaluated));
    add_difference(setup, "preprocessing", before.report.images->preprocessing, after.report.images->preprocessing);
  }
  return setup;
}

}  // namespace

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::Better:
      return "better";
    case Verdict::Worse:
      return "worse";
    case Verdict::Changed:
      return "changed";
    case Verdict::WithinNoise:
      return "within noise";
    case Verdict::Same:
      return "same";
    case Verdict::NotJudged:
      return "too few runs";
  }
  return "";
}

double spread(const Statistics& statistics) {
  if (!(statistics.median > 0)) return 0;
  return std::min(statistics.variation, (statistics.p90 - statistics.median) / statistics.median);
}

double noise(const Statistics& before, const Statistics& after) {
  return std::max(kSmallestNoise, std::hypot(spread(before), spread(after)));
}

ReportChanges compare_reports(const ReportFile& before, const ReportFile& after) {
  ReportChanges changes;
  changes.setup = setup_differences(before, after);
  const auto& old_cases = before.report.cases;
  const auto& new_cases = after.report.cases;
  std::size_t timed_in_two_ways = 0;
  for (const CaseResult& old_case : old_cases) {
    const auto found = std::find_if(new_cases.begin(), new_cases.end(),
                                    [&](const CaseResult& one) { return same_case(old_case, one); });
    if (found == new_cases.end()) {
      changes.only_before.push_back(subject_of(old_case));
      continue;
    }
    compare_case(old_case, *found, changes.cases);
    compare_layers(old_case, *found, changes.layers);
    const bool both_timed = has_layer_times(old_case) && has_layer_times(*found);
    if (both_timed && !timed_alike(old_case, *found)) ++timed_in_two_ways;
  }
  changes.layers_left_out = layers_left_out(timed_in_two_ways);
  for (const CaseResult& new_case : new_cases) {
    const bool known = std::any_of(old_cases.begin(), old_cases.end(),
                                   [&](const CaseResult& one) { return same_case(one, new_case); });
    if (!known) changes.only_after.push_back(subject_of(new_case));
  }
  if (before.report.images && after.report.images) {
    compare_pictures(*before.report.images, *after.report.images, changes.pictures);
  }
  return changes;
}

std::string signed_percent(double relative) {
  if (!std::isfinite(relative)) return "-";
  return (relative > 0 ? "+" : "") + fixed(100 * relative, 1) + " %";
}

std::string noise_rule() {
  return "A median counts as changed when it moved by more than the noise: the root of the sum of both files' squared "
         "spreads, at least 1 %, a spread being the smaller of CoV and (p90 - median) / median. Fewer than 10 runs are "
         "not judged. What differs from one start of the program to the next is not in it.";
}

}  // namespace mobicuda::bench::report
