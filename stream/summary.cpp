#include "stream/summary.h"

#include <ostream>

#include <mobicuda/error.h>

#include <nlohmann/json.hpp>

#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::stream {
namespace {

using Json = nlohmann::json;

double per_second(Item items, double seconds) { return seconds > 0 ? static_cast<double>(items) / seconds : 0; }

// Workers of one processor overlap: its rate is that of all of them side by side.
double rate_of(const Share& share, std::size_t workers) {
  return per_second(share.items, share.worker_seconds / static_cast<double>(workers));
}

// All processors side by side.
double rate_of_model(const Summary& summary, std::size_t model) {
  double sum = 0;
  for (const ProcessorSummary& one : summary.processors) sum += rate_of(one.models[model], one.workers);
  return sum;
}

Share total_of_model(const Summary& summary, std::size_t model) {
  Share sum;
  for (const ProcessorSummary& one : summary.processors) {
    sum.items += one.models[model].items;
    sum.failed += one.models[model].failed;
  }
  return sum;
}

std::string percent_text(const std::optional<double>& value) { return value ? bench::fixed(*value, 0) + " %" : "-"; }

}  // namespace

Item ProcessorSummary::items() const {
  Item sum = 0;
  for (const Share& share : models) sum += share.items;
  return sum;
}

double ProcessorSummary::worker_seconds() const {
  double sum = 0;
  for (const Share& share : models) sum += share.worker_seconds;
  return sum;
}

void print_summary(std::ostream& out, const Summary& summary, const Config& config) {
  bench::TextTable models({"model", "file", "weights", "pictures", "failed", "img/s while it ran"}, 1);
  for (std::size_t i = 0; i < summary.models.size(); ++i) {
    const ModelSummary& model = summary.models[i];
    const Share total = total_of_model(summary, i);
    models.add_row({model.name, bench::megabytes(static_cast<std::int64_t>(model.file_bytes)),
                    model.weight_bytes > 0 ? bench::megabytes(model.weight_bytes) : "-", std::to_string(total.items),
                    std::to_string(total.failed), bench::rate(rate_of_model(summary, i))});
  }
  models.print(out);
  out << '\n';
  bench::TextTable processors({"processor", "pictures", "img/s", "workers busy", "GPU busy", "power"}, 1);
  for (const ProcessorSummary& one : summary.processors) {
    const double available = summary.seconds * static_cast<double>(one.workers);
    processors.add_row({one.name, std::to_string(one.items()), bench::rate(per_second(one.items(), summary.seconds)),
                        bench::percent(one.worker_seconds(), available), percent_text(one.load_percent),
                        one.power_w ? bench::fixed(*one.power_w, 0) + " W" : "-"});
    if (!one.lost.empty()) processors.add_note("stopped before the end, others took over: " + one.lost);
  }
  processors.print(out);
  out << '\n'
      << summary.done << " pictures in " << bench::fixed(summary.seconds, 2) << " s, "
      << bench::rate(per_second(summary.done, summary.seconds)) << " img/s";
  if (summary.failed > 0) out << "; " << summary.failed << " could not be classified, results.jsonl says why";
  if (summary.done_before > 0) out << "; " << summary.done_before << " were done before";
  out << '\n';
  if (config.preload) out << "models were loaded before, in " << bench::fixed(summary.load_seconds, 2) << " s\n";
  if (!config.preload) out << "each batch read its model's file anew\n";
  if (!summary.complete()) {
    out << summary.items - summary.done_before - summary.done << " pictures are left: --resume goes on\n";
  }
}

std::string summary_json(const Summary& summary, const Config& config) {
  Json models = Json::array();
  for (std::size_t i = 0; i < summary.models.size(); ++i) {
    const ModelSummary& model = summary.models[i];
    const Share total = total_of_model(summary, i);
    models.push_back({{"name", model.name},
                      {"fileBytes", model.file_bytes},
                      {"weightBytes", model.weight_bytes},
                      {"pictures", total.items},
                      {"failed", total.failed},
                      {"picturesPerSecond", rate_of_model(summary, i)}});
  }
  Json processors = Json::array();
  for (const ProcessorSummary& one : summary.processors) {
    Json by_model = Json::array();
    for (std::size_t i = 0; i < one.models.size(); ++i) {
      by_model.push_back({{"name", summary.models[i].name},
                          {"pictures", one.models[i].items},
                          {"picturesPerSecond", rate_of(one.models[i], one.workers)}});
    }
    const auto known = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
    processors.push_back({{"name", one.name},
                          {"gpu", one.gpu ? Json(*one.gpu) : Json()},
                          {"pictures", one.items()},
                          {"picturesPerSecond", per_second(one.items(), summary.seconds)},
                          {"models", by_model},
                          {"gpuPercent", known(one.load_percent)},
                          {"powerW", known(one.power_w)},
                          {"lost", one.lost.empty() ? Json() : Json(one.lost)}});
  }
  const Json json{{"pictures", summary.items},
                  {"doneBefore", summary.done_before},
                  {"done", summary.done},
                  {"failed", summary.failed},
                  {"complete", summary.complete()},
                  {"interrupted", summary.interrupted},
                  {"seconds", summary.seconds},
                  {"loadSeconds", summary.load_seconds},
                  {"picturesPerSecond", per_second(summary.done, summary.seconds)},
                  {"preload", config.preload},
                  {"batchsize", config.batchsize},
                  {"models", models},
                  {"processors", processors}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mobicuda::stream
