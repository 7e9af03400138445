#include "report/changes_text.h"

#include <algorithm>
#include <ostream>

#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

void print_table(std::ostream& out, const char* title, const std::vector<Change>& changes) {
  if (changes.empty()) return;
  // A layer's kernel before and after is text.
  const bool texts = std::any_of(changes.begin(), changes.end(),
                                 [](const Change& change) { return change.verdict == Verdict::Changed; });
  TextTable table({"case", "quantity", "before", "after", "change", "noise", "verdict"}, texts ? 4 : 2);
  for (const Change& change : changes) {
    table.add_row({change.subject, change.quantity, change.before, change.after, signed_percent(change.relative),
                   change.noise > 0 ? percent(change.noise, 1) : "-", to_string(change.verdict)});
  }
  out << '\n' << title << '\n';
  table.print(out);
}

}  // namespace

void print_changes(std::ostream& out, const ReportFile& before, const ReportFile& after, const ReportChanges& changes) {
  out << "Before " << before.path.string() << "\nAfter  " << after.path.string() << '\n';
  for (const std::string& line : changes.setup) out << "Differs: " << line << '\n';
  for (const std::string& line : changes.only_before) out << "Only before: " << line << '\n';
  for (const std::string& line : changes.only_after) out << "Only after: " << line << '\n';
  if (changes.cases.empty() && changes.pictures.empty()) out << "\nThe files have no case in common.\n";
  print_table(out, "Times and memory", changes.cases);
  print_table(out, "Accuracy on pictures", changes.pictures);
  print_table(out, "Layers that changed by more than 10 %, and 1 % of the time of all, or changed their kernel",
              changes.layers);
  if (!changes.layers_left_out.empty()) out << '\n' << paragraph(changes.layers_left_out);
  out << '\n' << paragraph(noise_rule());
}

}  // namespace mobicuda::bench::report
