// Weights in files beside the model, and what such a file's name may not do.

#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include "import_support.h"
#include "onnx_import/external_data.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::test;
using onnx_import::OpenMethod;

namespace {

namespace fs = std::filesystem;
using Entries = std::vector<std::pair<std::string, std::string>>;

// A convolution whose weight, the floats 1 and 2, lies outside.
OnnxBuilder model(const Entries& entries) {
  OnnxBuilder builder = network(13, {kDynamic, 2, 4, 4});
  auto& weight = *builder.graph().add_initializer();
  weight.set_name("w");
  weight.set_data_type(onnx_schema::TensorProto::FLOAT);
  for (const std::int64_t dim : {1, 2, 1, 1}) weight.add_dims(dim);
  weight.set_data_location(onnx_schema::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto& entry = *weight.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  builder.node("Conv", {"x", "w"}, {"y"});
  return builder;
}

std::string data() { return raw_bytes(std::vector<float>{1, 2}); }

// A folder with a secret beside the model's folder, and links of all kinds to it.
class Playground {
 public:
  Playground() {
    outer_.write("secret", data());
    outer_.write("model/good", data());
    outer_.write("model/sub/good", data());
    outer_.write("model/long", "0123" + data() + "456");
    fs::create_symlink("good", folder() / "link");
    fs::create_symlink(outer_.path() / "secret", folder() / "link_out");
    fs::create_directory_symlink("sub", folder() / "sub_link");
    fs::create_directory_symlink(outer_.path(), folder() / "out");
    fs::create_hard_link(outer_.path() / "secret", folder() / "hard");
    REQUIRE(mkfifo((folder() / "fifo").c_str(), 0600) == 0);
  }
  fs::path folder() const { return outer_.path() / "model"; }

  Graph load(const Entries& entries) const {
    const std::string bytes = model(entries).bytes();
    outer_.write("model/model.onnx", bytes);
    return onnx_import::load(folder() / "model.onnx");
  }
  void refuse(const Entries& entries, ErrorCode code, const std::vector<std::string>& words) const {
    try {
      load(entries);
      FAIL_CHECK("the model was accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(to_string(error.code()) == to_string(code));
      CHECK(text.find("initializer 'w'") != std::string::npos);
      for (const std::string& word : words) {
        CAPTURE(word);
        CHECK(text.find(word) != std::string::npos);
      }
    }
  }

 private:
  TemporaryFolder outer_;
};

}  // namespace

TEST_CASE("external weights are read from the model's folder and below") {
  const Playground playground;
  for (const Entries& entries :
       {Entries{{"location", "good"}}, Entries{{"location", "sub/good"}}, Entries{{"location", "./sub//good"}},
        Entries{{"location", "good"}, {"offset", "0"}, {"length", "8"}, {"checksum", "not looked at"}},
        Entries{{"location", "long"}, {"offset", "4"}, {"length", "8"}}}) {
    CAPTURE(entries.front().second);
    CHECK(constant_of(playground.load(entries), 0, Conv2d::kWeight) == std::vector<float>{1, 2});
  }
}

TEST_CASE("external data from outside the model's folder is refused") {
  const Playground playground;
  const auto refuse = [&](const std::string& location, const std::string& word) {
    CAPTURE(location);
    playground.refuse({{"location", location}}, ErrorCode::invalid_model, {"external data file", word});
  };
  refuse("../secret", "'..'");
  refuse("sub/../../secret", "'..'");
  refuse("sub/..", "'..'");
  refuse("/etc/hostname", "absolute");
  refuse("//etc/hostname", "absolute");
  refuse("/dev/zero", "absolute");
  refuse("link", "symbolic link");
  refuse("link_out", "symbolic link");
  refuse("sub_link/good", "symbolic link");
  refuse("out/secret", "symbolic link");
  refuse("hard", "2 hard links");
  refuse("fifo", "not a regular file");
  refuse("sub", "not a regular file");
  refuse(".", "names no file");
  refuse("", "empty");
  refuse(std::string("good\0.txt", 9), "NUL");
}

TEST_CASE("external data that does not fit its tensor is refused before anything is allocated") {
  const Playground playground;
  const auto refuse = [&](const Entries& more, const std::vector<std::string>& words) {
    Entries entries{{"location", "good"}};
    entries.insert(entries.end(), more.begin(), more.end());
    playground.refuse(entries, ErrorCode::invalid_model, words);
  };
  refuse({{"offset", "-1"}}, {"'offset'", "-1"});
  refuse({{"offset", "9"}}, {"offset 9", "8 bytes"});
  refuse({{"offset", "4"}}, {"length 4", "need 8"});
  refuse({{"offset", "4"}, {"length", "8"}}, {"offset 4 + length 8", "past the end"});
  refuse({{"length", "7"}}, {"length 7", "need 8"});
  refuse({{"length", "-8"}}, {"'length'", "-8"});
  refuse({{"length", "9223372036854775807"}}, {"length 9223372036854775807"});
  refuse({{"offset", "9223372036854775807"}, {"length", "8"}}, {"offset 9223372036854775807"});
  refuse({{"offset", "99999999999999999999"}}, {"'offset'", "number"});
  refuse({{"offset", "four"}}, {"'offset'", "'four'"});
  refuse({{"length", "8 "}}, {"'length'", "'8 '"});
  refuse({{"offset", ""}}, {"'offset'", "''"});
  refuse({{"owner", "me"}}, {"unknown key 'owner'"});
  refuse({{"location", "sub/good"}}, {"'location'", "twice"});
  playground.refuse({{"location", "absent"}}, ErrorCode::io, {"'absent'", "No such file", "copy it along"});
  playground.refuse({}, ErrorCode::invalid_model, {"empty"});
  playground.refuse({{"location", "long"}}, ErrorCode::invalid_model, {"length 15", "need 8"});
}

TEST_CASE("a model in memory has external data only where the caller gives a folder") {
  const Playground playground;
  const std::string bytes = model({{"location", "good"}}).bytes();
  CHECK(ops(onnx_import::load_from_memory(as_bytes(bytes), "m", {}, playground.folder())) == "Conv2d");
  try {
    onnx_import::load_from_memory(as_bytes(bytes), "m");
    FAIL("the model was accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_model);
    CHECK(error.hint().find("external_data_folder") != std::string::npos);
  }
}

TEST_CASE("a model in the working folder finds its external data there") {
  const Playground playground;
  playground.load({{"location", "good"}});
  const fs::path before = fs::current_path();
  fs::current_path(playground.folder());
  const std::string found = ops(onnx_import::load("model.onnx"));
  fs::current_path(before);
  CHECK(found == "Conv2d");
}

TEST_CASE("both ways of keeping a path inside the folder agree") {
  const Playground playground;
  const onnx_import::FileDescriptor folder = onnx_import::open_folder(playground.folder());
  for (const OpenMethod method : {OpenMethod::Openat2, OpenMethod::EachComponent}) {
    CAPTURE(static_cast<int>(method));
    for (const std::string location : {"good", "sub/good", "./good"}) {
      CHECK(onnx_import::file_size(onnx_import::open_beneath(folder, location, method)) == 8);
    }
    for (const std::string location : {"../secret", "link", "link_out", "sub_link/good", "out/secret", "hard", "fifo",
                                       "sub", "/etc/hostname", "good/good"}) {
      CAPTURE(location);
      try {
        onnx_import::open_beneath(folder, location, method);
        FAIL_CHECK("opened " << location);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_model);
      }
    }
    CHECK_THROWS_AS(onnx_import::open_beneath(folder, "absent", method), Error);
  }
}
