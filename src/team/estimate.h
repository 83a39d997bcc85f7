#pragma once

#include <cstdint>

namespace fovea::team {

// What a machine has to do in a step, and to keep.
struct Work {
  double seconds = 0;       // of computing, alone
  int64_t weights = 0;      // numbers that learn
  int64_t kept = 0;         // bytes a weight that all machines keep …
  int64_t shared = 0;       // … and that they share: moments and averages
  double variation = 0.01;  // of the seconds, between machines: their standard deviation
};

struct Network {
  double bandwidth = 1.25e9;  // bytes a second, each way
  double latency = 30e-6;     // seconds a message
};

// What is known of machines in numbers: one of 16,384 GPUs stopped every 3 hours, which is 6,300
// hours of a machine of eight; a checkpoint goes to a disk of 500 MB a second.
struct Machines {
  double hours_to_failure = 6300;  // of one
  double restart_seconds = 60;
  double disk = 500e6;  // bytes a second
};

struct Estimate {
  double step_seconds = 0;
  double efficiency = 0;     // share of all machines' time that computes, failures included
  double traffic = 0;        // bytes that a machine sends in a step
  double memory = 0;         // bytes of a machine, for weights and what belongs to them
  double failure_hours = 0;  // between failures of any machine
  double save_seconds = 0;   // between checkpoints: the interval that costs least
};

// For R machines, each with the same work:
//   T = t + 2·4P(R − 1)/(R·bandwidth) + 2(R − 1)·latency·buckets + variation·t·√(2 ln R)
// of buckets of max(4 MB, 64 KB·R). The slowest of R is what all wait for. With C seconds to save
// and M between failures, saving every τ = √(2CM) costs C/τ + τ/2M, and a failure a restart.
Estimate estimate(const Work&, const Network&, const Machines&, int64_t count);

}  // namespace fovea::team
