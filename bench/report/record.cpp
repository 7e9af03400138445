#include "report/record.h"

#include <algorithm>

#include "report/peers.h"
#include "report/record_networks.h"

namespace mobicuda::bench::report {
namespace {

std::vector<CheckRun> check_runs(const Field& f) {
  std::vector<CheckRun> runs;
  for (const Field& one : f.elements()) {
    runs.push_back({one["tool"].text(), one["program"].text(), one["filter"].text(), one["summary"].text(),
                    one["exit"].whole() == 0});
  }
  return runs;
}

void read_networks(const Field& f, MachineRecord& record) {
  for (const auto& [network, measured] : f["networks"].members()) {
    for (const Field& one : measured["results"].elements()) {
      record.networks.push_back({network, one["impl"].text(), one["batch"].batch(), one["medianUs"].number()});
    }
    for (const auto& [implementation, reason] : measured["refused"].members()) {
      record.refused.push_back(network + " on " + implementation + ": " + reason.text());
    }
  }
  Peers peers;
  if (!f["peers"].absent()) add_peers(f["peers"], peers);
  for (const PeerResult& one : fastest_of_families(peers)) {
    if (one.network.empty() || one.network == "mobilenet_v2" || one.precision != "fp16") continue;
    record.networks.push_back({one.network, one.family, one.batch, 1e3 * one.median_ms});
  }
  sort_networks(record.networks);
  const auto measured = f["networks"].members();
  for (const std::string_view name : recorded_networks()) {
    if (std::none_of(measured.begin(), measured.end(), [name](const auto& one) { return one.first == name; })) {
      record.lacking.emplace_back(name);
    }
  }
}

std::optional<std::int64_t> count(const Field& f) {
  return f.absent() ? std::nullopt : std::optional<std::int64_t>(f.size());
}

}  // namespace

MachineRecord read_record(const Field& f) {
  MachineRecord record;
  record.date = f["date"].text();
  record.source_hash = f["source_hash"].text();
  record.tests = check_runs(f["tests"]);
  record.sanitizer = check_runs(f["sanitizer"]);
  for (const auto& [name, counts] : f["conformance"].members()) {
    if (!counts.json().is_object()) continue;  // the GPU and the date stand beside the implementations
    record.conformance.push_back({name, counts["cases"].size(), counts["passed"].size(), counts["failed"].size(),
                                  count(counts["passedAsConstant"]), count(counts["refusedByImporter"]),
                                  count(counts["refusedByEngine"]), count(counts["outOfScope"])});
  }
  read_networks(f, record);
  for (const Field& one : f["requirements"].elements()) {
    record.requirements.push_back(
        {one["name"].text(), one["target"].text(), one["measured"].text(), one["met"].truth()});
  }
  return record;
}

}  // namespace mobicuda::bench::report
