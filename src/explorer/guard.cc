#include "explorer/guard.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cctype>

#include "fovea/error.h"
#include "fovea/runtime.h"

namespace fovea::explorer {
namespace {

constexpr const char* kCookie = "fovea";

Response refused(const std::string& why) {
  return {.status = 403, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

bool is_here(const std::string& host, int port) {
  for (const char* name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (host == fmt::format("{}:{}", name, port) || (port == 80 && host == name)) return true;
  }
  return false;
}

// As long for a wrong token as for the right one.
bool same(const std::string& a, const std::string& b) {
  unsigned differ = a.size() != b.size() ? 1 : 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return differ == 0;
}

std::string cookie(const Request& request, const std::string& name) {
  const std::string all = "; " + request.header("cookie") + ";", start = "; " + name + "=";
  const size_t at = all.find(start);
  if (at == std::string::npos) return "";
  const size_t from = at + start.size();
  return all.substr(from, all.find(';', from) - from);
}

std::optional<Response> refuse_stranger(const Request& request, const Admission& admission) {
  const std::string name = fmt::format("{}-{}", kCookie, admission.port);
  if (same(cookie(request, name), admission.token)) return {};
  const auto typed = request.query.find("token");
  if (request.path != "/" || typed == request.query.end() ||
      !same(in_address(typed->second), admission.token)) {
    return refused("Open the address that `fovea serve` printed, with its token.");
  }
  return Response{.status = 303,
                  .type = "",
                  .headers = {{"Location", "/"},
                              {"Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/",
                                                         name, admission.token)}}};
}

}  // namespace

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error("serve", "the system gives no random numbers");
  }
  std::string token;
  for (const unsigned char b : bytes) token += fmt::format("{:02x}", b);
  return token;
}

std::string in_address(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '-' || c == '_' || c == '.';
    safe += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return safe;
}

std::optional<Response> health(const Request& request) {
  if (request.path != "/health") return {};
  if (request.method == "HEAD") return Response{};
  if (request.method != "GET") return {};
  return Response{.body = fmt::format("{{\"alive\":true,\"version\":\"{}\"}}", version())};
}

std::optional<Response> refuse(const Request& request, const Admission& admission) {
  const std::string host = request.header("host");
  if (admission.loopback && !is_here(host, admission.port)) {
    return refused("This server answers to 127.0.0.1 and localhost alone.");
  }
  if (!admission.loopback) {
    if (auto stranger = refuse_stranger(request, admission)) return stranger;
  }
  if (request.method == "GET" || request.method == "HEAD") return {};
  if (request.method != "POST") {
    return Response{.status = 405, .type = "text/plain", .body = "GET and POST alone\n"};
  }
  const std::string origin = request.header("origin");
  if (!origin.empty() && origin != "http://" + host) return refused("Another site's page asks.");
  if (!same(request.header("x-fovea-token"), admission.token)) {
    return refused("The page's token is missing or old: reload the page.");
  }
  return {};
}

Headers sandbox() {
  return {{"Content-Security-Policy",
           "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
           "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'"}};
}

Headers common_headers() {
  return {{"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"},
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
           "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};
}

}  // namespace fovea::explorer
