// Images of another height and width: Resize, and Upsample of older opsets.
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "../text.h"
#include "ops.h"
#include "shape_math.h"
#include "window.h"

namespace mobicuda::onnx_import {
namespace {

void read_mode(const NodeImporter& node, Resize& op) {
  const std::string mode = node.string_attribute("mode", "nearest");
  if (mode == "linear" || mode == "bilinear") {
    op.mode = ResizeMode::Linear;
  } else if (mode != "nearest") {
    throw node.unsupported_attribute("mode", "only 'nearest' and 'linear' are supported, got " + in_quotes(mode));
  }
}

// The extent that a factor makes. The graph has the ratio of both extents, which must be that factor.
std::int64_t scaled_extent(const NodeImporter& node, const Resize& op, std::int64_t extent, float scale) {
  const double exact = static_cast<double>(extent) * static_cast<double>(scale);
  const double whole = std::round(exact);
  // A factor like 8/6 is rounded in the file: to linear interpolation that is one rounding more.
  const double rounding = op.mode == ResizeMode::Linear ? whole * 0x1p-23 : 0.0;
  if (!(scale > 0.0F) || !(whole >= 1.0) || !(whole <= static_cast<double>(kMaxWindow)) ||
      std::abs(exact - whole) > rounding) {
    throw node.error(ErrorCode::unsupported, "a factor of " + std::to_string(scale) + " for an extent of " +
                                                 std::to_string(extent) +
                                                 " is not supported; the result must be a whole number from 1 to " +
                                                 std::to_string(kMaxWindow));
  }
  return static_cast<std::int64_t>(whole);
}

// By the factors of all axes.
void set_scales(const NodeImporter& node, Resize& op, const std::vector<float>& scales,
                const std::vector<std::size_t>& axes) {
  const Shape& shape = node.shape(0);
  if (scales.size() != axes.size()) {
    throw node.error(ErrorCode::invalid_model, "must have " + std::to_string(axes.size()) +
                                                   " scales, one an axis, got " + std::to_string(scales.size()));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] >= 2) {
      op.extents.at(axes[i] - 2) = scaled_extent(node, op, shape[axes[i]], scales[i]);
    } else if (scales[i] != 1.0F) {
      throw node.error(ErrorCode::unsupported, "a factor of " + std::to_string(scales[i]) + " along axis " +
                                                   std::to_string(axes[i]) + " is not supported; height and width are");
    }
  }
}

void set_sizes(const NodeImporter& node, Resize& op, const Dims& sizes, const std::vector<std::size_t>& axes) {
  const Dims shape = dims_of(node, 0);
  if (sizes.size() != axes.size()) {
    throw node.invalid_input(
        3, "must have " + std::to_string(axes.size()) + " extents, one an axis, got " + to_string(sizes));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const DimValue& size = sizes[i];
    const bool is_batch = axes[i] == 0 && (size == kBatch || node.state().fixed_batch == size.value);
    if (is_batch || (axes[i] == 1 && size == shape[1])) continue;
    if (axes[i] < 2 || size.times_batch) {
      throw node.unsupported_input(3,
                                   to_string(sizes) + " changes more than the height and width of " + to_string(shape));
    }
    if (size.value <= 0) throw node.invalid_input(3, "must be > 0, got " + to_string(sizes));
    if (size.value > node.state().options.limits.window) {
      throw node.unsupported_input(3, "the limit of an extent is " +
                                          std::to_string(node.state().options.limits.window) + ", got " +
                                          to_string(sizes));
    }
    op.extents.at(axes[i] - 2) = size.value;
  }
}

Resize start(const NodeImporter& node) {
  require_image(node, node.shape(0));
  Resize op;
  op.extents = {node.shape(0)[2], node.shape(0)[3]};
  read_mode(node, op);
  return op;
}

std::vector<float> read_scales(const NodeImporter& node, std::size_t position) {
  const ConstantPtr scales = node.floats(position);
  return {scales->floats().begin(), scales->floats().end()};
}

const std::vector<std::size_t> kAllAxes{0, 1, 2, 3};

// Before opset 11 a pixel lies at its number divided by the factor.
void set_old(NodeImporter& node, Resize op, const std::vector<float>& scales) {
  op.coordinates = ResizeCoordinates::Asymmetric;
  op.nearest = NearestPixel::Floor;
  set_scales(node, op, scales, kAllAxes);
  node.set_output(node.add(op, {node.activation(0)}));
}

