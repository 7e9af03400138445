// What the structure of a plan file takes in memory, before protobuf reads it.
#include <array>
#include <string>

#include <mobicuda/error.h>
#include <plan_schema.pb.h>

#include "structure.h"
#include "wire_format/parsed_bytes.h"

namespace mobicuda::plan_file {
namespace {

// A plan of a real network takes some hundred KiB, one of 131,072 nodes 100 MiB of a structure of 15.
constexpr std::int64_t kParsedWithoutBytes = std::int64_t{64} << 20;
constexpr std::int64_t kParsedForEachByte = 16;

struct Message {
  enum : std::size_t {
    Plan,
    Code,
    Options,
    PlanBatches,
    KernelVariant,
    BatchPlan,
    Piece,
    Choice,
    Graph,
    Value,
    Node,
    Source,
    kKinds
  };
};

constexpr std::array<std::size_t, Message::kKinds> kObjectBytes = [] {
  std::array<std::size_t, Message::kKinds> bytes{};
  bytes[Message::Plan] = sizeof(plan_schema::Plan);
  bytes[Message::Code] = sizeof(plan_schema::Code);
  bytes[Message::Options] = sizeof(plan_schema::Options);
  bytes[Message::PlanBatches] = sizeof(plan_schema::PlanBatches);
  bytes[Message::KernelVariant] = sizeof(plan_schema::KernelVariant);
  bytes[Message::BatchPlan] = sizeof(plan_schema::BatchPlan);
  bytes[Message::Piece] = sizeof(plan_schema::Piece);
  bytes[Message::Choice] = sizeof(plan_schema::Choice);
  bytes[Message::Graph] = sizeof(plan_schema::Graph);
  bytes[Message::Value] = sizeof(plan_schema::Value);
  bytes[Message::Node] = sizeof(plan_schema::Node);
  bytes[Message::Source] = sizeof(plan_schema::Source);
  return bytes;
}();

using PlanFields = plan_schema::Plan;
using GraphFields = plan_schema::Graph;
using NodeFields = plan_schema::Node;
using OptionFields = plan_schema::Options;

constexpr wire_format::MessageField kFields[] = {
    {Message::Plan, PlanFields::kOptionsFieldNumber, Message::Options},
    {Message::Plan, PlanFields::kGraphFieldNumber, Message::Graph},
    {Message::Plan, PlanFields::kPlansFieldNumber, Message::BatchPlan},
    {Message::Plan, PlanFields::kPiecesFieldNumber, Message::Piece},
    {Message::Plan, PlanFields::kCodeFieldNumber, Message::Code},
    {Message::Options, OptionFields::kKernelVariantsFieldNumber, Message::KernelVariant},
    {Message::Options, OptionFields::kPlanBatchesFieldNumber, Message::PlanBatches},
    {Message::BatchPlan, plan_schema::BatchPlan::kChoicesFieldNumber, Message::Choice},
    {Message::Graph, GraphFields::kValuesFieldNumber, Message::Value},
    {Message::Graph, GraphFields::kNodesFieldNumber, Message::Node},
    {Message::Node, NodeFields::kSourcesFieldNumber, Message::Source}};

constexpr wire_format::PackedField kPacked[] = {
    {Message::PlanBatches, plan_schema::PlanBatches::kBatchesFieldNumber, sizeof(std::int64_t)},
    {Message::Value, plan_schema::Value::kDimsFieldNumber, sizeof(std::int64_t)},
    {Message::Node, NodeFields::kInputsFieldNumber, sizeof(std::int32_t)},
    {Message::Node, NodeFields::kNumbersFieldNumber, sizeof(std::int64_t)}};

}  // namespace

void check_structure_bytes(std::string_view structure) {
  const std::int64_t limit = kParsedWithoutBytes + kParsedForEachByte * static_cast<std::int64_t>(structure.size());
  const auto bytes = std::as_bytes(std::span(structure));
  if (wire_format::parsed_bytes(bytes, {kObjectBytes, kFields, kPacked}, limit) > limit) {
    throw Error(ErrorCode::invalid_model, "",
                "has a structure of so many small fields that they would take more than " + std::to_string(limit) +
                    " bytes of memory, of " + std::to_string(structure.size()));
  }
}

}  // namespace mobicuda::plan_file
