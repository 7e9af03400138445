#include "run_document.h"
#include "support/folders.h"

#include <fstream>

using namespace mobicuda::bench::report;
using nlohmann::json;

json run_document() {
  std::ifstream stream(mobicuda::test::source_folder() / "tests/report/run.json");
  return json::parse(stream);
}

ReportFile run() { return read_document(run_document(), "r.json"); }

ReportFile timed_run() {
  ReportFile file = run();
  file.report.images.reset();
  file.report.fewer_images.clear();
  file.report.cases[0].threads.reset();
  file.report.cases[0].layer_comparisons.clear();
  return file;
}