void import_upsample_7(NodeImporter& node) { set_old(node, start(node), node.floats_attribute("scales")); }
void import_resize_10(NodeImporter& node) { set_old(node, start(node), read_scales(node, 1)); }

void read_coordinates(const NodeImporter& node, Resize& op) {
  const std::string mode = node.string_attribute("coordinate_transformation_mode", "half_pixel");
  if (mode == "asymmetric" || mode == "align_corners") {
    op.coordinates = mode == "asymmetric" ? ResizeCoordinates::Asymmetric : ResizeCoordinates::AlignCorners;
  } else if (mode != "half_pixel" && mode != "pytorch_half_pixel" && mode != "half_pixel_symmetric") {
    throw node.unsupported_attribute("coordinate_transformation_mode", in_quotes(mode) + " is not supported");
  } else if (const Shape& x = node.shape(0);
             mode == "pytorch_half_pixel" && ((op.extents[0] == 1 && x[2] != 1) || (op.extents[1] == 1 && x[3] != 1))) {
    throw node.unsupported_attribute("coordinate_transformation_mode",
                                     in_quotes(mode) + " is not supported down to an extent of 1");
  }
}

void read_nearest(const NodeImporter& node, Resize& op) {
  const std::string mode = node.string_attribute("nearest_mode", "round_prefer_floor");
  if (mode == "floor") {
    op.nearest = NearestPixel::Floor;
  } else if (mode == "ceil") {
    op.nearest = NearestPixel::Ceil;
  } else if (mode == "round_prefer_ceil") {
    op.nearest = NearestPixel::RoundUp;
  } else if (mode != "round_prefer_floor") {
    throw node.invalid_attribute("nearest_mode",
                                 "must be 'round_prefer_floor', 'round_prefer_ceil', 'floor' or "
                                 "'ceil', got " +
                                     in_quotes(mode));
  }
}

// Inputs X, roi, scales and sizes, one of the last two.
void import_resize_11(NodeImporter& node) {
  Resize op = start(node);
  std::vector<std::size_t> axes = kAllAxes;
  if (const auto given = node.ints_attribute("axes")) {
    normalize_axes(node, *given, 4);  // refuses duplicates
    axes.clear();
    for (const std::int64_t axis : *given) axes.push_back(normalize_axis(node, axis, 4));
  }
  if (node.flag_attribute("antialias", false)) throw node.unsupported_attribute("antialias", "1 is not supported");
  if (node.flag_attribute("exclude_outside", false)) {
    throw node.unsupported_attribute("exclude_outside", "1 is not supported");
  }
  if (const std::string policy = node.string_attribute("keep_aspect_ratio_policy", "stretch"); policy != "stretch") {
    throw node.unsupported_attribute("keep_aspect_ratio_policy",
                                     "only 'stretch' is supported, got " + in_quotes(policy));
  }
  // An empty list stands for one that is absent.
  const auto given = [&](std::size_t position) {
    return node.has_input(position) && node.constant(position)->elements() > 0;
  };
  if (given(2) == given(3)) {
    throw node.error(ErrorCode::invalid_model, "must have one of the inputs scales and sizes");
  }
  if (given(2)) {
    set_scales(node, op, read_scales(node, 2), axes);
  } else {
    set_sizes(node, op, node.dims(3), axes);
  }
  read_coordinates(node, op);
  if (op.mode == ResizeMode::Nearest) read_nearest(node, op);
  node.set_output(node.add(op, {node.activation(0)}));
}

}  // namespace

Forms resize_forms() {
  static constexpr std::string_view kAttributes =
      "coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value mode nearest_mode";
  static constexpr OperatorForm kForms[] = {
      {"Resize", 10, 10, 2, 2, "mode", import_resize_10},
      {"Resize", 11, 12, 3, 4, kAttributes, import_resize_11},
      {"Resize", 13, 17, 1, 4, kAttributes, import_resize_11},
      {"Resize", 18, kNewestOpset, 1, 4,
       "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
       "keep_aspect_ratio_policy mode nearest_mode",
       import_resize_11},
      {"Upsample", 7, 8, 1, 1, "mode scales", import_upsample_7},
      {"Upsample", 9, 9, 2, 2, "mode", import_resize_10},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
