#include "bench_engine/tensors/tensor_file.h"

#include <mobicuda_onnx.pb.h>
#include <cmath>
#include <limits>
#include <random>

#include <mobicuda/error.h>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/tensors/npy.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/sanitizer.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

using Proto = onnx_schema::TensorProto;
using Shape64 = std::vector<std::int64_t>;
using Floats = std::vector<float>;

const std::string kTwoFloats("\x00\x00\xC0\x3F\x00\x00\x00\xC0", 8);  // 1.5, -2

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += {version, '\0', static_cast<char>(header.size()), '\0'};
  if (version > 1) bytes += {'\0', '\0'};
  return bytes + header + data;
}

std::string header(const std::string& type, const std::string& order, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

FileTensor load(const std::string& name, const std::string& content) {
  const TemporaryFolder folder;
  folder.write(name, content);
  return load_tensor(folder.path() / name, "--golden");
}

Proto proto_of(const Shape64& dims) {
  Proto proto;
  proto.set_data_type(Proto::FLOAT);
  for (const std::int64_t extent : dims) proto.add_dims(extent);
  return proto;
}

void refused(const std::string& name, const std::string& content, const std::string& message) {
  CAPTURE(name, message);
  CHECK_THROWS_AS(load(name, content), UsageError);
  CHECK_THROWS_WITH(load(name, content), contains(message) && contains("--golden ") && contains(name));
}

}  // namespace

TEST_CASE("tensors come back from every format as they were saved", "[tensor_file]") {
  const TemporaryFolder folder;
  const Shape64 shape{2, 3};
  const Floats values{1.5F,
                      -0.0F,
                      1.0F / 3,
                      std::numeric_limits<float>::denorm_min(),
                      std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::lowest()};
  for (const char* name : {"a.npy", "a.pb", "a.txt", "a.f32"}) {
    CAPTURE(name);
    save_tensor(folder.path() / name, shape, values);
    const FileTensor tensor = load_tensor(folder.path() / name, "--golden");
    CHECK(tensor.values == values);
    CHECK(std::signbit(tensor.values[1]));
    const TensorFormat format = tensor_format(name);
    const bool shaped = format == TensorFormat::Npy || format == TensorFormat::TensorProto;
    CHECK(tensor.shape == (shaped ? std::optional(shape) : std::nullopt));
    save_tensor(folder.path() / name, Shape64{1}, Floats{std::numeric_limits<float>::quiet_NaN()});
    CHECK(std::isnan(load_tensor(folder.path() / name, "--golden").values.at(0)));
  }
  CHECK_THROWS_AS(save_tensor(folder.path() / "absent" / "a.npy", shape, values), Error);
}

TEST_CASE("NumPy files of every version and of bytes are read", "[tensor_file]") {
  const Floats expected{1.5F, -2.0F};
  for (const char version : {'\1', '\2', '\3'}) {
    CHECK(load("a.npy", npy(header("<f4", "False", "(2,)"), kTwoFloats, version)).values == expected);
  }
  CHECK(load("a.npy", npy("{'shape':(1,2),'fortran_order':False,'descr':'<f4'}", kTwoFloats)).shape ==
        std::optional(Shape64{1, 2}));
  const FileTensor bytes = load("a.npy", npy(header("|u1", "False", "(3,)"), "\x01\x80\xFF"));
  CHECK(bytes.bytes);
  CHECK(bytes.values == Floats{1, 128, 255});
  CHECK(load("a.npy", npy(header("<f4", "False", "()"), kTwoFloats.substr(4))).values == Floats{-2});
  CHECK(load("a.npy", npy(header("<f4", "False", "(0, 3)"), "")).values.empty());
  for (const std::size_t rank : {0, 1, 4, 32}) {
    const Shape64 shape(rank, 1);
    CAPTURE(rank);
    CHECK(npy_header(shape).size() % 64 == 0);
    CHECK(parse_npy(npy_header(shape) + kTwoFloats.substr(4), "x").shape == std::optional(shape));
  }
}

TEST_CASE("NumPy files that are not what they should be are refused", "[tensor_file]") {
  refused("a.npy", "", "not a .npy file");
  refused("a.npy", "hello", "not a .npy file");
  refused("a.npy", kTwoFloats, "not a .npy file");
  refused("a.npy", npy(header("<f4", "False", "(2,)"), kTwoFloats, '\x04'), ".npy version 4");
  refused("a.npy", npy(header(">f4", "False", "(2,)"), kTwoFloats), "got >f4; array.astype('<f4')");
  refused("a.npy", npy(header("<f8", "False", "(1,)"), kTwoFloats), "got <f8");
  refused("a.npy", npy(header("<f4", "True", "(1, 2)"), kTwoFloats), "numpy.ascontiguousarray");
  refused("a.npy", npy(header("<f4", "False", "(3,)"), kTwoFloats), "shape [3], but 8 bytes");
  refused("a.npy", npy(header("<f4", "False", "(1,)"), kTwoFloats), "truncated or damaged");
  refused("a.npy", npy(header("<f4", "False", "(2,)"), kTwoFloats.substr(0, 7)), "but 7 bytes");
  refused("a.npy", npy(header("<f4", "False", "(4611686018427387904, 4)"), ""), "truncated or damaged");
  refused("a.npy", npy(header("<f4", "False", "(4611686018427387904,)"), kTwoFloats), "truncated or damaged");
  for (const char* shape : {"2", "(-2,)", "(2", "(2,, 1)", "(2 1)", "(2L,)", "(99999999999999999999,)", "("}) {
    refused("a.npy", npy(header("<f4", "False", shape), kTwoFloats), "is no tuple of extents");
  }
  refused("a.npy", npy("{'descr': '<f4'}", kTwoFloats), "lacks 'fortran_order'");
  refused("a.npy", npy("{'descr': [('x', '<f4')]}", kTwoFloats), "expected float32");
}

