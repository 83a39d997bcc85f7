#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A small HTTP/1.1 server for one page: one thread reads and writes all connections, so that a slow
// client holds nobody up; requests that are whole are answered by a few workers. Of a request that
// is not welcome no more is kept than its head.
namespace fovea::explorer {

struct Request {
  std::string method, path;                    // the path decoded, without the query
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
  std::string header(const std::string& name) const;  // empty where there is none
};

struct Response {
  int status = 200;
  std::string type = "application/json; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// The client of a request, while a worker answers it.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual bool gone() const = 0;  // it left: nobody waits for the answer
  // A part of an answer that comes in parts; what the handler returns is the last of them, and only
  // its body counts then.
  virtual void send(std::string_view part) = 0;
};

// When a request's head is there, before any of its body is kept: nothing where it is welcome, or
// what to send it away with. On the thread of the connections; quick.
using Admit = std::function<std::optional<Response>(const Request&)>;
// On a worker's thread; whatever it throws becomes status 500.
using Handler = std::function<Response(const Request&, Caller&)>;

// ---- Reading a request -------------------------------------------------------------------------

struct Limits {
  size_t target = 8192, headers = 100, header_bytes = 16384;
  size_t body = size_t{16} << 20;
};
// What stands at the beginning of `bytes`. status 0 and length 0: not whole yet; status 0: a head
// of so many bytes, whose request has a body of so many more to come; else it is refused.
struct RequestHead {
  int status = 0;
  size_t length = 0, body = 0;
  Request request;
};
RequestHead parse_head(std::string_view bytes, const Limits& = {});

std::string head_of(const Response&, bool in_parts, bool keep);  // the status line and the headers
using Headers = std::vector<std::pair<std::string, std::string>>;
void add_missing(const Headers&, Response&);  // those whose names it has not
std::string part_of(std::string_view);        // as chunked encoding has it

// ---- The server --------------------------------------------------------------------------------

struct ServerSettings {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any that is free
  int workers = 4;
  // Connections in all, and those among them that have asked for nothing welcome yet. Of these the
  // oldest goes when one more comes, so that they take no room from the others.
  size_t connections = 256, strangers = 64;
  size_t bodies = size_t{64} << 20;  // bytes of all requests that are read or answered
  Limits limits;
  Headers headers = {};  // of every answer that does not bring its own
  // From its first byte, or from the connection where it is the first, a request has so long for
  // its head, and for all of it; an answer that is not read, and a connection without a request, so
  // long.
  double head_seconds = 10, request_seconds = 60, idle_seconds = 30;
  Admit admit = {};  // empty: everybody
};

class HttpServer {
 public:
  HttpServer(ServerSettings, Handler);  // listens; throws where it cannot
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const;
  void run(const std::atomic<bool>& stop);  // until then
  // Tells the workers that nobody waits any more; false where some still work after so long.
  bool finish(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea::explorer
