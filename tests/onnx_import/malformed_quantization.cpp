// Scales, zero points and integers that contradict each other, and forms of quantisation that are not supported.

#include <limits>
#include <string>
#include <vector>

#include "malformed.h"

namespace mobicuda::test {
namespace {

using Tensor = schema::TensorProto;
using Int8s = std::vector<std::int8_t>;
using Uint8s = std::vector<std::uint8_t>;

constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;
constexpr std::int64_t kInt4 = 22;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor typed(const std::string& name, int type, const Dims& dims, const std::string& raw) {
  Tensor proto;
  proto.set_name(name);
  proto.set_data_type(type);
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  proto.set_raw_data(raw);
  return proto;
}

void initializer(OnnxBuilder& builder, Tensor tensor) { *builder.graph().add_initializer() = std::move(tensor); }

// x, quantised by the scale "s" and zero point "z", which are at `at` sound.
void quantized_input(OnnxBuilder& builder) {
  builder.floats("s", {}, {0.1F}).integers<std::int8_t>("z", {}, {3});
  builder.node("QuantizeLinear", {"x", "s", "z"}, {"q"}, "quantize");
}

}  // namespace

std::vector<Malformed> malformed_quantization() {
  MalformedList list(13, {kDynamic, 4, 3, 3});

  // A QuantizeLinear of the input with one unsound operand.
  const auto activation = [&](const std::string& name, ErrorCode code, std::vector<std::string> words,
                              const std::function<void(OnnxBuilder&)>& operands) {
    words.emplace_back("node #0 'quantize' (QuantizeLinear)");
    list.add(name, code, words, [&](OnnxBuilder& b) {
      operands(b);
      b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}, "quantize");
      b.node("DequantizeLinear", {"q", "s", "z"}, {"y"});
    });
  };
  const auto scale = [&](const std::string& name, float value, const char* word) {
    activation(name, kInvalid, {"input #1 's'", "scale 0", "finite and > 0", word, "calibrate"},
               [&](OnnxBuilder& b) { b.floats("s", {}, {value}).integers<std::int8_t>("z", {}, {0}); });
  };
  scale("scale 0", 0.0F, "got 0");
  scale("negative scale", -0.5F, "-0.5");
  scale("scale NaN", kNan, "nan");
  scale("infinite scale", kInfinity, "inf");
  scale("negative zero as scale", -0.0F, "got -0");
  activation("no scale", kUnsupported, {"input #1 's'", "one number or a list", "0"},
             [](OnnxBuilder& b) { b.floats("s", {0}, {}).integers<std::int8_t>("z", {}, {0}); });
  activation("scales in a matrix", kUnsupported, {"input #1 's'", "2x2", "per channel"}, [](OnnxBuilder& b) {
    b.floats("s", {2, 2}, {1, 1, 1, 1}).integers<std::int8_t>("z", {}, {0});
  });
  activation("scales of an activation's channels", kUnsupported, {"input #1 's'", "one number", "per tensor"},
             [](OnnxBuilder& b) {
               b.floats("s", {4}, {1, 1, 1, 1}).integers<std::int8_t>("z", {4}, {0, 0, 0, 0});
             });
  activation("scale of integers", kInvalid, {"input #1 's'", "floating-point"},
             [](OnnxBuilder& b) { b.ints("s", {}, {1}).integers<std::int8_t>("z", {}, {0}); });
  activation("more zero points than scales", kInvalid, {"input #2 'z'", "as many elements as scales, 1", "2"},
             [](OnnxBuilder& b) {
               b.floats("s", {}, {1}).integers<std::int8_t>("z", {2}, {0, 0});
             });
  activation("zero points in a matrix", kInvalid, {"input #2 'z'", "1x1"}, [](OnnxBuilder& b) {
    b.floats("s", {}, {1}).integers<std::int8_t>("z", {1, 1}, {0});
  });
  activation("zero point of real numbers", kUnsupported, {"input #2 'z'", "INT8 or UINT8"},
             [](OnnxBuilder& b) { b.floats("s", {}, {1}).floats("z", {}, {0}); });
  activation("zero point of INT32", kUnsupported, {"input #2 'z'", "INT8 or UINT8"},
             [](OnnxBuilder& b) { b.floats("s", {}, {1}).integers<std::int32_t>("z", {}, {0}); });
  for (const auto& [type, bytes] : {std::pair{Tensor::INT16, 2}, std::pair{Tensor::UINT16, 2}}) {
    activation("zero point of type " + std::to_string(type), kUnsupported, {"input #2 'z'", "INT8 or UINT8", "16-bit"},
               [&, count = bytes](OnnxBuilder& b) {
                 b.floats("s", {}, {1});
                 initializer(b, typed("z", type, {}, std::string(static_cast<std::size_t>(count), '\0')));
               });
  }
  for (const auto& [type, word] : {std::pair{22, "INT4"}, std::pair{21, "UINT4"}, std::pair{17, "FLOAT8E4M3FN"}}) {
    list.add("zero point of type " + std::string(word), kUnsupported, {"'z'", word},
             [&, number = type](OnnxBuilder& b) {
               b.floats("s", {}, {1});
               initializer(b, typed("z", number, {}, std::string(1, '\0')));
               b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}, "quantize");
               b.node("DequantizeLinear", {"q", "s", "z"}, {"y"});
             });
  }
  list.add("scale at run time", kUnsupported, {"node #1 'quantize'", "input #1 'm'", "constant"}, [](OnnxBuilder& b) {
    b.node("GlobalAveragePool", {"x"}, {"m"});
    b.node("QuantizeLinear", {"x", "m"}, {"q"}, "quantize");
    b.node("DequantizeLinear", {"q", "m"}, {"y"});
  });
  list.add("zero point at run time", kUnsupported, {"node #1 'quantize'", "input #2 'm'", "statically"},
           [](OnnxBuilder& b) {
             b.floats("s", {}, {1});
             b.node("GlobalAveragePool", {"x"}, {"m"});
             b.node("QuantizeLinear", {"x", "s", "m"}, {"y"}, "quantize");
           });
  list.add("dynamic quantisation", kUnsupported, {"(DynamicQuantizeLinear)", "quantise statically"},
           [](OnnxBuilder& b) {
             b.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
             b.node("DequantizeLinear", {"q", "s", "z"}, {"y"});
           });
  list.add("quantised twice", kInvalid, {"node #1 'again' (QuantizeLinear)", "float32", "int8"}, [](OnnxBuilder& b) {
    quantized_input(b);
    b.node("QuantizeLinear", {"q", "s", "z"}, {"r"}, "again");
    b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
  });
  list.add("dequantised without being quantised", kInvalid, {"node #0", "input #0 'x'", "QuantizeLinear"},
           [](OnnxBuilder& b) {
             b.floats("s", {}, {1}).integers<std::int8_t>("z", {}, {0});
             b.node("DequantizeLinear", {"x", "s", "z"}, {"y"});
           });
  const auto read_as = [&](const std::string& name, float other_scale, const Tensor& zero_point,
                           const std::vector<std::string>& words) {
    list.add(name, kUnsupported, words, [&](OnnxBuilder& b) {
      quantized_input(b);
      b.floats("s2", {}, {other_scale});
      initializer(b, zero_point);
      b.node("DequantizeLinear", {"q", "s2", zero_point.name()}, {"y"}, "back");
    });
  };
  read_as("read with another scale", 0.2F, integer_tensor<std::int8_t>("z2", {}, {3}),
          {"'back'", "input #0 'q'", "scale 0.1", "scale 0.2"});
  read_as("read with another zero point", 0.1F, integer_tensor<std::int8_t>("z2", {}, {4}),
          {"'back'", "zero point 3", "zero point 4"});
  read_as("read as another type", 0.1F, integer_tensor<std::uint8_t>("z2", {}, {3}), {"'back'", "int8", "uint8"});
  list.add("network that gives integers", kUnsupported, {"output 'y'", "integers", "DequantizeLinear"},
           [](OnnxBuilder& b) {
             b.floats("s", {}, {1});
             b.node("QuantizeLinear", {"x", "s"}, {"y"}, "quantize");
           });
  list.add("real operation on integers", kInvalid, {"node #1 'act' (Sigmoid)", "int8", "DequantizeLinear"},
           [](OnnxBuilder& b) {
             quantized_input(b);
             b.node("Sigmoid", {"q"}, {"r"}, "act");
             b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
           });

  // Newer attributes.
  list.add("blocks of scales", kUnsupported, {"'quantize'", "attribute 'block_size'", "per tensor"}, 21,
           [](OnnxBuilder& b) {
             b.floats("s", {}, {1});
             b.node("QuantizeLinear", {"x", "s"}, {"q"}, "quantize").attr("block_size", 16);
             b.node("DequantizeLinear", {"q", "s"}, {"y"});
           });
  list.add("quantised to 4 bits", kUnsupported, {"'quantize'", "attribute 'output_dtype'", "INT4", "INT8 or UINT8"}, 21,
           [](OnnxBuilder& b) {
             b.floats("s", {}, {1});
             b.node("QuantizeLinear", {"x", "s"}, {"q"}, "quantize").attr("output_dtype", kInt4);
             b.node("DequantizeLinear", {"q", "s"}, {"y"});
           });
  list.add("axis before opset 13", kInvalid, {"'quantize'", "attribute 'axis'", "opset 10"}, 10, [](OnnxBuilder& b) {
    b.floats("s", {}, {1});
    b.node("QuantizeLinear", {"x", "s"}, {"q"}, "quantize").attr("axis", 1);
    b.node("DequantizeLinear", {"q", "s"}, {"y"});
  });

  // A convolution whose weight comes out of a DequantizeLinear with one unsound operand.
  struct Weight {
    Tensor integers = integer_tensor<std::int8_t>("w", {2, 4, 1, 1}, Int8s(8, 50));
    Tensor scale = tensor("ws", {2}, std::vector<float>{0.1F, 0.2F});
    Tensor zero_point = integer_tensor<std::int8_t>("wz", {2}, {0, 0});
    std::int64_t axis = 0;
  };
  const auto weight = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                          const std::function<void(Weight&)>& spoil) {
    list.add(name, code, words, [&](OnnxBuilder& b) {
      quantized_input(b);
      b.node("DequantizeLinear", {"q", "s", "z"}, {"real"});
      Weight w;
      spoil(w);
      for (const Tensor& one : {w.integers, w.scale, w.zero_point}) initializer(b, one);
      b.node("DequantizeLinear", {"w", "ws", "wz"}, {"weight"}, "weights").attr("axis", w.axis);
      b.node("Conv", {"real", "weight"}, {"y"}, "conv");
    });
  };
  weight("axis past the weight's rank", kInvalid, {"'weights'", "attribute 'axis'", "-4 to 3", "4"},
         [](Weight& w) { w.axis = 4; });
  weight("negative axis past the weight's rank", kInvalid, {"'weights'", "attribute 'axis'", "-5"},
         [](Weight& w) { w.axis = -5; });
  weight("scales of another axis", kInvalid, {"'weights'", "input #1 'ws'", "each of 4 along axis 1", "has 2"},
         [](Weight& w) { w.axis = 1; });
  weight("too many scales", kInvalid, {"input #1 'ws'", "each of 2", "has 3"}, [](Weight& w) {
    w.scale = tensor("ws", {3}, std::vector<float>{1, 1, 1});
    w.zero_point = integer_tensor<std::int8_t>("wz", {3}, {0, 0, 0});
  });
  weight("one scale of a channel is 0", kInvalid, {"input #1 'ws'", "scale 1", "got 0"}, [](Weight& w) {
    w.scale = tensor("ws", {2}, std::vector<float>{1, 0});
  });
  weight("one scale of a channel is NaN", kInvalid, {"input #1 'ws'", "scale 0", "nan"}, [](Weight& w) {
    w.scale = tensor("ws", {2}, std::vector<float>{kNan, 1});
  });
  weight("fewer zero points than scales", kInvalid, {"input #2 'wz'", "as many elements as scales, 2"},
         [](Weight& w) { w.zero_point = integer_tensor<std::int8_t>("wz", {1}, {0}); });
  weight("zero points of another type than the weight", kInvalid, {"input #2 'wz'", "int8", "uint8"}, [](Weight& w) {
    w.zero_point = integer_tensor<std::uint8_t>("wz", {2}, {0, 0});
  });
  weight("weight of real numbers", kInvalid, {"'weights'", "input #0 'w'", "integers"}, [](Weight& w) {
    w.integers = tensor("w", {2, 4, 1, 1}, std::vector<float>(8, 1.0F));
  });
  weight("zero point of INT32 that is not 0", kUnsupported,
         {"'weights'", "input #2 'wz'", "0 for integers of 16 and 32"}, [](Weight& w) {
           w.integers = integer_tensor<std::int32_t>("w", {2, 4, 1, 1}, std::vector<std::int32_t>(8, 1));
           w.zero_point = integer_tensor<std::int32_t>("wz", {2}, {0, 1});
         });
  weight("bytes missing of the weight", kInvalid, {"'w'", "7 bytes", "8"}, [](Weight& w) {
    w.integers = integer_tensor<std::int8_t>("w", {2, 4, 1, 1}, Int8s(7, 1));
  });
  weight("weight in the wrong field", kInvalid, {"'w'", "data field for another type"}, [](Weight& w) {
    w.integers.clear_raw_data();
    for (int i = 0; i < 8; ++i) w.integers.add_float_data(1.0F);
  });

  // Operators on integers.
  const auto qlinear_conv = [&](const std::string& name, ErrorCode code, std::vector<std::string> words,
                                const std::function<void(OnnxBuilder&)>& operands,
                                std::vector<std::string> inputs = {"q", "s", "z", "w", "ws", "wz", "s", "z", "b"}) {
    words.emplace_back("node #1 'conv' (QLinearConv)");
    list.add(name, code, words, [&](OnnxBuilder& b) {
      quantized_input(b);
      operands(b);
      b.node("QLinearConv", inputs, {"r"}, "conv");
      b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
    });
  };
  const auto sound = [](OnnxBuilder& b) {
    b.integers<std::int8_t>("w", {2, 4, 1, 1}, Int8s(8, 50)).floats("ws", {}, {0.1F});
    b.integers<std::int8_t>("wz", {}, {0}).integers<std::int32_t>("b", {2}, {1, 2});
  };
  qlinear_conv("QLinearConv of real numbers", kInvalid, {"input #0 'x'", "QuantizeLinear"}, sound,
               {"x", "s", "z", "w", "ws", "wz", "s", "z"});
  qlinear_conv("QLinearConv read with another scale", kUnsupported, {"input #0 'q'", "scale 0.7"},
               [&](OnnxBuilder& b) {
                 sound(b);
                 b.floats("s2", {}, {0.7F});
               },
               {"q", "s2", "z", "w", "ws", "wz", "s", "z"});
  qlinear_conv("QLinearConv with a weight of real numbers", kUnsupported, {"input #3 's'", "INT8 or UINT8"}, sound,
               {"q", "s", "z", "s", "ws", "wz", "s", "z"});
  qlinear_conv("QLinearConv with a bias of another length", kInvalid, {"input #8 'b'", "shape 2"}, [](OnnxBuilder& b) {
    b.integers<std::int8_t>("w", {2, 4, 1, 1}, Int8s(8, 50)).floats("ws", {}, {0.1F});
    b.integers<std::int8_t>("wz", {}, {0}).integers<std::int32_t>("b", {3}, {1, 2, 3});
  });
  qlinear_conv("QLinearConv with a bias of real numbers", kInvalid, {"input #8 's'", "INT32"}, sound,
               {"q", "s", "z", "w", "ws", "wz", "s", "z", "s"});
  qlinear_conv("QLinearConv without the result's scale", kInvalid, {"input #6", "missing"}, sound,
               {"q", "s", "z", "w", "ws", "wz", "", "z"});
  qlinear_conv("QLinearConv for other channels", kInvalid, {"input #3 'w'", "3 channels a group"}, [](OnnxBuilder& b) {
    b.integers<std::int8_t>("w", {2, 3, 1, 1}, Int8s(6, 50)).floats("ws", {}, {0.1F});
    b.integers<std::int8_t>("wz", {}, {0}).integers<std::int32_t>("b", {2}, {1, 2});
  });
  list.add("QLinearAdd of a constant", kUnsupported, {"(QLinearAdd)", "constant"}, [](OnnxBuilder& b) {
    b.import_domain("com.microsoft", 1);
    quantized_input(b);
    b.integers<std::int8_t>("c", {1}, {1});
    b.node("QLinearAdd", {"q", "s", "z", "c", "s", "z", "s", "z"}, {"r"}).proto().set_domain("com.microsoft");
    b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
  });
  list.add("QLinearConcat that ends within a part", kInvalid, {"(QLinearConcat)", "3 for each part"},
           [](OnnxBuilder& b) {
             b.import_domain("com.microsoft", 1);
             quantized_input(b);
             b.node("QLinearConcat", {"s", "z", "q", "s"}, {"r"}).attr("axis", 1).proto().set_domain("com.microsoft");
             b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
           });
  list.add("sums of integers", kUnsupported, {"(ConvInteger)", "sums of integers"}, [](OnnxBuilder& b) {
    quantized_input(b);
    b.integers<std::int8_t>("w", {2, 4, 1, 1}, Int8s(8, 50));
    b.node("ConvInteger", {"q", "w"}, {"y"});
  });
  return list.take();
}

}  // namespace mobicuda::test
