#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

#include "explorer/http.h"
#include "fovea/error.h"

namespace fovea::explorer {
namespace {

constexpr size_t kMostWaiting = size_t{4} << 20;  // bytes of one answer that a client has not read
constexpr auto kTurn = std::chrono::milliseconds(250);

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class File {
 public:
  explicit File(int id) : id_(id) {}
  File(File&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (id_ >= 0) ::close(id_);
  }
  int id() const { return id_; }

 private:
  int id_;
};

struct Bound {
  File socket;
  int port;
};

Bound listen_at(const std::string& host, int port) {
  addrinfo want{}, *found = nullptr;
  want.ai_socktype = SOCK_STREAM;
  want.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const std::string service = std::to_string(port);
  if (const int error = ::getaddrinfo(host.c_str(), service.c_str(), &want, &found)) {
    throw Error("serve", fmt::format("{}: {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    File s(::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
    const int on = 1;
    if (s.id() >= 0) ::setsockopt(s.id(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s.id() < 0 || ::bind(s.id(), a->ai_addr, a->ai_addrlen) != 0 ||
        ::listen(s.id(), SOMAXCONN) != 0) {
      error = errno;
      continue;
    }
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(s.id(), reinterpret_cast<sockaddr*>(&address), &size);
    const in_port_t bound = address.ss_family == AF_INET6
                                ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                : reinterpret_cast<const sockaddr_in&>(address).sin_port;
    return {std::move(s), ntohs(bound)};
  }
  const std::string hint =
      error == EADDRINUSE ? "; another program has it: --port 0 takes any" : "";
  throw Error("serve",
              fmt::format("cannot listen at {}:{}: {}{}", host, port, std::strerror(error), hint));
}

}  // namespace

// What the thread of the connections and a worker share of one answer.
struct Answer final : Caller {
  explicit Answer(int wake) : wake_(wake) {}

  bool gone() const override { return gone_.load(); }
  void send(std::string_view part) override {
    if (part.empty()) return;
    std::unique_lock lock(mutex);
    room.wait(lock, [&] { return gone_.load() || bytes.size() < kMostWaiting; });
    if (!std::exchange(in_parts, true)) {
      const Response head{.type = "application/x-ndjson; charset=utf-8", .headers = common};
      bytes += head_of(head, true, keep);
    }
    bytes += part_of(part);
    lock.unlock();
    wake();
  }
  void finish(const Response& r) {
    {
      const std::lock_guard lock(mutex);
      if (in_parts) {
        if (!r.body.empty()) bytes += part_of(r.body);
        bytes += "0\r\n\r\n";
      } else {
        bytes += head_of(r, false, keep) + (no_body ? "" : r.body);
      }
      done = true;
    }
    wake();
  }
  void leave() {
    {
      const std::lock_guard lock(mutex);
      gone_ = true;
    }
    room.notify_all();
  }

  std::mutex mutex;
  std::condition_variable room;
  std::string bytes;  // to be written
  bool done = false, in_parts = false, keep = true, no_body = false;
  std::vector<std::pair<std::string, std::string>> common;  // headers of an answer in parts

 private:
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
  }
  const int wake_;
  std::atomic<bool> gone_{false};
};

namespace {

struct Connection {
  explicit Connection(File s) : socket(std::move(s)) {}
  File socket;
  std::string in, out;
  std::shared_ptr<Answer> answer;  // while one is made or written
  double deadline = 0;
  bool keep = true;
};

struct Work {
  Request request;
  std::shared_ptr<Answer> answer;
};

}  // namespace

struct HttpServer::Inside {
  Inside(ServerSettings s, Handler h)
      : settings(std::move(s)),
        handler(std::move(h)),
        bound(listen_at(settings.host, settings.port)),
        wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (int i = 0; i < settings.workers; ++i) threads.emplace_back([this] { answer_all(); });
  }
  ~Inside() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    for (const auto& c : connections) {
      if (c->answer) c->answer->leave();
    }
    for (const Work& w : queue) w.answer->leave();
    some.notify_all();
    for (std::thread& t : threads) t.join();
  }

  void answer_all();
  void turn();
  void accept_all();
  void read(Connection&);
  void take_request(Connection&);
  void refuse(Connection&, int status);
  void write(Connection&);
  void next_request(Connection&);
  double header_deadline() const { return now() + settings.header_seconds; }

  const ServerSettings settings;
  const Handler handler;
  const Bound bound;
  const File wake;
  std::vector<std::unique_ptr<Connection>> connections;

  std::mutex mutex;
  std::condition_variable some;
  std::deque<Work> queue;
  bool ending = false;
  std::vector<std::thread> threads;
};

// ---- Workers -----------------------------------------------------------------------------------

void HttpServer::Inside::answer_all() {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex);
      some.wait(lock, [&] { return ending || !queue.empty(); });
      if (ending) return;
      work = std::move(queue.front());
      queue.pop_front();
    }
    if (work.answer->gone()) continue;
    Response r;
    try {
      r = handler(work.request, *work.answer);
    } catch (const std::exception& e) {
      r = {.status = 500, .type = "text/plain; charset=utf-8", .body = e.what()};
    }
    work.answer->finish(r);
  }
}

// ---- Connections -------------------------------------------------------------------------------

