// Operators on shapes, elementwise operators, reductions, softmax and padding.

#include <limits>
#include <optional>

#include "malformed.h"

namespace mobicuda::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

// Uses the constant "c" as the shape of a Reshape, so that the nodes before are needed.
void use(OnnxBuilder& builder) { builder.node("Reshape", {"x", "c"}, {"y"}, "use"); }

}  // namespace

std::vector<Malformed> malformed_shape_operators() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  const auto reshape = [&](const std::string& name, ErrorCode code, const std::string& word, const Dims& target) {
    list.add("Reshape to " + name, code, {"node #0 'r' (Reshape)", word}, [&](OnnxBuilder& b) {
      b.ints("s", {static_cast<std::int64_t>(target.size())}, target).node("Reshape", {"x", "s"}, {"y"}, "r");
    });
  };
  reshape("two -1", kInvalid, "more than one -1", {0, -1, -1});
  reshape("a shape that does not divide", kInvalid, "does not divide", {0, 5, -1});
  reshape("other elements", kInvalid, "does not hold", {0, 5});
  reshape("-2", kInvalid, "negative", {0, -2});
  reshape("nothing", kInvalid, "[]", {});
  reshape("a copied axis that is not there", kInvalid, "copies axis 4", {0, 2, 4, 4, 0});
  reshape("a product that overflows", kInvalid, "overflows", {0, std::int64_t{1} << 62, 4});
  reshape("rank 9", kUnsupported, "got 9", {0, 2, 4, 4, 1, 1, 1, 1, 1});
  list.add("Reshape with allowzero", kInvalid, {"(Reshape)", "does not hold"}, 14, [](auto& b) {
    b.ints("s", {2}, {0, 32}).node("Reshape", {"x", "s"}, {"y"}).attr("allowzero", 1);
  });
  list.add("Reshape by floats", kInvalid, {"input #1 's'", "integer"}, [](auto& b) {
    b.floats("s", {2}, {0, 32}).node("Reshape", {"x", "s"}, {"y"});
  });
  list.add("Reshape by a matrix", kInvalid, {"input #1 's'", "1x2"}, [](auto& b) {
    b.ints("s", {1, 2}, {0, 32}).node("Reshape", {"x", "s"}, {"y"});
  });
  list.add("Reshape by an activation", kUnsupported, {"input #1 'x'", "constant"}, [](auto& b) {
    b.node("Reshape", {"x", "x"}, {"y"});
  });
  list.add("Flatten axis 5", kInvalid, {"attribute 'axis'", "got 5"},
           [](auto& b) { b.node("Flatten", {"x"}, {"y"}).attr("axis", 5); });
  list.add("Flatten axis -5", kInvalid, {"attribute 'axis'", "got -5"},
           [](auto& b) { b.node("Flatten", {"x"}, {"y"}).attr("axis", -5); });
  list.add("Flatten axis -1 before opset 11", kInvalid, {"attribute 'axis'", "opset 9", "got -1"}, 9,
           [](auto& b) { b.node("Flatten", {"x"}, {"y"}).attr("axis", -1); });
  list.add("Squeeze of an axis that is not 1", kInvalid, {"(Squeeze)", "axis 1"}, [](auto& b) {
    b.ints("a", {1}, {1}).node("Squeeze", {"x", "a"}, {"y"});
  });
  list.add("Squeeze of axis 9", kInvalid, {"(Squeeze)", "got 9"}, [](auto& b) {
    b.ints("a", {1}, {9}).node("Squeeze", {"x", "a"}, {"y"});
  });
  list.add("Squeeze of an axis twice", kInvalid, {"(Squeeze)", "[2,-2]", "twice"}, 11, [](auto& b) {
    b.node("Squeeze", {"x"}, {"y"}).ints("axes", {2, -2});
  });
  list.add("Squeeze with many axes", kInvalid, {"(Squeeze)", "9 axes"}, 11,
           [](auto& b) { b.node("Squeeze", {"x"}, {"y"}).ints("axes", Dims(9, 2)); });
  list.add("Squeeze of the batch", kInvalid, {"(Squeeze)", "axis 0", "[N,2,4,4]"}, [](auto& b) {
    b.ints("a", {1}, {0}).node("Squeeze", {"x", "a"}, {"y"});
  });
  list.add("Unsqueeze without axes", kInvalid, {"(Unsqueeze)", "no axes"}, 11,
           [](auto& b) { b.node("Unsqueeze", {"x"}, {"y"}); });
  list.add("Unsqueeze to rank 9", kUnsupported, {"(Unsqueeze)", "got 9"}, 11, [](auto& b) {
    b.node("Unsqueeze", {"x"}, {"y"}).ints("axes", {4, 5, 6, 7, 8});
  });
  list.add("Unsqueeze of axis -7", kInvalid, {"(Unsqueeze)", "got -7"}, 11,
           [](auto& b) { b.node("Unsqueeze", {"x"}, {"y"}).ints("axes", {-7}); });
  for (const Dims& permutation : {Dims{0, 1, 2}, Dims{0, 1, 1, 2}, Dims{0, 1, 2, 4}, Dims{0, 1, 2, -1}, Dims{}}) {
    list.add("Transpose by " + std::to_string(permutation.size()) + " axes ending in " +
                 (permutation.empty() ? "none" : std::to_string(permutation.back())),
             kInvalid, {"attribute 'perm'", "4 axes"},
             [&](auto& b) { b.node("Transpose", {"x"}, {"y"}).ints("perm", permutation); });
  }
  const auto fold = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                        const MalformedList::Spoil& spoil) {
    list.add(name, code, words, [&](OnnxBuilder& b) {
      b.ints("v", {3}, {0, 4, 8}).ints("one", {1}, {1}).ints("zero", {1}, {0}).ints("m", {2, 2}, {1, 2, 3, 4});
      spoil(b);
      use(b);
    });
  };
  fold("Gather past the end", kInvalid, {"(Gather)", "input #1 'i'", "got 3"}, [](auto& b) {
    b.ints("i", {1}, {3}).node("Gather", {"v", "i"}, {"c"});
  });
  fold("Gather before the beginning", kInvalid, {"(Gather)", "got -4"}, [](auto& b) {
    b.ints("i", {1}, {-4}).node("Gather", {"v", "i"}, {"c"});
  });
  fold("Gather along axis 1 of a list", kInvalid, {"(Gather)", "axis", "got 1"}, [](auto& b) {
    b.node("Gather", {"v", "one"}, {"c"}).attr("axis", 1);
  });
  fold("Gather by floats", kInvalid, {"(Gather)", "integer"}, [](auto& b) {
    b.floats("i", {1}, {0}).node("Gather", {"v", "i"}, {"c"});
  });
  fold("Slice with step 0", kInvalid, {"(Slice)", "step", "0"}, [](auto& b) {
    b.node("Slice", {"v", "zero", "one", "zero", "zero"}, {"c"});
  });
  fold("Slice with lists of different lengths", kInvalid, {"(Slice)", "equally long", "[0,4,8]"}, [](auto& b) {
    b.node("Slice", {"v", "zero", "v"}, {"c"});
  });
  fold("Slice along axis 5", kInvalid, {"(Slice)", "got 5"}, [](auto& b) {
    b.ints("five", {1}, {5}).node("Slice", {"v", "zero", "one", "five"}, {"c"});
  });
  fold("Concat without an axis", kInvalid, {"(Concat)", "attribute 'axis'", "missing"}, [](auto& b) {
    b.node("Concat", {"v", "one"}, {"c"});
  });
  fold("Concat of ranks 1 and 2", kInvalid, {"(Concat)", "input #1 'm'", "2x2"}, [](auto& b) {
    b.node("Concat", {"v", "m"}, {"c"}).attr("axis", 0);
  });
  fold("Concat of integers and floats", kInvalid, {"(Concat)", "input #1 'f'"}, [](auto& b) {
    b.floats("f", {1}, {1}).node("Concat", {"v", "f"}, {"c"}).attr("axis", 0);
  });
  fold("Concat along axis 1 of lists", kInvalid, {"(Concat)", "axis", "got 1"}, [](auto& b) {
    b.node("Concat", {"v", "one"}, {"c"}).attr("axis", 1);
  });
  fold("Expand to a shape that does not fit", kInvalid, {"(Expand)", "[2]"}, [](auto& b) {
    b.ints("two", {1}, {2}).node("Expand", {"v", "two"}, {"c"});
  });
  fold("ConstantOfShape with a negative extent", kInvalid, {"(ConstantOfShape)", "[-1]"},
       [](auto& b) { b.ints("n", {1}, {-1}).node("ConstantOfShape", {"n"}, {"c"}); });
  fold("ConstantOfShape with two values", kInvalid, {"(ConstantOfShape)", "attribute 'value'", "shape 2"}, [](auto& b) {
    b.node("ConstantOfShape", {"one"}, {"c"}).attr("value", tensor("", {2}, std::vector<std::int64_t>{1, 2}));
  });
  fold("ConstantOfShape of 2^40 elements", kUnsupported, {"(ConstantOfShape)", "1099511627776"},
       [](auto& b) { b.ints("n", {1}, {std::int64_t{1} << 40}).node("ConstantOfShape", {"n"}, {"c"}); });
  fold("ConstantOfShape whose elements overflow", kInvalid, {"(ConstantOfShape)", "overflows"}, [](auto& b) {
    b.ints("n", {2}, {std::int64_t{1} << 40, std::int64_t{1} << 40}).node("ConstantOfShape", {"n"}, {"c"});
  });
  fold("Expand to 2^40 elements", kUnsupported, {"(Expand)", "1099511627776"}, [](auto& b) {
    b.ints("n", {1}, {std::int64_t{1} << 40}).node("Expand", {"one", "n"}, {"c"});
  });
  fold("Expand of a constant by the batch", kUnsupported, {"(Expand)", "[N]", "depends on the batch size"},
       [](auto& b) {
         b.node("Shape", {"x"}, {"shape"});
         b.node("Gather", {"shape", "zero"}, {"n"});
         b.node("Expand", {"v", "n"}, {"c"});
       });
  fold("Reshape of a constant by the batch", kUnsupported, {"(Reshape)", "depends on the batch size"}, [](auto& b) {
    b.node("Shape", {"x"}, {"shape"});
    b.node("Gather", {"shape", "zero"}, {"n"});
    b.node("Reshape", {"m", "n"}, {"c"});
  });
  fold("ReduceSum over axis 1 of a list", kInvalid, {"(ReduceSum)", "got 1"}, [](auto& b) {
    b.node("ReduceSum", {"v", "one"}, {"c"});
  });
  fold("ReduceMean of integers", kUnsupported, {"(ReduceMean)", "input #0 'v'", "integers"},
       [](auto& b) { b.node("ReduceMean", {"v"}, {"c"}); });
  fold("ReduceProd that overflows", kInvalid, {"(ReduceProd)", "overflows"}, [](auto& b) {
    b.ints("n", {2}, {std::int64_t{1} << 40, std::int64_t{1} << 40}).node("ReduceProd", {"n"}, {"c"});
  });
  fold("ReduceMax of nothing", kUnsupported, {"(ReduceMax)", "no elements"},
       [](auto& b) { b.ints("n", {0}, {}).node("ReduceMax", {"n"}, {"c"}); });
  fold("Pow of integers", kUnsupported, {"(Pow)", "power of integers"}, [](auto& b) {
    b.node("Pow", {"v", "one"}, {"c"});
  });
  fold("Range with step 0", kInvalid, {"(Range)", "step"}, [](auto& b) {
    b.ints("a", {}, {0}).node("Range", {"a", "one", "zero"}, {"c"});
  });
  fold("Range without end", kUnsupported, {"(Range)", "65536"}, [](auto& b) {
    b.ints("n", {1}, {std::int64_t{1} << 62}).node("Range", {"zero", "n", "one"}, {"c"});
  });
  fold("Range of floats without end", kUnsupported, {"(Range)", "65536"}, [](auto& b) {
    b.floats("a", {}, {0}).floats("e", {}, {1e30F}).floats("s", {}, {1}).node("Range", {"a", "e", "s"}, {"c"});
  });
  fold("division by 0", kInvalid, {"(Div)", "divides", "by 0"}, [](auto& b) { b.node("Div", {"v", "zero"}, {"c"}); });
  fold("sum that overflows", kInvalid, {"(Add)", "overflows"}, [](auto& b) {
    b.ints("n", {1}, {9223372036854775807}).node("Add", {"n", "one"}, {"c"});
  });
  fold("product that overflows", kInvalid, {"(Mul)", "overflows"}, [](auto& b) {
    b.ints("n", {1}, {std::int64_t{1} << 40}).node("Mul", {"n", "n"}, {"c"});
  });
  fold("negation that overflows", kInvalid, {"(Neg)", "overflows"},
       [](auto& b) { b.ints("n", {1}, {std::numeric_limits<std::int64_t>::min()}).node("Neg", {"n"}, {"c"}); });
  fold("operands that do not broadcast", kInvalid, {"(Add)", "3 and 2"}, [](auto& b) {
    b.ints("n", {2}, {1, 2}).node("Add", {"v", "n"}, {"c"});
  });
  fold("operands of two types", kInvalid, {"(Add)", "one type"}, [](auto& b) {
    b.floats("f", {1}, {1}).node("Add", {"v", "f"}, {"c"});
  });
  fold("cast of NaN to an integer", kInvalid, {"(Cast)", "nan"}, [](auto& b) {
    b.floats("f", {1}, {std::numeric_limits<float>::quiet_NaN()}).node("Cast", {"f"}, {"c"}).attr("to", 7);
  });
  fold("cast of 1e30 to an integer", kInvalid, {"(Cast)", "overflows"},
       [](auto& b) { b.floats("f", {1}, {1e30F}).node("Cast", {"f"}, {"c"}).attr("to", 7); });
  fold("cast to a string", kUnsupported, {"(Cast)", "attribute 'to'", "STRING"},
       [](auto& b) { b.node("Cast", {"v"}, {"c"}).attr("to", 8); });
  return list.take();
}

