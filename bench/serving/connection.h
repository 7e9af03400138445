#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "open_inference.pb.h"

namespace mobicuda::bench {

/// A server that cannot be reached, or refused a call.
class ServerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr const char* kInfer = "/inference.GRPCInferenceService/ModelInfer";

/// A message as it goes over the wire.
grpc::ByteBuffer packed(const google::protobuf::MessageLite& message);

/// Throws ServerError on bytes that are no such message.
void unpack(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message);

/// "UNAVAILABLE", as gRPC's documents have it.
std::string name_of(grpc::StatusCode code);

/// A connection of its own to a server.
class Connection {
 public:
  /// `number` tells it from others of the process: gRPC shares those that are equal.
  Connection(const std::string& url, int number);

  /// Waits until it is there, so that no request meets a connection that is still being made. Throws ServerError.
  void wait_until_connected();

  /// One call, waited for, whose answer is of no interest.
  grpc::Status call(const std::string& method, const google::protobuf::MessageLite& request);
  /// One call, waited for; throws ServerError.
  void call(const std::string& method, const google::protobuf::MessageLite& request,
            google::protobuf::MessageLite& response);

  grpc::GenericStub& stub() noexcept { return stub_; }

 private:
  grpc::Status wait_for(const std::string& method, const google::protobuf::MessageLite& request,
                        grpc::ByteBuffer& answer);

  std::string url_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
};

}  // namespace mobicuda::bench
