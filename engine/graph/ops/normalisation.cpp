#include "graph/ops.h"
#include "graph/ops/checks.h"

namespace mobicuda {
namespace {

void require_not_negative(float value, const char* attribute) {
  if (!std::isfinite(value) || value < 0.0F) {
    reject(attribute_place(attribute), "must be >= 0 and finite, got " + std::to_string(value));
  }
}

TensorDesc with_channels(const Inputs& inputs, std::size_t position) {
  const TensorDesc& x = required(inputs, position, "x");
  if (x.shape.rank() < 2) reject("input 'x'", "must have channels on axis 1, got " + to_string(x.shape));
  return x;
}

}  // namespace

// ---- LocalResponseNorm

TensorDesc infer(const LocalResponseNorm& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, LocalResponseNorm::kInput);
  require_window({&op.size, 1}, "size");
  require_not_negative(op.alpha, "alpha");
  require_not_negative(op.beta, "beta");
  require_not_negative(op.bias, "bias");
  if (op.bias == 0.0F) reject("attribute 'bias'", "must be > 0: zeros would be divided by zero");
  return x;
}

std::int64_t flops(const LocalResponseNorm& op, const Inputs&, const Shape& y) {
  return y.elements() * (2 * std::min(op.size, y[1]) + 4);
}

void attributes(const LocalResponseNorm& op, AttributeText& text) {
  text << " size=" << op.size << " alpha=" << op.alpha << " beta=" << op.beta << " bias=" << op.bias;
}

void members(LocalResponseNorm& op, Members& io) {
  io.size(op.size);
  io.fraction(op.alpha);
  io.fraction(op.beta);
  io.fraction(op.bias);
}

// ---- Normalize

TensorDesc infer(const Normalize& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, Normalize::kInput);
  require_positive(op.groups, "groups");
  if (op.over == NormalizedOver::Channels ? op.groups != 1 : x.shape[1] % op.groups != 0) {
    reject("attribute 'groups'",
           (op.over == NormalizedOver::Channels ? std::string("must be 1 over channels")
                                                : "must divide " + std::to_string(x.shape[1]) + " channels") +
               ", got " + std::to_string(op.groups));
  }
  if (!std::isfinite(op.epsilon) || op.epsilon <= 0.0F) {
    reject("attribute 'epsilon'", "must be > 0 and finite, got " + std::to_string(op.epsilon));
  }
  return x;
}

std::int64_t flops(const Normalize&, const Inputs&, const Shape& y) { return 5 * y.elements(); }

void attributes(const Normalize& op, AttributeText& text) {
  if (op.over == NormalizedOver::Channels) text << " over=channels";
  if (op.over == NormalizedOver::Groups) text << " groups=" << op.groups;
  text << " epsilon=" << op.epsilon;
}

void members(Normalize& op, Members& io) {
  io.choice(op.over, NormalizedOver::Groups);
  io.whole(op.groups);
  io.fraction(op.epsilon);
}

// ---- Softmax

TensorDesc infer(const Softmax&, const Inputs& inputs) { return with_channels(inputs, Softmax::kInput); }

std::int64_t flops(const Softmax&, const Inputs&, const Shape& y) { return 4 * y.elements(); }

void attributes(const Softmax&, AttributeText&) {}

void members(Softmax&, Members&) {}

// ---- LogSoftmax

TensorDesc infer(const LogSoftmax&, const Inputs& inputs) { return with_channels(inputs, LogSoftmax::kInput); }

std::int64_t flops(const LogSoftmax&, const Inputs&, const Shape& y) { return 4 * y.elements(); }

void attributes(const LogSoftmax&, AttributeText&) {}

void members(LogSoftmax&, Members&) {}

}  // namespace mobicuda
