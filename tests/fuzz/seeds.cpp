// fuzz_seeds FOLDER: writes first inputs of every target, FOLDER/TARGET/NAME. They are made here, out of the tests' own
// models and pictures, so that all of a corpus can be made anew.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "onnx_import/malformed.h"
#include "pictures/picture_support.h"
#include "plan_file/plan_networks.h"
#include "support/folders.h"
#include "support/int8_network.h"
#include "support/onnx_builder.h"

namespace mobicuda::test {
namespace {

namespace fs = std::filesystem;

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, std::string_view content) {
    const fs::path folder = folder_ / target;
    fs::create_directories(folder);
    std::ofstream out(folder / ("seed" + std::to_string(count_++)), std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) throw Error(ErrorCode::io, folder.string(), "cannot be written");
  }
  void add_model(const std::string& bytes) {
    add("onnx_model", bytes);
    add("onnx_compile", bytes);
  }
  int count() const { return count_; }

 private:
  fs::path folder_;
  int count_ = 0;
};

using Floats = std::vector<float>;

OnnxBuilder image_model(std::int64_t opset) {
  OnnxBuilder builder(opset);
  builder.input("x", {kDynamic, 4, 6, 6}).output("y");
  return builder;
}

// Every operator with several kinds of operands: one of them fits, or the mutations find what does.
void add_operators(Seeds& seeds) {
  for (const auto& known : onnx_import::supported_operators()) {
    const std::size_t dot = known.name.rfind('.');
    const std::string type = dot == std::string::npos ? known.name : known.name.substr(dot + 1);
    for (const std::int64_t opset : {known.first_opset, std::int64_t{13}, known.last_opset}) {
      const auto add = [&](const std::vector<std::string>& inputs) {
        OnnxBuilder builder = image_model(dot == std::string::npos ? opset : 13);
        builder.floats("c", {4, 1, 1}, Floats(4, 0.5F)).floats("w", {4, 4, 3, 3}, Floats(144, 0.1F));
        builder.floats("b", {4}, {1, 2, 3, 4}).ints("i", {2}, {1, 2}).floats("m", {6, 5}, Floats(30, 0.25F));
        auto node = builder.node(type, inputs, {"n"});
        if (dot != std::string::npos) {
          node.proto().set_domain(known.name.substr(0, dot));
          auto& import = *builder.model().add_opset_import();
          import.set_domain(known.name.substr(0, dot));
          import.set_version(known.first_opset);
        }
        builder.node(inputs.front() == "x" ? "Relu" : "Add",
                     inputs.front() == "x" ? std::vector<std::string>{"n"} : std::vector<std::string>{"x", "n"}, {"y"});
        seeds.add_model(builder.bytes());
      };
      add({"x"});
      add({"x", "c"});
      add({"x", "w", "b"});
      add({"x", "b", "b", "b", "b"});
      add({"x", "i"});
      add({"x", "m"});
      add({"x", "x"});
      add({"c"});
      add({"b", "i"});
    }
  }
}

