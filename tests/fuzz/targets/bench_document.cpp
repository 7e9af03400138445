#include <exception>
#include <sstream>
#include <string>

#include "fuzz/target.h"
#include "report/read_report.h"
#include "report/report_error.h"
#include "report/report_html.h"
#include "report/report_text.h"

namespace mobicuda::fuzz {
namespace {

bool run(Bytes input) {
  try {
    const auto file = bench::report::parse_report({input.begin(), input.end()}, "input");
    std::ostringstream out;
    bench::report::print_cases(out, file, {.profile = true, .layer_info = true, .per_class = true});
    bench::report::print_ending(out, file, {});
    const std::string page = bench::report::html_report(file);
    if (page.find("<script") != std::string::npos) fail("a page with a script");
    return true;
  } catch (const bench::report::ReportError&) {
    return false;
  } catch (const std::exception& error) {
    fail(std::string("an exception that is no ReportError: ") + error.what());
  }
}

}  // namespace

Target bench_document() { return {run}; }

}  // namespace mobicuda::fuzz
