// Convolution, normalisation, pooling, Gemm and MatMul.

#include <limits>

#include "malformed.h"

namespace mobicuda::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

std::vector<float> ones(std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count), 1.0F); }

void weight(OnnxBuilder& builder, const Dims& dims) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) elements *= dim;
  builder.floats("w", dims, ones(elements));
}

}  // namespace

std::vector<Malformed> malformed_convolutions() {
  MalformedList list(13, {kDynamic, 4, 8, 8});
  const auto add = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                       const std::function<void(OnnxNode)>& spoil, const Dims& dims = {6, 4, 3, 3}) {
    std::vector<std::string> all{"node #0 'conv' (Conv)"};
    all.insert(all.end(), words.begin(), words.end());
    list.add(name, code, all, [&](OnnxBuilder& builder) {
      weight(builder, dims);
      spoil(builder.node("Conv", {"x", "w"}, {"y"}, "conv"));
    });
  };
  const auto nothing = [](OnnxNode) {};
  const auto ints = [](const std::string& name, const Dims& values) {
    return [=](OnnxNode node) { node.ints(name, values); };
  };
  add("stride 0", kInvalid, {"attribute 'strides'", "> 0", "[0,1]"}, ints("strides", {0, 1}));
  add("stride -1", kInvalid, {"attribute 'strides'", "[1,-1]"}, ints("strides", {1, -1}));
  add("three strides", kInvalid, {"attribute 'strides'", "[1,1,1]"}, ints("strides", {1, 1, 1}));
  add("no strides", kInvalid, {"attribute 'strides'", "[]"}, ints("strides", {}));
  add("huge stride", kUnsupported, {"attribute 'strides'", "65537"}, ints("strides", {65537, 1}));
  add("dilation 0", kInvalid, {"attribute 'dilations'", "[1,0]"}, ints("dilations", {1, 0}));
  add("dilation -3", kInvalid, {"attribute 'dilations'", "[-3,1]"}, ints("dilations", {-3, 1}));
  add("dilation past the image", kInvalid, {"kernel_shape", "window of 9"}, ints("dilations", {4, 4}));
  add("huge dilation", kUnsupported, {"attribute 'dilations'", "9223372036854775807"},
      ints("dilations", {1, 9223372036854775807}));
  add("group 0", kInvalid, {"attribute 'group'", "got 0"}, [](OnnxNode n) { n.attr("group", 0); });
  add("group -1", kInvalid, {"attribute 'group'", "got -1"}, [](OnnxNode n) { n.attr("group", -1); });
  add("group that does not divide the input", kInvalid, {"attribute 'group'", "got 3"},
      [](OnnxNode n) { n.attr("group", 3); });
  add("group that does not divide the output", kInvalid, {"attribute 'group'", "got 4"},
      [](OnnxNode n) { n.attr("group", 4); }, {6, 1, 3, 3});
  add("group that the weight contradicts", kInvalid, {"input #1 'w'", "4 channels a group", "2"},
      [](OnnxNode n) { n.attr("group", 2); });
  add("weight of rank 3", kInvalid, {"input #1 'w'", "6x4x3"}, nothing, {6, 4, 3});
  add("weight of rank 5", kInvalid, {"input #1 'w'", "1x4x1x1x1"}, nothing, {1, 4, 1, 1, 1});
  add("weight without elements", kInvalid, {"input #1 'w'", "no elements"}, nothing, {0, 4, 3, 3});
  add("weight without a window", kInvalid, {"input #1 'w'", "no elements"}, nothing, {6, 4, 0, 3});
  add("weight for other channels", kInvalid, {"input #1 'w'", "5 channels a group"}, nothing, {6, 5, 3, 3});
  add("kernel_shape that the weight contradicts", kInvalid, {"attribute 'kernel_shape'", "[5,5]", "6x4x3x3"},
      ints("kernel_shape", {5, 5}));
  add("kernel_shape 0", kInvalid, {"attribute 'kernel_shape'", "[0,3]"}, ints("kernel_shape", {0, 3}));
  add("two pads", kInvalid, {"attribute 'pads'", "[1,1]"}, ints("pads", {1, 1}));
  add("negative pad", kInvalid, {"attribute 'pads'", "[0,0,-1,0]"}, ints("pads", {0, 0, -1, 0}));
  add("huge pad", kUnsupported, {"attribute 'pads'", "65537"}, ints("pads", {0, 65537, 0, 0}));
  add("unknown auto_pad", kInvalid, {"attribute 'auto_pad'", "'SAME'"}, [](OnnxNode n) { n.attr("auto_pad", "SAME"); });
  add("auto_pad with pads", kInvalid, {"attribute 'auto_pad'", "'pads'"}, [](OnnxNode n) {
    n.attr("auto_pad", "SAME_UPPER").ints("pads", {1, 1, 1, 1});
  });
  add("window larger than the image", kInvalid, {"window of 9", "height of 8"}, nothing, {1, 4, 9, 3});
  add("strides of another type", kInvalid, {"attribute 'strides'", "INTS", "INT"},
      [](OnnxNode n) { n.attr("strides", 1); });
  add("no weight", kInvalid, {"must have 2 to 3 inputs", "has 1"},
      [](OnnxNode n) { n.proto().mutable_input()->RemoveLast(); });
  add("empty weight", kInvalid, {"input #1", "missing"}, [](OnnxNode n) { n.proto().set_input(1, ""); });
  add("four inputs", kInvalid, {"has 4"}, [](OnnxNode n) {
    n.proto().add_input("w");
    n.proto().add_input("w");
  });
  add("bias of another length", kInvalid, {"input #2 'w'", "must have shape 6"},
      [](OnnxNode n) { n.proto().add_input("w"); });
  add("weight that is an activation", kUnsupported, {"input #1 'x'", "constant"},
      [](OnnxNode n) { n.proto().set_input(1, "x"); });
  add("input that is a constant", kUnsupported, {"input #0 'w'", "activation"},
      [](OnnxNode n) { n.proto().set_input(0, "w"); });
  list.add("integer weight", kInvalid, {"input #1 'w'", "floating-point"}, [](auto& b) {
    b.ints("w", {1, 4, 1, 1}, {1, 1, 1, 1}).node("Conv", {"x", "w"}, {"y"});
  });
  const auto row = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words, const Dims& dims,
                       const std::function<void(OnnxNode)>& spoil) {
    list.add("1-D convolution: " + name, code, words, [&](auto& b) {
      b.ints("s", {3}, {0, 4, 64}).node("Reshape", {"x", "s"}, {"rows"});
      weight(b, dims);
      spoil(b.node("Conv", {"rows", "w"}, {"y"}, "conv"));
    });
  };
  row("weight of rank 4", kInvalid, {"input #1 'w'", "rank 3 (O, I/group, kW)"}, {1, 4, 1, 3}, nothing);
  row("two strides", kInvalid, {"attribute 'strides'", "1 entries", "[1,1]"}, {1, 4, 3}, ints("strides", {1, 1}));
  row("four pads", kInvalid, {"attribute 'pads'", "2 entries"}, {1, 4, 3}, ints("pads", {0, 1, 0, 1}));
  row("another kernel_shape", kInvalid, {"attribute 'kernel_shape'", "1x4x3"}, {1, 4, 3}, ints("kernel_shape", {5}));
  row("window past the row", kInvalid, {"window of 65", "width of 64"}, {1, 4, 65}, nothing);
  list.add("3-D convolution", kUnsupported, {"input #0 'volume'", "1x4x4x4x4", "3-D windows"}, [](auto& b) {
    b.ints("s", {5}, {0, 4, 4, 4, 4}).node("Reshape", {"x", "s"}, {"volume"});
    weight(b, {1, 4, 1, 1, 1});
    b.node("Conv", {"volume", "w"}, {"y"});
  });
  return list.take();
}