// A small network in several opsets, with most of what real ones have.
void add_networks(Seeds& seeds) {
  for (const std::int64_t opset : {7, 11, 13, 18}) {
    OnnxBuilder builder(opset);
    builder.input("x", {kDynamic, 3, 8, 8}).output("y");
    builder.floats("w", {4, 3, 3, 3}, Floats(108, 0.1F)).floats("b", {4}, {1, -1, 2, -2});
    builder.floats("dw", {8, 1, 3, 3}, Floats(72, 0.2F)).floats("up", {8, 4, 1, 1}, Floats(32, -0.1F));
    builder.floats("down", {4, 8, 1, 1}, Floats(32, 0.3F)).floats("s", {4}, {1, 2, 1, 2});
    builder.floats("fc", {4, 5}, Floats(20, 0.5F)).floats("lo", {}, {0}).floats("hi", {}, {6});
    const auto clip = [&](const std::string& from, const std::string& to) {
      if (opset < 11) {
        builder.node("Clip", {from}, {to}).attr("min", 0.0F).attr("max", 6.0F);
      } else {
        builder.node("Clip", {from, "lo", "hi"}, {to});
      }
    };
    builder.node("Conv", {"x", "w", "b"}, {"c"}, "stem")
        .ints("kernel_shape", {3, 3})
        .ints("strides", {2, 2})
        .ints("pads", {1, 1, 1, 1});
    builder.node("BatchNormalization", {"c", "s", "b", "b", "s"}, {"n"}).attr("epsilon", 1e-3F);
    clip("n", "r");
    builder.node("Conv", {"r", "up"}, {"u"}).ints("kernel_shape", {1, 1});
    clip("u", "ur");
    builder.node("Conv", {"ur", "dw"}, {"d"}).attr("group", 8).attr("auto_pad", "SAME_UPPER");
    clip("d", "dr");
    builder.node("Conv", {"dr", "down"}, {"p"});
    builder.node("Add", {"p", "r"}, {"sum"});
    builder.node("MaxPool", {"sum"}, {"mp"})
        .ints("kernel_shape", {2, 2})
        .ints("strides", {2, 2})
        .attr("ceil_mode", opset >= 11 ? 1 : 0);
    builder.node("GlobalAveragePool", {"mp"}, {"g"});
    builder.node("Flatten", {"g"}, {"f"}).attr("axis", 1);
    builder.node("MatMul", {"f", "fc"}, {"l"});
    builder.node("Softmax", {"l"}, {"y"}).attr("axis", 1);
    seeds.add_model(builder.bytes());
  }
  OnnxBuilder gates = image_model(13);  // squeeze and excitation, SiLU, branches
  gates.floats("w", {4, 4, 1, 1}, Floats(16, 0.25F));
  gates.node("AveragePool", {"x"}, {"a"})
      .ints("kernel_shape", {3, 3})
      .ints("pads", {1, 1, 1, 1})
      .attr("count_include_pad", 1);
  gates.node("GlobalAveragePool", {"a"}, {"g"});
  gates.node("Conv", {"g", "w"}, {"q"});
  gates.node("HardSigmoid", {"q"}, {"h"}).attr("alpha", 0.2F).attr("beta", 0.5F);
  gates.node("Mul", {"a", "h"}, {"m"});
  gates.node("Sigmoid", {"m"}, {"sig"});
  gates.node("Mul", {"m", "sig"}, {"silu"});
  gates.node("Concat", {"silu", "x"}, {"k"}).attr("axis", 1);
  gates.node("LRN", {"k"}, {"n"}).attr("size", 3).attr("alpha", 1e-3F).attr("beta", 0.5F).attr("bias", 1.0F);
  gates.node("ReduceMean", {"n"}, {"y"}).ints("axes", {2, 3}).attr("keepdims", 0);
  seeds.add_model(gates.bytes());

  OnnxBuilder shapes = image_model(13);  // shapes that are computed
  shapes.ints("zero", {1}, {0}).ints("rest", {1}, {-1});
  shapes.node("Shape", {"x"}, {"s"});
  shapes.node("Gather", {"s", "zero"}, {"n"}).attr("axis", 0);
  shapes.node("Constant", {}, {"c"}).attr("value", tensor("", {1}, std::vector<std::int64_t>{-1}));
  shapes.node("Concat", {"n", "c"}, {"t"}).attr("axis", 0);
  shapes.node("Reshape", {"x", "t"}, {"r"});
  shapes.ints("from", {1}, {1}).ints("to", {1}, {100}).ints("axis", {1}, {1});
  shapes.node("Slice", {"r", "from", "to", "axis"}, {"y"});
  seeds.add_model(shapes.bytes());

  OnnxBuilder moved = image_model(13);  // movement
  moved.ints("pads", {8}, {0, 0, 1, 1, 0, 0, 2, 0}).floats("slope", {4, 1, 1}, Floats(4, 0.1F));
  moved.node("Pad", {"x", "pads"}, {"p"}).attr("mode", "reflect");
  moved.node("PRelu", {"p", "slope"}, {"r"});
  moved.node("Transpose", {"r"}, {"t"}).ints("perm", {0, 2, 3, 1});
  moved.node("Transpose", {"t"}, {"u"}).ints("perm", {0, 3, 1, 2});
  moved.ints("parts", {2}, {1, 3});
  moved.node("Split", {"u", "parts"}, {"a", "b"}).attr("axis", 1);
  moved.node("Concat", {"b", "a"}, {"y"}).attr("axis", 1);
  seeds.add_model(moved.bytes());

  OnnxBuilder gemm(13);
  gemm.input("x", {kDynamic, 6}).output("y");
  gemm.floats("w", {5, 6}, Floats(30, 0.1F)).floats("b", {5}, {1, 2, 3, 4, 5});
  gemm.node("Gemm", {"x", "w", "b"}, {"y"}).attr("transB", 1).attr("alpha", 0.5F).attr("beta", 2.0F);
  seeds.add_model(gemm.bytes());
}

