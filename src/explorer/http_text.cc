#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "explorer/http.h"

// What HTTP/1.1 says in text: requests read, answers written.
namespace fovea::explorer {
namespace {

constexpr std::string_view kEnd = "\r\n\r\n";

std::string small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_token(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool is_text(std::string_view value) {
  return std::all_of(value.begin(), value.end(),
                     [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7f); });
}

// %41 and, in queries, + for a space; false where it is malformed.
bool decode(std::string_view from, bool query, std::string& to) {
  to.clear();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == '+' && query) {
      to += ' ';
    } else if (from[i] == '%') {
      unsigned value = 0;
      if (i + 2 >= from.size()) return false;
      const char* digits = from.data() + i + 1;
      const auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
      if (error != std::errc() || end != digits + 2) return false;
      to += static_cast<char>(value);
      i += 2;
    } else {
      to += from[i];
    }
  }
  return true;
}

bool read_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    const size_t is = std::min(pair.find('='), pair.size());
    std::string name, value;
    if (!decode(pair.substr(0, is), true, name)) return false;
    if (is < pair.size() && !decode(pair.substr(is + 1), true, value)) return false;
    if (!name.empty()) query[name] = value;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

// "GET /path?query HTTP/1.1"; 0, or the status it is refused with.
int read_first_line(std::string_view line, const Limits& limits, Request& request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return 400;
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.size() > limits.target) return 414;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return 505;
  if (!is_token(method) || target.empty() || target.front() != '/') return 400;
  if (!is_text(target) || target.find(' ') != std::string_view::npos) return 400;
  request.method = method;
  const size_t mark = std::min(target.find('?'), target.size());
  if (!decode(target.substr(0, mark), false, request.path)) return 400;
  if (mark < target.size() && !read_query(target.substr(mark + 1), request.query)) return 400;
  if (version == "HTTP/1.0") request.headers["connection"] = "close";
  return 0;
}

int read_header(std::string_view line, Request& request) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return 400;
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_text(value)) return 400;
  const std::string name = small_letters(line.substr(0, colon));
  const bool again = request.headers.contains(name);
  if (again && (name == "host" || name == "content-length")) return 400;
  request.headers[name] = again ? request.headers[name] + ", " + std::string(value) : value;
  return 0;
}

struct Length {
  int status = 0;
  size_t bytes = 0;
};

Length body_length(const Request& request, const Limits& limits) {
  if (request.headers.contains("transfer-encoding")) return {411};
  const std::string text = request.header("content-length");
  if (text.empty()) return {request.headers.contains("content-length") ? 400 : 0};
  size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc::result_out_of_range) return {413};
  if (error != std::errc() || end != text.data() + text.size()) return {400};
  return {bytes > limits.body ? 413 : 0, bytes};
}

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

}  // namespace

std::string Request::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

RequestHead parse_head(std::string_view bytes, const Limits& limits) {
  RequestHead p;
  const size_t end = bytes.find(kEnd);
  const std::string_view head = bytes.substr(0, end);
  const size_t first = std::min(head.find("\r\n"), head.size());
  // A long target is told from many headers before either is whole; what came last may be a part of
  // the end.
  const size_t part = end == std::string_view::npos ? kEnd.size() - 1 : 0;
  if (first > limits.target + 64 + part) return {414};
  if (head.size() > first + limits.header_bytes + part) return {431};
  if (end == std::string_view::npos) return p;
  if (const int status = read_first_line(head.substr(0, first), limits, p.request)) return {status};
  size_t count = 0;
  for (size_t at = first; at < head.size();) {
    at += 2;
    const size_t to = std::min(head.find("\r\n", at), head.size());
    if (++count > limits.headers) return {431};
    if (const int status = read_header(head.substr(at, to - at), p.request)) return {status};
    at = to;
  }
  const Length body = body_length(p.request, limits);
  if (body.status != 0) return {body.status};
  p.length = end + kEnd.size();
  p.body = body.bytes;
  return p;
}

std::string head_of(const Response& r, bool in_parts, bool keep) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", r.status, reason(r.status));
  if (!r.type.empty()) text += fmt::format("Content-Type: {}\r\n", r.type);
  text += in_parts ? "Transfer-Encoding: chunked\r\n"
                   : fmt::format("Content-Length: {}\r\n", r.body.size());
  for (const auto& [name, value] : r.headers) text += fmt::format("{}: {}\r\n", name, value);
  return text + (keep ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

void add_missing(const Headers& headers, Response& r) {
  for (const auto& header : headers) {
    const auto named = [&](const auto& own) { return own.first == header.first; };
    if (std::none_of(r.headers.begin(), r.headers.end(), named)) r.headers.push_back(header);
  }
}

std::string part_of(std::string_view part) {
  return fmt::format("{:x}\r\n{}\r\n", part.size(), part);
}

}  // namespace fovea::explorer
