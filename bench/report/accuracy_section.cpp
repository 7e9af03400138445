#include "report/accuracy_section.h"

#include <algorithm>

#include "report/html.h"
#include "report/images_text.h"
#include "report/reference.h"
#include "report/svg_chart.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {
namespace {

constexpr std::size_t kWorstShown = 20;

std::vector<std::string> comparison_cells(const std::optional<Comparison>& comparison) {
  if (!comparison) return {"-", "-", "-"};
  return {scientific(comparison->max_abs), scientific(comparison->relative_l2),
          std::to_string(comparison->top1_equal) + "/" + std::to_string(comparison->pictures)};
}

double seen_rate(const ImageReport& images, const AccuracyResult& result) {
  return result.inference_ms > 0 ? 1e3 * static_cast<double>(images.evaluated) / result.inference_ms : 0;
}

std::string against_reference(const Report& report) {
  const bool compared = std::any_of(report.cases.begin(), report.cases.end(),
                                    [](const CaseResult& result) { return result.comparison.has_value(); });
  if (!compared) return {};
  HtmlTable table({"implementation", "batch", "max |diff|", "relative L2", "top-1 equal"}, 1);
  for (const CaseResult& result : report.cases) {
    std::vector<std::string> row{result.label(), std::to_string(result.batch)};
    const std::vector<std::string> cells = comparison_cells(result.comparison);
    row.insert(row.end(), cells.begin(), cells.end());
    table.add_row(row);
  }
  return element("p", "Logits of the timed input, against " + references_text(report) + '.') + table.str();
}

std::string against_golden(const Report& report) {
  HtmlTable table(
      {"implementation", "batch", "max |diff|", "mean |diff|", "relative L2", "cosine", "max ULP", "top-1 equal"}, 1);
  bool any = false;
  for (const CaseResult& result : report.cases) {
    if (!result.golden) continue;
    any = true;
    const Difference& d = result.golden->difference;
    table.add_row({result.label(), std::to_string(result.batch), scientific(d.max_abs), scientific(d.mean_abs),
                   scientific(d.relative_l2), fixed(d.cosine, kCosineDecimals), fixed(d.max_ulp, 0),
                   std::to_string(result.golden->top1_equal) + "/" + std::to_string(result.golden->pictures)});
  }
  return any ? element("h3", "Golden outputs") +
                   element("p", "Outputs of the timed input, against the file of --golden.") + table.str()
             : std::string();
}

std::string accuracy_table(const ImageReport& images) {
  const auto any = [&](auto member) {
    return std::any_of(images.results.begin(), images.results.end(),
                       [member](const AccuracyResult& result) { return (result.*member).has_value(); });
  };
  std::vector<std::string> header{"implementation", "top-1", "top-5", "pictures/s"};
  std::vector<std::optional<Comparison> AccuracyResult::*> comparisons;
  if (any(&AccuracyResult::with_reference)) {
    comparisons.push_back(&AccuracyResult::with_reference);
    header.insert(header.end(), {"max |diff|, " + images.reference(), "relative L2", "top-1 equal"});
  }
  if (any(&AccuracyResult::with_reference_file)) {
    comparisons.push_back(&AccuracyResult::with_reference_file);
    header.insert(header.end(), {"max |diff|, file", "relative L2", "top-1 equal"});
  }
  HtmlTable table(header, 1);
  const auto share = [&](std::int64_t hits) {
    return percent(static_cast<double>(hits), static_cast<double>(images.labelled));
  };
  for (const AccuracyResult& result : images.results) {
    std::vector<std::string> row{result.label(), share(result.top1), share(result.top5),
                                 rate(seen_rate(images, result))};
    for (const auto comparison : comparisons) {
      const std::vector<std::string> cells = comparison_cells(result.*comparison);
      row.insert(row.end(), cells.begin(), cells.end());
    }
    table.add_row(row);
  }
  std::string note = "Pictures a second: of inference, while the next pictures were decoded.";
  if (any(&AccuracyResult::with_reference_file)) note += " File: against the logits of --referenceLogits.";
  return table.str("wide") + element("p", note);
}

std::string rates_table(const ImageReport& images) {
  if (images.decode_rate <= 0) return {};
  HtmlTable table({"implementation", "inference alone", "decoding alone", "both at once"}, 1);
  for (const AccuracyResult& result : images.results) {
    table.add_row({result.label(), rate(result.inference_rate), rate(images.decode_rate), rate(result.pipeline_rate)});
  }
  return element("h4", "From files to logits") +
         element("p", "Pictures a second of the first pictures, " + std::to_string(images.decode_threads) +
                          " decoding threads.") +
         table.str();
}

// How accuracy and speed settle with the number of pictures.
std::string settling(const Report& report) {
  if (report.fewer_images.empty() || !report.images) return {};
  std::vector<const ImageReport*> all;
  for (const ImageReport& images : report.fewer_images) all.push_back(&images);
  all.push_back(&*report.images);
  HtmlTable table({"implementation", "pictures", "top-1", "top-5", "pictures/s", "both at once"}, 1);
  std::vector<Series> top1;
  std::vector<Series> speed;
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < report.images->results.size(); ++i) {
    const std::string label = report.images->results[i].label();
    labels.push_back(label);
    top1.push_back({label, {}, i});
    speed.push_back({label, {}, i});
    for (const ImageReport* images : all) {
      if (i >= images->results.size()) continue;
      const AccuracyResult& result = images->results[i];
      const auto whole = static_cast<double>(images->labelled);
      const auto pictures = static_cast<double>(images->evaluated);
      table.add_row({label, std::to_string(images->evaluated), percent(static_cast<double>(result.top1), whole),
                     percent(static_cast<double>(result.top5), whole), rate(seen_rate(*images, result)),
                     rate(result.pipeline_rate)});
      if (whole > 0) top1.back().points.emplace_back(pictures, 100 * static_cast<double>(result.top1) / whole);
      speed.back().points.emplace_back(pictures, seen_rate(*images, result));
    }
  }
  const std::string charts = pictures_chart("Top-1 by number of pictures", "%", top1) +
                             pictures_chart("Inference by number of pictures", "pictures/s", speed);
  std::string html = element("h4", "By number of pictures");
  if (!charts.empty()) html += legend(labels) + "<div class=\"charts\">\n" + charts + "</div>\n";
  return html + table.str();
}

