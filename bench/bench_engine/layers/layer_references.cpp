#include "bench_engine/layers/layer_references.h"

#include <algorithm>
#include <utility>

#include "bench_engine/engines/implementations.h"
#include "bench_engine/layers/layer_comparison.h"
#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

bool same(const Case& a, const Case& b) { return a.implementation == b.implementation && a.precision == b.precision; }

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

LayerReferences::LayerReferences(const Options& options, const std::vector<Implementation>& implementations,
                                 const std::vector<Case>& cases)
    : threshold_(options.compare_threshold) {
  for (const std::string& name : options.compare) {
    for (const Case& subject : cases) {
      const Precision precision = subject.precision == Precision::Fp64 ? Precision::Fp64 : Precision::Fp32;
      const Case reference = named_case(name, precision, implementations, "--compare");
      if (!same(reference, subject)) add(reference, subject);
    }
  }
  if (references_.empty() && !options.compare.empty()) {
    throw UsageError("--compare " + joined(options.compare) +
                     " names nothing but what runs itself: another --impl, or a " + "precision (--compare cpu:fp64)");
  }
}

void LayerReferences::add(const Case& reference, const Case& subject) {
  auto found = std::find_if(references_.begin(), references_.end(),
                            [&](const Reference& known) { return same(known.what, reference); });
  if (found == references_.end()) found = references_.insert(found, {reference, {}});
  // "cpu,cpu:fp64" names one reference for what runs at fp64.
  std::vector<std::string>& subjects = found->subjects;
  if (std::find(subjects.begin(), subjects.end(), subject.label()) == subjects.end()) {
    subjects.push_back(subject.label());
  }
}

void LayerReferences::compare(const std::vector<Subject>& subjects, std::int64_t n, const Hooks& hooks) const {
  for (const Reference& reference : references_) {
    if (hooks.stop()) return;
    compare_with(reference, subjects, n, hooks);
  }
}

void LayerReferences::compare_with(const Reference& reference, const std::vector<Subject>& subjects, std::int64_t n,
                                   const Hooks& hooks) const {
  const auto running = std::find_if(subjects.begin(), subjects.end(),
                                    [&](const Subject& subject) { return same(*subject.what, reference.what); });
  std::shared_ptr<const Engine> compiled;
  std::unique_ptr<Session> own;
  LayerSource other{reference.what.label()};
  if (running != subjects.end()) {
    other.engine = running->engine;
    other.session = running->session;
  } else {
    compiled = hooks.compile(reference.what);
    own = compiled->create_session();
    other.engine = compiled.get();
    other.session = own.get();
  }
  for (const Subject& subject : subjects) {
    const std::string label = subject.what->label();
    if (std::find(reference.subjects.begin(), reference.subjects.end(), label) == reference.subjects.end()) continue;
    hooks.set_input(*other.session);
    hooks.set_input(*subject.session);
    const double threshold =
        threshold_.value_or(default_layer_threshold(subject.what->precision, reference.what.precision));
    auto comparison = compare_layers({label, subject.engine, subject.session}, other, n, threshold, hooks.stop);
    if (!comparison) return;
    subject.results->push_back(std::move(*comparison));
  }
}

}  // namespace mobicuda::bench
