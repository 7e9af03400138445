#include "report/layer_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

constexpr char kBetweenNodes = '+';
constexpr char kBetweenParts = '/';
constexpr std::string_view kSeparators = "/._";
constexpr std::string_view kTensorEnding = "_output_0";

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : std::string(between)) + parts[i];
  return text;
}

// A name, taken apart: "to_NHWC(" and ")" around the nodes, "input of " before them, or nothing.
struct Nodes {
  std::string before;
  std::vector<std::string> paths;
  std::string after;
};

std::string without_repetition(std::string_view node) {
  if (node.starts_with(kBetweenParts)) node.remove_prefix(1);
  if (node.ends_with(kTensorEnding)) node.remove_suffix(kTensorEnding.size());
  const std::vector<std::string> parts = split(node, kBetweenParts);
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i + 1 == parts.size() || !parts[i + 1].starts_with(parts[i] + '.')) kept.push_back(parts[i]);
  }
  return joined(kept, "/");
}

Nodes nodes_of(const std::string& name) {
  constexpr std::string_view kOf = " of ";
  const std::size_t open = name.find('(');
  const std::size_t of = name.find(kOf);
  Nodes nodes;
  std::string_view inside = name;
  if (open != std::string::npos && name.back() == ')') {
    nodes.before = name.substr(0, open + 1);
    nodes.after = ")";
    inside = inside.substr(open + 1, inside.size() - open - 2);
  } else if (of != std::string::npos) {
    nodes.before = name.substr(0, of + kOf.size());
    inside.remove_prefix(of + kOf.size());
  }
  for (const std::string& node : split(inside, kBetweenNodes)) nodes.paths.push_back(without_repetition(node));
  return nodes;
}

// How many characters all `names` begin with, the last of them being one of `separators`, and something following.
std::size_t shared_beginning(const std::vector<std::string>& names, std::string_view separators) {
  std::size_t shared = 0;
  const std::string& first = names.front();
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    const bool same = std::all_of(names.begin(), names.end(),
                                  [&](const std::string& name) { return i + 1 < name.size() && name[i] == first[i]; });
    if (!same) break;
    if (separators.find(first[i]) != std::string_view::npos) shared = i + 1;
  }
  return shared;
}

std::string text_of(Nodes nodes) {
  const std::size_t shared = nodes.paths.size() > 1 ? shared_beginning(nodes.paths, kSeparators) : 0;
  // A separator alone tells nothing that could be told once.
  const bool together = shared > 1;
  const std::string beginning = together ? nodes.paths.front().substr(0, shared - 1) + ": " : "";
  for (std::string& path : nodes.paths) {
    if (together) path.erase(0, shared);
    const std::size_t last = path.rfind(kBetweenParts);
    if (last != std::string::npos) path[last] = ' ';
  }
  return nodes.before + beginning + joined(nodes.paths, together ? ", " : "+") + nodes.after;
}

// "a/b/" where each node that has a path begins with it.
std::size_t network_beginning(const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    for (std::string& path : nodes_of(name).paths) {
      if (path.find(kBetweenParts) != std::string::npos) paths.push_back(std::move(path));
    }
  }
  return paths.empty() ? 0 : shared_beginning(paths, std::string_view(&kBetweenParts, 1));
}

std::vector<std::string> names_of(const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  for (const Layer& layer : layers) names.push_back(layer.name);
  return names;
}

}  // namespace

LayerNames::LayerNames(const std::vector<std::string>& names) {
  const std::size_t everywhere = network_beginning(names);
  for (const std::string& name : names) {
    std::string& brief = short_of_.emplace(name, name).first->second;
    if (count_characters(name) <= kLongestWhole) continue;
    Nodes nodes = nodes_of(name);
    for (std::string& path : nodes.paths) {
      if (path.find(kBetweenParts) != std::string::npos) path.erase(0, everywhere);
    }
    brief = text_of(std::move(nodes));
  }
  // A name that goes back to its whole length may meet the short form of a third one.
  for (bool met = true; met;) {
    met = false;
    std::map<std::string, int> uses;
    for (const auto& [whole, brief] : short_of_) ++uses[brief];
    for (auto& [whole, brief] : short_of_) {
      if (brief == whole || uses[brief] == 1) continue;
      brief = whole;
      met = true;
    }
  }
}

LayerNames::LayerNames(const std::vector<Layer>& layers) : LayerNames(names_of(layers)) {}

const std::string& LayerNames::shortened(const std::string& name) const {
  const auto found = short_of_.find(name);
  return found == short_of_.end() ? name : found->second;
}

}  // namespace mobicuda::bench::report
