#include <mobicuda/picture_source.h>

#include <sys/stat.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "pictures/decode/picture_error.h"
#include "pictures/picture_support.h"
#include "pictures/source/reader.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

struct Read {
  std::string name;
  std::string content;
  std::string failure{};

  friend bool operator==(const Read&, const Read&) = default;
};

std::vector<Read> read_all(PictureSource source, std::int64_t most = 1 << 20) {
  const auto reader = source.take();
  std::vector<Read> all;
  Entry entry;
  EncodedBytes bytes;
  while (reader->next(entry)) {
    Read one{entry.name, {}};
    try {
      bytes.read(entry, most);
      one.content.assign(bytes.span().begin(), bytes.span().end());
    } catch (const PictureError& error) {
      one.failure = error.what();
    }
    all.push_back(std::move(one));
    entry = {};
  }
  return all;
}

std::string filled(std::string content) {
  content.resize((content.size() + 511) / 512 * 512, '\0');
  return content;
}

std::string octal(std::size_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof(text), "%0*zo", digits, number);
  return text;
}

struct Header {
  std::string name;
  std::string content;
  char type = '0';
  std::string prefix{};
  bool gnu = false;
  std::string size{};  // instead of the content's
};

std::string header_of(const Header& member) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  put(0, member.name.substr(0, 100));
  put(100, "0000644");
  put(124, member.size.empty() ? octal(member.content.size(), 11) : member.size);
  put(148, "        ");
  block[156] = member.type;
  put(257, member.gnu ? std::string("ustar  ")
                      : std::string("ustar\0"
                                    "00",
                                    8));
  put(345, member.prefix);
  std::size_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6));
  block[154] = '\0';
  return block;
}

std::string member(const Header& member) { return header_of(member) + filled(member.content); }

std::string end_of_archive() { return std::string(1024, '\0'); }

std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

std::vector<Read> read_tar(const std::string& archive, std::int64_t most = 1 << 20) {
  const TemporaryFolder folder;
  folder.write("a.tar", archive);
  std::vector<Read> all = read_all(PictureSource::tar(folder.path() / "a.tar"), most);
  for (Read& one : all) {
    if (one.name.starts_with(folder.path().string())) one.name = "a.tar";
  }
  return all;
}

}  // namespace

TEST_CASE("a folder's files come in the order of their names, with what cannot be read", "[source]") {
  const TemporaryFolder folder;
  folder.write("b/2.jpg", "two");
  folder.write("a.png", "one");
  folder.write(".hidden", "x");
  std::filesystem::create_symlink("absent", folder.path() / "b" / "1.jpg");
  REQUIRE(mkfifo((folder.path() / "c").c_str(), 0600) == 0);
  CHECK(read_all(PictureSource::folder(folder.path())) == std::vector<Read>{{"a.png", "one"},
                                                                            {"b/1.jpg", "", "is a link to nothing"},
                                                                            {"b/2.jpg", "two"},
                                                                            {"c", "", "is not a regular file"}});
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(PictureSource::folder(empty.path()), contains("holds no file"));
  CHECK_THROWS_WITH(PictureSource::folder(empty.path() / "absent"), contains("absent: No such file or directory"));
}

