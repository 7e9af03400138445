#include "report/compare_section.h"

#include <ostream>

#include "report/html.h"
#include "report/layer_names.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

const std::vector<std::string> kHeader{"tensor",      "kernel", "against", "max |diff|", "mean |diff|",
                                       "relative L2", "cosine", "max ULP", "verdict"};
constexpr std::size_t kTextColumns = 3;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kNameInSentence = 48;

std::string heading(const CaseResult& result, const LayerComparison& comparison) {
  return "Layer by layer: " + result.label() + ", batch " + std::to_string(result.batch) + ", against " +
         comparison.reference;
}

std::string quoted(const LayerNames& names, const std::string& name) {
  return '\'' + cut_middle(names.shortened(name), kNameInSentence) + '\'';
}

LayerNames tensor_names(const LayerComparison& comparison) {
  std::vector<std::string> names;
  for (const ComparedLayer& one : comparison.layers) names.push_back(one.tensor);
  return LayerNames(names);
}

std::string summary(const LayerComparison& comparison, const LayerNames& tensors, const LayerNames& layers) {
  if (comparison.layers.empty()) return "The two have no tensor in common.";
  const ComparedLayer& worst = *comparison.worst();
  const std::string limit = scientific(comparison.threshold);
  std::string text = std::to_string(comparison.layers.size()) + " tensors compared, " +
                     std::to_string(comparison.not_compared.size()) + " layers left out; the largest relative L2 is " +
                     scientific(worst.difference.relative_l2) + ", of " + quoted(tensors, worst.tensor) + "; ";
  const ComparedLayer* first = comparison.first_diverging();
  if (first == nullptr) return text + "all are within " + limit + ".";
  return text + std::to_string(comparison.diverging()) + " are beyond " + limit + ", first " +
         quoted(tensors, first->tensor) + " of layer " + quoted(layers, first->layer) + " (" + first->kernel + ").";
}

std::vector<std::string> cells(const ComparedLayer& one, const LayerComparison& comparison, const LayerNames& tensors) {
  const Difference& d = one.difference;
  const char* verdict = !one.diverged ? "ok" : &one == comparison.first_diverging() ? "FIRST BEYOND" : "beyond";
  return {tensors.shortened(one.tensor),
          one.kernel,
          one.reference_kernel,
          scientific(d.max_abs),
          scientific(d.mean_abs),
          scientific(d.relative_l2),
          fixed(d.cosine, kCosineDecimals),
          fixed(d.max_ulp, 0),
          verdict};
}

std::string left_out(const LayerComparison& comparison, const LayerNames& layers) {
  if (comparison.not_compared.empty()) return {};
  HtmlTable table({"layer that was left out", "reason"}, 2);
  for (const UncomparedLayer& one : comparison.not_compared) {
    table.add_row({layers.shortened(one.layer), one.reason}, "", one.layer);
  }
  return table.str();
}

}  // namespace

void print_layer_comparisons(std::ostream& out, const std::vector<CaseResult>& cases) {
  for (const CaseResult& result : cases) {
    for (const LayerComparison& comparison : result.layer_comparisons) {
      TextTable table(kHeader, kTextColumns);
      const LayerNames tensors = tensor_names(comparison);
      const LayerNames layers(result.layers);
      for (const ComparedLayer& one : comparison.layers) table.add_row(cells(one, comparison, tensors));
      out << '\n' << heading(result, comparison) << '\n';
      table.print(out);
      for (const UncomparedLayer& one : comparison.not_compared) {
        out << "  left out: " << cut_middle(layers.shortened(one.layer), kNameInSentence) << ": " << one.reason << '\n';
      }
      out << paragraph(summary(comparison, tensors, layers), kIndent);
    }
  }
}

std::string layer_comparisons_section(const Report& report) {
  std::string html;
  for (const CaseResult& result : report.cases) {
    for (const LayerComparison& comparison : result.layer_comparisons) {
      HtmlTable table(kHeader, kTextColumns);
      const LayerNames tensors = tensor_names(comparison);
      const LayerNames layers(result.layers);
      for (const ComparedLayer& one : comparison.layers) {
        table.add_row(cells(one, comparison, tensors), one.diverged ? "hot worse" : "", one.tensor);
      }
      // What is beyond its threshold is open.
      html += comparison.first_diverging() != nullptr ? "<details open=\"open\">" : "<details>";
      html += element("summary", heading(result, comparison)) + element("p", summary(comparison, tensors, layers)) +
              table.str() + left_out(comparison, layers) + "</details>\n";
    }
  }
  if (html.empty()) return {};
  return "<h2>Layer by layer</h2>\n" +
         element("p",
                 "Both run one layer at a time on the timed input, each on what its own layers computed before. "
                 "Tensors that lie inside a layer of the first are not compared.") +
         html;
}

}  // namespace mobicuda::bench::report