std::string worst_classes(const ImageReport& images) {
  if (images.classes.empty() || images.results.empty()) return {};
  const AccuracyResult& first = images.results.front();
  if (first.by_class.size() != images.classes.size()) return {};
  std::vector<std::size_t> order(images.classes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto share = [&](std::size_t i) {
    return static_cast<double>(first.by_class[i].top1) / static_cast<double>(images.classes[i].pictures);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (share(a) != share(b)) return share(a) < share(b);
    return images.classes[a].pictures > images.classes[b].pictures;
  });
  std::vector<std::string> header{"class", "name", "pictures"};
  for (const AccuracyResult& result : images.results) header.push_back(result.label());
  HtmlTable table(header, 2);
  const std::size_t shown = std::min(order.size(), kWorstShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const ClassCount& one = images.classes[order[i]];
    std::vector<std::string> row{std::to_string(one.index), one.name, std::to_string(one.pictures)};
    for (const AccuracyResult& result : images.results) {
      if (result.by_class.size() != images.classes.size()) {
        row.emplace_back("-");
        continue;
      }
      const ClassHits& hits = result.by_class[order[i]];
      row.push_back(std::to_string(hits.top1) + " (" + std::to_string(hits.top5) + ")");
    }
    table.add_row(row);
  }
  const auto right = std::count_if(order.begin(), order.end(), [&](std::size_t i) { return share(i) == 1; });
  return "<details>" +
         element("summary", "Worst classes: " + std::to_string(right) + " of " + std::to_string(order.size()) +
                                " classes are all right") +
         element("p", "By top-1 of " + first.label() + ": pictures that are right, in brackets among the first five.") +
         table.str() + "</details>\n";
}

std::string confusion_table(const std::string& own, const std::string& reference,
                            const std::vector<Confusion>& confusions) {
  if (confusions.empty()) return {};
  std::int64_t pictures = 0;
  for (const Confusion& one : confusions) pictures += one.pictures;
  HtmlTable table({reference + " says", own + " says", "pictures"}, 2);
  for (std::size_t i = 0; i < std::min(confusions.size(), kPairsShown); ++i) {
    const Confusion& one = confusions[i];
    table.add_row({one.reference_name, one.own_name, std::to_string(one.pictures)});
  }
  std::string html = "<details>" +
                     element("summary", own + " differs from " + reference + " on " + std::to_string(pictures) +
                                            (pictures == 1 ? " picture" : " pictures")) +
                     table.str();
  if (confusions.size() > kPairsShown) {
    html += element("p", "And " + std::to_string(confusions.size() - kPairsShown) + " pairs of classes more.");
  }
  return html + "</details>\n";
}

std::string pictures_part(const Report& report) {
  const ImageReport& images = *report.images;
  std::string html = element("h3", "Pictures") +
                     element("p", std::to_string(images.evaluated) + " of " + std::to_string(images.found) +
                                      " files evaluated, " + std::to_string(images.labelled) + " with a label, batch " +
                                      std::to_string(images.batch) + "; " + images.preprocessing) +
                     accuracy_table(images);
  for (const auto& [path, reason] : images.broken) html += element("p", "Left out: " + path + ": " + reason);
  html += rates_table(images) + settling(report) + worst_classes(images);
  for (const AccuracyResult& result : images.results) {
    html += confusion_table(result.label(), images.reference(), result.confusion) +
            confusion_table(result.label(), "--referenceLogits", result.confusion_file);
  }
  return html;
}

}  // namespace

std::string accuracy_section(const Report& report) {
  const std::string html =
      against_reference(report) + against_golden(report) + (report.images ? pictures_part(report) : std::string());
  return html.empty() ? html : "<h2>Accuracy</h2>\n" + html;
}

}  // namespace mobicuda::bench::report