std::vector<Malformed> malformed_norms() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  const auto add = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                       const std::function<void(OnnxBuilder&, OnnxNode&)>& spoil, std::int64_t opset = 13) {
    list.add(name, code, words, opset, [&](OnnxBuilder& b) {
      for (const std::string parameter : {"s", "b", "m", "v"}) b.floats(parameter, {2}, {1, 1});
      OnnxNode node = b.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, "bn");
      spoil(b, node);
    });
  };
  const auto resize = [](int position) {
    return [position](OnnxBuilder& b, OnnxNode&) {
      *b.graph().mutable_initializer(position) = tensor(b.graph().initializer(position).name(), {3}, ones(3));
    };
  };
  add("scale of another length", kInvalid, {"'bn'", "input #1 's'", "shape 2", "has 3"}, resize(0));
  add("bias of another length", kInvalid, {"input #2 'b'", "has 3"}, resize(1));
  add("mean of another length", kInvalid, {"input #3 'm'", "has 3"}, resize(2));
  add("variance of another length", kInvalid, {"input #4 'v'", "has 3"}, resize(3));
  add("negative variance", kInvalid, {"input #4 'v'", "channel 1"}, [](OnnxBuilder& b, OnnxNode&) {
    *b.graph().mutable_initializer(3) = tensor("v", {2}, std::vector<float>{1, -1});
  });
  add("variance 0 and epsilon 0", kInvalid, {"input #4 'v'", "channel 0"}, [](OnnxBuilder& b, OnnxNode& node) {
    *b.graph().mutable_initializer(3) = tensor("v", {2}, std::vector<float>{0, 1});
    node.attr("epsilon", 0.0F);
  });
  add("negative epsilon", kInvalid, {"attribute 'epsilon'", "-1"},
      [](OnnxBuilder&, OnnxNode& node) { node.attr("epsilon", -1.0F); });
  add("infinite epsilon", kInvalid, {"attribute 'epsilon'", "inf"},
      [](OnnxBuilder&, OnnxNode& node) { node.attr("epsilon", std::numeric_limits<float>::infinity()); });
  add(
      "training mode", kUnsupported, {"attribute 'training_mode'", "eval()"},
      [](OnnxBuilder&, OnnxNode& node) { node.attr("training_mode", 1); }, 14);
  add(
      "training mode 2", kInvalid, {"attribute 'training_mode'", "got 2"},
      [](OnnxBuilder&, OnnxNode& node) { node.attr("training_mode", 2); }, 15);
  add(
      "training mode before it existed", kInvalid, {"attribute 'training_mode'", "opset 9"},
      [](OnnxBuilder&, OnnxNode& node) { node.attr("training_mode", 0); }, 9);
  add("no variance", kInvalid, {"must have 5 inputs", "has 4"},
      [](OnnxBuilder&, OnnxNode& node) { node.proto().mutable_input()->RemoveLast(); });
  add("mean that is an activation", kUnsupported, {"input #3 'x'", "constant"},
      [](OnnxBuilder&, OnnxNode& node) { node.proto().set_input(3, "x"); });
  return list.take();
}

