#include "image/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "fovea/error.h"

namespace fovea::image {
namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr uint8_t kBytes = 8;
constexpr size_t kMostDimensions = 4;

class Source {
 public:
  Source(const std::string& name, const ReadBytes& read) : name_(name), read_(read) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error("idx", name_ + ": " + what); }

  // As many as there are, at most n.
  size_t read(uint8_t* to, size_t n) const {
    size_t got = 0;
    try {
      while (got < n) {
        const size_t more = read_(reinterpret_cast<char*>(to) + got, n - got);
        if (more == 0) break;
        got += more;
      }
    } catch (const std::runtime_error& error) {
      fail(error.what());
    }
    return got;
  }

  uint32_t number() const {
    std::array<uint8_t, 4> b{};
    if (read(b.data(), 4) < 4) fail("ends within the header");
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  }

 private:
  const std::string& name_;
  const ReadBytes& read_;
};

}  // namespace

Idx parse_idx(const std::string& name, const ReadBytes& read) {
  const Source source(name, read);
  const uint32_t magic = source.number();
  const size_t dimensions = magic & 0xff;
  if (magic >> 16 != 0 || dimensions < 1 || dimensions > kMostDimensions) {
    source.fail("is no idx file: it must begin with two zero bytes, a type, and 1 to 4 dimensions");
  }
  if ((magic >> 8 & 0xff) != kBytes) {
    source.fail(
        fmt::format("holds values of type 0x{:02x}, expected bytes (0x08)", magic >> 8 & 0xff));
  }
  Idx idx;
  int64_t count = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    idx.shape.push_back(source.number());
    if (idx.shape.back() > 0 && count > kMostIdxBytes / idx.shape.back()) {
      source.fail(fmt::format("says {} values or more, at most {} are read",
                              fmt::join(idx.shape, " × "), kMostIdxBytes));
    }
    count *= idx.shape.back();
  }
  const auto expected = static_cast<size_t>(count);
  while (idx.values.size() < expected) {
    const size_t had = idx.values.size(), piece = std::min(kPiece, expected - had);
    idx.values.resize(had + piece);
    const size_t got = source.read(idx.values.data() + had, piece);
    if (got < piece) {
      source.fail(fmt::format("says {} = {} values and has {}", fmt::join(idx.shape, " × "),
                              expected, had + got));
    }
  }
  uint8_t more = 0;
  if (source.read(&more, 1) > 0) {
    source.fail(
        fmt::format("says {} = {} values and has more", fmt::join(idx.shape, " × "), expected));
  }
  return idx;
}

Idx read_idx(const std::filesystem::path& path) {
  try {
    return parse_idx(path.string(), open_gzip(path));
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error("idx", path.string() + ": " + error.what());
  }
}

bool is_idx(const std::filesystem::path& path) {
  try {
    std::array<char, 4> b{};
    return open_gzip(path)(b.data(), 4) == 4 && b[0] == 0 && b[1] == 0 && b[2] == kBytes;
  } catch (const std::runtime_error&) {
    return false;
  }
}

std::vector<Image> images_of(const std::string& name, const Idx& idx) {
  if (idx.shape.size() != 3) {
    throw Error("idx", fmt::format("{}: has {} dimensions, expected images [n,y,x]", name,
                                   idx.shape.size()));
  }
  if (idx.shape[0] == 0) return {};  // of any size: Y·X need not fit
  const int64_t Y = idx.shape[1], X = idx.shape[2];
  if (Y * X == 0) throw Error("idx", name + ": images of no pixels");
  std::vector<Image> all;
  all.reserve(static_cast<size_t>(idx.shape[0]));
  for (auto from = idx.values.begin(); from != idx.values.end(); from += Y * X) {
    Image& one = all.emplace_back(Image{Y, X, 1, {}});
    one.pixels.resize(static_cast<size_t>(Y * X));
    std::transform(from, from + Y * X, one.pixels.begin(),
                   [](uint8_t v) { return static_cast<float>(v) / 255.0f; });
  }
  return all;
}

LabelledImages read_idx(const std::filesystem::path& images, const std::filesystem::path& labels) {
  const Idx classes = read_idx(labels);
  if (classes.shape.size() != 1) {
    throw Error("idx", fmt::format("{}: has {} dimensions, expected labels [n]", labels.string(),
                                   classes.shape.size()));
  }
  std::vector<Image> all = images_of(images.string(), read_idx(images));
  if (all.size() != classes.values.size()) {
    throw Error("idx", fmt::format("{} has {} images, {} has {} labels", images.string(),
                                   all.size(), labels.string(), classes.values.size()));
  }
  LabelledImages found;
  int64_t most = 9;
  for (size_t i = 0; i < all.size(); ++i) {
    most = std::max<int64_t>(most, classes.values[i]);
    found.images.push_back({std::move(all[i]), classes.values[i]});
  }
  for (int64_t k = 0; k <= most; ++k) found.classes.push_back(std::to_string(k));
  return found;
}

}  // namespace fovea::image