std::vector<Malformed> malformed_elementwise() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  list.add("Clip by a list", kInvalid, {"(Clip)", "input #1 'c'", "shape 2"}, [](auto& b) {
    b.floats("c", {2}, {0, 6}).node("Clip", {"x", "c"}, {"y"});
  });
  list.add("Clip by integers", kInvalid, {"(Clip)", "input #2 'c'", "floating-point"}, [](auto& b) {
    b.ints("c", {}, {6}).node("Clip", {"x", "", "c"}, {"y"});
  });
  list.add("Clip by an activation", kUnsupported, {"(Clip)", "input #1 'x'", "constant"}, [](auto& b) {
    b.node("Clip", {"x", "x"}, {"y"});
  });
  list.add("Clip with attributes at opset 11", kInvalid, {"(Clip)", "attribute 'min'", "opset 13"},
           [](auto& b) { b.node("Clip", {"x"}, {"y"}).attr("min", 0.0F); });
  list.add("Clip with inputs before opset 11", kInvalid, {"(Clip)", "1 inputs", "has 2"}, 9, [](auto& b) {
    b.floats("c", {}, {0}).node("Clip", {"x", "c"}, {"y"});
  });
  list.add("Relu of nothing", kInvalid, {"(Relu)", "1 inputs", "has 0"}, [](auto& b) { b.node("Relu", {}, {"y"}); });
  list.add("Relu of an empty name", kInvalid, {"(Relu)", "input #0", "missing"},
           [](auto& b) { b.node("Relu", {""}, {"y"}); });
  list.add("Add of one operand", kInvalid, {"(Add)", "has 1"}, [](auto& b) { b.node("Add", {"x"}, {"y"}); });
  list.add("Add of integers", kInvalid, {"(Add)", "input #1 'c'", "floating-point"}, [](auto& b) {
    b.ints("c", {}, {1}).node("Add", {"x", "c"}, {"y"});
  });
  list.add("Add of an empty constant", kUnsupported, {"(Add)", "input #1 'c'"}, [](auto& b) {
    b.floats("c", {0}, {}).node("Add", {"x", "c"}, {"y"});
  });
  list.add("Sum of nothing", kInvalid, {"(Sum)", "1 or more"}, [](auto& b) { b.node("Sum", {}, {"y"}); });
  list.add("Sum with a gap", kInvalid, {"(Sum)", "input #1", "missing"}, [](auto& b) {
    b.node("Sum", {"x", "", "x"}, {"y"});
  });
  list.add("Max of nothing", kInvalid, {"(Max)", "1 or more", "has 0"}, [](auto& b) { b.node("Max", {}, {"y"}); });
  list.add("Min with a gap", kInvalid, {"(Min)", "input #1", "missing"}, [](auto& b) {
    b.node("Min", {"x", "", "x"}, {"y"});
  });
  list.add("Min of a constant that has NaN for a channel", kInvalid, {"(Min)", "input #0 'c'", "NaN"}, [](auto& b) {
    b.floats("c", {2, 1, 1}, {1, std::numeric_limits<float>::quiet_NaN()}).node("Min", {"c", "x"}, {"y"});
  });
  list.add("Min with the attributes of Add before opset 7", kInvalid, {"(Min)", "attribute 'axis'"}, 6, [](auto& b) {
    b.floats("c", {2}, {1, 2}).node("Min", {"x", "c"}, {"y"}).attr("axis", 1);
  });
  list.add("Max of integers", kInvalid, {"(Max)", "input #1 'c'"}, [](auto& b) {
    b.ints("c", {}, {1}).node("Max", {"x", "c"}, {"y"});
  });
  return list.take();
}

