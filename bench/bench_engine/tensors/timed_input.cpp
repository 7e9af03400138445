#include "bench_engine/tensors/timed_input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/tensors/golden.h"
#include "bench_engine/tensors/inputs.h"
#include "bench_engine/tensors/tensor_file.h"

namespace mobicuda::bench {
namespace {

// A picture in bytes is HWC whatever the layout of the model's input.
std::vector<std::int64_t> picture_shape(const TensorDesc& input, bool bytes) {
  const auto dims = input.shape.dims().subspan(1);
  std::vector<std::int64_t> shape(dims.begin(), dims.end());
  if (bytes && shape.size() == 3 && input.layout == Layout::NCHW)
    std::rotate(shape.begin(), shape.begin() + 1, shape.end());
  return shape;
}

}  // namespace

TimedInput::TimedInput(const Options& options, const ModelInfo& model)
    : model_(model), seed_(options.seed), bytes_(options.pictures) {
  if (!options.load_inputs.empty()) load_input(options);
  if (!options.golden.empty()) load_golden(options);
}

void TimedInput::load_input(const Options& options) {
  const std::string what = "--loadInputs " + options.load_inputs.string();
  FileTensor tensor = load_tensor(options.load_inputs, "--loadInputs");
  if (tensor.bytes && !bytes_) throw UsageError(what + ": expected float32, got uint8; --input uint8 feeds bytes");
  distinct_pictures_ = count_items(tensor, picture_shape(model_.input, bytes_), what);
  loaded_ = std::move(tensor.values);
}

void TimedInput::load_golden(const Options& options) {
  const std::string what = "--golden " + options.golden.string();
  FileTensor tensor = load_tensor(options.golden, "--golden");
  if (tensor.bytes) throw UsageError(what + ": expected float32, got uint8");
  const std::size_t pictures = count_items(tensor, model_.output.shape.dims().subspan(1), what);
  const auto batch = static_cast<std::size_t>(*std::max_element(options.batches.begin(), options.batches.end()));
  if (!options.load_inputs.empty() && pictures > distinct_pictures_) {
    throw UsageError(what + ": expected the outputs of " + std::to_string(distinct_pictures_) +
                     " pictures as in --loadInputs, got " + std::to_string(pictures));
  }
  const std::size_t needed = std::min(batch, distinct_pictures_);
  if (pictures < needed) {
    throw UsageError(what + ": expected the outputs of " + std::to_string(needed) + " pictures, got " +
                     std::to_string(pictures) + "; a smaller --batch needs fewer");
  }
  golden_ = std::move(tensor.values);
}

void TimedInput::take(std::vector<float> pictures) {
  if (pictures.empty()) throw UsageError("--timeImages: none of the pictures can be read");
  distinct_pictures_ = pictures.size() / static_cast<std::size_t>(model_.input.shape.elements());
  loaded_ = std::move(pictures);
}

void TimedInput::make(std::int64_t batch) {
  batch_ = batch;
  const auto elements = static_cast<std::size_t>(model_.input.shape.elements());
  const auto pictures = static_cast<std::size_t>(batch);
  if (!loaded_.empty()) {
    input_ = tile_input(loaded_, elements, pictures);
    if (bytes_) pictures_ = as_bytes(input_);
  } else if (bytes_) {
    pictures_ = random_pictures(elements * pictures, seed_);
  } else {
    input_ = random_input(elements * pictures, seed_);
  }
}

void TimedInput::run(Session& session, std::span<float> output) const {
  if (bytes_) {
    session.run(pictures_, output);
  } else {
    session.run(input_, output);
  }
}

void TimedInput::set(Session& session) const {
  if (bytes_) {
    session.set_input(pictures_);
  } else {
    session.set_input(input_);
  }
}

void TimedInput::stage(Session& session) const {
  if (bytes_) {
    std::copy(pictures_.begin(), pictures_.end(), session.staged_pictures(batch_).begin());
  } else {
    std::copy(input_.begin(), input_.end(), session.staged_input(batch_).begin());
  }
}

std::optional<GoldenComparison> TimedInput::compare(std::span<const float> output) const {
  if (golden_.empty()) return {};
  return compare_with_golden(output, golden_, static_cast<std::size_t>(model_.classes()), distinct_pictures_);
}

}  // namespace mobicuda::bench
