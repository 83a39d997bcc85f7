// replay TARGET FOLDER: gives every file of the folder to the fuzz target, without libFuzzer.
#include "replay.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3 || !fuzz_targets().contains(argv[1])) {
    std::fprintf(stderr, "fuzz_replay TARGET FOLDER\n");
    return 2;
  }
  const FuzzTarget target = fuzz_targets().at(argv[1]);
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++replayed;
  }
  std::printf("%d inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
