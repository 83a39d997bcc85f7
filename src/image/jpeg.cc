#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jpeglib.h>
// After it, which does not include what it needs.
#include <jerror.h>

#include "image/codecs.h"

// The only file that includes libjpeg. Its errors jump: over frames of C alone.
namespace fovea::image {
namespace {

struct Trouble {
  jpeg_error_mgr errors;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  bool cut_off;
};

[[noreturn]] void jump_back(j_common_ptr c) {
  auto* trouble = reinterpret_cast<Trouble*>(c->err);
  c->err->format_message(c, trouble->message);
  std::longjmp(trouble->back, 1);
}

// A file that ends early is filled up with grey and a warning.
void note(j_common_ptr c, int level) {
  if (level < 0 && (c->err->msg_code == JWRN_JPEG_EOF || c->err->msg_code == JWRN_HIT_MARKER)) {
    reinterpret_cast<Trouble*>(c->err)->cut_off = true;
  }
}

bool read_header(jpeg_decompress_struct& jpeg, Trouble& trouble, std::string_view bytes) {
  if (setjmp(trouble.back) != 0) return false;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

bool read_rows(jpeg_decompress_struct& jpeg, Trouble& trouble, unsigned char* to, size_t row) {
  if (setjmp(trouble.back) != 0) return false;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    unsigned char* line = to + jpeg.output_scanline * row;
    jpeg_read_scanlines(&jpeg, &line, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

struct Jpeg : jpeg_decompress_struct {
  Trouble trouble{};
  Jpeg() : jpeg_decompress_struct{} {
    err = jpeg_std_error(&trouble.errors);
    trouble.errors.error_exit = jump_back;
    trouble.errors.emit_message = note;
    jpeg_create_decompress(this);
  }
  ~Jpeg() { jpeg_destroy_decompress(this); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
};

// R = C·K/255 where ink is written as its absence, as Adobe does; otherwise of what is left white.
std::vector<uint8_t> without_black(const std::vector<uint8_t>& inks, bool inverted) {
  std::vector<uint8_t> rgb;
  for (size_t i = 0; i + 3 < inks.size(); i += 4) {
    const int left = inverted ? inks[i + 3] : 255 - inks[i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int light = inverted ? inks[i + c] : 255 - inks[i + c];
      rgb.push_back(static_cast<uint8_t>(light * left / 255));
    }
  }
  return rgb;
}

}  // namespace

Image decoded_jpeg(std::string_view bytes, const std::string& name, const Limits& limits) {
  Jpeg jpeg;
  const auto damaged = [&] {
    return broken_image(name, std::string("a damaged JPEG, ") + jpeg.trouble.message);
  };
  if (!read_header(jpeg, jpeg.trouble, bytes)) throw damaged();
  expect_size(name, jpeg.image_width, jpeg.image_height, limits);
  const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  const bool grey = jpeg.jpeg_color_space == JCS_GRAYSCALE;
  jpeg.out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  const size_t row = jpeg.image_width * size_t{inks ? 4u : grey ? 1u : 3u};
  std::vector<uint8_t> rows(row * jpeg.image_height);
  if (!read_rows(jpeg, jpeg.trouble, rows.data(), row)) throw damaged();
  if (jpeg.trouble.cut_off) throw broken_image(name, "a JPEG that ends too early");
  if (inks) rows = without_black(rows, jpeg.saw_Adobe_marker != 0);
  Image x{jpeg.image_height, jpeg.image_width, grey ? 1 : 3, {}};
  x.pixels.reserve(rows.size());
  for (const uint8_t v : rows) x.pixels.push_back(static_cast<float>(v) / 255.0f);
  return x;
}

}  // namespace fovea::image
