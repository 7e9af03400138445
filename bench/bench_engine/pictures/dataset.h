#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// Classes by number and by synset.
struct Labels {
  std::vector<std::string> synsets;            ///< first word of line i
  std::vector<std::string> names;              ///< the rest of line i, or the synset when there is none
  std::map<std::string, std::size_t> indices;  ///< synset -> class

  std::size_t classes() const noexcept { return synsets.size(); }
};

/// One class a line: "n01440764 tench", line i (from 0) names class i. Empty lines at the end are ignored.
/// Throws UsageError naming `source` and the line: an empty line within, a synset named twice, no line at all.
Labels parse_labels(std::istream& stream, const std::string& source);
Labels load_labels(const std::filesystem::path& path);

/// An entry of a folder: a picture file, with its class where known.
struct Sample {
  std::string path;                  ///< relative to the folder, with '/'
  std::optional<std::size_t> label;  ///< from the folder's name; nothing when that is no synset of the labels
  std::size_t row = 0;               ///< its row in a file of reference logits; of no meaning where unreadable
  std::string unreadable{};          ///< why it is no file that can be opened; empty for files
};

/// All files below `folder`, in ascending order of their relative paths, and among them what is none, or cannot be
/// listed: links that loop or lead nowhere or to folders, devices, folders without permission. Hidden files are left
/// out. Throws UsageError when the folder does not exist, cannot be listed or is empty.
std::vector<Sample> list_samples(const std::filesystem::path& folder, const Labels& labels);

/// Numbers the rows after a list of paths (the first word of each line) instead of the sorted order. Throws
/// UsageError when the list lacks one of the samples.
void assign_rows(std::vector<Sample>& samples, std::istream& list, const std::string& source);

/// Rows of `classes` little-endian float32. Throws UsageError when the file is not a whole number of rows.
std::vector<float> load_rows(const std::filesystem::path& path, std::size_t classes);

}  // namespace mobicuda::bench