TEST_CASE("a list of files keeps its order and its names, and never waits for a FIFO", "[source]") {
  const TemporaryFolder folder;
  folder.write("1", "one");
  REQUIRE(mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  const auto in = [&](const char* name) { return folder.path() / name; };
  const auto all = read_all(
      PictureSource::files(std::vector<std::filesystem::path>{in("absent"), in("1"), in("fifo"), folder.path(), {}}));
  REQUIRE(all.size() == 5);
  CHECK(all[0].failure == "cannot be opened: No such file or directory");
  CHECK(all[1] == Read{in("1").string(), "one"});
  CHECK(all[2].failure == "is not a regular file");
  CHECK(all[3].failure == "is not a regular file");
  CHECK(all[4].failure == "its path is empty");
}

TEST_CASE("encoded pictures larger than the limit are not read", "[source]") {
  const TemporaryFolder folder;
  folder.write("1", "12345");
  const auto files = [&] { return PictureSource::files(std::vector{folder.path() / "1"}); };
  CHECK(read_all(files(), 5)[0].content == "12345");
  CHECK(read_all(files(), 4)[0].failure == "has 5 bytes, more than 4");
  const std::string bytes = "12345";
  const auto memory = [&] { return PictureSource::memory({{"m", test::span_of(bytes)}}); };
  CHECK(read_all(memory(), 5)[0].content == "12345");
  CHECK(read_all(memory(), 4)[0].failure == "has 5 bytes, more than 4");
}

TEST_CASE("a source is used once", "[source]") {
  PictureSource source = PictureSource::memory({});
  source.take();
  CHECK_THROWS_WITH(source.take(), contains("is used up"));
}

TEST_CASE("pictures of a tar archive, as WebDataset writes them", "[tar]") {
  const std::string archive = member({"000.jpg", "first"}) + member({"000.cls", "3"}) + member({"000.mask.png", "no"}) +
                              member({"dir/", "", '5'}) + member({"dir/001.JPEG", std::string(600, 'x')}) +
                              member({"002.PnG", ""}) + member({"link.jpg", "", '2'}) + member({".jpg", "hidden"}) +
                              member({"003.jpg", "old", '\0'}) + end_of_archive() +
                              member({"004.jpg", "behind the end"});
  CHECK(read_tar(archive) ==
        std::vector<Read>{
            {"000.jpg", "first"}, {"dir/001.JPEG", std::string(600, 'x')}, {"002.PnG", ""}, {"003.jpg", "old"}});
}

TEST_CASE("long names of all three kinds are read", "[tar]") {
  const std::string name = std::string(150, 'd') + "/" + std::string(150, 'n') + ".jpg";
  const auto expect = [&](const std::string& archive) {
    CHECK(read_tar(archive + member({"next.jpg", "2"}) + end_of_archive()) ==
          std::vector<Read>{{name, "1"}, {"next.jpg", "2"}});
  };
  expect(member({"././@LongLink", name + '\0', 'L', {}, true}) + member({name, "1", '0', {}, true}));
  expect(member({"././@PaxHeader", pax_record("mtime", "1.5") + pax_record("path", name), 'x'}) + member({name, "1"}));
  const std::string prefix = std::string(150, 'd');
  CHECK(read_tar(member({"n.jpg", "1", '0', prefix}) + end_of_archive())[0].name == prefix + "/n.jpg");
  // The prefix's place holds other things in GNU's own form.
  CHECK(read_tar(member({"n.jpg", "1", '0', "0000", true}) + end_of_archive())[0].name == "n.jpg");
}

TEST_CASE("sizes of all three kinds are read", "[tar]") {
  std::string binary(12, '\0');
  binary[0] = '\x80', binary[11] = 3;
  CHECK(read_tar(member({"a.jpg", "abc", '0', {}, true, binary}) + end_of_archive())[0].content == "abc");
  CHECK(read_tar(member({"a.jpg", "abc", '0', {}, false, "         3 "}) + end_of_archive())[0].content == "abc");
  CHECK(read_tar(member({"p", pax_record("size", "3"), 'x'}) + member({"a.jpg", "abc", '0', {}, false, octal(0, 11)}) +
                 end_of_archive())[0]
            .content == "abc");
}

TEST_CASE("a truncated archive gives the pictures before, and a named error", "[tar]") {
  const std::string whole = member({"a.jpg", "abc"}) + member({"b.jpg", std::string(1000, 'b')}) + end_of_archive();
  CHECK(read_tar(whole).size() == 2);
  for (std::size_t bytes = 0; bytes < whole.size() - 1023; bytes += 61) {
    CAPTURE(bytes);
    const auto all = read_tar(whole.substr(0, bytes));
    REQUIRE_FALSE(all.empty());
    CHECK(all.back().name == "a.tar");
    CHECK_THAT(all.back().failure, contains("damaged archive: byte "));
    CHECK_THAT(all.back().failure, contains("ends early"));
    for (std::size_t i = 0; i + 1 < all.size(); ++i) CHECK(all[i].failure.empty());
  }
  CHECK_THROWS_WITH(PictureSource::tar("/nonexistent.tar"), contains("/nonexistent.tar: cannot be opened"));
  CHECK_THROWS_WITH(PictureSource::tar("/dev/zero"), contains("is not a regular file"));
  CHECK(read_all(PictureSource::tars({"/nonexistent.tar"}))[0].failure ==
        "cannot be opened: No such file or directory");
}

TEST_CASE("hostile archives are refused by name and take no memory", "[tar]") {
  const auto failure = [](const std::string& archive) { return read_tar(archive).back().failure; };
  CHECK_THAT(failure("\x1F\x8B" + std::string(2000, 'z')), contains("gzip"));
  CHECK_THAT(failure(std::string(2000, 'z')), contains("checksum"));
  CHECK_THAT(failure(member({"a.jpg", "x", '0', {}, false, "77777777777"})), contains("where 512 are left"));
  std::string huge(12, '\xFF');
  huge[0] = '\x80';
  CHECK_THAT(failure(member({"a.jpg", "x", '0', {}, false, huge})), contains("is no number"));
  CHECK_THAT(failure(member({"a.jpg", "x", '0', {}, false, "-0000000001"})), contains("is no number"));
  CHECK_THAT(failure(member({"a.jpg", "x", '0', {}, false, "12x"})), contains("is no number"));
  CHECK_THAT(failure(member({"n", std::string((1 << 20) + 1, 'n'), 'L'})), contains("a name of 1048577 bytes"));
  for (const std::string& records :
       {std::string("9999 path=a\n"), std::string("0 path=a\n"), std::string("x"), std::string("12"),
        std::string("5 ab\n"), std::string("7 path=a\n"), pax_record("size", "-1"), pax_record("size", "9e9")}) {
    CAPTURE(records);
    CHECK_THAT(failure(member({"p", records, 'x'}) + member({"a.jpg", "x"}) + end_of_archive()),
               contains("pax header"));
  }
  const auto sparse = read_tar(member({"p", pax_record("GNU.sparse.major", "1"), 'x'}) + member({"a.jpg", "x"}) +
                               member({"b.jpg", "y"}) + end_of_archive());
  REQUIRE(sparse.size() == 2);
  CHECK_THAT(sparse[0].failure, contains("sparse"));
  CHECK(sparse[1] == Read{"b.jpg", "y"});
}

TEST_CASE("an archive with any byte changed ends in pictures and named errors", "[tar]") {
  const std::string whole = member({"p", pax_record("path", "long.jpg"), 'x'}) + member({"a.jpg", "abc"}) +
                            member({"b.jpg", "b"}) + end_of_archive();
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    CHECK(read_tar(damaged).size() <= 4);
  }
}
