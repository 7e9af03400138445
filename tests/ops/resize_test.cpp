// Resize and Upsample from the file to the engines.
#include <cmath>

#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

// A row of three or two pixels, as Resize-13 with these attributes.
Floats resized(const Floats& row, std::int64_t width, const char* mode, const char* coordinates,
               const char* nearest = "round_prefer_floor") {
  OnnxBuilder builder = network(13, {1, 1, 1, static_cast<std::int64_t>(row.size())});
  builder.ints("sizes", {4}, {1, 1, 1, width});
  builder.node("Resize", {"x", "", "", "sizes"}, {"y"})
      .attr("mode", mode)
      .attr("coordinate_transformation_mode", coordinates)
      .attr("nearest_mode", nearest);
  return evaluate(import(builder), row);
}

TEST_CASE("Resize finds the nearest pixel as ONNX says") {
  CHECK(resized({1, 2, 3}, 6, "nearest", "asymmetric", "floor") == Floats{1, 1, 2, 2, 3, 3});
  CHECK(resized({1, 2, 3}, 6, "nearest", "asymmetric", "ceil") == Floats{1, 2, 2, 3, 3, 3});
  CHECK(resized({1, 2, 3}, 6, "nearest", "asymmetric", "round_prefer_floor") == Floats{1, 1, 2, 2, 3, 3});
  CHECK(resized({1, 2, 3}, 6, "nearest", "asymmetric", "round_prefer_ceil") == Floats{1, 2, 2, 3, 3, 3});
  CHECK(resized({1, 2, 3}, 6, "nearest", "half_pixel") == Floats{1, 1, 2, 2, 3, 3});
  CHECK(resized({1, 2, 3, 4}, 2, "nearest", "half_pixel") == Floats{1, 3});
  CHECK(resized({1, 2, 3, 4}, 2, "nearest", "half_pixel", "round_prefer_ceil") == Floats{2, 4});
  CHECK(resized({1, 2, 3, 4}, 2, "nearest", "align_corners") == Floats{1, 4});
}

TEST_CASE("Resize interpolates between pixels as ONNX says") {
  CHECK(resized({0, 8}, 4, "linear", "half_pixel") == Floats{0, 2, 6, 8});
  CHECK(resized({0, 8}, 4, "linear", "pytorch_half_pixel") == Floats{0, 2, 6, 8});
  CHECK(resized({0, 8}, 4, "linear", "half_pixel_symmetric") == Floats{0, 2, 6, 8});
  CHECK(resized({0, 8}, 4, "linear", "asymmetric") == Floats{0, 4, 8, 8});
  CHECK(resized({0, 12}, 4, "linear", "align_corners") == Floats{0, 4, 8, 12});
  CHECK(resized({0, 8}, 1, "linear", "align_corners") == Floats{0});
  CHECK(resized({0, 4, 8, 12}, 2, "linear", "half_pixel") == Floats{2, 10});
}

TEST_CASE("Resize takes factors, sizes, and axes of newer opsets") {
  const Floats expected{1, 1, 2, 2, 1, 1, 2, 2};
  OnnxBuilder scales = network(11, {kDynamic, 1, 1, 2});
  scales.floats("roi", {0}, {}).floats("scales", {4}, {1, 1, 2, 2});
  scales.node("Resize", {"x", "roi", "scales"}, {"y"});
  CHECK(evaluate(import(scales), {1, 2}) == expected);
  OnnxBuilder axes = network(18, {kDynamic, 1, 1, 2});
  axes.ints("sizes", {2}, {4, 2});  // width, height
  axes.node("Resize", {"x", "", "", "sizes"}, {"y"}).ints("axes", {-1, 2});
  CHECK(evaluate(import(axes), {1, 2}) == expected);
  OnnxBuilder old = network(10, {kDynamic, 1, 1, 2});
  old.floats("scales", {4}, {1, 1, 2, 2});
  old.node("Resize", {"x", "scales"}, {"y"});
  CHECK(evaluate(import(old), {1, 2}) == expected);
  OnnxBuilder upsample = network(9, {kDynamic, 1, 1, 2});
  upsample.floats("scales", {4}, {1, 1, 2, 2});
  upsample.node("Upsample", {"x", "scales"}, {"y"}).attr("mode", "nearest");
  CHECK(evaluate(import(upsample), {1, 2}) == expected);
  OnnxBuilder attribute = network(7, {kDynamic, 1, 1, 2});
  attribute.node("Upsample", {"x"}, {"y"}).floats("scales", {1, 1, 2, 2}).attr("mode", "linear");
  CHECK(evaluate(import(attribute), {1, 2}) == Floats{1, 1.5F, 2, 2, 1, 1.5F, 2, 2});
}

// As PyTorch's interpolate(size=...) writes it: the batch from the input's shape, then the extents.
TEST_CASE("Resize takes sizes that begin with the batch") {
  OnnxBuilder builder = network(17, {kDynamic, 2, 2, 2});
  builder.ints("zero", {1}, {0}).ints("two", {1}, {2}).ints("extents", {2}, {4, 4});
  builder.node("Shape", {"x"}, {"shape"});
  builder.node("Slice", {"shape", "zero", "two"}, {"begin"});
  builder.node("Concat", {"begin", "extents"}, {"sizes"}).attr("axis", 0);
  builder.node("Resize", {"x", "", "", "sizes"}, {"y"}).attr("mode", "linear");
  CHECK(import(builder).output_desc().shape == Shape{1, 2, 4, 4});
}

