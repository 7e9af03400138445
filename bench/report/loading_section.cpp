#include "report/loading_section.h"

#include <algorithm>
#include <ostream>

#include "report/html.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

std::string plan_text(const PlanTimes& times) {
  return "Import of the plan file: read " + fixed(times.read_ms, 2) + ", check " + fixed(times.check_ms, 2) +
         ", parse " + fixed(times.parse_ms, 2) + " ms";
}

// "upload to the GPU, of compile: custom fp16, batch 1 0.82, ..."
std::string upload_text(const Report& report) {
  std::string text;
  for (const CaseResult& result : report.cases) {
    if (result.upload_ms <= 0) continue;
    text += (text.empty() ? "Upload to the GPU, part of compile: " : "; ") + result.label() + ", batch " +
            std::to_string(result.batch) + ' ' + fixed(result.upload_ms, 2) + " ms";
  }
  return text;
}

bool reloaded(const CaseResult& result) { return result.reload.count > 0; }

const std::vector<std::string> kReloadHeader{"implementation", "batch",       "median", "mean", "p90", "min",
                                             "runs",           "kept loaded", "ratio"};
constexpr const char* kReloadTitle = "Model read anew for each batch (--reload each): ms from the file to the outputs";

std::vector<std::string> reload_row(const CaseResult& result) {
  const Statistics& s = result.reload;
  const double kept = result.host_statistics.median;
  return {result.label(),
          std::to_string(result.batch),
          fixed(s.median, 2),
          fixed(s.mean, 2),
          fixed(s.p90, 2),
          fixed(s.min, 2),
          std::to_string(s.count),
          kept > 0 ? milliseconds(kept) : "-",
          kept > 0 ? fixed(s.median / kept, 1) + "x" : "-"};
}

}  // namespace

void print_loading(std::ostream& out, const Report& report) {
  if (report.model.plan) out << "  " << plan_text(*report.model.plan) << '\n';
  if (const std::string upload = upload_text(report); !upload.empty()) out << paragraph(upload, 2);
  if (std::none_of(report.cases.begin(), report.cases.end(), reloaded)) return;
  TextTable table(kReloadHeader, 1);
  for (const CaseResult& result : report.cases) {
    if (reloaded(result)) table.add_row(reload_row(result));
  }
  out << '\n' << kReloadTitle << '\n';
  table.print(out);
}

std::string loading_details(const Report& report) {
  std::string html;
  if (report.model.plan) html += element("p", plan_text(*report.model.plan) + '.');
  if (const std::string upload = upload_text(report); !upload.empty()) html += element("p", upload + '.');
  if (std::none_of(report.cases.begin(), report.cases.end(), reloaded)) return html;
  HtmlTable table(kReloadHeader, 1);
  for (const CaseResult& result : report.cases) {
    if (reloaded(result)) table.add_row(reload_row(result));
  }
  return html + element("p", std::string(kReloadTitle) + '.') + table.str();
}

}  // namespace mobicuda::bench::report
