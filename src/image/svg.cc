#include "image/svg.h"

#include <cairo.h>
#include <fmt/format.h>
#include <librsvg/rsvg.h>

#include <cmath>
#include <memory>

#include "fovea/error.h"

namespace fovea::image {
namespace {

template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
using Handle = std::unique_ptr<RsvgHandle, Release<g_object_unref>>;
using Surface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Release<cairo_destroy>>;
using Failure = std::unique_ptr<GError, Release<g_error_free>>;

int pixels(double length, double scale) { return static_cast<int>(std::ceil(length * scale)); }

[[noreturn]] void fail(GError* error) {
  const Failure failure(error);
  throw Error("to_png", failure ? failure->message : "the drawing could not be rendered");
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) throw Error("to_png", cairo_status_to_string(status));
}

cairo_status_t append(void* to, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

bool fits(const Drawing& d) {
  const double width = std::ceil(d.width * d.scale), height = std::ceil(d.height * d.scale);
  return width <= kLargestSide && height <= kLargestSide && width * height <= kMostPixels;
}

std::string to_png(const Drawing& drawing) {
  if (!fits(drawing) || !(drawing.width > 0 && drawing.height > 0 && drawing.scale > 0)) {
    throw Error("to_png", fmt::format("a picture of {:g}×{:g} pixels, expected some, at most {:g} "
                                      "on a side and {:g} in all",
                                      drawing.width * drawing.scale, drawing.height * drawing.scale,
                                      kLargestSide, kMostPixels));
  }
  GError* error = nullptr;
  const Handle handle(rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(drawing.svg.data()),
                                                drawing.svg.size(), &error));
  if (!handle) fail(error);

  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                                   pixels(drawing.width, drawing.scale),
                                                   pixels(drawing.height, drawing.scale)));
  check(cairo_surface_status(surface.get()));
  const Context context(cairo_create(surface.get()));
  cairo_set_source_rgb(context.get(), 1, 1, 1);
  cairo_paint(context.get());
  const RsvgRectangle all{0, 0, drawing.width * drawing.scale, drawing.height * drawing.scale};
  if (!rsvg_handle_render_document(handle.get(), context.get(), &all, &error)) fail(error);
  check(cairo_status(context.get()));

  std::string png;
  check(cairo_surface_write_to_png_stream(surface.get(), append, &png));
  return png;
}

}  // namespace fovea::image
