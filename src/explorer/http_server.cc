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
constexpr double kLinger = 2;           // seconds in which a client that is sent away can read why
constexpr size_t kAcceptedAtOnce = 64;  // before those that are there get their turn again

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

// As std::condition_variable::wait(), which is in libstdc++ from GCC 12 on and would be all that
// keeps a binary from systems with an older one.
template <class Until>
void wait_until(std::condition_variable& c, std::unique_lock<std::mutex>& lock,
                const Until& until) {
  while (!c.wait_for(lock, std::chrono::hours(1), until)) {
  }
}

}  // namespace

// What the thread of the connections and a worker share of one answer.
struct Answer final : Caller {
  Answer(int wake, const Headers& common) : wake_(wake), common_(common) {}

  bool gone() const override { return gone_.load(); }
  void send(std::string_view part) override {
    if (part.empty()) return;
    std::unique_lock lock(mutex);
    wait_until(room, lock, [&] { return gone_.load() || bytes.size() < kMostWaiting; });
    if (!std::exchange(in_parts, true)) {
      bytes +=
          head_of({.type = "application/x-ndjson; charset=utf-8", .headers = common_}, true, keep);
    }
    bytes += part_of(part);
    lock.unlock();
    wake();
  }
  void finish(Response r) {
    add_missing(common_, r);
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

 private:
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
  }
  const int wake_;
  const Headers& common_;
  std::atomic<bool> gone_{false};
};

namespace {

struct Connection {
  explicit Connection(File s) : socket(std::move(s)) {}
  File socket;
  std::string in, out;
  size_t sent = 0;                  // bytes of `out`
  std::optional<RequestHead> head;  // while its body is read
  std::shared_ptr<Answer> answer;   // while one is made or written
  size_t body = 0;                  // bytes of the request that is read or answered
  double begun = 0;                 // the request that is read
  double deadline = 0;              // 0: it is closed at the end of the turn
  bool keep = true;                 // for another request
  bool known = false;               // it has asked for something welcome

  bool idle() const { return known && !head && !answer && in.empty() && out.empty(); }
};

struct Work {
  Request request;
  std::shared_ptr<Answer> answer;
};

}  // namespace

struct HttpServer::Impl {
  Impl(ServerSettings s, Handler h)
      : settings(std::move(s)),
        handler(std::move(h)),
        bound(listen_at(settings.host, settings.port)),
        wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake.id() < 0) throw Error("serve", "the system has no descriptor left");
    try {
      for (; at_work < settings.workers; ++at_work) threads.emplace_back([this] { answer_all(); });
    } catch (const std::system_error& e) {
      end_workers();
      throw Error("serve", fmt::format("no thread can be started: {}", e.what()));
    }
  }
  ~Impl() { end_workers(); }
  void end_workers() {
    finish(0);
    for (std::thread& t : threads) t.join();
  }
  bool finish(double seconds);

  void answer_all();
  void turn();
  void accept_all();
  void read(Connection&);
  void begin_request(Connection&) const;
  void take_request(Connection&);
  bool take_head(Connection&);
  bool make_room_for_known();
  void evict_stranger();
  size_t bodies() const;
  size_t most_of(const Connection&) const;
  void refuse(Connection&, int status) const;
  void send_away(Connection&, Response) const;
  void forget(const Answer&);
  void write(Connection&);
  void next_request(Connection&);
  void serve(Connection&, short events, double time);

  const ServerSettings settings;
  const Handler handler;
  const Bound bound;
  const File wake;
  std::vector<std::unique_ptr<Connection>> connections;  // in the order in which they came
  double accept_from = 0;  // when the system had no descriptor left: not before

  std::mutex mutex;
  std::condition_variable some;
  std::deque<Work> queue;
  bool ending = false;
  int at_work = 0;  // workers that have not ended
  std::vector<std::thread> threads;
};

// ---- Workers -----------------------------------------------------------------------------------

bool HttpServer::Impl::finish(double seconds) {
  for (const auto& c : connections) {
    if (c->answer) c->answer->leave();
  }
  std::unique_lock lock(mutex);
  ending = true;
  some.notify_all();
  return some.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return at_work == 0; });
}

void HttpServer::Impl::answer_all() {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex);
      wait_until(some, lock, [&] { return ending || !queue.empty(); });
      if (ending) {
        --at_work;
        some.notify_all();
        return;
      }
      work = std::move(queue.front());
      queue.pop_front();
    }
    if (work.answer->gone()) continue;
    Response r;
    try {
      r = handler(work.request, *work.answer);
    } catch (const std::exception& e) {
      r = {.status = 500, .type = "text/plain; charset=utf-8", .body = e.what()};
    } catch (...) {
      r = {.status = 500, .type = "text/plain; charset=utf-8", .body = "it failed\n"};
    }
    work.answer->finish(std::move(r));
  }
}

