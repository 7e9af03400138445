#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mobicuda_onnx.pb.h>

#include "moments.h"
#include "networks.h"
#include "random.h"
#include "weights.h"

namespace mobicuda::zoo {

struct Extent {
  std::int64_t height, width;
};

/// An activation while its network is written. Flat ones, (N, C), have height and width 1.
struct Value {
  std::string name;
  Extent extent{1, 1};
  std::vector<Moments> channels;

  std::int64_t depth() const { return static_cast<std::int64_t>(channels.size()); }
};

struct Conv {
  std::int64_t outputs;
  Extent kernel{1, 1};
  Extent pad{0, 0};  ///< at each side
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

/// A square window, padded so that stride 1 keeps the extent.
constexpr Conv same_conv(std::int64_t outputs, std::int64_t kernel, std::int64_t stride = 1, std::int64_t groups = 1) {
  return {outputs, {kernel, kernel}, {kernel / 2, kernel / 2}, stride, groups};
}

/// A square window without padding.
constexpr Conv valid_conv(std::int64_t outputs, std::int64_t kernel, std::int64_t stride = 1) {
  return {outputs, {kernel, kernel}, {0, 0}, stride, 1};
}

struct BatchNormStyle {
  float epsilon = 1e-5F;
  double gain = 1.0;  ///< the scales lie near it
  /// The shifts lie near it. At 0 an activation behind cuts off half of the values; in a deep network without sums
  /// around each layer, differences between pictures then vanish or rounding grows. At one deviation neither does.
  double shift = 0.0;
  bool conv_bias = false;  ///< the convolution in front has a bias of its own
};

/// Of the maps whose means are the logits, where a network ends with a convolution.
constexpr double kLogitMapDeviation = 6.0;

struct Pool {
  std::int64_t kernel, stride;
  std::int64_t pad = 0;
  bool ceil_mode = false;  ///< the last window may hang over
};

/// Writes a network's nodes in the order of the calls and draws their weights, following each channel's moments, so
/// that every convolution gets the statistics or the scale that training would have found. Nodes, their outputs and
/// their weights are named by the callers.
class NetworkWriter {
 public:
  NetworkWriter(const NetworkInfo& info, const NetworkOptions& options);

  const Value& input() const { return input_; }
  /// For networks whose channels are more alike than usual.
  void set_channel_correlation(double correlation) { channel_correlation_ = correlation; }

  /// Convolution with bias, scaled so that its outputs have mean about 0 and deviation about `gain`.
  Value conv(const std::string& name, const Value& x, const Conv& conv, double gain = 1.0);
  /// Convolution without bias, scaled so that its outputs have deviation about 1.
  Value conv_without_bias(const std::string& name, const Value& x, const Conv& conv);
  /// Convolution and BatchNormalization, one node where the options fold.
  Value conv_bn(const std::string& conv_name, const std::string& bn_name, const Value& x, const Conv& conv,
                const BatchNormStyle& style = {});
  /// BatchNormalization that no convolution can take in.
  Value batchnorm(const std::string& name, const Value& x);

  Value relu(const std::string& name, const Value& x) { return pointwise("Relu", name, x, after_relu); }
  Value relu6(const std::string& name, const Value& x);
  Value tanh(const std::string& name, const Value& x) { return pointwise("Tanh", name, x, after_tanh); }
  Value sigmoid(const std::string& name, const Value& x) { return pointwise("Sigmoid", name, x, after_sigmoid); }
  Value hard_sigmoid(const std::string& name, const Value& x);
  Value hard_swish(const std::string& name, const Value& x) { return pointwise("HardSwish", name, x, after_swish); }
  Value silu(const std::string& name, const Value& x);
  Value local_response_normalization(const std::string& name, const Value& x);

  Value max_pool(const std::string& name, const Value& x, const Pool& pool);
  Value average_pool(const std::string& name, const Value& x, const Pool& pool, bool count_pads = false);
  Value global_average_pool(const std::string& name, const Value& x);

  Value add(const std::string& name, const Value& a, const Value& b);
  /// Each channel of `x` times that of `gate`, which is (N, C, 1, 1).
  Value multiply(const std::string& name, const Value& x, const Value& gate);
  Value concat(const std::string& name, const std::vector<Value>& values);

  Value flatten(const std::string& name, const Value& x);
  /// Fully connected layer of a flat value.
  Value dense(const std::string& name, const Value& x, std::int64_t outputs, double gain = 1.0);
  /// The same as last layer: a picture's logits spread by a few units.
  Value logits(const std::string& name, const Value& x);

  std::int64_t classes() const { return classes_; }
  onnx_schema::ModelProto finish(const Value& logits) &&;

 private:
  using PointwiseMoments = Moments (*)(const Moments&);

  Value pointwise(const char* op_type, const std::string& name, const Value& x, PointwiseMoments rule);
  Value pool_node(const char* op_type, const std::string& name, const Value& x, const Pool& pool);
  BatchNorm draw_norm(std::vector<Moments>& channels, double epsilon, double gain, double beta_deviation,
                      double shift = 0.0);
  Value dense_scaled(const std::string& name, const Value& x, std::int64_t outputs, double gain, double beta_deviation);
  Value conv_node(const std::string& name, const Value& x, const Conv& conv, const std::vector<float>& weights,
                  const std::vector<float>& bias);
  void norm_node(const std::string& name, const std::string& x, const BatchNorm& norm, float epsilon);
  void constant(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values);
  onnx_schema::GraphProto& graph() { return *model_.mutable_graph(); }

  const NetworkInfo& info_;
  const NetworkOptions& options_;
  std::int64_t classes_;
  Random random_;
  double channel_correlation_ = kChannelCorrelation;
  Value input_;
  bool clip_bounds_written_ = false;
  onnx_schema::ModelProto model_;
};

}  // namespace mobicuda::zoo