std::vector<Malformed> malformed_reductions() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  const auto reduce = [&](const std::string& name, ErrorCode code, const std::string& word, const Dims& axes) {
    list.add("ReduceMean over " + name, code, {"(ReduceMean)", word},
             [&](auto& b) { b.node("ReduceMean", {"x"}, {"y"}).ints("axes", axes); });
  };
  reduce("axis 4", kInvalid, "got 4", {4});
  reduce("axis -5", kInvalid, "got -5", {-5});
  reduce("an axis twice", kInvalid, "[2,-2]", {2, -2});
  reduce("the batch", kUnsupported, "[0]", {0});
  reduce("everything", kUnsupported, "[0,1,2,3]", {});
  list.add("ReduceMean with axes as input before opset 18", kInvalid, {"(ReduceMean)", "opset 13", "has 2"},
           [](auto& b) {
             b.ints("a", {2}, {2, 3}).node("ReduceMean", {"x", "a"}, {"y"});
           });
  list.add("ReduceMean with axes as attribute since opset 18", kInvalid, {"attribute 'axes'", "opset 18"}, 18,
           [](auto& b) {
             b.node("ReduceMean", {"x"}, {"y"}).ints("axes", {2, 3});
           });
  const auto concat = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                          const std::vector<std::string>& inputs, std::optional<int> axis) {
    list.add("Concat of activations: " + name, code, words, [&](auto& b) {
      b.floats("c", {1, 2, 4, 4}, std::vector<float>(32, 1)).node("Flatten", {"x"}, {"flat"});
      b.node("GlobalAveragePool", {"x"}, {"mean"});
      OnnxNode node = b.node("Concat", inputs, {"y"}, "join");
      if (axis) node.attr("axis", *axis);
    });
  };
  concat("no axis", kInvalid, {"'join' (Concat)", "attribute 'axis'", "missing"}, {"x", "x"}, {});
  concat("the batch", kUnsupported, {"attribute 'axis'", "0 of 1x2x4x4", "pictures"}, {"x", "x"}, 0);
  concat("axis 4", kInvalid, {"'join' (Concat)", "got 4"}, {"x", "x"}, 4);
  concat("other extents", kInvalid, {"input #1 'mean'", "1x2x1x1", "1x2x4x4", "axis 1"}, {"x", "mean"}, 1);
  concat("other ranks", kInvalid, {"input #2 'flat'", "1x32"}, {"x", "x", "flat"}, 1);
  concat("a constant", kUnsupported, {"input #1 'c'", "1x2x4x4", "1x2x1x1"}, {"mean", "c"}, 1);
  const auto slice = [&](const std::string& name, const std::string& word, std::int64_t axis, std::int64_t start,
                         std::int64_t end, std::int64_t step) {
    list.add("Slice of an activation: " + name, kUnsupported, {"'part' (Slice)", word}, [&](auto& b) {
      b.ints("s", {1}, {start}).ints("e", {1}, {end}).ints("a", {1}, {axis}).ints("st", {1}, {step});
      b.node("Slice", {"x", "s", "e", "a", "st"}, {"y"}, "part");
    });
  };
  slice("every second channel", "0..2 with step 2 along axis 1 of 1x2x4x4", 1, 0, 2, 2);
  slice("every second channel to the end", "0..end with step 2", 1, 0, std::numeric_limits<std::int64_t>::max(), 2);
  slice("steps past all windows", "with step 65537 along axis 2", 2, 0, 4, 65537);
  slice("backwards", "with step -1", 2, 4, 0, -1);
  slice("step 0", "with step 0", 2, 0, 4, 0);
  slice("the first picture", "it cuts the batch", 0, 0, 1, 1);
  slice("every second picture", "it cuts the batch", 0, 0, std::numeric_limits<std::int64_t>::max(), 2);
  slice("nothing", "3..3 with step 1 along axis 2 of 1x2x4x4 is empty", 2, 3, 3, 1);
  const auto split = [&](const std::string& name, ErrorCode code, const std::string& word, std::int64_t opset,
                         const std::function<void(OnnxNode)>& spoil) {
    list.add("Split " + name, code, {"'part' (Split)", word}, opset, [&](auto& b) {
      spoil(b.node("Split", {"x"}, {"y", "z"}, "part"));
    });
  };
  split("of the batch", kUnsupported, "0 of 1x2x4x4 splits the pictures", 13, [](OnnxNode) {});
  split("into unequal halves", kInvalid, "parts [1,4] of an extent of 4", 11, [](OnnxNode n) {
    n.attr("axis", 2).ints("split", {1, 4});
  });
  split("into too few", kInvalid, "as many as the outputs, 2", 11,
        [](OnnxNode n) { n.attr("axis", 2).ints("split", {4}); });
  split("into three of two", kInvalid, "'num_outputs'", 18,
        [](OnnxNode n) { n.attr("axis", 2).attr("num_outputs", 3); });
  split("with a part of -1", kInvalid, "parts [-1,5]", 11, [](OnnxNode n) {
    n.attr("axis", 2).ints("split", {-1, 5});
  });
  split("with a part of 0", kUnsupported, "without elements", 11, [](OnnxNode n) {
    n.attr("axis", 2).ints("split", {0, 4});
  });
  const auto sequence = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                            const Dims& shape, const Dims& parts, std::int64_t index, std::int64_t axis = 2) {
    list.add("SplitToSequence: " + name, code, words, [&](auto& b) {
      b.ints("p", shape, parts).ints("i", {}, {index});
      b.node("SplitToSequence", {"x", "p"}, {"s"}, "cut").attr("axis", axis);
      b.node("SequenceAt", {"s", "i"}, {"y"}, "part");
    });
  };
  sequence("parts of 0", kInvalid, {"'cut' (SplitToSequence)", "input #1 'p'", "> 0, got 0"}, {}, {0}, 0);
  sequence("of the batch", kUnsupported, {"'cut'", "splits the pictures"}, {}, {1}, 0, 0);
  sequence("of axis 4", kInvalid, {"'cut'", "got 4"}, {}, {1}, 0, 4);
  sequence("too large a part", kInvalid, {"'cut'", "[1,4]", "extent of 4"}, {2}, {1, 4}, 0);
  sequence("too little", kInvalid, {"'cut'", "[1,2]", "extent of 4"}, {2}, {1, 2}, 0);
  sequence("a part past the end", kInvalid, {"'part' (SequenceAt)", "-2 to 1, got 2"}, {}, {2}, 2);
  sequence("a part before the beginning", kInvalid, {"'part' (SequenceAt)", "got -3"}, {}, {2}, -3);
  sequence("an empty part", kUnsupported, {"'part' (SequenceAt)", "without elements"}, {2}, {0, 4}, 0);
  list.add("SequenceAt of a tensor", kUnsupported, {"(SequenceAt)", "input #0 'x'", "sequence"}, [](auto& b) {
    b.ints("i", {}, {0}).node("SequenceAt", {"x", "i"}, {"y"});
  });
  list.add("Relu of a sequence", kUnsupported, {"(Relu)", "input #0 's'", "is a sequence"}, [](auto& b) {
    b.node("SplitToSequence", {"x"}, {"s"}).attr("axis", 1);
    b.node("Relu", {"s"}, {"y"});
  });
  list.add("a sequence as output", kUnsupported, {"node #0 (SplitToSequence)", "output 'y'"},
           [](auto& b) { b.node("SplitToSequence", {"x"}, {"y"}).attr("axis", 1); });
  const auto expand = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                          const Dims& shape) {
    list.add("Expand of an activation " + name, code, words, [&](auto& b) {
      b.ints("s", {static_cast<std::int64_t>(shape.size())}, shape).node("GlobalAveragePool", {"x"}, {"mean"});
      b.node("Expand", {"mean", "s"}, {"large"}, "grow");
      b.node("Add", {"x", "large"}, {"y"}, "sum");
    });
  };
  expand("that an Add reads", kUnsupported, {"'sum' (Add)", "1x2x1x1", "1x2x4x4", "only a Mul"}, {1, 2, 4, 4});
  expand("to other channels", kInvalid, {"'grow' (Expand)", "[1,3,4,4]", "does not fit"}, {1, 3, 4, 4});
  expand("to more pictures", kUnsupported, {"'grow' (Expand)", "[5,2,4,4]", "batch"}, {5, 2, 4, 4});
  expand("to rank 5", kUnsupported, {"'grow' (Expand)", "batch"}, {1, 1, 2, 4, 4});
  expand("to nothing", kUnsupported, {"'grow' (Expand)", "does not fit"}, {1, 2, 0, 4});
  expand("to -1", kInvalid, {"'grow' (Expand)", "does not fit"}, {1, 2, -1, 4});
  list.add("Expand of an activation that a Mul of another shape reads", kUnsupported, {"(Mul)", "1x2x1x1", "1x2x2x4"},
           [](auto& b) {
             b.ints("s", {4}, {1, 2, 2, 4}).node("GlobalAveragePool", {"x"}, {"mean"});
             b.node("Expand", {"mean", "s"}, {"large"});
             b.node("Mul", {"x", "large"}, {"y"});
           });
  const auto gather = [&](const std::string& name, ErrorCode code, const std::string& word, const Dims& dims,
                          const Dims& indices, std::int64_t axis) {
    list.add("Gather of an activation: " + name, code, {"'order' (Gather)", word}, [&](auto& b) {
      b.ints("i", dims, indices).node("Gather", {"x", "i"}, {"y"}, "order").attr("axis", axis);
    });
  };
  gather("the batch", kUnsupported, "not along the batch", {1}, {0}, 0);
  gather("a matrix of indices", kUnsupported, "list of integers", {1, 1}, {0}, 1);
  gather("past the end", kInvalid, "-2 to 1, got 2", {2}, {0, 2}, 1);
  gather("nothing", kUnsupported, "0 runs", {0}, {}, 1);
  gather("too many runs", kUnsupported, "65 runs", {65}, Dims(65, 1), 1);
  list.add("ReduceSum over the batch", kUnsupported, {"(ReduceSum)", "[0]", "pictures"}, [](auto& b) {
    b.ints("a", {1}, {0}).node("ReduceSum", {"x", "a"}, {"y"});
  });
  list.add("ReduceSum over all but the batch to a list", kUnsupported, {"(ReduceSum)", "keepdims"}, [](auto& b) {
    b.ints("a", {3}, {1, 2, 3}).node("ReduceSum", {"x", "a"}, {"y"}).attr("keepdims", 0);
  });
  list.add("CastLike of an activation to integers", kUnsupported, {"(CastLike)", "input #1 'i'", "integers"}, 15,
           [](auto& b) {
             b.ints("i", {1}, {7}).node("CastLike", {"x", "i"}, {"y"});
           });
  list.add("Split of 4 into 3", kInvalid, {"(Split)", "4 does not split into 3"}, 13, [](auto& b) {
    b.node("Split", {"x"}, {"y", "u", "v"}).attr("axis", 2);
  });
  list.add("ReduceMean over an activation", kUnsupported, {"input #1 'x'", "constant"}, 18, [](auto& b) {
    b.node("ReduceMean", {"x", "x"}, {"y"});
  });
  list.add("keepdims 2", kInvalid, {"attribute 'keepdims'", "got 2"}, [](auto& b) {
    b.node("ReduceMean", {"x"}, {"y"}).ints("axes", {2, 3}).attr("keepdims", 2);
  });
  list.add("Softmax over axis 4", kInvalid, {"(Softmax)", "got 4"},
           [](auto& b) { b.node("Softmax", {"x"}, {"y"}).attr("axis", 4); });
  list.add("Softmax over the batch", kUnsupported, {"attribute 'axis'", "axis -4", "batch"},
           [](auto& b) { b.node("Softmax", {"x"}, {"y"}).attr("axis", -4); });
  const auto pad = [&](const std::string& name, ErrorCode code, const std::string& word, const Dims& pads) {
    list.add("Pad by " + name, code, {"(Pad)", word}, [&](auto& b) {
      b.ints("p", {static_cast<std::int64_t>(pads.size())}, pads).node("Pad", {"x", "p"}, {"y"});
    });
  };
  pad("four numbers", kInvalid, "8 entries", {0, 0, 1, 1});
  pad("a negative number", kUnsupported, "cropping", {0, 0, 0, 0, 0, 0, -1, 0});
  pad("a huge number", kUnsupported, "65537", {0, 0, 0, 0, 0, 0, 0, 65537});
  pad("the batch", kUnsupported, "[1,0,0,0,0,0,0,0] for 1x2x4x4", {1, 0, 0, 0, 0, 0, 0, 0});
  list.add("Pad of a matrix", kUnsupported, {"(Pad)", "(N, C, H, W)", "1x32"}, [](auto& b) {
    b.ints("p", {4}, {0, 1, 0, 0}).node("Flatten", {"x"}, {"flat"});
    b.node("Pad", {"flat", "p"}, {"y"});
  });
  for (const std::string mode : {"wrap", "Constant"}) {
    list.add("Pad of mode " + mode, kUnsupported, {"attribute 'mode'", "'" + mode + "'"}, [&](auto& b) {
      b.ints("p", {8}, Dims(8, 0)).node("Pad", {"x", "p"}, {"y"}).attr("mode", mode);
    });
  }
  list.add("Pad that mirrors more than there is", kInvalid, {"(Pad)", "attribute 'pads'", "1x2x4x4"}, [](auto& b) {
    b.ints("p", {8}, {0, 0, 4, 0, 0, 0, 0, 0}).node("Pad", {"x", "p"}, {"y"}).attr("mode", "reflect");
  });
  list.add("Pad without pads", kInvalid, {"attribute 'pads'", "missing"}, 9,
           [](auto& b) { b.node("Pad", {"x"}, {"y"}); });
  list.add("Pad of axis 7", kInvalid, {"(Pad)", "got 7"}, 18, [](auto& b) {
    b.ints("p", {2}, {1, 1}).ints("a", {1}, {7}).node("Pad", {"x", "p", "", "a"}, {"y"});
  });
  list.add("Pad of an axis twice", kInvalid, {"(Pad)", "twice"}, 18, [](auto& b) {
    b.ints("p", {4}, {1, 1, 1, 1}).ints("a", {2}, {2, 2}).node("Pad", {"x", "p", "", "a"}, {"y"});
  });
  return list.take();
}

}  // namespace mobicuda::test
