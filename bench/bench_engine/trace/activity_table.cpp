#include "bench_engine/trace/activity_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "bench_engine/trace/kernel_name.h"

namespace mobicuda::bench {
namespace {

constexpr double kMsPerNs = 1e-6;

class Rows {
 public:
  void add(const std::string& kind, const std::string& name, std::uint64_t start_ns, std::uint64_t end_ns) {
    const double ms = kMsPerNs * static_cast<double>(end_ns - start_ns);
    ActivityRow& row = rows_[{kind, name}];
    if (row.calls == 0) row = {name, kind, 0, 0, ms, ms};
    ++row.calls;
    row.total_ms += ms;
    row.min_ms = std::min(row.min_ms, ms);
    row.max_ms = std::max(row.max_ms, ms);
  }

  std::vector<ActivityRow> sorted() const {
    std::vector<ActivityRow> rows;
    for (const auto& [key, row] : rows_) rows.push_back(row);
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.total_ms > b.total_ms; });
    return rows;
  }

 private:
  std::map<std::pair<std::string, std::string>, ActivityRow> rows_;
};

}  // namespace

ActivityTables tabulate(const GpuTrace& trace, int runs) {
  Rows gpu;
  for (const GpuActivity& one : trace.gpu) {
    const bool kernel = one.kind == ActivityKind::Kernel;
    gpu.add(to_string(one.kind), kernel ? short_name(one.name) : one.name, one.start_ns, one.end_ns);
  }
  Rows calls;
  for (const HostSpan& call : trace.calls) calls.add("call", call.name, call.start_ns, call.end_ns);
  return {runs, gpu.sorted(), calls.sorted(), trace.dropped};
}

double total_ms(const std::vector<ActivityRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const ActivityRow& row) { return sum + row.total_ms; });
}

}  // namespace mobicuda::bench
