#include "triton/request.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <mobicuda/error.h>

#include "triton/device_memory.h"
#include "triton/server_errors.h"

namespace mobicuda::triton {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);  // in front of each element of BYTES, little-endian

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t dim : shape) text += (text.empty() ? "[" : ",") + std::to_string(dim);
  return text.empty() ? "[]" : text + "]";
}

std::int64_t image_bytes(const Model& model) {
  std::int64_t bytes = model.input_kind() == InputKind::Floats ? std::int64_t{sizeof(float)} : 1;
  for (const std::int64_t dim : model.input().dims) bytes = checked_multiply(bytes, dim);
  return bytes;
}

TRITONSERVER_DataType type_of(InputKind kind) {
  switch (kind) {
    case InputKind::Floats:
      return TRITONSERVER_TYPE_FP32;
    case InputKind::Pixels:
      return TRITONSERVER_TYPE_UINT8;
    case InputKind::Encoded:
      break;
  }
  return TRITONSERVER_TYPE_BYTES;
}

// Indices of the `count` highest, best first, the lower index first among equals; NaN is below all numbers.
std::vector<std::int32_t> top_classes(std::span<const float> scores, std::size_t count) {
  std::vector<std::int32_t> indices(scores.size());
  std::iota(indices.begin(), indices.end(), 0);
  const auto better = [scores](std::int32_t left, std::int32_t right) {
    const float a = scores[static_cast<std::size_t>(left)];
    const float b = scores[static_cast<std::size_t>(right)];
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b) ? left < right : std::isnan(b);
    return a != b ? a > b : left < right;
  };
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count), indices.end(), better);
  indices.resize(count);
  return indices;
}

/// One output of a response.
class Output {
 public:
  Output(TRITONBACKEND_Response* response, const std::string& name, TRITONSERVER_DataType type,
         const std::vector<std::int64_t>& shape) {
    check(TRITONBACKEND_ResponseOutput(response, &output_, name.c_str(), type, shape.data(),
                                       static_cast<std::uint32_t>(shape.size())));
  }

  template <class T>
  void write(std::span<const T> values) const {
    void* buffer = nullptr;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    std::int64_t memory_id = 0;
    check(TRITONBACKEND_OutputBuffer(output_, &buffer, values.size_bytes(), &memory, &memory_id));
    if (values.empty()) return;
    if (memory == TRITONSERVER_MEMORY_GPU) {
      copy_any(buffer, values.data(), values.size_bytes());
    } else {
      std::memcpy(buffer, values.data(), values.size_bytes());
    }
  }

 private:
  TRITONBACKEND_Output* output_ = nullptr;
};

std::vector<std::string> wanted_outputs(TRITONBACKEND_Request* request) {
  std::uint32_t count = 0;
  check(TRITONBACKEND_RequestOutputCount(request, &count));
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(TRITONBACKEND_RequestOutputName(request, i, &name));
    names.emplace_back(name);
  }
  return names;
}

}  // namespace

Request::Request(Request&& other) noexcept
    : request_(std::exchange(other.request_, nullptr)),
      answered_(other.answered_),
      images_(other.images_),
      pieces_(std::move(other.pieces_)),
      device_(other.device_),
      joined_(std::move(other.joined_)),
      encoded_(std::move(other.encoded_)) {}

Request::~Request() {
  if (request_ == nullptr) return;
  log_and_delete(TRITONBACKEND_RequestRelease(request_, TRITONSERVER_REQUEST_RELEASE_ALL), "a request is not released");
}

bool Request::cancelled() const {
  bool cancelled = false;
  check(TRITONBACKEND_RequestIsCancelled(request_, &cancelled));
  return cancelled;
}

void Request::read(const Model& model) {
  if (cancelled()) throw ServerError(cancelled_error());
  const Tensor& expected = model.input();
  const std::string where = "input '" + expected.name + "'";
  std::uint32_t count = 0;
  check(TRITONBACKEND_RequestInputCount(request_, &count));
  if (count != 1) {
    throw Error(ErrorCode::invalid_argument, where, "is the only one, the request has " + std::to_string(count));
  }
  TRITONBACKEND_Input* input = nullptr;
  check(TRITONBACKEND_RequestInputByIndex(request_, 0, &input));
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_BYTES;
  const std::int64_t* dims = nullptr;
  std::uint32_t dims_count = 0;
  std::uint64_t bytes = 0;
  std::uint32_t buffers = 0;
  check(TRITONBACKEND_InputProperties(input, nullptr, &type, &dims, &dims_count, &bytes, &buffers));
  if (type != type_of(model.input_kind())) {
    throw Error(ErrorCode::invalid_argument, where, "must be of " + expected.data_type);
  }
  const std::span<const std::int64_t> shape(dims, dims_count);
  if (shape.empty() || !std::ranges::equal(shape.subspan(1), expected.dims) || shape[0] < 1 ||
      shape[0] > model.max_batch()) {
    std::vector<std::int64_t> image(expected.dims);
    throw Error(ErrorCode::invalid_argument, where,
                "has shape " + text_of(shape) + ", the model takes 1 to " + std::to_string(model.max_batch()) +
                    " images of " + text_of(image));
  }
  images_ = shape[0];
  std::uint64_t there = 0;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    const void* buffer = nullptr;
    std::uint64_t size = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    std::int64_t memory_id = 0;
    check(TRITONBACKEND_InputBuffer(input, i, &buffer, &size, &memory, &memory_id));
    if (size != 0) {
      const std::optional<int> device =
          memory == TRITONSERVER_MEMORY_GPU ? std::optional(device_of(buffer)) : std::nullopt;
      if (!pieces_.empty() && device != device_) {
        throw Error(ErrorCode::unsupported, where, "lies in the memory of several processors",
                    "keep all of a request's images in one memory");
      }
      device_ = device;
      pieces_.emplace_back(static_cast<const std::byte*>(buffer), size);
    }
    there += size;
  }
  if (model.input_kind() == InputKind::Encoded) return read_encoded(where);
  const auto wanted = static_cast<std::uint64_t>(checked_multiply(images_, image_bytes(model)));
  if (there != wanted) {
    throw Error(
        ErrorCode::invalid_argument, where,
        "has " + std::to_string(there) + " bytes, shape " + text_of(shape) + " takes " + std::to_string(wanted));
  }
}

