#include "serving/connection.h"

#include <array>
#include <chrono>

namespace mobicuda::bench {
namespace {

constexpr std::chrono::seconds kCallSeconds{30};

std::shared_ptr<grpc::Channel> channel(const std::string& url, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt("serving_load.connection", number);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(url, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

grpc::ByteBuffer packed(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

void unpack(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok() || !message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    throw ServerError("the server's answer is no message of the protocol");
  }
}

std::string name_of(grpc::StatusCode code) {
  static constexpr std::array kNames{
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : std::to_string(index);
}

Connection::Connection(const std::string& url, int number)
    : url_(url), channel_(channel(url, number)), stub_(channel_) {}

void Connection::wait_until_connected() {
  if (!channel_->WaitForConnected(std::chrono::system_clock::now() + kCallSeconds)) {
    throw ServerError(url_ + ": there is no connection after " + std::to_string(kCallSeconds.count()) + " s");
  }
}

grpc::Status Connection::wait_for(const std::string& method, const google::protobuf::MessageLite& request,
                                  grpc::ByteBuffer& answer) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallSeconds);
  context.set_wait_for_ready(true);
  grpc::Status status;
  const auto reader = stub_.PrepareUnaryCall(&context, method, packed(request), &queue);
  reader->StartCall();
  reader->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool done = false;
  queue.Next(&tag, &done);
  return status;
}

grpc::Status Connection::call(const std::string& method, const google::protobuf::MessageLite& request) {
  grpc::ByteBuffer answer;
  return wait_for(method, request, answer);
}

void Connection::call(const std::string& method, const google::protobuf::MessageLite& request,
                      google::protobuf::MessageLite& response) {
  grpc::ByteBuffer answer;
  const grpc::Status status = wait_for(method, request, answer);
  if (!status.ok()) {
    throw ServerError(url_ + method + ": " + name_of(status.error_code()) + ": " + status.error_message());
  }
  unpack(answer, response);
}

}  // namespace mobicuda::bench