void add_malformed(Seeds& seeds) {
  for (const auto& list :
       {malformed_bytes(), malformed_headers(), malformed_topologies(), malformed_tensors(), malformed_convolutions(),
        malformed_norms(), malformed_pools(), malformed_matrices(), malformed_shape_operators(),
        malformed_elementwise(), malformed_reductions(), malformed_quantization()}) {
    for (const Malformed& one : list) {
      constexpr std::size_t kMost = 4096;
      if (one.bytes.size() <= kMost) seeds.add("onnx_model", one.bytes);
    }
  }
}

void add_external(Seeds& seeds) {
  using Entries = std::vector<std::pair<std::string, std::string>>;
  const auto add = [&](const Entries& entries) {
    OnnxBuilder builder = image_model(13);
    auto& weight = *builder.graph().add_initializer();
    weight.set_name("w");
    weight.set_data_type(schema::TensorProto::FLOAT);
    for (const int dim : {4, 4, 1, 1}) weight.add_dims(dim);
    weight.set_data_location(schema::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto& entry = *weight.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    builder.node("Conv", {"x", "w"}, {"y"});
    const std::string model = builder.bytes();
    std::string input;
    for (unsigned shift = 0; shift < 32; shift += 8) input += static_cast<char>(model.size() >> shift);
    seeds.add("onnx_external", input + model + raw_bytes(Floats(20, 0.5F)));
  };
  for (const char* location : {"w.bin", "sub/w.bin", "../outside.bin", "link.bin", "hard.bin", "up/outside.bin",
                               "sub/../w.bin", "/etc/hostname", "", "sub", "./w.bin", "model/w.bin"}) {
    add({{"location", location}});
    add({{"location", location}, {"offset", "16"}, {"length", "64"}});
  }
  add({{"location", "w.bin"}, {"offset", "17"}});
  add({{"location", "w.bin"}, {"offset", "-1"}, {"length", "18446744073709551615"}});
  add({{"location", "w.bin"}, {"checksum", "0"}, {"length", "64"}});
}

void add_plans(Seeds& seeds) {
  constexpr std::size_t kMostOnDisk = 8192;
  constexpr char kPlacesOnDisk = 9;  // targets/plan_disk.cpp
  const auto backend = make_cpu_backend();
  const auto add = [&](const Graph& graph, const EngineOptions& options) {
    const auto bytes = plan_file::save_to_memory(backend->compile(graph, options)->saved());
    const std::string plan(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    seeds.add("plan", plan);
    if (plan.size() > kMostOnDisk) return;
    for (char place = 0; place < kPlacesOnDisk; ++place) seeds.add("plan_disk", place + plan);
  };
  add(small_network(), cpu_options());
  add(small_network(), cpu_options(Precision::Fp64, 3));
  add(every_operation(), cpu_options());
  EngineOptions options = cpu_options();
  options.picture_input.emplace();
  add(small_network(), options);
  TestNetwork tiny(Shape{1, 4});
  tiny.gemm(2, "fc");
  add(std::move(tiny).build(), cpu_options());
  for (const DType dtype : {DType::I8, DType::U8}) {
    Int8Network integers(Shape{1, 3, 8, 8}, dtype);
    integers.conv(8, 3, 2);
    integers.block(12, 8, 1);
    integers.conv(8, 3, 1, 2, false, DType::U8, 120);
    integers.requantize(1.5F);
    integers.max_pool(3, 2);
    integers.average_pool(2, 1);
    integers.flatten_mean();
    integers.gemm(5, dtype == DType::U8);
    if (dtype == DType::I8) integers.dequantize();
    add(std::move(integers).build(), cpu_options());
  }
}

// Choices of graphs, which the fuzzer goes on from; those that are used up are all 0.
void add_graphs(Seeds& seeds) {
  constexpr std::uint32_t kSeeds = 256;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 engine(seed);
    std::string choices(16 + seed % 100, '\0');
    for (char& choice : choices) choice = static_cast<char>(engine());
    seeds.add("graph", choices);
  }
}

void add_calls(Seeds& seeds) {
  constexpr std::uint32_t kSeeds = 256;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 engine(seed);
    std::string choices(8 + seed % 64, '\0');
    for (char& choice : choices) choice = static_cast<char>(engine());
    seeds.add("session", choices);
  }
}

