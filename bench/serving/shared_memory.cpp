#include "serving/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#include <random>
#include <system_error>

namespace mobicuda::bench {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

std::string SharedMemory::unused_name(const std::string& what) {
  return "/serving_load_" + std::to_string(getpid()) + "_" + std::to_string(std::random_device()()) + "_" + what;
}

SharedMemory::SharedMemory(const std::string& what, std::size_t bytes) : key_(unused_name(what)) {
  const int file = shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) fail(errno, key_);
  void* memory = MAP_FAILED;
  // Reserved here: a file system of shared memory without room would otherwise end the process when it is written.
  int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (error == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  close(file);
  if (error != 0) {
    shm_unlink(key_.c_str());
    fail(error, key_ + " of " + std::to_string(bytes) + " bytes");
  }
  bytes_ = {static_cast<std::byte*>(memory), bytes};
}

SharedMemory::~SharedMemory() {
  munmap(bytes_.data(), bytes_.size());
  shm_unlink(key_.c_str());
}

}  // namespace mobicuda::bench
