#include "report/images_text.h"

#include <algorithm>
#include <ostream>

#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

constexpr std::size_t kNamesShown = 5;  // of broken or unlabelled pictures

template <class Item, class Text>
void print_some(std::ostream& out, const std::vector<Item>& items, const char* what, Text text) {
  if (items.empty()) return;
  out << "  " << items.size() << ' ' << what << ":\n";
  for (std::size_t i = 0; i < std::min(items.size(), kNamesShown); ++i) out << "    " << text(items[i]) << '\n';
  if (items.size() > kNamesShown) out << "    and " << items.size() - kNamesShown << " more\n";
}

void add_comparison(std::vector<std::string>& row, const std::optional<Comparison>& comparison) {
  if (!comparison) {
    row.insert(row.end(), {"-", "-", "-"});
    return;
  }
  row.push_back(scientific(comparison->max_abs));
  row.push_back(scientific(comparison->relative_l2));
  row.push_back(std::to_string(comparison->top1_equal) + "/" + std::to_string(comparison->pictures));
}

void print_accuracy(std::ostream& out, const ImageReport& images) {
  out << "\nPictures" << (images.folder.empty() ? "" : " of " + images.folder) << ": " << images.found << " found, "
      << images.evaluated << " evaluated, " << images.labelled << " with a label, batch " << images.batch << "\n  "
      << images.preprocessing << '\n';
  print_some(out, images.broken, "broken, left out",
             [](const auto& broken) { return broken.first + ": " + broken.second; });
  print_some(out, images.unlabelled, "in folders that are no synset of --labels",
             [](const std::string& path) { return path; });
  const bool several = images.results.size() > 1;
  const bool file = !images.results.empty() && images.results.front().with_reference_file.has_value();
  std::vector<std::string> header{"implementation", "pictures/s", "top-1", "top-5"};
  if (several) header.insert(header.end(), {"max |diff|", "relative L2", "top-1 equal"});
  if (file) header.insert(header.end(), {"max |diff| file", "relative L2", "top-1 equal"});
  TextTable table(std::move(header), 1);
  const auto whole = static_cast<double>(images.labelled);
  for (const AccuracyResult& result : images.results) {
    const double seconds = result.inference_ms / 1e3;
    std::vector<std::string> row{
        result.label(), seconds > 0 ? rate(static_cast<double>(images.evaluated) / seconds) : "-",
        percent(static_cast<double>(result.top1), whole), percent(static_cast<double>(result.top5), whole)};
    if (several) add_comparison(row, result.with_reference);
    if (file) add_comparison(row, result.with_reference_file);
    table.add_row(std::move(row));
  }
  if (several) out << "  differences of logits against " << images.reference() << '\n';
  if (file) out << "  differences of logits against --referenceLogits (file)\n";
  table.print(out);
}

void print_rates(std::ostream& out, const ImageReport& images) {
  if (images.decode_rate <= 0) return;
  TextTable table({"implementation", "inference alone", "decoding alone", "both at once"}, 1);
  for (const AccuracyResult& result : images.results) {
    table.add_row({result.label(), rate(result.inference_rate), rate(images.decode_rate), rate(result.pipeline_rate)});
  }
  out << "\nPictures/s of the first pictures, from files to logits, " << images.decode_threads << " decoding threads\n";
  table.print(out);
  for (const AccuracyResult& result : images.results) {
    if (result.pipeline_decoder.empty() || result.pipeline_decoder == "cpu") continue;
    out << "both at once, " << result.label() << ": JPEG is decoded by " << result.pipeline_decoder << '\n';
  }
}

void print_confusion(std::ostream& out, const std::string& label, const std::string& reference,
                     const std::vector<Confusion>& confusions) {
  if (confusions.empty()) return;
  TextTable table({reference + " says", label + " says", "pictures"}, 2);
  for (std::size_t i = 0; i < std::min(confusions.size(), kPairsShown); ++i) {
    const Confusion& one = confusions[i];
    table.add_row({one.reference_name, one.own_name, std::to_string(one.pictures)});
  }
  out << "\nTop-1 of " << label << ", where it is not that of " << reference << ": " << confusions.size()
      << " pairs of classes\n";
  table.print(out);
  if (confusions.size() > kPairsShown) out << "  and " << confusions.size() - kPairsShown << " pairs more\n";
}

void print_classes(std::ostream& out, const ImageReport& images) {
  std::vector<std::string> header{"class", "name", "pictures"};
  for (const AccuracyResult& result : images.results) {
    header.push_back(result.label() + " top-1");
    header.emplace_back("top-5");
  }
  TextTable table(std::move(header), 2);
  for (std::size_t i = 0; i < images.classes.size(); ++i) {
    const ClassCount& one = images.classes[i];
    std::vector<std::string> row{std::to_string(one.index), one.name, std::to_string(one.pictures)};
    for (const AccuracyResult& result : images.results) {
      const bool counted = i < result.by_class.size();
      row.push_back(counted ? std::to_string(result.by_class[i].top1) : "-");
      row.push_back(counted ? std::to_string(result.by_class[i].top5) : "-");
    }
    table.add_row(std::move(row));
  }
  out << "\nPictures that each class has, and how many of them are right\n";
  table.print(out);
}

}  // namespace

void print_fewer_images(std::ostream& out, const ImageReport& images) {
  print_accuracy(out, images);
  print_rates(out, images);
}

void print_images(std::ostream& out, const ImageReport& images, bool per_class) {
  print_fewer_images(out, images);
  for (const AccuracyResult& result : images.results) {
    print_confusion(out, result.label(), images.reference(), result.confusion);
    print_confusion(out, result.label(), "--referenceLogits", result.confusion_file);
  }
  if (per_class) print_classes(out, images);
}

}  // namespace mobicuda::bench::report
