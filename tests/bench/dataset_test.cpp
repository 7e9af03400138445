#include "bench_engine/pictures/dataset.h"

#include <filesystem>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include "bench_engine/model/exit_codes.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda::bench;

namespace {

Labels labels_of(const std::string& text) {
  std::istringstream stream(text);
  return parse_labels(stream, "labels.txt");
}

}  // namespace

TEST_CASE("line i of a synset file is class i", "[dataset]") {
  const Labels labels = labels_of("n01 tench, Tinca tinca\r\nn02\n  n03\tgreat white shark \n\n\n");
  CHECK(labels.synsets == std::vector<std::string>{"n01", "n02", "n03"});
  CHECK(labels.names == std::vector<std::string>{"tench, Tinca tinca", "n02", "great white shark"});
  CHECK(labels.indices.at("n03") == 2);
}

TEST_CASE("a synset file that cannot be right is refused with its line", "[dataset]") {
  CHECK_THROWS_WITH(labels_of("n01\nn02\nn01\n"), contains("labels.txt:3: 'n01' is named twice"));
  CHECK_THROWS_WITH(labels_of("n01\n\nn02\n"), contains("labels.txt:2: empty line"));
  CHECK_THROWS_AS(labels_of("\n"), UsageError);
  CHECK_THROWS_AS(load_labels("/nonexistent/labels.txt"), UsageError);
}

TEST_CASE("pictures are listed in path order with the class of their folder", "[dataset]") {
  const TemporaryFolder folder;
  folder.write("n02/b.jpg", "x");
  folder.write("n02/a.png", "x");
  folder.write("n01/c.jpg", "x");
  folder.write("other/d.jpg", "x");
  folder.write("n01/.hidden", "x");
  const std::vector<Sample> samples = list_samples(folder.path(), labels_of("n01\nn02\n"));
  REQUIRE(samples.size() == 4);
  CHECK(samples[0].path == "n01/c.jpg");
  CHECK(samples[1].path == "n02/a.png");
  CHECK(samples[2].path == "n02/b.jpg");
  CHECK(samples[0].label == std::optional<std::size_t>(0));
  CHECK(samples[2].label == std::optional<std::size_t>(1));
  CHECK_FALSE(samples[3].label.has_value());
  CHECK(samples[3].row == 3);
}

TEST_CASE("entries that are no files are listed with the reason, and have no rows", "[dataset]") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  folder.write("n01/b.jpg", "x");
  folder.write("n02/d.jpg", "x");
  fs::create_symlink("a.jpg", folder.path() / "n01" / "a.jpg");
  fs::create_symlink("absent.jpg", folder.path() / "n02" / "c.jpg");
  fs::create_directory_symlink(folder.path() / "n01", folder.path() / "n03");
  REQUIRE(mkfifo((folder.path() / "n02" / "e.jpg").c_str(), 0600) == 0);
  std::vector<Sample> samples = list_samples(folder.path(), labels_of("n01\nn02\n"));
  REQUIRE(samples.size() == 6);
  CHECK(samples[0].path == "n01/a.jpg");
  CHECK(samples[0].unreadable == "Too many levels of symbolic links");
  CHECK(samples[1].unreadable.empty());
  CHECK(samples[1].row == 0);
  CHECK(samples[2].unreadable == "is a link to nothing");
  CHECK(samples[3].path == "n02/d.jpg");
  CHECK(samples[3].row == 1);
  CHECK(samples[4].unreadable == "is not a regular file");
  CHECK(samples[5].path == "n03");
  CHECK(samples[5].unreadable == "is a link to a folder");
  std::istringstream list("n02/d.jpg\nn01/b.jpg\n");
  assign_rows(samples, list, "list");
  CHECK(samples[1].row == 1);
}

TEST_CASE("a folder without permission is listed with the reason", "[dataset]") {
  const TemporaryFolder folder;
  folder.write("n01/a.jpg", "x");
  folder.write("n02/b.jpg", "x");
  std::filesystem::permissions(folder.path() / "n01", std::filesystem::perms::none);
  const std::vector<Sample> samples = list_samples(folder.path(), Labels());
  std::filesystem::permissions(folder.path() / "n01", std::filesystem::perms::owner_all);
  REQUIRE(samples.size() == 2);
  if (geteuid() != 0) {  // root needs none
    CHECK(samples[0].path == "n01");
    CHECK(samples[0].unreadable == "cannot be listed: Permission denied");
  }
  CHECK(samples[1].path == "n02/b.jpg");
}

TEST_CASE("a folder that is absent or empty is a mistake", "[dataset]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(list_samples(folder.path(), Labels()), UsageError);
  CHECK_THROWS_AS(list_samples(folder.path() / "absent", Labels()), UsageError);
}

TEST_CASE("a list gives the rows of reference logits", "[dataset]") {
  std::vector<Sample> samples(2);
  samples[0].path = "n01/a.jpg";
  samples[1].path = "n02/b.jpg";
  std::istringstream list("n02/b.jpg 7\nn01/a.jpg 3\n");
  assign_rows(samples, list, "list");
  CHECK(samples[0].row == 1);
  CHECK(samples[1].row == 0);
  std::istringstream lacking("n02/b.jpg 7\n");
  CHECK_THROWS_WITH(assign_rows(samples, lacking, "list"), contains("n01/a.jpg"));
}

TEST_CASE("reference logits are whole rows", "[dataset]") {
  const TemporaryFolder folder;
  const float values[] = {1.0F, 2.0F, 3.0F, 4.0F};
  folder.write("rows.f32", std::string(reinterpret_cast<const char*>(values), sizeof values));
  CHECK(load_rows(folder.path() / "rows.f32", 2) == std::vector<float>{1, 2, 3, 4});
  CHECK_THROWS_AS(load_rows(folder.path() / "rows.f32", 3), UsageError);
}
