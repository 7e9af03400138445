#include "triton/metrics.h"

#include "triton/server_errors.h"

namespace mobicuda::triton {

void Metric::add(double value) const noexcept {
  if (metric_ != nullptr) log_and_delete(TRITONSERVER_MetricIncrement(metric_.get(), value), "metric");
}

void Metric::Delete::operator()(TRITONSERVER_Metric* metric) const noexcept {
  log_and_delete(TRITONSERVER_MetricDelete(metric), "metric");
}

void Metrics::Delete::operator()(TRITONSERVER_MetricFamily* family) const noexcept {
  log_and_delete(TRITONSERVER_MetricFamilyDelete(family), "family of metrics");
}

Metrics::Metrics()
    : memory_bytes_(family(TRITONSERVER_METRIC_KIND_GAUGE, "mobicuda_memory_bytes",
                           "Bytes that engines (weights) and their sessions hold, by model and processor")),
      decoded_pictures_(family(TRITONSERVER_METRIC_KIND_COUNTER, "mobicuda_decoded_pictures",
                               "Encoded pictures, by what decoded them; none: what could not be decoded")),
      waiting_requests_(family(TRITONSERVER_METRIC_KIND_GAUGE, "mobicuda_waiting_requests",
                               "Requests that wait in the backend for an instance")),
      failed_requests_(family(TRITONSERVER_METRIC_KIND_COUNTER, "mobicuda_failed_requests",
                              "Requests that the backend answered with an error")) {}

Metrics::Family Metrics::family(TRITONSERVER_MetricKind kind, const char* name, const char* description) {
  TRITONSERVER_MetricFamily* family = nullptr;
  if (TRITONSERVER_Error* const failed = TRITONSERVER_MetricFamilyNew(&family, kind, name, description)) {
    TRITONSERVER_ErrorDelete(failed);  // a server that was built or started without metrics
    return nullptr;
  }
  return Family(family);
}

Metric Metrics::make(const Family& family, const Labels& labels) {
  if (family == nullptr) return {};
  std::vector<const TRITONSERVER_Parameter*> parameters;
  parameters.reserve(labels.size());
  for (const auto& [name, value] : labels) {
    parameters.push_back(TRITONSERVER_ParameterNew(name.c_str(), TRITONSERVER_PARAMETER_STRING, value.c_str()));
  }
  TRITONSERVER_Metric* metric = nullptr;
  log_and_delete(TRITONSERVER_MetricNew(&metric, family.get(), parameters.data(), parameters.size()), "metric");
  for (const TRITONSERVER_Parameter* parameter : parameters) {
    TRITONSERVER_ParameterDelete(const_cast<TRITONSERVER_Parameter*>(parameter));
  }
  return Metric(metric);
}

}  // namespace mobicuda::triton
