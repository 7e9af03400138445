// The payloads of tensors: every element type and every field they may be in, exactly.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

using Tensor = onnx_schema::TensorProto;

// The importer's reading of a tensor of `count` floats: as the bias of a convolution.
std::vector<float> read_floats(Tensor proto, std::int64_t count, const onnx_import::ImportOptions& options = {}) {
  OnnxBuilder builder = network(13, {kDynamic, 1, 1, 1});
  proto.set_name("b");
  builder.floats("w", {count, 1, 1, 1}, std::vector<float>(static_cast<std::size_t>(count), 1));
  *builder.graph().add_initializer() = std::move(proto);
  builder.node("Conv", {"x", "w", "b"}, {"y"});
  return constant_of(import(builder, options), 0, Conv2d::kBias);
}

Tensor typed(int type, std::int64_t count) {
  Tensor proto;
  proto.set_data_type(type);
  proto.add_dims(count);
  return proto;
}

template <class T>
Tensor raw(int type, const std::vector<T>& values) {
  Tensor proto = typed(type, static_cast<std::int64_t>(values.size()));
  proto.set_raw_data(raw_bytes(values));
  return proto;
}

// The extents that an integer tensor of type `proto` gives a reshape.
Shape read_integers(Tensor proto) {
  OnnxBuilder builder = network(13, {kDynamic, 2, 3});
  proto.set_name("narrow");
  *builder.graph().add_initializer() = std::move(proto);
  builder.node("Cast", {"narrow"}, {"shape"}).attr("to", 7);
  builder.node("Reshape", {"x", "shape"}, {"y"});
  return import(builder).output_desc().shape;
}

}  // namespace

TEST_CASE("floats are read bit by bit") {
  const std::vector<float> values{1.5F, -0.0F, 1e-45F, kInf};
  CHECK(std::signbit(read_floats(raw(Tensor::FLOAT, values), 4)[1]));
  CHECK(read_floats(raw(Tensor::FLOAT, values), 4) == values);
  Tensor proto = typed(Tensor::FLOAT, 4);
  for (const float value : values) proto.add_float_data(value);
  CHECK(read_floats(proto, 4) == values);
}

TEST_CASE("half-precision weights become float exactly: all of them") {
  std::vector<std::uint16_t> bits;
  for (std::uint32_t i = 0; i < 65536; ++i) bits.push_back(static_cast<std::uint16_t>(i));
  const std::vector<float> values = read_floats(raw(Tensor::FLOAT16, bits), 65536);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 65536; ++i) {
    const int exponent = static_cast<int>((i >> 10U) & 31U);
    const double mantissa = static_cast<double>(i & 1023U);
    double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) expected = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    if (i >= 32768) expected = -expected;
    const double value = values[i];
    const bool same =
        std::isnan(expected) ? std::isnan(value) : value == expected && std::signbit(value) == (i >= 32768);
    if (!same) ++wrong;
  }
  CHECK(wrong == 0);
  Tensor in_int32 = typed(Tensor::FLOAT16, 2);
  in_int32.add_int32_data(0x3C00);
  in_int32.add_int32_data(0xC000);
  CHECK(read_floats(in_int32, 2) == std::vector<float>{1, -2});
}

TEST_CASE("bfloat16 weights become float exactly, doubles are rounded and reported") {
  CHECK(read_floats(raw<std::uint16_t>(Tensor::BFLOAT16, {0x3F80, 0xC040, 0x7F80}), 3) ==
        std::vector<float>{1, -3, kInf});
  std::string log;
  onnx_import::ImportOptions options;
  options.log = [&](LogLevel, std::string_view text) { log += text; };
  CHECK(read_floats(raw<double>(Tensor::DOUBLE, {0.1, -2}), 2, options) == std::vector<float>{0.1F, -2});
  CHECK(log == "tensor 'b': DOUBLE elements are rounded to float32");
  Tensor in_doubles = typed(Tensor::DOUBLE, 1);
  in_doubles.add_double_data(0.25);
  CHECK(read_floats(in_doubles, 1) == std::vector<float>{0.25F});
}

TEST_CASE("integers of every width are read") {
  const Shape expected{1, 6};
  CHECK(read_integers(raw<std::int64_t>(Tensor::INT64, {0, 6})) == expected);
  CHECK(read_integers(raw<std::uint64_t>(Tensor::UINT64, {0, 6})) == expected);
  CHECK(read_integers(raw<std::int32_t>(Tensor::INT32, {0, -1})) == expected);
  CHECK(read_integers(raw<std::uint32_t>(Tensor::UINT32, {0, 6})) == expected);
  CHECK(read_integers(raw<std::int16_t>(Tensor::INT16, {0, -1})) == expected);
  CHECK(read_integers(raw<std::uint16_t>(Tensor::UINT16, {0, 6})) == expected);
  CHECK(read_integers(raw<std::int8_t>(Tensor::INT8, {0, -1})) == expected);
  CHECK(read_integers(raw<std::uint8_t>(Tensor::UINT8, {0, 6})) == expected);
  for (const int type : {Tensor::INT32, Tensor::INT16, Tensor::INT8, Tensor::UINT8, Tensor::UINT16}) {
    Tensor in_int32 = typed(type, 2);
    in_int32.add_int32_data(0);
    in_int32.add_int32_data(6);
    CHECK(read_integers(in_int32) == expected);
  }
  Tensor in_int64 = typed(Tensor::INT64, 2);
  in_int64.add_int64_data(0);
  in_int64.add_int64_data(6);
  CHECK(read_integers(in_int64) == expected);
  for (const int type : {Tensor::UINT32, Tensor::UINT64}) {
    Tensor in_uint64 = typed(type, 2);
    in_uint64.add_uint64_data(0);
    in_uint64.add_uint64_data(6);
    CHECK(read_integers(in_uint64) == expected);
  }
}

TEST_CASE("constant weights may pass through Identity, Cast, Transpose, Reshape, Squeeze and Unsqueeze") {
  OnnxBuilder builder = network(11, {kDynamic, 3});
  builder.floats("w", {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  builder.node("Identity", {"w"}, {"w1"});
  builder.node("Cast", {"w1"}, {"w2"}).attr("to", 10);
  builder.node("Squeeze", {"w2"}, {"w3"}).ints("axes", {0});
  builder.node("Transpose", {"w3"}, {"w4"}).ints("perm", {1, 0});
  builder.node("Unsqueeze", {"w4"}, {"w5"}).ints("axes", {2});
  builder.ints("shape", {2}, {3, -1}).node("Reshape", {"w5", "shape"}, {"w6"});
  builder.node("MatMul", {"x", "w6"}, {"y"});
  const Graph graph = import(builder);
  CHECK(ops(graph) == "Gemm");
  CHECK(constant_of(graph, 0, Gemm::kWeight) == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a weight that two nodes share is one constant") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 4, 4});
  builder.floats("w", {2, 2, 1, 1}, {1, 2, 3, 4});
  builder.node("Conv", {"x", "w"}, {"a"});
  builder.node("Conv", {"a", "w"}, {"y"});
  const Graph graph = import(builder);
  CHECK(graph.nodes()[0].inputs[Conv2d::kWeight] == graph.nodes()[1].inputs[Conv2d::kWeight]);
}