std::string png_file() {  // 2x2, 8 bits, RGB, stored without compression
  static constexpr unsigned char kPng[] = {
      0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A, 0,   0,   0,    13,   'I',  'H',  'D',  'R',  0,
      0,    0,   2,   0,   0,    0,    2,    8,    2,   0,   0,    0,    0xFD, 0xD4, 0x9A, 0x73, 0,
      0,    0,   25,  'I', 'D',  'A',  'T',  0x78, 1,   1,   14,   0,    0xF1, 0xFF, 0,    1,    2,
      3,    4,   5,   6,   0,    7,    8,    9,    10,  11,  12,   0,    0,    0,    0,    0,    0,
      0,    0,   0,   0,   0,    0,    'I',  'E',  'N', 'D', 0xAE, 0x42, 0x60, 0x82};
  return {reinterpret_cast<const char*>(kPng), sizeof kPng};
}

std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  constexpr std::size_t kBlock = 512;
  std::string head(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { head.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  std::string size(12, '0');
  std::snprintf(size.data(), size.size(), "%011o", static_cast<unsigned>(content.size()));
  put(124, size);
  put(136, "00000000000");
  put(148, "        ");
  head[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  std::string checksum(8, '\0');
  std::snprintf(checksum.data(), checksum.size(), "%06o", sum);
  put(148, checksum);
  head[155] = ' ';
  return head + content + std::string((kBlock - content.size() % kBlock) % kBlock, '\0');
}

void add_pictures(Seeds& seeds) {
  std::vector<std::string> files{png_file(), ppm_file(patterned_picture(5, 3))};
  for (const int subsampling : {0, 1, 2, 3, 4, 5})
    files.push_back(jpeg_file(patterned_picture(17, 9), {50, subsampling, false}));
  files.push_back(jpeg_file(patterned_picture(16, 16), {50, 2, true}));
  const std::vector<std::uint8_t> cmyk(std::size_t{8} * 8 * 4, 77);
  files.push_back(cmyk_jpeg_file(8, 8, cmyk));
  std::string bmp = "BM";  // 2x2, 24 bits
  for (const unsigned value : {70U, 0U, 54U, 40U, 2U, 2U, 0x00180001U, 0U, 16U, 2835U, 2835U, 0U, 0U}) {
    for (unsigned shift = 0; shift < 32; shift += 8) bmp += static_cast<char>(value >> shift);
  }
  files.push_back(bmp + std::string(16, '\x55'));
  files.emplace_back("P5\n2 2\n255\nabcd");
  files.emplace_back("P6\n2 2\n65535\nabcdefghijklmnopqrstuvwx");
  for (const std::string& file : files) seeds.add("picture", file);

  const std::string end(1024, '\0');
  const std::string small = ppm_file(patterned_picture(3, 2));
  seeds.add("picture_tar", tar_member("a.jpg", jpeg_file(patterned_picture(4, 4), {30, 3, false})) + end);
  seeds.add("picture_tar",
            tar_member("a/b.png", png_file()) + tar_member("c.txt", "text") + tar_member("d.jpeg", small) + end);
  seeds.add("picture_tar", tar_member("pax", "20 path=long/e.jpg\n\n", 'x') + tar_member("e", small) + end);
  seeds.add("picture_tar", tar_member("././@LongLink", "long/name/of/f.jpg", 'L') + tar_member("f", small) + end);
  seeds.add("picture_tar", tar_member("g.jpg", small));
}

void add_texts(Seeds& seeds) {
  const std::string header = "mobicuda timing cache, format 1\n";
  seeds.add("timing_cache", header);
  seeds.add("timing_cache", header + "a|b|c|d|e|f|kernel|2.500\n");
  seeds.add("timing_cache", header + "a|b|c|d|e|f|kernel|2.500\na|b|c|d|e|g|kernel|1e3\n||||||k|0.001");
  seeds.add("timing_cache", "mobicuda timing cache, format 2\n");

  const std::string least = R"("img_dir": "p", "result_dir": "r")";
  seeds.add("stream_config", "{" + least + R"(, "models": ["m"]})");
  seeds.add("stream_config", "{" + least + R"(, "models": ["m", {"file": "/"}]})");  // had no name
  seeds.add("stream_config", R"({"models": ["a.plan", {"file": "/b", "name": "B", "share": 2.5, "preprocess": "tf"}],
"img_dir": "p", "result_dir": "r", "model_dir": "m", "gpu_num": 2, "batchsize": 128, "times": 3, "precision": "fp16",
"preload": false, "seed": 7, "top": 1, "labels": "l.txt", "decode": "cpu", "preprocess": "torch"})");

  seeds.add("bench_options", "--impl=custom,cpu\n--batch=1:16:*4,5\n--precision\nfp32,fp16\n--duration=0.5");
  seeds.add("bench_options", "--batch\n1\n--threads\n1,3:5\n--dumpProfile\n--json\nout.json\n--sampleInterval\n10");
  seeds.add("bench_options", "--shapes=input:4x3x96x128\n--kernelVariant\ngemm=mma_64,conv2d=direct\n--fp16\n--seed=7");
  seeds.add("bench_options", "--images\n/tmp\n--preprocess\ntf\n--maxImages\n10:1000:*10\n--decodeThreads=2");
  seeds.add("bench_options", "--compare\ncpu,custom:fp16\n--compareThreshold\n1e-3\n--iterations=10\n--warmUp=20");
  seeds.add("bench_options", "--help");
  seeds.add("bench_options", "--version");
  seeds.add("bench_options", "--listOps");
}

void add_documents(Seeds& seeds) {
  std::ifstream in(source_folder() / "tests/report/run.json", std::ios::binary);
  seeds.add("bench_document", std::string{std::istreambuf_iterator<char>(in), {}});
}

int write_all(const fs::path& folder) {
  Seeds seeds(folder);
  add_operators(seeds);
  add_networks(seeds);
  add_malformed(seeds);
  add_external(seeds);
  add_plans(seeds);
  add_graphs(seeds);
  add_calls(seeds);
  add_pictures(seeds);
  add_texts(seeds);
  add_documents(seeds);
  std::printf("%d seeds in %s\n", seeds.count(), folder.c_str());
  return 0;
}

}  // namespace
}  // namespace mobicuda::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  try {
    return mobicuda::test::write_all(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_seeds: %s\n", error.what());
    return 1;
  }
}
