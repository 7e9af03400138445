// Writes the layers of the zoo's networks as rows of a C++ table: building all the networks takes seconds, which a
// benchmark that is to list its cases has not.
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include <mobicuda/onnx_import.h>
#include <mobicuda_onnx.pb.h>

#include "layer_shapes.h"
#include "models/zoo/keep_pages.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"

namespace mobicuda::bench {
namespace {

void write_window(std::ostream& out, const Window& w) {
  out << ", {" << w.size << ", " << w.stride << ", " << w.dilation << ", " << w.pad_before << ", " << w.pad_after
      << "}";
}

void write_row(std::ostream& out, const std::string& network, int count, const LayerShape& s) {
  out << "{\"" << network << "\", " << count << ", {\"" << s.kind << '"';
  for (const int value : {s.h, s.w, s.c_in, s.out_h, s.out_w, s.c_out}) out << ", " << value;
  write_window(out, s.vertical);
  write_window(out, s.horizontal);
  out << ", " << s.groups << ", " << s.hidden;
  for (const bool value : {s.expand, s.bias, s.residual, s.first, s.last}) out << ", " << (value ? "true" : "false");
  out << ", LayerActivation{" << static_cast<int>(s.activation) << "}}},\n";
}

void write_network(std::ostream& out, const std::string& network, const std::string& file) {
  const Graph graph = onnx_import::load_from_memory(std::as_bytes(std::span(file)), network);
  std::vector<Layer> layers;
  for (const LayerShape& shape : layers_of(graph)) add_use(layers, shape, network, 1);
  for (const Layer& layer : layers) write_row(out, network, layer.uses.front().count, layer.shape);
}

void write_all(const char* path) {
  std::ofstream out(path);
  zoo::MobileNetV2Options mobilenet;
  zoo::NetworkOptions others;
  mobilenet.softmax = others.softmax = true;
  write_network(out, "mobilenet_v2", zoo::build_mobilenet_v2(mobilenet).SerializeAsString());
  for (const zoo::NetworkInfo& info : zoo::networks()) {
    const std::string network(info.name);
    write_network(out, network, zoo::build_network(network, others).SerializeAsString());
  }
  out.close();
  if (!out) throw std::runtime_error(std::string("cannot write ") + path);
}

}  // namespace
}  // namespace mobicuda::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_zoo_layers FILE\n";
    return 2;
  }
  mobicuda::zoo::keep_pages();
  try {
    mobicuda::bench::write_all(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "write_zoo_layers: " << error.what() << '\n';
    return 1;
  }
}
