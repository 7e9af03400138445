// A program of its own, as the process is of no use afterwards: a kernel traps, and every call of the library on that
// device must say device_lost, at once, as often as it is asked. Engines and sessions go away without a word.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "lose_device.h"
#include "support/graphs.h"

namespace mobicuda {
namespace {

constexpr double kMostMs = 10;

[[noreturn]] void fail(const std::string& what) {
  std::printf("failed: %s\n", what.c_str());
  std::exit(1);
}

void expect_lost(const char* what, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  try {
    call();
  } catch (const Error& error) {
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("%s: %.3f ms, %s\n", what, ms, error.what());
    if (error.code() != ErrorCode::device_lost) fail(std::string(what) + " is not device_lost");
    if (ms > kMostMs) fail(std::string(what) + " took too long");
    return;
  }
  fail(std::string(what) + " succeeded");
}

int run() {
  test::TestNetwork net(Shape{1, 3, 32, 32});
  net.conv(16, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  net.head(10);
  const Graph graph = std::move(net).build();
  const auto backend = make_custom_backend();
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = 2;
  const auto engine = backend->compile(graph, options);
  const auto session = engine->create_session();
  const auto other = engine->create_session();
  const std::vector<float> images(static_cast<std::size_t>(2 * engine->input().shape.elements()), 0.5F);
  std::vector<float> output(static_cast<std::size_t>(2 * engine->output().shape.elements()));
  session->run(images, output);
  const cudaError_t status = test::lose_device();
  if (status == cudaSuccess) fail("the trap had no effect");
  for (int time = 0; time < 3; ++time) {
    expect_lost("run", [&] { session->run(images, output); });
    expect_lost("run of another session", [&] { other->run(images, output); });
    expect_lost("execute", [&] {
      session->set_input(images);
      session->execute(2);
      session->get_output(output);
    });
    expect_lost("create_session", [&] { static_cast<void>(engine->create_session()); });
    expect_lost("compile", [&] { static_cast<void>(backend->compile(graph, options)); });
  }
  // The CPU's engine is nobody's loss.
  EngineOptions on_cpu;
  on_cpu.max_batch = 2;
  make_cpu_backend()->compile(graph, on_cpu)->create_session()->run(images, output);
  return 0;
}

}  // namespace
}  // namespace mobicuda

int main() {
  int code = 1;
  try {
    code = mobicuda::run();
  } catch (const mobicuda::Error& error) {
    if (error.code() == mobicuda::ErrorCode::device_unavailable) {
      std::printf("skipped: no usable GPU\n");
      return 0;
    }
    std::printf("failed: %s\n", error.what());
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
  }
  if (code == 0) std::printf("ok: every call said device_lost, and destructors were silent\n");
  return code;
}