TEST_CASE("Resize is refused where it asks for what is not supported, or makes no sense") {
  const auto refused = [](ErrorCode code, const std::vector<std::string>& words, auto spoil,
                          const std::vector<std::int64_t>& sizes = {1, 2, 8, 8}) {
    OnnxBuilder builder = network(18, {1, 2, 4, 4});
    builder.ints("sizes", {static_cast<std::int64_t>(sizes.size())}, sizes);
    spoil(builder.node("Resize", {"x", "", "", "sizes"}, {"y"}, "up"));
    require_refused(builder, code, words);
  };
  constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
  constexpr ErrorCode kUnsupported = ErrorCode::unsupported;
  const auto as_it_is = [](OnnxNode) {};
  refused(kUnsupported, {"'up' (Resize)", "attribute 'mode'", "'cubic'"}, [](OnnxNode n) { n.attr("mode", "cubic"); });
  refused(kUnsupported, {"attribute 'coordinate_transformation_mode'", "'tf_crop_and_resize'"},
          [](OnnxNode n) { n.attr("coordinate_transformation_mode", "tf_crop_and_resize"); });
  refused(kInvalid, {"attribute 'nearest_mode'", "'simple'"}, [](OnnxNode n) { n.attr("nearest_mode", "simple"); });
  refused(kUnsupported, {"attribute 'antialias'"}, [](OnnxNode n) { n.attr("antialias", 1); });
  refused(kUnsupported, {"attribute 'exclude_outside'"}, [](OnnxNode n) { n.attr("exclude_outside", 1); });
  refused(kUnsupported, {"attribute 'keep_aspect_ratio_policy'", "'not_larger'"},
          [](OnnxNode n) { n.attr("keep_aspect_ratio_policy", "not_larger"); });
  refused(kUnsupported, {"input #3 'sizes'", "more than the height and width"}, as_it_is, {1, 3, 8, 8});
  refused(kInvalid, {"input #3 'sizes'", "must be > 0"}, as_it_is, {1, 2, 0, 8});
  refused(kInvalid, {"input #3 'sizes'", "4 extents"}, as_it_is, {8, 8});
  refused(kUnsupported, {"input #3 'sizes'", "more than the height and width"}, as_it_is, {2, 2, 8, 8});
  refused(kUnsupported, {"input #3 'sizes'", "limit"}, as_it_is, {1, 2, 8, 1 << 20});
  OnnxBuilder both = network(13);
  both.floats("scales", {4}, {1, 1, 2, 2}).ints("sizes", {4}, {1, 2, 8, 8});
  both.node("Resize", {"x", "", "scales", "sizes"}, {"y"}, "up");
  require_refused(both, kInvalid, {"'up' (Resize)", "one of the inputs scales and sizes"});
  OnnxBuilder broken = network(13);
  broken.floats("scales", {4}, {1, 1, 1.3F, 2});
  broken.node("Resize", {"x", "", "scales"}, {"y"}, "up");
  require_refused(broken, kUnsupported, {"'up' (Resize)", "1.3", "an extent of 4", "whole number"});
  OnnxBuilder channels = network(13);
  channels.floats("scales", {4}, {1, 2, 2, 2});
  channels.node("Resize", {"x", "", "scales"}, {"y"}, "up");
  require_refused(channels, kUnsupported, {"along axis 1", "height and width are"});
  OnnxBuilder row = network(13, {kDynamic, 2, 4});
  row.floats("scales", {3}, {1, 1, 2});
  row.node("Resize", {"x", "", "scales"}, {"y"}, "up");
  require_refused(row, kUnsupported, {"input #0 'x'", "must be an image"});
}

TEST_CASE("the graph's Resize refuses extents that make no sense") {
  Resize op;
  op.extents = {0, 4};
  CHECK(contains(refusal(op, Shape{1, 8, 10, 10}), "'op' (Resize): attribute 'sizes': must be > 0, got 0"));
}

TEST_CASE("Resize is printed with its attributes") {
  Resize op;
  op.extents = {20, 5};
  CHECK(contains(printed(op, Shape{1, 8, 10, 10}), "nearest half_pixel round_down  # op"));
  op.mode = ResizeMode::Linear;
  op.coordinates = ResizeCoordinates::AlignCorners;
  CHECK(contains(printed(op, Shape{1, 8, 10, 10}), "linear align_corners  # op"));
}

TEST_CASE("Resize interpolates in both layouts") {
  Resize op;
  op.extents = {1, 4};
  op.mode = ResizeMode::Linear;
  const TensorDesc nchw{DType::F32, Shape{1, 2, 1, 2}, Layout::NCHW};
  const TensorDesc nhwc{DType::F32, Shape{1, 2, 1, 2}, Layout::NHWC};
  CHECK(run_alone(op, nchw, {0, 8, 4, 0}) == Floats{0, 2, 6, 8, 4, 3, 1, 0});
  CHECK(run_alone(op, nhwc, {0, 4, 8, 0}) == Floats{0, 4, 2, 3, 6, 1, 8, 0});
}

TEST_CASE("Resize on every engine equals the oracle", "[engines]") {
  for (const ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear}) {
    for (const ResizeCoordinates coordinates :
         {ResizeCoordinates::HalfPixel, ResizeCoordinates::Asymmetric, ResizeCoordinates::AlignCorners}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(coordinates));
      TestNetwork network(Shape{1, 6, 9, 8});
      network.conv(16, 3, 1, {1, 1, 1, 1});
      network.add(Resize{{18, 5}, mode, coordinates, NearestPixel::Ceil}, {network.last()});
      network.conv(21, 1);
      network.add(Resize{{7, 10}, mode, coordinates, NearestPixel::RoundUp}, {network.last()});
      network.conv(7, 1);
      check_engines(std::move(network).build(), 54 + 4 + 16 + 4 + 21);
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
