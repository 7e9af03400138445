#include "bench_engine/layers/compare_layers.h"

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "bench_engine/tensors/golden.h"

namespace mobicuda::bench {
namespace {

std::vector<float> layer_output(const LayerSource& source, std::size_t layer, std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n * source.engine->layers(n)[layer].output.elements()));
  source.session->get_layer_output(values);
  return values;
}

// Names of tensors, and which layer finishes them. A name that several layers have names none of them.
class Tensors {
 public:
  Tensors(const Engine& engine, std::int64_t n) {
    const auto layers = engine.layers(n);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string& name = layers[i].value;
      if (!name.empty() && !layer_of_.emplace(name, i).second) ambiguous_.insert(name);
    }
  }

  bool ambiguous(const std::string& name) const { return ambiguous_.contains(name); }
  std::optional<std::size_t> find(const std::string& name) const {
    const auto found = layer_of_.find(name);
    if (found == layer_of_.end() || ambiguous(name)) return std::nullopt;
    return found->second;
  }

 private:
  std::map<std::string, std::size_t> layer_of_;
  std::set<std::string> ambiguous_;
};

// The reference, run as far as the other one needs it.
class Reference {
 public:
  Reference(const LayerSource& source, std::int64_t n, const Tensors& wanted)
      : source_(source), n_(n), wanted_(wanted), tensors_(*source.engine, n) {}

  const Tensors& tensors() const { return tensors_; }
  const LayerInfo& info(std::size_t layer) const { return source_.engine->layers(n_)[layer]; }

  std::vector<float> take(std::size_t layer) {
    if (const auto found = early_.find(layer); found != early_.end()) {
      std::vector<float> values = std::move(found->second);
      early_.erase(found);
      return values;
    }
    for (; next_ < layer; ++next_) {
      source_.session->execute_layer(n_, next_);
      const std::string& name = info(next_).value;
      if (tensors_.find(name) && wanted_.find(name)) early_[next_] = layer_output(source_, next_, n_);
    }
    source_.session->execute_layer(n_, next_);
    return layer_output(source_, next_++, n_);
  }

 private:
  const LayerSource& source_;
  std::int64_t n_;
  const Tensors& wanted_;
  Tensors tensors_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::vector<float>> early_;
};

// Why a layer has no counterpart; empty when it has one.
std::string why_not_compared(const LayerInfo& layer, const Tensors& own, const Reference& reference) {
  if (layer.value.empty()) return "finishes no tensor of the model";
  const std::string tensor = "tensor '" + layer.value + "'";
  if (own.ambiguous(layer.value) || reference.tensors().ambiguous(layer.value)) {
    return "several layers compute a " + tensor;
  }
  const auto counterpart = reference.tensors().find(layer.value);
  if (!counterpart) return "the reference has no " + tensor;
  const Shape& shape = reference.info(*counterpart).output;
  if (shape != layer.output) {
    return tensor + " is " + to_string(layer.output) + ", the reference's is " + to_string(shape);
  }
  if (shape.elements() == 0) return tensor + " is empty";
  return {};
}

}  // namespace

std::optional<LayerComparison> compare_layers(const LayerSource& source, const LayerSource& other, std::int64_t n,
                                              double threshold, const std::function<bool()>& stop) {
  LayerComparison result;
  result.reference = other.label;
  result.threshold = threshold;
  const Tensors own(*source.engine, n);
  Reference reference(other, n, own);
  const auto layers = source.engine->layers(n);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (stop()) return std::nullopt;
    const LayerInfo& layer = layers[i];
    source.session->execute_layer(n, i);
    // One of several steps that together are a layer: the last one finishes its tensor.
    if (layer.value.empty() && i + 1 < layers.size() && layers[i + 1].name == layer.name) continue;
    if (std::string reason = why_not_compared(layer, own, reference); !reason.empty()) {
      result.not_compared.push_back({layer.name, std::move(reason)});
      continue;
    }
    const std::size_t counterpart = *reference.tensors().find(layer.value);
    ComparedLayer compared{
        layer.value, layer.name, layer.kernel, reference.info(counterpart).kernel, to_string(layer.output), {}, false};
    compared.difference =
        compare_with_golden(layer_output(source, i, n), reference.take(counterpart),
                            static_cast<std::size_t>(layer.output.elements()), static_cast<std::size_t>(n));
    compared.diverged = !(compared.difference.relative_l2 <= threshold);
    result.layers.push_back(std::move(compared));
  }
  return result;
}

}  // namespace mobicuda::bench
