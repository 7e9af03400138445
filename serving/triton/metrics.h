#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "triton/triton_api.h"

namespace mobicuda::triton {

/// A number of the server's metrics page. Does nothing where the server keeps none.
class Metric {
 public:
  Metric() = default;
  explicit Metric(TRITONSERVER_Metric* metric) : metric_(metric) {}

  void add(double value) const noexcept;  ///< counters: value >= 0

 private:
  struct Delete {
    void operator()(TRITONSERVER_Metric* metric) const noexcept;
  };
  std::unique_ptr<TRITONSERVER_Metric, Delete> metric_;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

/// The backend's families of metrics. Thread-safe. Metrics must be gone before it.
class Metrics {
 public:
  Metrics();

  /// Bytes that engines (`what` weights) and sessions hold.
  Metric memory_bytes(const Labels& labels) const { return make(memory_bytes_, labels); }
  /// Pictures that were decoded, and of which none could be.
  Metric decoded_pictures(const Labels& labels) const { return make(decoded_pictures_, labels); }
  /// Requests that wait for an instance.
  Metric waiting_requests(const Labels& labels) const { return make(waiting_requests_, labels); }
  /// Requests that were answered with an error.
  Metric failed_requests(const Labels& labels) const { return make(failed_requests_, labels); }

 private:
  struct Delete {
    void operator()(TRITONSERVER_MetricFamily* family) const noexcept;
  };
  using Family = std::unique_ptr<TRITONSERVER_MetricFamily, Delete>;
  static Family family(TRITONSERVER_MetricKind kind, const char* name, const char* description);
  static Metric make(const Family& family, const Labels& labels);

  Family memory_bytes_;
  Family decoded_pictures_;
  Family waiting_requests_;
  Family failed_requests_;
};

}  // namespace mobicuda::triton
