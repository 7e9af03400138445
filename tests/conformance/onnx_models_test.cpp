// The test models that come with ONNX (Debian: libonnx-testdata). Each is computed right or refused with an Error;
// those in onnx_gate.txt must be computed.
//
// The models feed their parameters at run time: all inputs but the first are made initializers. The first axis of the
// first input is the batch.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "onnx_import/import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

namespace fs = std::filesystem;

// ONNX's own tolerance for its test models (onnx/backend/test/runner).
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

enum class Verdict { Right, Refused, NotComparable, Wrong };

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

onnx_schema::TensorProto read_tensor(const fs::path& path) {
  onnx_schema::TensorProto proto;
  proto.ParseFromString(read_file(path));
  return proto;
}

bool is_float(const onnx_schema::TensorProto& proto) { return proto.data_type() == onnx_schema::TensorProto::FLOAT; }

std::vector<float> floats_of(const onnx_schema::TensorProto& proto) {
  if (!proto.has_raw_data()) return {proto.float_data().begin(), proto.float_data().end()};
  std::vector<float> values(proto.raw_data().size() / sizeof(float));
  std::memcpy(values.data(), proto.raw_data().data(), values.size() * sizeof(float));
  return values;
}

bool close(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double e = expected[i];
    const bool same = a == e || (std::isnan(a) && std::isnan(e));
    if (!same && !(std::abs(a - e) <= kAbsolute + kRelative * std::abs(e))) return false;
  }
  return true;
}

// Rank, then extents after the batch.
bool same_shape(const Shape& shape, const onnx_schema::TensorProto& expected) {
  if (static_cast<int>(shape.rank()) != expected.dims_size()) return false;
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) {
    if (shape[axis] != expected.dims(static_cast<int>(axis))) return false;
  }
  return true;
}

std::vector<float> run(const Graph& graph, const std::vector<float>& input) {
  EngineOptions options;
  options.precision = Precision::Fp64;
  options.threads = 1;
  const std::int64_t picture = graph.input_desc().shape.elements();
  const std::int64_t batch = static_cast<std::int64_t>(input.size()) / picture;
  options.max_batch = batch;
  std::vector<float> output(static_cast<std::size_t>(batch * graph.output_desc().shape.elements()));
  make_cpu_backend()->compile(graph, options)->create_session()->run(input, output);
  return output;
}

Verdict judge(const fs::path& folder, std::string& reason) {
  onnx_schema::ModelProto model;
  REQUIRE(model.ParseFromString(read_file(folder / "model.onnx")));
  const fs::path data = folder / "test_data_set_0";
  std::set<std::string> initialized;
  for (const auto& tensor : model.graph().initializer()) initialized.insert(tensor.name());
  int free_inputs = 0;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const std::string name = model.graph().input(i).name();
    if (initialized.contains(name) || ++free_inputs == 1) continue;
    const fs::path file = data / ("input_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) continue;
    auto& tensor = *model.mutable_graph()->add_initializer();
    tensor = read_tensor(file);
    tensor.set_name(name);
  }
  try {
    const std::string bytes = model.SerializeAsString();
    const Graph graph = onnx_import::load_from_memory(as_bytes(bytes), folder.filename().string());
    const auto input = read_tensor(data / "input_0.pb");
    const auto expected = read_tensor(data / "output_0.pb");
    if (!is_float(input) || !is_float(expected)) return Verdict::NotComparable;
    if (!same_shape(graph.output_desc().shape, expected)) {
      reason = "shape " + to_string(graph.output_desc().shape);
      return Verdict::Wrong;
    }
    return close(run(graph, floats_of(input)), floats_of(expected)) ? Verdict::Right : Verdict::Wrong;
  } catch (const Error& error) {
    reason = error.what();
    return error.code() == ErrorCode::internal ? Verdict::Wrong : Verdict::Refused;
  }
}

std::set<std::string> read_gate() {
  std::set<std::string> names;
  std::istringstream lines(read_file(MOBICUDA_ONNX_GATE));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != '#') names.insert(line);
  }
  return names;
}

}  // namespace

TEST_CASE("ONNX's test models are computed right or refused") {
  const fs::path root = MOBICUDA_ONNX_TESTDATA;
  if (!fs::exists(root / "node")) MOBICUDA_SKIP("no ONNX test models in " + root.string());
  const std::set<std::string> gate = read_gate();
  REQUIRE(!gate.empty());
  std::size_t models = 0;
  std::size_t right = 0;
  std::set<std::string> met;
  for (const std::string kind : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    for (const auto& entry : fs::directory_iterator(root / kind)) {
      if (!fs::exists(entry.path() / "test_data_set_0" / "input_0.pb")) continue;
      const std::string name = kind + "/" + entry.path().filename().string();
      std::string reason;
      const Verdict verdict = judge(entry.path(), reason);
      CAPTURE(name, reason);
      ++models;
      CHECK(verdict != Verdict::Wrong);
      if (verdict == Verdict::Right) ++right;
      if (gate.contains(name)) {
        met.insert(name);
        CHECK(verdict == Verdict::Right);
      } else if (verdict == Verdict::Right) {
        UNSCOPED_INFO("not in the gate: " << name);
      }
    }
  }
  CHECK(models > 500);
  CHECK(right >= gate.size());
  CHECK(met == gate);
}
