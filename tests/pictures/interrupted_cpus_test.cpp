#include "pictures/gpu/interrupted_cpus.h"

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temporary_folder.h"

namespace {

using namespace mobicuda::pictures;
using Counts = std::map<int, std::uint64_t>;

// As the kernel writes it: three CPUs, of which number 1 is off.
std::string interrupts(const std::string& gpu, const std::string& disk = "7 8 9") {
  return "            CPU0       CPU2       CPU3\n"
         "   1:          5          0          0   IO-APIC   1-edge      i8042\n"
         "  42: " +
         gpu +
         "   PCI-MSIX-0000:00:06.0   0-edge      nvidia\n"
         "  43:          1          0          0   PCI-MSIX-0000:00:06.0   1-edge      nvidia\n"
         "  44: " +
         disk +
         "   PCI-MSIX-0000:00:07.0   0-edge      nvme0q1\n"
         " LOC:       1000       2000       3000   Local timer interrupts\n"
         " ERR:          0\n";
}

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

cpu_set_t set_of(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return set;
}

bool equal(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b) != 0; }

}  // namespace

TEST_CASE("interrupts of NVIDIA GPUs are counted by CPU") {
  CHECK(gpu_interrupts(interrupts("10 200 3000")) == Counts{{0, 11}, {2, 200}, {3, 3000}});
}

TEST_CASE("texts that are no counts of interrupts count nothing") {
  for (const char* const text :
       {"", "\n", "CPU\n", "CPUx CPU1\n 1: 2 3 nvidia\n", "1: 2 3 nvidia\n", "CPU0 CPU1\n nvidia\n",
        "CPU0 CPU1\n 42: nvidia\n", "CPU0\n 42: 99999999999999999999999 nvidia"}) {
    CAPTURE(text);
    CHECK(gpu_interrupts(text).empty());
  }
  CHECK(gpu_interrupts("CPU0 CPU1\n 42: 7 nvidia") == Counts{{0, 7}});  // cut short
}

TEST_CASE("CPUs that are interrupted for one of ten pictures are found") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "interrupts";
  write(file, interrupts("0 0 1000000"));
  InterruptedCpus interrupted(file);
  CHECK(interrupted.generation() == 0);

  write(file, interrupts("0 99 1000099", "50000 50000 50000"));
  interrupted.decoded(1000);  // the first look
  CHECK(interrupted.cpus().empty());
  CHECK(interrupted.generation() == 0);

  write(file, interrupts("0 599 1000198"));
  interrupted.decoded(1000);  // no look yet
  CHECK(interrupted.cpus().empty());
  interrupted.look();
  CHECK(interrupted.cpus() == std::vector<int>{2});
  CHECK(interrupted.generation() == 1);

  // The same CPU: nothing new.
  write(file, interrupts("0 1199 1000198"));
  interrupted.decoded(1000);
  interrupted.look();
  CHECK(interrupted.generation() == 1);

  // Too few pictures to say anything.
  write(file, interrupts("99 1199 1000198"));
  interrupted.decoded(99);
  interrupted.look();
  CHECK(interrupted.cpus() == std::vector<int>{2});

  // It has moved.
  write(file, interrupts("600 1199 1000198"));
  interrupted.decoded(901);
  interrupted.look();
  CHECK(interrupted.cpus() == std::vector<int>{0});
  CHECK(interrupted.generation() == 2);

  // And is gone.
  std::filesystem::remove(file);
  interrupted.decoded(1000);
  interrupted.look();
  CHECK(interrupted.cpus().empty());
}

TEST_CASE("no CPU is found where interrupts are not told") {
  InterruptedCpus interrupted("/nowhere/interrupts");
  interrupted.decoded(1000);
  interrupted.look();
  CHECK(interrupted.cpus().empty());
}

TEST_CASE("a thread is left two CPUs") {
  CHECK(equal(without(set_of({0, 1, 2, 5}), {1, 5, 7}), set_of({0, 2})));
  CHECK(equal(without(set_of({0, 1, 2}), {1, 2}), set_of({0, 1, 2})));
  CHECK(equal(without(set_of({0, 1}), {}), set_of({0, 1})));
  CHECK(equal(without(set_of({0, 1}), {100000}), set_of({0, 1})));
}

TEST_CASE("a placed thread runs on no interrupted CPU, and everywhere again when that has moved") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "interrupts";
  write(file, interrupts("0 0 0"));
  InterruptedCpus interrupted(file);
  const auto find = [&](const std::string& counts) {
    write(file, interrupts(counts));
    interrupted.decoded(1000);
    interrupted.look();
  };
  std::thread([&] {
    const auto now = [] {
      cpu_set_t set;
      CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
      return set;
    };
    const cpu_set_t before = now();
    PlacedThread placed;
    placed.keep_off(interrupted);
    CHECK(equal(now(), before));
    find("500 0 0");
    placed.keep_off(interrupted);
    CHECK(equal(now(), without(before, {0})));
    find("500 500 0");
    placed.keep_off(interrupted);
    CHECK(equal(now(), without(before, {2})));
  }).join();
}
