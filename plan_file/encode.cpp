#include "graph/ops.h"
#include "structure.h"

namespace mobicuda::plan_file {
namespace {

// Appends an operation's members to a node; the other direction is MemberReader.
class MemberWriter final : public Members {
 public:
  explicit MemberWriter(plan_schema::Node& node) : node_(node) {}

  void size(std::int64_t& value) override { node_.add_numbers(value); }
  void fraction(float& value) override { node_.add_floats(value); }
  void shape(Shape& value) override { write(value.dims()); }
  void list(std::vector<std::int64_t>& values) override { write(values); }

 private:
  void number(std::int64_t& value, std::int64_t) override { node_.add_numbers(value); }
  void write(std::span<const std::int64_t> values) {
    node_.add_numbers(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) node_.add_numbers(value);
  }

  plan_schema::Node& node_;
};

void encode_node(const Node& from, plan_schema::Node& to) {
  for (const ValueId id : from.inputs) to.add_inputs(id);
  for (const SourceNode& source : from.origin.nodes) {
    plan_schema::Source& one = *to.add_sources();
    one.set_index(source.index);
    one.set_name(source.name);
    one.set_op_type(source.op_type);
  }
  to.set_op(static_cast<std::uint32_t>(from.op.index()));
  MemberWriter writer(to);
  std::visit([&](auto op) { members(op, writer); }, from.op);
}

void encode_graph(const Graph& from, plan_schema::Graph& to) {
  to.set_name(from.name());
  for (std::size_t id = 0; id < from.values().size(); ++id) {
    const Value& value = from.values()[id];
    plan_schema::Value& one = *to.add_values();
    one.set_name(value.name);
    const bool input = static_cast<ValueId>(id) == from.input();
    one.set_kind(input            ? plan_schema::Value::INPUT
                 : value.constant ? plan_schema::Value::CONSTANT
                                  : plan_schema::Value::NODE);
    if (one.kind() == plan_schema::Value::NODE) continue;
    for (const std::int64_t extent : value.desc.shape.dims()) one.add_dims(extent);
    one.set_layout(static_cast<std::uint32_t>(value.desc.layout));
    if (value.constant) one.set_dtype(static_cast<std::uint32_t>(value.desc.dtype));
  }
  for (const Node& node : from.nodes()) encode_node(node, *to.add_nodes());
  to.set_output(from.output());
}

void encode_options(const EngineOptions& from, plan_schema::Options& to) {
  to.set_precision(static_cast<std::uint32_t>(from.precision));
  to.set_max_batch(from.max_batch);
  if (from.picture_input) {
    for (const float factor : from.picture_input->scale) to.add_picture_factors(factor);
    for (const float factor : from.picture_input->shift) to.add_picture_factors(factor);
  }
  for (const auto& [kernel, variant] : from.kernel_variants) {
    plan_schema::KernelVariant& one = *to.add_kernel_variants();
    one.set_kernel(kernel);
    one.set_variant(variant);
  }
  if (!from.plan_batches) return;
  plan_schema::PlanBatches& batches = *to.mutable_plan_batches();
  for (const std::int64_t batch : *from.plan_batches) batches.add_batches(batch);
}

}  // namespace

plan_schema::Plan to_message(const SavedEngine& engine) {
  plan_schema::Plan plan;
  plan.set_library_version(MOBICUDA_VERSION);
  plan.set_backend(engine.backend);
  plan.set_processor(engine.processor);
  encode_options(engine.options, *plan.mutable_options());
  encode_graph(engine.graph, *plan.mutable_graph());
  for (const SavedPlan& made : engine.plans) {
    plan_schema::BatchPlan& to = *plan.add_plans();
    to.set_batch(made.batch);
    for (const SavedChoice& choice : made.choices) {
      plan_schema::Choice& one = *to.add_choices();
      one.set_kernel(choice.kernel);
      one.set_variant(choice.variant);
      one.set_reason(choice.reason);
    }
  }
  for (const SavedPiece& piece : engine.pieces) {
    plan_schema::Piece& one = *plan.add_pieces();
    one.set_offset(piece.offset);
    one.set_bytes(piece.bytes);
  }
  for (const SavedCode& code : engine.code) {
    plan_schema::Code& one = *plan.add_code();
    one.set_header(code.header);
    one.set_expression(code.expression);
    one.set_kernel(code.kernel);
    one.set_image(code.image);
    one.set_sources(code.sources);
  }
  return plan;
}

}  // namespace mobicuda::plan_file
