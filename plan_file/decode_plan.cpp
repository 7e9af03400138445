#include <algorithm>

#include "structure.h"

namespace mobicuda::plan_file {
namespace {

EngineOptions decode_options(const plan_schema::Options& from, const Limits& limits) {
  EngineOptions options;
  require_range(from.precision(), 0, static_cast<std::int64_t>(Precision::Fp32Split), "precision");
  options.precision = static_cast<Precision>(from.precision());
  options.max_batch = from.max_batch();
  if (const int factors = from.picture_factors_size(); factors != 0) {
    PictureInput& picture = options.picture_input.emplace();
    require_range(factors, 6, 6, "factors of pictures");
    std::copy_n(from.picture_factors().begin(), 3, picture.scale.begin());
    std::copy_n(from.picture_factors().begin() + 3, 3, picture.shift.begin());
  }
  for (const plan_schema::KernelVariant& one : from.kernel_variants()) {
    options.kernel_variants[checked_text(one.kernel(), limits)] = checked_text(one.variant(), limits);
  }
  if (from.has_plan_batches()) {
    const auto& batches = from.plan_batches().batches();
    options.plan_batches.emplace(batches.begin(), batches.end());
  }
  check_options(options);
  return options;
}

SavedPlan decode_plan(const plan_schema::BatchPlan& from, const Limits& limits) {
  require_range(from.choices_size(), 0, 4 * limits.nodes, "choices");
  SavedPlan plan{from.batch(), {}};
  for (const plan_schema::Choice& choice : from.choices()) {
    plan.choices.push_back({checked_text(choice.kernel(), limits), checked_text(choice.variant(), limits),
                            checked_text(choice.reason(), limits)});
  }
  return plan;
}

}  // namespace

void require_range(std::int64_t value, std::int64_t low, std::int64_t high, std::string_view what) {
  if (value >= low && value <= high) return;
  throw Error(ErrorCode::invalid_model, std::string(what),
              "must be " + (low == high ? "" : std::to_string(low) + " to ") + std::to_string(high) + ", got " +
                  std::to_string(value));
}

std::string checked_text(const std::string& text, const Limits& limits) {
  require_range(static_cast<std::int64_t>(text.size()), 0, limits.text_bytes, "bytes of a name");
  return printable(text);
}

SavedEngine from_message(const plan_schema::Plan& plan, const Limits& limits) {
  if (plan.library_version() != MOBICUDA_VERSION) {
    throw Error(ErrorCode::unsupported, "",
                "was made by version " + checked_text(plan.library_version(), limits) + " of mobicuda, this is " +
                    MOBICUDA_VERSION,
                "make it again from the model with this version");
  }
  const Limits& l = limits;
  SavedEngine engine{checked_text(plan.backend(), l),
                     checked_text(plan.processor(), l),
                     decode_options(plan.options(), l),
                     decode_graph(plan.graph(), l),
                     {},
                     {},
                     {},
                     {}};
  require_range(plan.plans_size(), 0, engine.options.max_batch, "plans");
  for (const plan_schema::BatchPlan& one : plan.plans()) engine.plans.push_back(decode_plan(one, l));
  require_range(plan.pieces_size(), 0, limits.values, "packed weights");
  for (const plan_schema::Piece& piece : plan.pieces()) engine.pieces.push_back({piece.offset(), piece.bytes()});
  require_range(plan.code_size(), 0, limits.values, "specialised kernels");
  for (const plan_schema::Code& code : plan.code()) {
    engine.code.push_back({checked_text(code.header(), l), checked_text(code.expression(), l),
                           checked_text(code.kernel(), l), code.image(), checked_text(code.sources(), l)});
  }
  return engine;
}

}  // namespace mobicuda::plan_file
