#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "c_api/call.h"

using namespace mobicuda;         // NOLINT(google-build-using-namespace): the functions below are outside of any
using namespace mobicuda::c_api;  // NOLINT(google-build-using-namespace)

mobicuda_status mobicuda_session_create(const mobicuda_engine* engine, mobicuda_session** session) {
  return call(__func__, [&, function = __func__] {
    require(function, session, "session");
    *session = nullptr;
    *session = new mobicuda_session{.session = engine_of(function, engine)->create_session()};
  });
}

void mobicuda_session_destroy(mobicuda_session* session) {
  if (session == nullptr || session->kind != HandleKind::Session) return;
  delete session;
}

mobicuda_status mobicuda_session_run(mobicuda_session* session, const float* input, size_t input_count, float* output,
                                     size_t output_count) {
  return call(__func__, [&, function = __func__] {
    session_of(function, session)
        .run(buffer(function, input, input_count, "input"), buffer(function, output, output_count, "output"));
  });
}

mobicuda_status mobicuda_session_run_bytes(mobicuda_session* session, const uint8_t* pictures, size_t picture_count,
                                           float* output, size_t output_count) {
  return call(__func__, [&, function = __func__] {
    session_of(function, session)
        .run(buffer(function, pictures, picture_count, "pictures"), buffer(function, output, output_count, "output"));
  });
}

mobicuda_status mobicuda_session_set_input(mobicuda_session* session, const float* input, size_t count) {
  return call(__func__, [&, function = __func__] {
    session_of(function, session).set_input(buffer(function, input, count, "input"));
  });
}

mobicuda_status mobicuda_session_set_input_bytes(mobicuda_session* session, const uint8_t* pictures, size_t count) {
  return call(__func__, [&, function = __func__] {
    session_of(function, session).set_input(buffer(function, pictures, count, "pictures"));
  });
}

mobicuda_status mobicuda_session_execute(mobicuda_session* session, int64_t n) {
  return call(__func__, [&, function = __func__] { session_of(function, session).execute(n); });
}

mobicuda_status mobicuda_session_get_output(mobicuda_session* session, float* output, size_t count) {
  return call(__func__, [&, function = __func__] {
    session_of(function, session).get_output(buffer(function, output, count, "output"));
  });
}

mobicuda_status mobicuda_session_synchronize(mobicuda_session* session) {
  return call(__func__, [&, function = __func__] { session_of(function, session).synchronize(); });
}

mobicuda_status mobicuda_session_staged_input(mobicuda_session* session, int64_t n, float** input) {
  return call(__func__, [&, function = __func__] {
    Session& from = session_of(function, session);
    require(function, input, "input");
    *input = from.staged_input(n).data();
  });
}

mobicuda_status mobicuda_session_staged_pictures(mobicuda_session* session, int64_t n, uint8_t** pictures) {
  return call(__func__, [&, function = __func__] {
    Session& from = session_of(function, session);
    require(function, pictures, "pictures");
    *pictures = from.staged_pictures(n).data();
  });
}

mobicuda_status mobicuda_session_staged_output(mobicuda_session* session, int64_t n, const float** output) {
  return call(__func__, [&, function = __func__] {
    Session& from = session_of(function, session);
    require(function, output, "output");
    *output = from.staged_output(n).data();
  });
}

mobicuda_status mobicuda_session_enqueue_staged(mobicuda_session* session, int64_t n) {
  return call(__func__, [&, function = __func__] { session_of(function, session).enqueue_staged(n); });
}

mobicuda_status mobicuda_session_run_staged(mobicuda_session* session, int64_t n) {
  return call(__func__, [&, function = __func__] { session_of(function, session).run_staged(n); });
}

mobicuda_status mobicuda_session_warm_up(mobicuda_session* session, const int64_t* batches, size_t count) {
  return call(__func__, [&, function = __func__] {
    session_of(function, session).warm_up(buffer(function, batches, count, "batches"));
  });
}

mobicuda_status mobicuda_session_time_executions(mobicuda_session* session, int64_t n, int32_t runs,
                                                 double* milliseconds, size_t count) {
  return call(__func__, [&, function = __func__] {
    Session& timed = session_of(function, session);
    const std::span<double> times = buffer(function, milliseconds, count, "milliseconds");
    if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw Error(ErrorCode::invalid_argument, function, "count: too many, got " + std::to_string(count));
    }
    std::ranges::copy(timed.time_executions(n, static_cast<int>(count), runs), times.begin());
  });
}
