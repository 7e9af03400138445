// Operations on integers: CudnnBackend::why_unsupported() refuses them.
#include <mobicuda/error.h>

#include "cudnn/plan_builder.h"

namespace mobicuda::cudnn {
namespace {

[[noreturn]] void refuse_integers(const Node& node) {
  throw Error(ErrorCode::internal, node.origin.describe(), "an operation on integers was not refused");
}

}  // namespace

void emit(PlanBuilder&, const Node& node, const Quantize&) { refuse_integers(node); }
void emit(PlanBuilder&, const Node& node, const Dequantize&) { refuse_integers(node); }
void emit(PlanBuilder&, const Node& node, const Requantize&) { refuse_integers(node); }
void emit(PlanBuilder&, const Node& node, const QuantizedConv2d&) { refuse_integers(node); }
void emit(PlanBuilder&, const Node& node, const QuantizedGemm&) { refuse_integers(node); }
void emit(PlanBuilder&, const Node& node, const QuantizedAdd&) { refuse_integers(node); }
void emit(PlanBuilder&, const Node& node, const QuantizedAveragePool&) { refuse_integers(node); }

}  // namespace mobicuda::cudnn
