// Operations on integers that have no kernel in the custom engine are refused before a GPU is asked for.
#include <string>

#include <mobicuda/custom_backend.h>

#include "support/catch.h"
#include "support/qdq_network.h"

namespace mobicuda::test {
namespace {

TEST_CASE("the custom engine refuses integers that it has no kernel for, naming the nodes and what to do") {
  constexpr std::int64_t kRows = 12;
  QdqNetwork net(1, Shape{1, 4, kRows, 6});
  ValueId x = net.quantize(net.input(), DType::I8, {0.1F, 0});
  for (int layer = 1; layer < 8; ++layer) {
    x = net.quantize(net.add(Slice{2, 0, kRows - layer}, {x}), DType::I8, {0.1F, 0});
  }
  const Graph graph = std::move(net).build(x);
  for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
    EngineOptions options;
    options.precision = precision;
    try {
      static_cast<void>(make_custom_backend()->compile(graph, options));
      FAIL("the network was accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(error.code() == ErrorCode::unsupported);
      for (const char* word : {"custom engine", "(Test)", "int8 has no kernel", "CPU engine", "2 nodes more"}) {
        CHECK(text.find(word) != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
