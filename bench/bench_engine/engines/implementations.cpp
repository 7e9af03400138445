#include "bench_engine/engines/implementations.h"

#include <algorithm>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>
#include <mobicuda/error.h>

#ifdef MOBICUDA_WITH_CUDNN
#include <mobicuda/cudnn_backend.h>
#endif

#include "bench_engine/measure/machine.h"
#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

// "custom:fp16" -> name and precision.
struct Request {
  std::string name;
  std::optional<Precision> precision;
};

Request parse_request(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {text, {}};
  return {text.substr(0, colon), parse_precision(text.substr(colon + 1))};
}

bool runs(const Implementation& implementation, Precision precision) {
  return std::find(implementation.precisions.begin(), implementation.precisions.end(), precision) !=
         implementation.precisions.end();
}

const Implementation& find(const std::vector<Implementation>& implementations, const std::string& name,
                           const std::string& option) {
  std::string known;
  for (const Implementation& implementation : implementations) {
    if (implementation.name == name) return implementation;
    known += (known.empty() ? "" : ", ") + implementation.name;
  }
  if (option == "--impl") known += ", or all";
  throw UsageError(option + ": unknown implementation '" + name + "': " + known);
}

std::string precision_list(const Implementation& implementation) {
  std::string list;
  for (const Precision precision : implementation.precisions) {
    list += (list.empty() ? "" : ", ") + std::string(to_string(precision));
  }
  return list;
}

void add_case(const Implementation& implementation, Precision precision, const Options& options, Selection& selection) {
  Case one{implementation.name, precision, implementation.processor, implementation.make, {}};
  if (implementation.processor == Processor::Gpu || options.threads.size() == 1) {
    selection.cases.push_back(one);
    return;
  }
  for (const int threads : options.threads) {
    one.threads = threads;
    selection.cases.push_back(one);
  }
}

std::string lacks(const Implementation& implementation, Precision precision) {
  return implementation.name + " has no " + std::string(to_string(precision)) + " (it has " +
         precision_list(implementation) + ")";
}

void add_all(const Implementation& implementation, const Options& options, Selection& selection) {
  if (!implementation.unavailable.empty()) {
    selection.notes.push_back(implementation.name + ": " + implementation.unavailable);
    return;
  }
  for (const Precision precision : options.precisions) {
    if (runs(implementation, precision)) {
      add_case(implementation, precision, options, selection);
    } else {
      selection.notes.push_back(lacks(implementation, precision));
    }
  }
}

void add_named(const Implementation& implementation, const Request& request, const Options& options,
               Selection& selection) {
  if (!implementation.unavailable.empty()) {
    throw Error(ErrorCode::device_unavailable, "--impl " + implementation.name, implementation.unavailable,
                "--impl all runs what this machine can");
  }
  if (request.precision) {
    if (!runs(implementation, *request.precision)) throw UsageError(lacks(implementation, *request.precision));
    add_case(implementation, *request.precision, options, selection);
    return;
  }
  add_all(implementation, options, selection);
}

[[noreturn]] void throw_nothing_runs(const Selection& selection, const std::vector<Implementation>& implementations) {
  std::string reasons;
  for (const std::string& note : selection.notes) reasons += (reasons.empty() ? "" : "; ") + note;
  const std::string message = "nothing that was asked for runs here: " + reasons;
  const bool device = std::any_of(implementations.begin(), implementations.end(), [&](const Implementation& one) {
    return !one.unavailable.empty() && message.find(one.unavailable) != std::string::npos;
  });
  if (device) throw Error(ErrorCode::device_unavailable, "--impl", message);
  throw UsageError(message);
}

std::size_t find_reference(const Options& options, const std::vector<Case>& cases) {
  if (options.reference.empty()) return 0;
  const Request request = parse_request(options.reference);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].implementation == request.name && (!request.precision || cases[i].precision == *request.precision)) {
      return i;
    }
  }
  throw UsageError("--reference " + options.reference + " is not among what runs");
}

}  // namespace

std::vector<Implementation> list_implementations(int device) {
  const std::string no_gpu = why_no_gpu(device);
  std::vector<Implementation> list;
  list.push_back({"custom",
                  Processor::Gpu,
                  {Precision::Fp32, Precision::Fp32Split, Precision::Fp16, Precision::Fp64},
                  no_gpu,
                  make_custom_backend});
  Implementation cudnn{
      "cudnn", Processor::Gpu, {Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Fp64}, no_gpu, nullptr};
#ifdef MOBICUDA_WITH_CUDNN
  cudnn.make = make_cudnn_backend;
#else
  if (no_gpu.empty()) cudnn.unavailable = "this build has no cuDNN";
#endif
  list.push_back(std::move(cudnn));
  list.push_back({"cpu", Processor::Cpu, {Precision::Fp32, Precision::Fp64}, {}, make_cpu_backend});
  return list;
}

Case named_case(const std::string& text, Precision precision, const std::vector<Implementation>& implementations,
                const std::string& option) {
  const Request request = parse_request(text);
  const Implementation& implementation = find(implementations, request.name, option);
  if (!implementation.unavailable.empty()) {
    throw Error(ErrorCode::device_unavailable, option + ' ' + text, implementation.unavailable);
  }
  precision = request.precision.value_or(precision);
  if (!runs(implementation, precision)) throw UsageError(option + ": " + lacks(implementation, precision));
  return {implementation.name, precision, implementation.processor, implementation.make, {}};
}

Selection select_cases(const Options& options, const std::vector<Implementation>& implementations) {
  Selection selection;
  for (const std::string& text : options.implementations) {
    if (text == "all" || text == "auto") {
      for (const Implementation& implementation : implementations) add_all(implementation, options, selection);
    } else {
      const Request request = parse_request(text);
      add_named(find(implementations, request.name, "--impl"), request, options, selection);
    }
  }
  if (selection.cases.empty()) throw_nothing_runs(selection, implementations);
  for (std::size_t i = 0; i < selection.cases.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (selection.cases[i].label() == selection.cases[j].label()) {
        throw UsageError("--impl, --precision or --threads names " + selection.cases[i].label() + " twice");
      }
    }
  }
  selection.reference = find_reference(options, selection.cases);
  return selection;
}

}  // namespace mobicuda::bench
