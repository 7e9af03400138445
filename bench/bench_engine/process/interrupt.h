#pragma once

namespace mobicuda::bench {

/// Makes the first Ctrl-C (or SIGTERM) a request that interrupted() reports; the second ends the process.
void catch_interrupts();

bool interrupted() noexcept;

}  // namespace mobicuda::bench
