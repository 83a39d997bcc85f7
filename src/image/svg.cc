#include "image/svg.h"

#include <cairo.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <librsvg/rsvg.h>

#include <cmath>
#include <memory>

#include "fovea/error.h"

namespace fovea::image {
namespace {

// librsvg is opened when the first picture is drawn: with it come some fifty libraries, which
// nobody else needs.
struct Library {
  decltype(&rsvg_handle_new_from_data) handle_from_data;
  decltype(&rsvg_handle_render_document) render;
  decltype(&g_object_unref) unref;
  decltype(&g_error_free) error_free;
  decltype(&cairo_image_surface_create) surface_create;
  decltype(&cairo_surface_status) surface_status;
  decltype(&cairo_surface_destroy) surface_destroy;
  decltype(&cairo_surface_write_to_png_stream) write_png;
  decltype(&cairo_create) create;
  decltype(&cairo_destroy) destroy;
  decltype(&cairo_set_source_rgb) set_source_rgb;
  decltype(&cairo_paint) paint;
  decltype(&cairo_status) status;
  decltype(&cairo_status_to_string) status_to_string;
};

// By the symbol, of a library that is opened for good.
template <class Function>
void find(void* library, const char* symbol, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, symbol));
  if (to == nullptr) throw Error("to_png", fmt::format("librsvg has no {}; it is too old", symbol));
}

Library open_library() {
  void* all = dlopen("librsvg-2.so.2", RTLD_NOW | RTLD_LOCAL);  // and what it links
  if (all == nullptr) {
    throw Error(
        "to_png",
        "a PNG is drawn by librsvg, which is not here (Debian: librsvg2-2); SVG needs none");
  }
  Library l{};
  find(all, "rsvg_handle_new_from_data", l.handle_from_data);
  find(all, "rsvg_handle_render_document", l.render);
  find(all, "g_object_unref", l.unref);
  find(all, "g_error_free", l.error_free);
  find(all, "cairo_image_surface_create", l.surface_create);
  find(all, "cairo_surface_status", l.surface_status);
  find(all, "cairo_surface_destroy", l.surface_destroy);
  find(all, "cairo_surface_write_to_png_stream", l.write_png);
  find(all, "cairo_create", l.create);
  find(all, "cairo_destroy", l.destroy);
  find(all, "cairo_set_source_rgb", l.set_source_rgb);
  find(all, "cairo_paint", l.paint);
  find(all, "cairo_status", l.status);
  find(all, "cairo_status_to_string", l.status_to_string);
  return l;
}

const Library& library() {
  static const Library one = open_library();
  return one;
}

template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const {
    (library().*release)(object);
  }
};
using Handle = std::unique_ptr<RsvgHandle, Release<&Library::unref>>;
using Surface = std::unique_ptr<cairo_surface_t, Release<&Library::surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Release<&Library::destroy>>;
using Failure = std::unique_ptr<GError, Release<&Library::error_free>>;

int pixels(double length, double scale) { return static_cast<int>(std::ceil(length * scale)); }

[[noreturn]] void fail(GError* error) {
  const Failure failure(error);
  throw Error("to_png", failure ? failure->message : "the drawing could not be rendered");
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) throw Error("to_png", library().status_to_string(status));
}

cairo_status_t append(void* to, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

bool fits(const SvgDrawing& d) {
  const double width = std::ceil(d.width * d.scale), height = std::ceil(d.height * d.scale);
  return width <= kLargestSide && height <= kLargestSide && width * height <= kMostPixels;
}

std::string to_png(const SvgDrawing& drawing) {
  if (!fits(drawing) || !(drawing.width > 0 && drawing.height > 0 && drawing.scale > 0)) {
    throw Error("to_png", fmt::format("a picture of {:g}×{:g} pixels, expected some, at most {:g} "
                                      "on a side and {:g} in all",
                                      drawing.width * drawing.scale, drawing.height * drawing.scale,
                                      kLargestSide, kMostPixels));
  }
  const Library& l = library();
  GError* error = nullptr;
  const Handle handle(l.handle_from_data(reinterpret_cast<const guint8*>(drawing.svg.data()),
                                         drawing.svg.size(), &error));
  if (!handle) fail(error);

  const Surface surface(l.surface_create(CAIRO_FORMAT_RGB24, pixels(drawing.width, drawing.scale),
                                         pixels(drawing.height, drawing.scale)));
  check(l.surface_status(surface.get()));
  const Context context(l.create(surface.get()));
  l.set_source_rgb(context.get(), 1, 1, 1);
  l.paint(context.get());
  const RsvgRectangle all{0, 0, drawing.width * drawing.scale, drawing.height * drawing.scale};
  if (!l.render(handle.get(), context.get(), &all, &error)) fail(error);
  check(l.status(context.get()));

  std::string png;
  check(l.write_png(surface.get(), append, &png));
  return png;
}

}  // namespace fovea::image