void HttpServer::Inside::accept_all() {
  while (true) {
    File socket(::accept4(bound.socket.id(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.id() < 0) return;
    const int on = 1;
    ::setsockopt(socket.id(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections.push_back(std::make_unique<Connection>(std::move(socket)));
    connections.back()->deadline = header_deadline();
    if (connections.size() > settings.connections) refuse(*connections.back(), 503);
  }
}

void HttpServer::Inside::refuse(Connection& c, int status) {
  const Response r{.status = status, .type = "text/plain; charset=utf-8", .body = "refused\n"};
  c.out += head_of(r, false, false) + r.body;
  c.in.clear();
  c.keep = false;
  c.deadline = header_deadline();
}

void HttpServer::Inside::take_request(Connection& c) {
  if (c.answer || !c.keep || c.in.empty()) return;
  Parsed p = parse_request(c.in, settings.limits);
  if (p.status != 0) return refuse(c, p.status);
  if (p.length == 0) {
    const bool has_head = c.in.find("\r\n\r\n") != std::string::npos;
    if (has_head) c.deadline = std::max(c.deadline, now() + settings.body_seconds);
    return;
  }
  c.in.erase(0, p.length);
  c.answer = std::make_shared<Answer>(wake.id());
  c.answer->keep = p.request.header("connection") != "close";
  c.answer->no_body = p.request.method == "HEAD";
  c.keep = c.answer->keep;
  {
    const std::lock_guard lock(mutex);
    queue.push_back({std::move(p.request), c.answer});
  }
  some.notify_one();
}

// Closed by either side, it is removed at the end of the turn.
void HttpServer::Inside::read(Connection& c) {
  char bytes[65536];
  const size_t most = settings.limits.body + settings.limits.header_bytes + settings.limits.target;
  while (c.in.size() <= most) {
    const ssize_t n = ::recv(c.socket.id(), bytes, sizeof bytes, 0);
    if (n > 0) {
      c.in.append(bytes, static_cast<size_t>(n));
      if (static_cast<size_t>(n) < sizeof bytes) break;
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) c.deadline = 0;
    break;
  }
}

void HttpServer::Inside::write(Connection& c) {
  if (c.answer) {
    {
      const std::lock_guard lock(c.answer->mutex);
      c.out += c.answer->bytes;
      c.answer->bytes.clear();
    }
    c.answer->room.notify_all();
  }
  while (!c.out.empty()) {
    const ssize_t n = ::send(c.socket.id(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (n > 0) {
      c.out.erase(0, static_cast<size_t>(n));
      c.deadline = now() + settings.idle_seconds;
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) c.deadline = 0;
    return;
  }
  bool done = false;
  if (c.answer) {
    const std::lock_guard lock(c.answer->mutex);
    done = c.answer->done && c.answer->bytes.empty();
  }
  if (done) next_request(c);
}

void HttpServer::Inside::next_request(Connection& c) {
  c.answer.reset();
  c.deadline = c.keep ? now() + settings.idle_seconds : 0;
  if (!c.in.empty()) c.deadline = header_deadline();
  take_request(c);
}

void HttpServer::Inside::turn() {
  std::vector<pollfd> polled{{bound.socket.id(), POLLIN, 0}, {wake.id(), POLLIN, 0}};
  for (const auto& c : connections) {
    // While an answer is made, reading tells only whether the client has left.
    short events = POLLIN | POLLRDHUP;
    if (c->answer && !c->in.empty()) events = POLLRDHUP;
    if (!c->out.empty()) events |= POLLOUT;
    polled.push_back({c->socket.id(), events, 0});
  }
  if (::poll(polled.data(), polled.size(), static_cast<int>(kTurn.count())) < 0) return;
  uint64_t woken = 0;
  while (::read(wake.id(), &woken, sizeof woken) > 0) {
  }
  const double time = now();
  for (size_t i = 0; i + 2 < polled.size(); ++i) {
    Connection& c = *connections[i];
    const short events = polled[i + 2].revents;
    if ((events & POLLIN) != 0) {
      const bool began = c.in.empty() && !c.answer;
      read(c);
      if (began && c.deadline != 0 && !c.in.empty()) c.deadline = header_deadline();
      take_request(c);
    }
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) c.deadline = 0;
    if ((events & POLLRDHUP) != 0 && (c.answer || c.out.empty())) c.deadline = 0;
    if (c.deadline != 0) write(c);
    const bool waits = c.answer && c.out.empty();  // for a worker: no deadline of the client's
    if (c.deadline != 0 && !waits && time > c.deadline) {
      if (!c.in.empty() && !c.answer && c.keep) {
        refuse(c, 408);
      } else {
        c.deadline = 0;
      }
    }
    if (!c.keep && !c.answer && c.out.empty()) c.deadline = 0;
  }
  std::erase_if(connections, [](const std::unique_ptr<Connection>& c) {
    if (c->deadline != 0) return false;
    if (c->answer) c->answer->leave();
    return true;
  });
  if ((polled[0].revents & POLLIN) != 0) accept_all();
}

// ------------------------------------------------------------------------------------------------

HttpServer::HttpServer(ServerSettings settings, Handler handler)
    : inside_(std::make_unique<Inside>(std::move(settings), std::move(handler))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return inside_->bound.port; }
void HttpServer::run(const std::atomic<bool>& stop) {
  while (!stop.load()) inside_->turn();
}

}  // namespace fovea::explorer