std::vector<Malformed> malformed_pools() {
  MalformedList list(13, {kDynamic, 2, 6, 6});
  const auto add = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                       const std::function<void(OnnxNode&)>& spoil, std::int64_t opset = 13) {
    for (const std::string op : {"AveragePool", "MaxPool"}) {
      std::vector<std::string> all{"node #0 'pool' (" + op + ")"};
      all.insert(all.end(), words.begin(), words.end());
      list.add(op + ": " + name, code, all, opset, [&](OnnxBuilder& b) {
        OnnxNode node = b.node(op, {"x"}, {"y"}, "pool");
        spoil(node);
      });
    }
  };
  add("no window", kInvalid, {"attribute 'kernel_shape'", "missing"}, [](OnnxNode&) {});
  add("window 0", kInvalid, {"attribute 'kernel_shape'", "[0,2]"}, [](OnnxNode& n) { n.ints("kernel_shape", {0, 2}); });
  add("window of one extent", kInvalid, {"attribute 'kernel_shape'", "[2]"},
      [](OnnxNode& n) { n.ints("kernel_shape", {2}); });
  add("window larger than the image", kInvalid, {"window of 7", "width of 6"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 7});
  });
  add("huge window", kUnsupported, {"attribute 'kernel_shape'", "65537"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 65537});
  });
  add("stride 0", kInvalid, {"attribute 'strides'", "[0,0]"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 2}).ints("strides", {0, 0});
  });
  add("negative pad", kInvalid, {"attribute 'pads'", "[-1,0,0,0]"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 2}).ints("pads", {-1, 0, 0, 0});
  });
  add("pad as large as the window", kInvalid, {"'pads'", "window's 2", "got 2 and 0"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 2}).ints("pads", {2, 0, 0, 0});
  });
  add("ceil_mode 2", kInvalid, {"attribute 'ceil_mode'", "got 2"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 2}).attr("ceil_mode", 2);
  });
  add(
      "ceil_mode before it existed", kInvalid, {"attribute 'ceil_mode'", "opset 9"},
      [](OnnxNode& n) {
        n.ints("kernel_shape", {2, 2}).attr("ceil_mode", 1);
      },
      9);
  add(
      "dilation 0", kInvalid, {"attribute 'dilations'", "[2,0]"},
      [](OnnxNode& n) {
        n.ints("kernel_shape", {2, 2}).ints("dilations", {2, 0});
      },
      19);
  add(
      "dilation past the image", kInvalid, {"window of 7", "height of 6"},
      [](OnnxNode& n) {
        n.ints("kernel_shape", {2, 2}).ints("dilations", {6, 1});
      },
      19);
  add("auto_pad in small letters", kInvalid, {"attribute 'auto_pad'", "'same_upper'"}, [](OnnxNode& n) {
    n.ints("kernel_shape", {2, 2}).attr("auto_pad", "same_upper");
  });
  list.add("GlobalAveragePool of a matrix", kUnsupported, {"input #0 'flat'", "1x72"}, [](auto& b) {
    b.node("Flatten", {"x"}, {"flat"});
    b.node("GlobalAveragePool", {"flat"}, {"y"});
  });
  return list.take();
}

