#include "ops/op_runs.h"

#include "baselines/cpu_runs.h"
#include "support/catch.h"

namespace mobicuda::test {
namespace {

Graph alone(const Op& op, const TensorDesc& input) {
  GraphBuilder builder("test");
  const ValueId x = builder.set_input("x", input);
  const ValueId y = builder.add_node(op, {x}, Origin{{{0, "op", std::string(op_name(op))}}}, "y");
  return std::move(builder).build(y);
}

}  // namespace

std::vector<float> run_alone(const Op& op, const TensorDesc& input, const std::vector<float>& x) {
  return run(*compile(alone(op, input), Precision::Fp64), x);
}

std::string refusal(const Op& op, const Shape& input) {
  try {
    alone(op, {DType::F32, input, Layout::NCHW});
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_model);
    return error.what();
  }
  return "no error";
}

std::string printed(const Op& op, const Shape& input) {
  const std::string text = print(alone(op, {DType::F32, input, Layout::NCHW}));
  const std::size_t line = text.find('\n') + 1;
  return text.substr(line, text.find('\n', line) - line);
}

}  // namespace mobicuda::test
