#include "report/peers.h"

#include <algorithm>
#include <tuple>

#include "report/read_report.h"
#include "report/report_error.h"

namespace mobicuda::bench::report {
namespace {

constexpr double kMsOfUs = 1e-3;

std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

// What one script wrote; those of earlier versions have `peer` in place of `engine`.
std::string engine_of(const Field& document) {
  std::string engine = document["engine"].text();
  if (!engine.empty()) return engine;
  const std::string peer = document["peer"].text();
  return peer == "pytorch" ? "PyTorch" : peer;
}

std::string mode_name(const std::string& mode) {
  if (mode == "graph") return "CUDA graph";
  if (mode == "compile-graph") return "compile in a CUDA graph";
  if (mode == "compile-max-graph") return "compile-max in a CUDA graph";
  return mode;
}

std::string family_name(const std::string& mode) { return mode.starts_with("compile") ? "compile" : mode_name(mode); }

void add_document(const Field& f, Peers& peers) {
  const std::string engine = engine_of(f);
  if (engine.empty()) f["engine"].fail("the name of an engine");
  const auto with_engine = [&](const std::string& mode) { return mode.empty() ? engine : engine + ' ' + mode; };
  const auto named = [&](const Field& one) { return with_engine(mode_name(one["mode"].text())); };
  for (const Field& one : f["results"].elements()) {
    PeerResult result;
    result.engine = named(one);
    result.family = with_engine(family_name(one["mode"].text()));
    result.network = one["network"].text();
    result.format = one["format"].text();
    result.precision = one["precision"].precision();
    result.batch = one["batch"].batch();
    result.median_ms = kMsOfUs * one["median_us"].number();
    result.mean_ms = kMsOfUs * one["mean_us"].number();
    result.p90_ms = kMsOfUs * one["p90_us"].number();
    result.runs = static_cast<std::size_t>(one["runs"].size());
    result.on_cpu = one["mode"].text() == "cpu";
    peers.results.push_back(std::move(result));
  }
  const std::string version = f["version"].text().empty() ? f["torch"].text() : f["version"].text();
  if (!f["results"].elements().empty()) {
    const std::string setup = joined(
        {version.empty() ? engine : engine + ' ' + version, f["gpu"].text(), f["cpu"].text(), f["network"].text()});
    if (std::find(peers.setup.begin(), peers.setup.end(), setup) == peers.setup.end()) peers.setup.push_back(setup);
  }
  for (const Field& one : f["absent"].elements()) peers.absent.push_back(named(one) + ": " + one["reason"].text());
  for (const Field& one : f["failed"].elements()) {
    const std::string batch = one["batch"].absent() ? "" : "batch " + std::to_string(one["batch"].batch());
    peers.failed.push_back(
        joined({named(one), one["network"].text(), one["precision"].text(), batch, one["format"].text()}) + ": " +
        one["error"].text());
  }
}

}  // namespace

void add_peers(const Field& f, Peers& peers) {
  if (f.absent()) return;
  if (!f["results"].absent()) {
    add_document(f, peers);
    return;
  }
  const Field all = f["peers"].absent() ? f : f["peers"];
  for (const auto& [name, document] : all.members()) {
    if (document.absent()) continue;
    if (document["results"].absent()) document["results"].fail("there: bench/peers/README.md describes the file");
    add_document(document, peers);
  }
}

void add_peers(const std::filesystem::path& file, Peers& peers) {
  const Field::Json json = read_json(file);
  try {
    add_peers(Field(json, "document"), peers);
  } catch (const ReportError& error) {
    throw error.inside(file.string());
  }
}

std::vector<PeerResult> fastest_of_families(const Peers& peers) {
  std::vector<PeerResult> fastest;
  for (const PeerResult& one : peers.results) {
    const auto same = std::find_if(fastest.begin(), fastest.end(), [&](const PeerResult& other) {
      return std::tie(other.family, other.network, other.precision, other.batch) ==
             std::tie(one.family, one.network, one.precision, one.batch);
    });
    if (same == fastest.end()) {
      fastest.push_back(one);
    } else if (one.median_ms < same->median_ms) {
      *same = one;
    }
  }
  return fastest;
}

void keep_mobilenet_v2(Peers& peers) {
  std::erase_if(peers.results,
                [](const PeerResult& result) { return !result.network.empty() && result.network != "mobilenet_v2"; });
}

}  // namespace mobicuda::bench::report
