#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <mobicuda/engine.h>

/// What sessions of a FakeEngine were asked for.
struct FakeCalls {
  struct Timed {
    int iterations;
    int runs;  ///< in a row for each
  };

  std::vector<Timed> timed;  ///< calls of time_executions()
  std::vector<mobicuda::ProfileMode> profiles;
  std::int64_t executed = 0;  ///< execute(), without those of time_executions()
  int waits = 0;              ///< synchronize()
  std::vector<float> input;   ///< of the last set_input(), bytes as numbers
};

/// An engine without a network, for what times and feeds engines. Its sessions take runs as a GPU does: execute() does
/// not wait, synchronize() sleeps for what was enqueued.
class FakeEngine final : public mobicuda::Engine {
 public:
  /// `picture`: shape of one input; bytes where `bytes`. By time_executions() a run takes the next number of `run_ms`
  /// for each call, the last of them from then on.
  FakeEngine(mobicuda::Shape picture, bool bytes, std::vector<double> run_ms);

  std::string_view backend() const noexcept override { return "fake"; }
  mobicuda::MemoryReport memory() const noexcept override { return {}; }

  FakeCalls& calls() const { return *calls_; }
  double run_ms(std::size_t call) const { return run_ms_[std::min(call, run_ms_.size() - 1)]; }

 private:
  std::span<const mobicuda::LayerInfo> do_layers(std::int64_t /*n*/) const noexcept override { return {}; }
  std::unique_ptr<mobicuda::Session> do_create_session() const override;

  std::shared_ptr<FakeCalls> calls_ = std::make_shared<FakeCalls>();
  std::vector<double> run_ms_;
};

std::shared_ptr<FakeEngine> fake_engine(std::vector<double> run_ms = {1}, mobicuda::Shape picture = {1, 1},
                                        bool bytes = false);
