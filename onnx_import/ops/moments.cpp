#include "moments.h"

#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "channels_last.h"
#include "reduce.h"

namespace mobicuda::onnx_import {
namespace {

using Step = Moment::Step;

bool advance(NodeImporter& node, Moment moment, Step step) {
  moment.step = step;
  node.set_output(std::move(moment));
  return true;
}

// x - mean, where the mean is known to be that of x.
bool import_deviation(NodeImporter& node) {
  if (node.is_constant(0) || node.is_constant(1) || node.moment(0) != nullptr || node.moment(1) != nullptr)
    return false;
  const auto mean = node.state().means.find(node.activation(1));
  if (mean == node.state().means.end() || mean->second.x != node.activation(0)) return false;
  if (node.shape(0) == node.shape(1)) return false;  // of axes with an extent of 1: an ordinary difference
  return advance(node, mean->second, Step::Deviation);
}

bool of_one_mean(const Moment& a, const Moment& b) { return a.x == b.x && a.axes == b.axes; }

bool finish(NodeImporter& node, const Moment& deviation, const Moment& divisor) {
  if (!of_one_mean(deviation, divisor)) return false;
  if (divisor.epsilon <= 0.0F) {
    throw node.error(ErrorCode::unsupported, "divides by the root of a variance that no epsilon > 0 is added to");
  }
  node.set_output(normalize(node, deviation.x, deviation.axes, divisor.epsilon));
  return true;
}

bool is_at(const Moment* moment, Step step) { return moment != nullptr && moment->step == step; }

bool import_product(NodeImporter& node) {
  const Moment* left = node.moment(0);
  const Moment* right = node.moment(1);
  if (is_at(left, Step::Deviation) && is_at(right, Step::Deviation) && of_one_mean(*left, *right)) {
    return advance(node, *left, Step::Squared);
  }
  if (is_at(left, Step::Inverse)) std::swap(left, right);
  return is_at(left, Step::Deviation) && is_at(right, Step::Inverse) && finish(node, *left, *right);
}

bool import_epsilon(NodeImporter& node) {
  const std::size_t position = node.moment(0) != nullptr ? 0 : 1;
  const Moment* variance = node.moment(position);
  const std::size_t other = 1 - position;
  if (!is_at(variance, Step::Variance) || !node.is_constant(other) || node.constant(other)->elements() != 1)
    return false;
  Moment sum = *variance;
  sum.epsilon += node.number(other);
  node.set_output(std::move(sum));
  return true;
}

}  // namespace

bool import_moment(NodeImporter& node) {
  const std::string_view type = node.op_type();
  if (type == "Sub") return import_deviation(node);
  const Moment* first = node.moment(0);
  if (type == "Mul") return import_product(node);
  if (type == "Add") return import_epsilon(node);
  if (type == "Pow") {
    const bool squares = is_at(first, Step::Deviation) && node.is_constant(1) && node.constant(1)->elements() == 1 &&
                         node.number(1) == 2.0F;
    return squares && advance(node, *first, Step::Squared);
  }
  if (type == "ReduceMean") {
    return is_at(first, Step::Squared) && reduced_axes(node, node.shape_of(first->x)) == first->axes &&
           node.flag_attribute("keepdims", true) && advance(node, *first, Step::Variance);
  }
  if (type == "Sqrt") return is_at(first, Step::Variance) && advance(node, *first, Step::Root);
  if (type == "Reciprocal") return is_at(first, Step::Root) && advance(node, *first, Step::Inverse);
  return type == "Div" && is_at(first, Step::Deviation) && is_at(node.moment(1), Step::Root) &&
         finish(node, *first, *node.moment(1));
}

ValueId normalize(NodeImporter& node, ValueId x, const std::vector<bool>& axes, float epsilon) {
  const Shape shape = node.shape_of(x);
  const std::size_t rank = shape.rank();
  std::size_t first = 0;  // of the axes, where they are the last ones
  while (first < rank && !axes[first]) ++first;
  bool trailing = first > 0 && first < rank;
  for (std::size_t axis = first; trailing && axis < rank; ++axis) trailing = axes[axis];
  Normalize op;
  op.epsilon = epsilon;
  if (rank == 4 && axes[1] && !axes[0] && !axes[2] && !axes[3]) return node.add(op, {x});
  if (!trailing) {
    throw node.error(ErrorCode::unsupported, "a normalisation over these axes of " + to_string(shape) +
                                                 " is not supported; the channels or the last axes are");
  }
  if (rank == 4 && first < 3) {  // of whole images, or of channels
    op.over = NormalizedOver::Groups;
    op.groups = first == 1 ? 1 : shape[1];
    return node.add(op, {x});
  }
  if (first + 1 == rank) {
    return to_channels_last(node, node.add(op, {image_of_channels_last(node, x)}), shape);
  }
  std::int64_t rows = 1;
  for (std::size_t axis = 1; axis < first; ++axis) rows *= shape[axis];
  const ValueId flat = node.add(Reshape{Shape{shape[0], rows, shape.elements() / rows}}, {x});
  const ValueId image = node.add(op, {image_of_channels_last(node, flat)});
  return node.add(Reshape{shape}, {to_channels_last(node, image, node.shape_of(flat))});
}

}  // namespace mobicuda::onnx_import
