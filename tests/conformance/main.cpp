// onnx_conformance: runs the test models that come with ONNX and prints what passes.

#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>
#ifdef MOBICUDA_WITH_CUDNN
#include <mobicuda/cudnn_backend.h>
#endif
#include <CLI/CLI.hpp>

#include "report.h"
#include "support/folders.h"

namespace {

namespace fs = std::filesystem;
using namespace mobicuda;
using namespace mobicuda::conformance;

enum ExitCode { kMet = 0, kFailed = 1, kUsage = 2 };

struct Arguments {
  fs::path data = MOBICUDA_ONNX_TESTDATA;
  fs::path gate = test::source_folder() / "tests/conformance/onnx_gate.txt";
  std::vector<std::string> implementations = {"cpu"};
  std::string precision = "fp32";
  std::string only;
  fs::path json;
  bool verbose = false;
  bool list = false;
};

std::unique_ptr<Backend> make_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend();
  if (name == "custom") return make_custom_backend();
#ifdef MOBICUDA_WITH_CUDNN
  if (name == "cudnn") return make_cudnn_backend();
#endif
  return nullptr;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::Passed:
      return "passed";
    case Verdict::PassedAsConstant:
      return "passed as constant";
    case Verdict::RefusedByImporter:
      return "refused by the importer";
    case Verdict::RefusedByEngine:
      return "refused by the engine";
    case Verdict::OutOfScope:
      return "out of scope";
    case Verdict::Failed:
      break;
  }
  return "FAILED";
}

Summary run(const std::vector<CaseFolder>& cases, const std::string& implementation, const Backend& backend,
            const EngineOptions& options, const Arguments& arguments) {
  Summary summary{implementation, arguments.precision, {}};
  for (const CaseFolder& folder : cases) {
    // The name comes first and is flushed, so that the log of a crash ends with its case.
    if (arguments.verbose) std::cout << implementation << ' ' << folder.name << ": " << std::flush;
    summary.results.push_back({folder.name, judge(folder, backend, options)});
    const Judgement& judgement = summary.results.back().judgement;
    if (arguments.verbose) {
      std::cout << to_string(judgement.verdict) << (judgement.reason.empty() ? "" : ": ") << judgement.reason << '\n';
    }
  }
  return summary;
}

int run_all(const Arguments& arguments) {
  std::vector<CaseFolder> cases = list_cases(arguments.data);
  if (cases.empty()) {
    std::cout << "skipped: no ONNX test models in " << arguments.data.string() << " (package libonnx-testdata)\n";
    return kMet;
  }
  Gate gate = read_gate(arguments.gate);
  const std::size_t test_models = cases.size();
  const bool same_version = test_models == gate.test_models;
  const auto is_left_out = [&](const std::string& name) { return name.find(arguments.only) == std::string::npos; };
  std::erase_if(cases, [&](const CaseFolder& folder) { return is_left_out(folder.name); });
  std::erase_if(gate.names, is_left_out);
  EngineOptions options;
  options.threads = 1;
  options.precision = arguments.precision == "fp64" ? Precision::Fp64 : Precision::Fp32;
  std::vector<Summary> summaries;
  std::vector<std::string> bad;
  for (const std::string& name : arguments.implementations) {
    const auto backend = make_backend(name);
    const std::string unavailable = backend ? why_unavailable(*backend, options) : "not in this build";
    if (!unavailable.empty()) {
      std::cout << "skipped: " << name << ": " << unavailable << '\n';
      continue;
    }
    summaries.push_back(run(cases, name, *backend, options, arguments));
    const Summary& summary = summaries.back();
    if (arguments.list) {
      for (const auto& [case_name, judgement] : summary.results) {
        if (judgement.verdict <= Verdict::PassedAsConstant) std::cout << case_name << '\n';
      }
      continue;
    }
    std::cout << to_text(summary);
    if (!same_version) {
      std::cout << "The gate is of another version of the test data, with " << gate.test_models << " models, not "
                << test_models << ": " << unlisted(summary, gate.names) << " that pass are not in it.\n";
    }
    const Demands demands{.engine_may_refuse = name != "cpu", .all_listed = same_version};
    for (const std::string& line : complaints(summary, gate.names, demands)) {
      bad.push_back(name + " " + line);
    }
  }
  if (!arguments.json.empty() && !(std::ofstream(arguments.json) << to_json(summaries))) {
    std::cerr << "onnx_conformance: cannot write " << arguments.json.string() << '\n';
    return kFailed;
  }
  for (const std::string& line : bad) std::cout << line << '\n';
  return bad.empty() ? kMet : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Runs the test models that come with ONNX (package libonnx-testdata) and prints what passes.\n"
      "Exit codes: 0 nothing is wrong and the gate passes (or skipped), 1 something failed, 2 usage."};
  app.add_option("--impl", arguments.implementations, "cpu, custom, cudnn; default cpu")
      ->delimiter(',')
      ->check(CLI::IsMember({"cpu", "custom", "cudnn"}));
  app.add_option("--precision", arguments.precision, "fp32 (default) or fp64")->check(CLI::IsMember({"fp32", "fp64"}));
  app.add_option("--data", arguments.data, "folder with node, pytorch-converted, ...");
  app.add_option("--gate", arguments.gate, "file with the cases that must pass");
  app.add_option("--only", arguments.only, "only cases with this in the name");
  app.add_option("--json", arguments.json, "also write the counts to this file");
  app.add_flag("--verbose", arguments.verbose, "a line for each case");
  app.add_flag("--list", arguments.list, "print the names of the cases that pass, for the gate, and nothing else");
  try {
    app.parse(argc, argv);
    return run_all(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kMet : kUsage;
  } catch (const std::exception& error) {
    std::cerr << "onnx_conformance: " << error.what() << '\n';
    return kFailed;
  }
}