void Request::read_encoded(const std::string& where) {
  if (device_) {
    throw Error(ErrorCode::unsupported, where, "lies in GPU memory, and encoded pictures are read by the host",
                "send them in the request, or in system shared memory");
  }
  if (pieces_.size() > 1) {
    for (const auto piece : pieces_) joined_.insert(joined_.end(), piece.begin(), piece.end());
    pieces_ = {joined_};
  }
  std::span<const std::byte> left = pieces_.empty() ? std::span<const std::byte>() : pieces_.front();
  while (!left.empty()) {
    std::uint32_t length = 0;
    if (left.size() >= kLengthBytes) std::memcpy(&length, left.data(), kLengthBytes);
    if (left.size() < kLengthBytes || left.size() - kLengthBytes < length) {
      throw Error(ErrorCode::invalid_argument, where,
                  "ends within picture " + std::to_string(encoded_.size()) + " of " + std::to_string(images_));
    }
    const std::span<const std::byte> picture = left.subspan(kLengthBytes, length);
    encoded_.emplace_back(reinterpret_cast<const std::uint8_t*>(picture.data()), picture.size());
    left = left.subspan(kLengthBytes + length);
  }
  if (static_cast<std::int64_t>(encoded_.size()) != images_) {
    throw Error(ErrorCode::invalid_argument, where,
                "holds " + std::to_string(encoded_.size()) + " pictures, its shape says " + std::to_string(images_));
  }
}

void Request::write_outputs(TRITONBACKEND_Response* response, const Model& model, std::span<const float> logits) const {
  const ModelFile& file = model.file();
  const auto classes = static_cast<std::size_t>(file.classes());
  const auto top = static_cast<std::size_t>(model.settings().top);
  std::vector<std::int32_t> best;  // of all images, one after the other
  const std::vector<std::int64_t> top_shape{images_, model.settings().top};
  for (const std::string& name : wanted_outputs(request_)) {
    if (name == file.logits().name) {
      std::vector<std::int64_t> shape{images_};
      shape.insert(shape.end(), file.logits().dims.begin(), file.logits().dims.end());
      Output(response, name, TRITONSERVER_TYPE_FP32, shape).write(logits);
      continue;
    }
    if (best.empty()) {
      for (std::size_t from = 0; from < logits.size(); from += classes) {
        const auto of_image = top_classes(logits.subspan(from, classes), top);
        best.insert(best.end(), of_image.begin(), of_image.end());
      }
    }
    if (name == "top_classes") {
      Output(response, name, TRITONSERVER_TYPE_INT32, top_shape).write(std::span<const std::int32_t>(best));
    } else if (name == "top_scores") {
      std::vector<float> scores;
      for (std::size_t i = 0; i < best.size(); ++i) {
        scores.push_back(logits[(i / top * classes) + static_cast<std::size_t>(best[i])]);
      }
      Output(response, name, TRITONSERVER_TYPE_FP32, top_shape).write(std::span<const float>(scores));
    } else {
      std::vector<char> labels;
      for (const std::int32_t index : best) {
        const std::string& label = file.labels().at(static_cast<std::size_t>(index));
        const auto length = static_cast<std::uint32_t>(label.size());
        char bytes[kLengthBytes];
        std::memcpy(bytes, &length, kLengthBytes);
        labels.insert(labels.end(), std::begin(bytes), std::end(bytes));
        labels.insert(labels.end(), label.begin(), label.end());
      }
      Output(response, name, TRITONSERVER_TYPE_BYTES, top_shape).write(std::span<const char>(labels));
    }
  }
}

void Request::send(TRITONBACKEND_Response* response, TRITONSERVER_Error* error) noexcept {
  log_and_delete(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error),
                 "a response is not sent");
}

bool Request::answer(const Model& model, std::span<const float> logits) noexcept {
  answered_ = true;
  TRITONBACKEND_Response* response = nullptr;
  if (TRITONSERVER_Error* const failed = TRITONBACKEND_ResponseNew(&response, request_)) {
    log_and_delete(failed, "there is no response for a request");
    return false;
  }
  TRITONSERVER_Error* error = nullptr;
  try {
    write_outputs(response, model, logits);
  } catch (...) {
    error = current_error();
  }
  send(response, error);
  if (error != nullptr) TRITONSERVER_ErrorDelete(error);
  return error == nullptr;
}

void Request::fail(TRITONSERVER_Error* error) noexcept {
  answered_ = true;
  TRITONBACKEND_Response* response = nullptr;
  if (TRITONSERVER_Error* const failed = TRITONBACKEND_ResponseNew(&response, request_)) {
    log_and_delete(failed, "there is no response for a request");
    return;
  }
  send(response, error);
}

TRITONSERVER_Error* cancelled_error() noexcept {
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "the client cancelled it");
}

}  // namespace mobicuda::triton