std::vector<Malformed> malformed_matrices() {
  MalformedList list(13, {kDynamic, 3});
  const auto add = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                       const Dims& b_dims, const Dims& c_dims, const std::function<void(OnnxNode&)>& spoil) {
    std::vector<std::string> all{"node #0 'fc' (Gemm)"};
    all.insert(all.end(), words.begin(), words.end());
    list.add(name, code, all, [&](OnnxBuilder& b) {
      weight(b, b_dims);
      std::int64_t count = 1;
      for (const std::int64_t dim : c_dims) count *= dim;
      b.floats("c", c_dims, ones(count));
      OnnxNode node = b.node("Gemm", {"x", "w", "c"}, {"y"}, "fc");
      spoil(node);
    });
  };
  const auto nothing = [](OnnxNode&) {};
  add("features of another number", kInvalid, {"input #1 'w'", "4 features", "3"}, {4, 2}, {2}, nothing);
  add("features of another number, transposed", kInvalid, {"input #1 'w'", "2 features"}, {3, 2}, {2},
      [](OnnxNode& n) { n.attr("transB", 1); });
  add("transA", kUnsupported, {"attribute 'transA'", "batch"}, {3, 2}, {2}, [](OnnxNode& n) { n.attr("transA", 1); });
  add("transB 7", kInvalid, {"attribute 'transB'", "got 7"}, {3, 2}, {2}, [](OnnxNode& n) { n.attr("transB", 7); });
  add("B of rank 3", kUnsupported, {"input #1 'w'", "matrix", "1x3x2"}, {1, 3, 2}, {2}, nothing);
  add("B without elements", kInvalid, {"input #1 'w'", "no elements"}, {3, 0}, {2}, nothing);
  add("C of another length", kUnsupported, {"input #2 'c'", "(2)", "has shape 5"}, {3, 2}, {5}, nothing);
  add("C for each picture", kUnsupported, {"input #2 'c'", "4x2"}, {3, 2}, {4, 2}, nothing);
  add("C without elements", kUnsupported, {"input #2 'c'"}, {3, 2}, {0}, nothing);
  add("alpha of another type", kInvalid, {"attribute 'alpha'", "FLOAT", "INT"}, {3, 2}, {2},
      [](OnnxNode& n) { n.attr("alpha", 2); });
  add("A that is constant", kUnsupported, {"input #0 'w'", "constant"}, {3, 2}, {2},
      [](OnnxNode& n) { n.proto().set_input(0, "w"); });
  add("B that is an activation", kUnsupported, {"input #1 'x'", "constant"}, {3, 2}, {2},
      [](OnnxNode& n) { n.proto().set_input(1, "x"); });
  list.add("Gemm without C before opset 11", kInvalid, {"(Gemm)", "3 inputs", "opset 9"}, 9, [](auto& b) {
    weight(b, {3, 2});
    b.node("Gemm", {"x", "w"}, {"y"});
  });
  list.add("MatMul of other features", kInvalid, {"(MatMul)", "input #1 'w'", "4 features"}, [](auto& b) {
    weight(b, {4, 2});
    b.node("MatMul", {"x", "w"}, {"y"});
  });
  list.add("MatMul with a vector", kUnsupported, {"(MatMul)", "input #1 'w'", "matrix"}, [](auto& b) {
    weight(b, {3});
    b.node("MatMul", {"x", "w"}, {"y"});
  });
  list.add("MatMul of an image", kInvalid, {"(MatMul)", "input #1", "takes 2 features, but the input has 1"},
           [](auto& b) {
             b.ints("s", {4}, {0, 3, 1, 1}).node("Reshape", {"x", "s"}, {"image"});
             weight(b, {2, 1});
             b.node("MatMul", {"image", "w"}, {"y"});
           });
  return list.take();
}

}  // namespace mobicuda::test