// ---- Connections -------------------------------------------------------------------------------

void HttpServer::Impl::accept_all() {
  for (size_t n = 0; n < kAcceptedAtOnce; ++n) {
    File socket(::accept4(bound.socket.id(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.id() < 0) {
      // Whoever waits is still there, and poll() would say so again at once.
      const bool none_left =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (none_left) accept_from = now() + std::chrono::duration<double>(kTurn).count();
      return;
    }
    const int on = 1;
    ::setsockopt(socket.id(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections.push_back(std::make_unique<Connection>(std::move(socket)));
    begin_request(*connections.back());
    evict_stranger();
  }
}

void HttpServer::Impl::evict_stranger() {
  const auto unknown = [](const auto& c) { return !c->known; };
  const auto n = std::count_if(connections.begin(), connections.end(), unknown);
  if (static_cast<size_t>(n) <= settings.strangers) return;
  connections.erase(std::find_if(connections.begin(), connections.end(), unknown));
}

// The one that is idle longest goes, where there are as many as there may be.
bool HttpServer::Impl::make_room_for_known() {
  const auto n = std::count_if(connections.begin(), connections.end(),
                               [](const auto& c) { return c->known && c->deadline != 0; });
  if (static_cast<size_t>(n) + settings.strangers < settings.connections) return true;
  Connection* longest = nullptr;
  for (const auto& c : connections) {
    if (!c->idle() || c->deadline == 0) continue;
    if (longest == nullptr || c->deadline < longest->deadline) longest = c.get();
  }
  if (longest != nullptr) longest->deadline = 0;
  return longest != nullptr;
}

size_t HttpServer::Impl::bodies() const {
  size_t bytes = 0;
  for (const auto& c : connections) bytes += c->body;
  return bytes;
}

void HttpServer::Impl::refuse(Connection& c, int status) const {
  send_away(c, {.status = status, .type = "text/plain; charset=utf-8", .body = "refused\n"});
}

// What it still sends is read and thrown away, so that it gets to see the answer.
void HttpServer::Impl::send_away(Connection& c, Response r) const {
  add_missing(settings.headers, r);
  c.out += head_of(r, false, false) + r.body;
  c.in.clear();
  c.head.reset();
  c.body = 0;
  c.keep = false;
  c.deadline = now() + kLinger;
}

void HttpServer::Impl::begin_request(Connection& c) const {
  c.begun = now();
  c.deadline = c.begun + settings.head_seconds;
}

// False where the head is not whole, or not welcome.
bool HttpServer::Impl::take_head(Connection& c) {
  RequestHead h = parse_head(c.in, settings.limits);
  if (h.status != 0) {
    refuse(c, h.status);
    return false;
  }
  if (h.length == 0) return false;
  if (settings.admit) {
    if (const std::optional<Response> away = settings.admit(h.request)) {
      send_away(c, *away);
      return false;
    }
  }
  if ((!c.known && !make_room_for_known()) || bodies() + h.body > settings.bodies) {
    refuse(c, 503);
    return false;
  }
  c.known = true;
  c.in.erase(0, h.length);
  c.deadline = c.begun + settings.request_seconds;
  c.body = h.body;
  c.head = std::move(h);
  return true;
}

void HttpServer::Impl::take_request(Connection& c) {
  if (c.answer || !c.keep || (c.in.empty() && !c.head)) return;
  if (!c.head && !take_head(c)) return;
  if (c.in.size() < c.head->body) return;
  Request request = std::move(c.head->request);
  request.body = std::move(c.in);
  c.in = request.body.substr(c.body);
  request.body.resize(c.body);
  c.head.reset();
  c.answer = std::make_shared<Answer>(wake.id(), settings.headers);
  c.answer->keep = request.header("connection") != "close";
  c.answer->no_body = request.method == "HEAD";
  c.keep = c.answer->keep;
  {
    const std::lock_guard lock(mutex);
    queue.push_back({std::move(request), c.answer});
  }
  some.notify_one();
}

// Bytes that are kept: a head, or the body of one that was welcome.
size_t HttpServer::Impl::most_of(const Connection& c) const {
  const Limits& l = settings.limits;
  return c.head ? c.head->body : l.target + l.header_bytes + 128;
}

// Closed by either side, it is removed at the end of the turn.
void HttpServer::Impl::read(Connection& c) {
  char bytes[65536];
  const size_t most = most_of(c);
  while (c.in.size() < most) {
    const size_t wanted = c.keep ? std::min(sizeof bytes, most - c.in.size()) : sizeof bytes;
    const ssize_t n = ::recv(c.socket.id(), bytes, wanted, 0);
    if (n > 0) {
      if (!c.keep) return;  // thrown away, a turn's worth at a time
      c.in.append(bytes, static_cast<size_t>(n));
      if (static_cast<size_t>(n) < wanted) break;
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) c.deadline = 0;
    break;
  }
}

// An answer's bytes are taken when those before them are sent: whoever does not read keeps its
// worker waiting, and takes no more memory.
void HttpServer::Impl::write(Connection& c) {
  if (c.answer && c.out.empty()) {
    {
      const std::lock_guard lock(c.answer->mutex);
      c.out += c.answer->bytes;
      c.answer->bytes.clear();
    }
    c.answer->room.notify_all();
  }
  while (!c.out.empty()) {
    const ssize_t n =
        ::send(c.socket.id(), c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
    if (n > 0) {
      c.sent += static_cast<size_t>(n);
      if (c.sent == c.out.size()) c.out.clear(), c.sent = 0;
      if (c.answer) c.deadline = now() + settings.idle_seconds;
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
  if (c.out.empty() && !c.keep && !c.answer) ::shutdown(c.socket.id(), SHUT_WR);
}

void HttpServer::Impl::next_request(Connection& c) {
  c.answer.reset();
  c.body = 0;
  c.deadline = now() + (c.keep ? settings.idle_seconds : kLinger);
  if (c.in.empty() || !c.keep) return;
  begin_request(c);
  take_request(c);
}

void HttpServer::Impl::serve(Connection& c, short events, double time) {
  if ((events & POLLIN) != 0) {
    const bool begins = c.idle();
    read(c);
    if (begins && c.deadline != 0 && !c.in.empty()) begin_request(c);
    if (c.deadline != 0) take_request(c);
    if (c.head && c.deadline != 0) read(c);  // what of the body has come with the head
    if (c.deadline != 0) take_request(c);
  }
  if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) c.deadline = 0;
  if ((events & POLLRDHUP) != 0 && (c.answer || c.out.empty())) c.deadline = 0;
  if (c.deadline != 0) write(c);
  const bool waits = c.answer && c.out.empty();  // for a worker: no deadline of the client's
  if (c.deadline == 0 || waits || time <= c.deadline) return;
  const bool halfway = !c.answer && c.keep && (c.head || !c.in.empty());
  if (halfway) {
    refuse(c, 408);
    write(c);
  } else {
    c.deadline = 0;
  }
}

// Nobody waits for it: neither a worker nor its request's body is kept.
void HttpServer::Impl::forget(const Answer& answer) {
  const std::lock_guard lock(mutex);
  std::erase_if(queue, [&](const Work& w) { return w.answer.get() == &answer; });
}

void HttpServer::Impl::turn() {
  const short accepting = now() < accept_from ? 0 : POLLIN;
  std::vector<pollfd> polled{{bound.socket.id(), accepting, 0}, {wake.id(), POLLIN, 0}};
  for (const auto& c : connections) {
    // While an answer is made, reading tells whether the client has left.
    short events = POLLRDHUP;
    if (c->in.size() < most_of(*c)) events |= POLLIN;
    if (!c->out.empty()) events |= POLLOUT;
    polled.push_back({c->socket.id(), events, 0});
  }
  if (::poll(polled.data(), polled.size(), static_cast<int>(kTurn.count())) < 0) return;
  uint64_t woken = 0;
  while (::read(wake.id(), &woken, sizeof woken) > 0) {
  }
  const double time = now();
  for (size_t i = 0; i + 2 < polled.size(); ++i) {
    if (connections[i]->deadline != 0) serve(*connections[i], polled[i + 2].revents, time);
  }
  std::erase_if(connections, [this](const std::unique_ptr<Connection>& c) {
    if (c->deadline != 0) return false;
    if (c->answer) {
      c->answer->leave();
      forget(*c->answer);
    }
    return true;
  });
  if ((polled[0].revents & POLLIN) != 0) accept_all();
}

// ------------------------------------------------------------------------------------------------

HttpServer::HttpServer(ServerSettings settings, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(settings), std::move(handler))) {}
HttpServer::~HttpServer() = default;
bool HttpServer::finish(double seconds) { return impl_->finish(seconds); }
int HttpServer::port() const { return impl_->bound.port; }
void HttpServer::run(const std::atomic<bool>& stop) {
  while (!stop.load()) impl_->turn();
}

}  // namespace fovea::explorer
