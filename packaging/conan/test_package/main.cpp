// Prints the error of a model that is not there.
#include <iostream>

#include <mobicuda/mobicuda.h>

int main() {
  try {
    mobicuda::onnx_import::load("/absent.onnx");
  } catch (const mobicuda::Error& error) {
    std::cout << error.what() << '\n';
  }
}