TEST_CASE("NumPy files cut anywhere are refused", "[tensor_file]") {
  const std::string whole = npy(header("<f4", "False", "(2,)"), kTwoFloats);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse_npy(std::string_view(whole).substr(0, size), "x"), UsageError);
  }
}

TEST_CASE("files with damaged bytes are read or refused, and nothing worse", "[tensor_file]") {
  const TemporaryFolder folder;
  std::mt19937 generator(1);
  Proto proto = proto_of({2});
  proto.set_raw_data(kTwoFloats);
  const std::pair<const char*, std::string> wholes[] = {{"a.npy", npy(header("<f4", "False", "(2,)"), kTwoFloats)},
                                                        {"a.pb", proto.SerializeAsString()}};
  for (const auto& [name, whole] : wholes) {
    int refusals = 0;
    for (int i = 0; i < test::on_one_thread(1000); ++i) {
      std::string damaged = whole;
      damaged[generator() % damaged.size()] = static_cast<char>(generator());
      damaged[generator() % damaged.size()] = static_cast<char>(generator());
      folder.write(name, damaged);
      try {
        const FileTensor tensor = load_tensor(folder.path() / name, "--golden");
        CHECK(tensor.values.size() == checked_elements(tensor.shape.value()));
      } catch (const UsageError&) {
        ++refusals;
      }
    }
    CHECK(refusals > 0);
  }
}

TEST_CASE("ONNX tensors are read from either of their fields", "[tensor_file]") {
  Proto raw = proto_of({1, 2});
  raw.set_raw_data(kTwoFloats);
  CHECK(load("a.pb", raw.SerializeAsString()).values == Floats{1.5F, -2.0F});
  CHECK(load("a.pb", raw.SerializeAsString()).shape == std::optional(Shape64{1, 2}));
  Proto typed = proto_of({2});
  typed.add_float_data(1.5F);
  typed.add_float_data(-2.0F);
  CHECK(load("a.pb", typed.SerializeAsString()).values == Floats{1.5F, -2.0F});
  Proto bytes = proto_of({2});
  bytes.set_data_type(Proto::UINT8);
  bytes.set_raw_data("\x07\xFF");
  CHECK(load("a.pb", bytes.SerializeAsString()).bytes);
  CHECK(load("a.pb", bytes.SerializeAsString()).values == Floats{7, 255});
}

TEST_CASE("ONNX tensors that are not what they should be are refused", "[tensor_file]") {
  refused("a.pb", "this is no protobuf", "not an ONNX TensorProto");
  refused("a.pb", "", "data_type 0");
  Proto proto = proto_of({2});
  proto.set_raw_data(kTwoFloats);
  const std::string whole = proto.SerializeAsString();
  refused("a.pb", whole.substr(0, whole.size() - 1), "not an ONNX TensorProto");
  proto.set_data_type(Proto::DOUBLE);
  refused("a.pb", proto.SerializeAsString(), "data_type 11");
  proto = proto_of({2});
  proto.set_raw_data(kTwoFloats.substr(0, 7));
  refused("a.pb", proto.SerializeAsString(), "7 bytes, no multiple of 4");
  for (const Shape64& dims : {Shape64{3}, {-2}, {}, {4611686018427387904, 4}, {4611686018427387904, 4, 2}}) {
    proto = proto_of(dims);
    proto.set_raw_data(kTwoFloats);
    refused("a.pb", proto.SerializeAsString(), "truncated or damaged");
  }
  proto = proto_of({2});
  proto.set_data_location(Proto::EXTERNAL);
  refused("a.pb", proto.SerializeAsString(), "external data");
}

TEST_CASE("text is numbers between any white space", "[tensor_file]") {
  CHECK(load("a.txt", "1.5\n-2e0\r\n\t 3").values == Floats{1.5F, -2, 3});
  CHECK(load("a.txt", "1e-46 1e-40").values == Floats{0, 1e-40F});
  CHECK(load("a.txt", "").values.empty());
  refused("a.txt", "1.5 two", "number 1: 'two' is not a number");
  refused("a.txt", "1,2", "'1,2' is not a number");
  refused("a.txt", "1e39", "fits float32");
  refused("a.txt", std::string("1\0", 2), "is not a number");
}

TEST_CASE("raw files are whole floats", "[tensor_file]") {
  CHECK(load("a.bin", kTwoFloats).values == Floats{1.5F, -2.0F});
  refused("a.bin", "12345", "5 bytes, no multiple of 4");
  CHECK_THROWS_WITH(load_tensor("/nonexistent.bin", "--golden"), contains("cannot be read"));
}

TEST_CASE("a file that is far too large is refused before it is read", "[tensor_file]") {
  const TemporaryFolder folder;
  folder.write("a.bin", "");
  std::filesystem::resize_file(folder.path() / "a.bin", std::uintmax_t{1} << 33);
  CHECK_THROWS_WITH(load_tensor(folder.path() / "a.bin", "--golden"), contains("got 8589934592"));
}
