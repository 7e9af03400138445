#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <mobicuda/picture_source.h>

#include "pictures/source/reader.h"

namespace mobicuda::pictures {

/// Reads a source batch after batch by threads of its own into a few slots that are used over and over: memory is
/// bounded, and the threads wait where nobody takes what they read. Batch b is in slot b % slots.
class BatchLoader {
 public:
  /// A picture of a batch. Its memory is kept for the picture that comes to this place later.
  struct Item {
    Entry entry;
    EncodedBytes encoded;
  };
  struct Batch {
    std::size_t sequence = 0;  ///< number of the batch
    std::size_t slot = 0;
    std::size_t first = 0;  ///< index of its first picture in the source
    std::size_t size = 0;   ///< pictures; items beyond are of no meaning
    std::vector<Item> items;
  };
  /// What thread `thread` does with a picture: in parallel for all pictures of a batch. What it throws ends the loader.
  using Work = std::function<void(Batch& batch, std::size_t place, std::size_t thread)>;

  struct Settings {
    std::size_t batch = 1;
    std::size_t slots = 2;
    std::size_t threads = 1;
  };

  BatchLoader(PictureSource source, const Settings& settings, Work work);
  ~BatchLoader();  ///< work on a picture is waited for, nothing else
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next batch in its order whose pictures are all done; null after the last and once stopped. From any thread.
  /// Throws what work threw.
  Batch* take();
  /// The same without waiting: null also where it is not there yet.
  Batch* try_take();
  /// The slot may be filled again. From any thread, in any order.
  void release(const Batch& batch);
  /// Nobody waits any more. From any thread.
  void stop() noexcept;

  std::size_t slots() const noexcept { return slots_.size(); }

 private:
  struct Slot {
    Batch batch;
    std::size_t waiting = 0;  // pictures not done
    bool claimed = false;     // all its pictures have a thread, or there are no more
    bool free = true;
  };

  void run(std::size_t thread);
  bool claim(std::vector<std::size_t>& places, Slot*& slot, std::unique_lock<std::mutex>& lock);
  std::size_t at_once() const;
  bool has_room() const;
  bool is_ready(const Slot& slot) const;
  Batch* take_ready();
  bool over() const;

  std::unique_ptr<PictureSource::Reader> reader_;
  const Settings settings_;
  const Work work_;
  std::vector<std::unique_ptr<Slot>> slots_;

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable ready_;
  std::size_t idle_ = 0;     // threads that wait for room
  double seconds_ = 0;       // that a picture takes, lately
  std::size_t filling_ = 0;  // batch that pictures are claimed for
  std::size_t claimed_ = 0;  // pictures
  std::size_t taken_ = 0;    // batches
  bool ended_ = false;       // the source
  bool stopped_ = false;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace mobicuda::pictures
