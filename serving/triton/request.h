#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triton/model.h"
#include "triton/triton_api.h"

namespace mobicuda::triton {

/// A request of the server while it is answered: its input as it lies in the server's memory, and which outputs are
/// wanted. Exactly one of answer() and fail() is called.
class Request {
 public:
  explicit Request(TRITONBACKEND_Request* request) : request_(request) {}
  Request(const Request&) = delete;
  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  ~Request();  ///< gives the request back to the server

  /// Looks at the input. Throws Error(invalid_argument, unsupported) where it is not as the model says, ServerError
  /// where the client has cancelled it.
  void read(const Model& model);

  /// Whether the client has given it up. Throws ServerError.
  bool cancelled() const;
  /// Whether answer() or fail() was called.
  bool answered() const noexcept { return answered_; }

  std::int64_t images() const noexcept { return images_; }
  /// The input's bytes, in as many pieces as the server has them in: floats and pixels.
  std::span<const std::span<const std::byte>> pieces() const noexcept { return pieces_; }
  /// The GPU in whose memory the pieces lie; nothing: the host's.
  std::optional<int> device() const noexcept { return device_; }
  /// Encoded pictures, one an image.
  std::span<const std::span<const std::uint8_t>> encoded() const noexcept { return encoded_; }

  /// Sends the outputs of its images; an error where that fails. Returns whether it was answered right.
  bool answer(const Model& model, std::span<const float> logits) noexcept;
  /// Sends an error, which is left to the caller.
  void fail(TRITONSERVER_Error* error) noexcept;

  /// Null once the request was moved from.
  TRITONBACKEND_Request* handle() const noexcept { return request_; }

 private:
  void read_encoded(const std::string& where);
  void write_outputs(TRITONBACKEND_Response* response, const Model& model, std::span<const float> logits) const;
  static void send(TRITONBACKEND_Response* response, TRITONSERVER_Error* error) noexcept;

  TRITONBACKEND_Request* request_;
  bool answered_ = false;
  std::int64_t images_ = 0;
  std::vector<std::span<const std::byte>> pieces_;
  std::optional<int> device_;
  std::vector<std::byte> joined_;  ///< encoded pictures that the server has in several pieces
  std::vector<std::span<const std::uint8_t>> encoded_;
};

/// What a cancelled request is answered with; the caller owns it.
TRITONSERVER_Error* cancelled_error() noexcept;

}  // namespace mobicuda::triton
