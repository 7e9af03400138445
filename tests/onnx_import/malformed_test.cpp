// Files that contradict themselves or the ONNX specification: each is refused with a code and a message that names
// the place and the value.

#include "malformed.h"

#include <set>

#include <mobicuda/onnx_import.h>

#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

void check(const std::vector<Malformed>& cases, std::size_t at_least) {
  CHECK(cases.size() >= at_least);
  std::set<std::string> names;
  for (const Malformed& malformed : cases) {
    CAPTURE(malformed.name);
    CHECK(names.insert(malformed.name).second);
    try {
      onnx_import::load_from_memory(as_bytes(malformed.bytes), "bad.onnx");
      FAIL_CHECK("the model was accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(to_string(error.code()) == to_string(malformed.code));
      CHECK(error.where().starts_with("bad.onnx"));
      for (const std::string& word : malformed.words) {
        CAPTURE(word);
        CHECK(text.find(word) != std::string::npos);
      }
    }
  }
}

}  // namespace

TEST_CASE("malformed bytes are refused") { check(malformed_bytes(), 14); }
TEST_CASE("malformed headers are refused") { check(malformed_headers(), 16); }
TEST_CASE("malformed topologies are refused") { check(malformed_topologies(), 14); }
TEST_CASE("malformed tensors are refused") { check(malformed_tensors(), 26); }
TEST_CASE("malformed convolutions are refused") { check(malformed_convolutions(), 26); }
TEST_CASE("malformed normalisations are refused") { check(malformed_norms(), 10); }
TEST_CASE("malformed pools are refused") { check(malformed_pools(), 16); }
TEST_CASE("malformed Gemm and MatMul are refused") { check(malformed_matrices(), 12); }
TEST_CASE("malformed shape operators are refused") { check(malformed_shape_operators(), 30); }
TEST_CASE("malformed elementwise operators are refused") { check(malformed_elementwise(), 8); }
TEST_CASE("malformed reductions, softmax and pads are refused") { check(malformed_reductions(), 14); }
TEST_CASE("malformed quantisation is refused") { check(malformed_quantization(), 40); }
