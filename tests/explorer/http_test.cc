#include "explorer/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <thread>

#include "explorer/explorer.h"
#include "io/base64.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::explorer {
namespace {

using test::error_of;

int status_of(const std::string& bytes) { return parse_head(bytes).status; }

TEST(Http, ReadsARequest) {
  const std::string bytes =
      "POST /api/a%20b?x=1+2&y=%C3%A9&z HTTP/1.1\r\nHost: localhost:1\r\nX-Two: a\r\nx-two: b\r\n"
      "Content-Length: 3\r\n\r\nabcGET";
  const RequestHead p = parse_head(bytes);
  EXPECT_EQ(p.status, 0);
  EXPECT_EQ(p.length, bytes.size() - 6);
  EXPECT_EQ(p.body, 3u);
  EXPECT_EQ(p.request.method, "POST");
  EXPECT_EQ(p.request.path, "/api/a b");
  EXPECT_EQ(p.request.query.at("x"), "1 2");
  EXPECT_EQ(p.request.query.at("y"), "é");
  EXPECT_EQ(p.request.query.at("z"), "");
  EXPECT_EQ(p.request.header("x-two"), "a, b");
  for (size_t n = 0; n < p.length; ++n) {
    const RequestHead part = parse_head(std::string_view(bytes).substr(0, n));
    EXPECT_EQ(part.status, 0) << n;
    EXPECT_EQ(part.length, 0u) << n;
  }
}

TEST(Http, RefusesWhatIsMalformed) {
  EXPECT_EQ(status_of("GET\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET http://elsewhere/ HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("G\x01T / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /%zz HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /%4 HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"), 411);
}

TEST(Http, RefusesWhatIsTooLongBeforeItIsWhole) {
  EXPECT_EQ(status_of("GET /" + std::string(8192, 'a') + " HTTP/1.1\r\n\r\n"), 414);
  EXPECT_EQ(status_of("GET /" + std::string(9000, 'a')), 414);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nA: " + std::string(20000, 'a')), 431);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 100; ++i) many += "A: b\r\n";
  EXPECT_EQ(status_of(many + "\r\n"), 0);
  // As long as it may be, and cut anywhere.
  const std::string longest = "GET / HTTP/1.1\r\nA: " + std::string(16384 - 5, 'a') + "\r\n\r\n";
  EXPECT_GT(parse_head(longest).length, 0u);
  for (size_t n = 0; n < 8; ++n)
    EXPECT_EQ(status_of(longest.substr(0, longest.size() - n)), 0) << n;
  EXPECT_EQ(status_of(many + "A: b\r\n\r\n"), 431);
}

TEST(Http, Base64) {
  for (const std::string& text : {std::string(), std::string("a"), std::string("ab"),
                                  std::string("abc"), std::string("\0\xff\x7f\x80", 4)}) {
    EXPECT_EQ(from_base64(to_base64(text)), text);
  }
  EXPECT_EQ(to_base64("fovea"), "Zm92ZWE=");
  for (const char* bad : {"a", "a===", "====", "ab=c", "ab!d", "Zm92ZWE=Zm92"}) {
    EXPECT_NE(error_of([&] { from_base64(bad); }), "no error") << bad;
  }
}

// ---- Over a socket -----------------------------------------------------------------------------

class Served {
 public:
  explicit Served(Handler handler, ServerSettings settings = {})
      : server_(std::move(settings), std::move(handler)), thread_([this] { server_.run(stop_); }) {}
  ~Served() {
    stop_ = true;
    thread_.join();
  }
  int port() const { return server_.port(); }

 private:
  HttpServer server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Client {
 public:
  // `before` it connects.
  explicit Client(int port, const std::function<void()>& before = {})
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (before) before();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<in_port_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void send(const std::string& bytes) const {
    ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Until the server closes, or `enough` stands in it.
  std::string receive(const std::string& enough = "") const {
    std::string all;
    char bytes[4096];
    while (enough.empty() || all.find(enough) == std::string::npos) {
      const ssize_t n = ::recv(socket_, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      all.append(bytes, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  int socket_;
};

Handler echo() {
  return
      [](const Request& r, Caller&) { return Response{.body = r.method + " " + r.path + r.body}; };
}

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HttpServer, AnswersOneAfterAnotherOnOneConnection) {
  const Served served(echo());
  const Client client(served.port());
  client.send(kGet);
  EXPECT_NE(client.receive("GET /a").find("200 OK"), std::string::npos);
  client.send(std::string(kGet) + "POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_NE(client.receive("POST /bhi").find("GET /a"), std::string::npos);
  client.send("GET /c HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.receive().find("GET /c"), std::string::npos);
}

TEST(HttpServer, HeadHasNoBody) {
  const Served served(echo());
  const Client client(served.port());
  client.send("HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string answer = client.receive();
  EXPECT_NE(answer.find("Content-Length: 7"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST(HttpServer, StaysUpAfterMalformedRequests) {
  const Served served(echo());
  for (const std::string& bad : {std::string("nonsense\r\n\r\n"), std::string(300000, 'a'),
                                 std::string("POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n")}) {
    const Client client(served.port());
    client.send(bad);
    EXPECT_NE(client.receive().find("HTTP/1.1 4"), std::string::npos);
  }
  const Client client(served.port());
  client.send(kGet);
  EXPECT_NE(client.receive("GET /a").find("200"), std::string::npos);
}

TEST(HttpServer, ASlowClientIsToldToGoAndHoldsNobodyUp) {
  const Served served(echo(), {.workers = 1, .head_seconds = 0.6});
  const Client slow(served.port());
  slow.send("GET / HT");
  const Client quick(served.port());
  quick.send(kGet);
  EXPECT_NE(quick.receive("GET /a").find("200"), std::string::npos);
  EXPECT_NE(slow.receive().find("408"), std::string::npos);
}

TEST(HttpServer, WhatAHandlerThrowsIsOneAnswer) {
  const Served served([](const Request&, Caller&) -> Response { throw std::runtime_error("oh"); });
  const Client client(served.port());
  client.send(kGet);
  EXPECT_NE(client.receive("oh").find("500"), std::string::npos);
}

TEST(HttpServer, AnAnswerComesInParts) {
  const Served served([](const Request&, Caller& c) {
    c.send("one\n");
    c.send("two\n");
    return Response{.body = "three\n"};
  });
  const Client client(served.port());
  client.send(kGet);
  const std::string answer = client.receive("0\r\n\r\n");
  EXPECT_NE(answer.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_NE(answer.find("4\r\none\n\r\n4\r\ntwo\n\r\n6\r\nthree\n\r\n0\r\n\r\n"),
            std::string::npos);
}

TEST(HttpServer, AWorkerLearnsThatItsClientLeft) {
  std::mutex mutex;
  std::condition_variable changed;
  bool began = false, left = false;
  const Served served([&](const Request& r, Caller& c) {
    if (r.path != "/long") return Response{.body = "short"};
    {
      const std::lock_guard lock(mutex);
      began = true;
    }
    changed.notify_all();
    while (!c.gone()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex);
    left = true;
    changed.notify_all();
    return Response{};
  });
  {
    const Client client(served.port());
    client.send("GET /long HTTP/1.1\r\n\r\n");
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return began; }));
  }
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return left; }));
}

// Blocks in /long until told.
struct Long {
  std::atomic<bool> over{false};
  ~Long() { over = true; }
  Handler handler() {
    return [this](const Request& r, Caller&) {
      while (r.path == "/long" && !over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return Response{.body = "done " + r.path};
    };
  }
};

TEST(HttpServer, MoreThanItTakesAreToldToComeBack) {
  Long work;
  const Served served(work.handler(), {.workers = 2, .connections = 3, .strangers = 1});
  std::vector<std::unique_ptr<Client>> some;
  for (int i = 0; i < 2; ++i) {
    some.push_back(std::make_unique<Client>(served.port()));
    some.back()->send("GET /long HTTP/1.1\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that it is known
  }
  const Client more(served.port());
  more.send(kGet);
  EXPECT_NE(more.receive().find("503"), std::string::npos);
  work.over = true;
}

TEST(HttpServer, OneThatIsIdleMakesRoom) {
  const Served served(echo(), {.connections = 3, .strangers = 1});
  std::vector<std::unique_ptr<Client>> some;
  for (int i = 0; i < 6; ++i) {
    some.push_back(std::make_unique<Client>(served.port()));
    some.back()->send(kGet);
    EXPECT_NE(some.back()->receive("GET /a").find("200"), std::string::npos) << i;
  }
}

TEST(HttpServer, StrangersTakeNoRoomFromOthers) {
  const Served served(echo(), {.connections = 8, .strangers = 4});
  const Client known(served.port());
  known.send(kGet);
  EXPECT_NE(known.receive("GET /a").find("200"), std::string::npos);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 30; ++i) {
    silent.push_back(std::make_unique<Client>(served.port()));
    silent.back()->send("GET /slow HT");
  }
  const Client fresh(served.port());
  fresh.send(kGet);
  EXPECT_NE(fresh.receive("GET /a").find("200"), std::string::npos);
  known.send(kGet);
  EXPECT_NE(known.receive("GET /a").find("200"), std::string::npos);
}

// Of 16 MB that are promised, nothing is waited for, nor kept.
TEST(HttpServer, WhoIsNotWelcomeIsSentAwayBeforeTheBody) {
  std::atomic<int> handled{0};
  const Served served(
      [&](const Request&, Caller&) {
        ++handled;
        return Response{};
      },
      {.admit = [](const Request& r) -> std::optional<Response> {
        if (r.header("x-token") == "right") return {};
        return Response{.status = 403, .body = "no token"};
      }});
  const std::string post = "POST /a HTTP/1.1\r\nContent-Length: 16000000\r\n";
  const Client client(served.port());
  client.send(post + "\r\n" + std::string(1000, 'x'));
  const std::string answer = client.receive();
  EXPECT_NE(answer.find("403"), std::string::npos);
  EXPECT_NE(answer.find("no token"), std::string::npos);
  const Client welcome(served.port());
  welcome.send("POST /a HTTP/1.1\r\nContent-Length: 2\r\nX-Token: right\r\n\r\nab");
  EXPECT_NE(welcome.receive("\r\n\r\n").find("200"), std::string::npos);
  EXPECT_EQ(handled, 1);
}

TEST(HttpServer, BytesDoNotRenewTheDeadline) {
  const Served served(echo(), {.request_seconds = 0.8});
  const Client slow(served.port());
  slow.send("POST /a HTTP/1.1\r\nContent-Length: 1000\r\n\r\n");
  std::atomic<bool> over{false};
  std::thread drip([&] {
    for (int i = 0; i < 100 && !over; ++i) {
      slow.send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_NE(slow.receive().find("408"), std::string::npos);
  over = true;
  drip.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(4));
}

TEST(HttpServer, BodiesAreBoundedInAll) {
  const Served served(echo(), {.bodies = 100});
  const Client half(served.port());
  half.send("POST /a HTTP/1.1\r\nContent-Length: 60\r\n\r\nab");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Client more(served.port());
  more.send("POST /b HTTP/1.1\r\nContent-Length: 60\r\n\r\n" + std::string(60, 'b'));
  EXPECT_NE(more.receive().find("503"), std::string::npos);
  half.send(std::string(58, 'a'));
  EXPECT_NE(half.receive("aaa").find("200"), std::string::npos);
}

// Whoever waits to be accepted waits without a core being spent on it.
TEST(HttpServer, WaitsWhereThereAreNoDescriptors) {
  const Served served(echo());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Client client(served.port(), [&] {
    rlimit none = before;
    none.rlim_cur = static_cast<rlim_t>(::dup(0));  // all below are taken
    ::close(static_cast<int>(none.rlim_cur));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  });
  client.send(kGet);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::clock_t began = std::clock();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double spent = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(spent, 0.3);
  EXPECT_NE(client.receive("GET /a").find("200"), std::string::npos);
}

TEST(HttpServer, APipelinedRequestThatIsRefusedIsAnswered) {
  const Served served(echo());
  const Client client(served.port());
  client.send(kGet + std::string("nonsense\r\n\r\n"));
  const std::string all = client.receive("refused");
  EXPECT_NE(all.find("200 OK"), std::string::npos) << all;
  EXPECT_NE(all.find("400 "), std::string::npos) << all;
}

// In one piece, in parts, refused, failed: all have the server's headers.
TEST(HttpServer, EveryAnswerHasTheHeaders) {
  const auto handler = [](const Request& r, Caller& c) -> Response {
    if (r.path == "/fails") throw std::runtime_error("it failed");
    if (r.path == "/odd") throw 7;
    if (r.path == "/parts") c.send("a part");
    return {.body = "the end"};
  };
  const Served served(handler, {.headers = {{"X-Said", "always"}}});
  const std::pair<const char*, const char*> asked[] = {{"GET /a HTTP/1.1\r\n\r\n", "the end"},
                                                       {"GET /parts HTTP/1.1\r\n\r\n", "the end"},
                                                       {"GET /fails HTTP/1.1\r\n\r\n", "it failed"},
                                                       {"GET /odd HTTP/1.1\r\n\r\n", "it failed"},
                                                       {"nonsense\r\n\r\n", "refused"}};
  for (const auto& [request, end] : asked) {
    const Client client(served.port());
    client.send(request);
    const std::string answer = client.receive(end);
    EXPECT_NE(answer.find("X-Said: always"), std::string::npos) << request << answer;
  }
}

// One worker at work, and a client that leaves while its body waits: the body goes with it.
TEST(HttpServer, WhatNobodyWaitsForTakesNoRoom) {
  std::atomic<bool> at_work{false}, end{false};
  std::atomic<int> answered{0};
  const auto handler = [&](const Request&, Caller&) {
    at_work = true;
    while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++answered;
    return Response{};
  };
  constexpr size_t kBody = 1000;
  const Served served(handler, {.workers = 1, .bodies = 2 * kBody});
  const std::string post =
      "POST /a HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + std::string(kBody, 'x');
  const Client busy(served.port());
  busy.send(kGet);
  while (!at_work) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < 10; ++i) {
    const Client leaves(served.port());
    leaves.send(post);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  end = true;
  busy.receive("200");
  const Client last(served.port());
  last.send(kGet);
  last.receive("200");
  EXPECT_EQ(answered.load(), 2);  // none of those who left
}

TEST(HttpServer, FinishingIsToldToThoseAtWork) {
  std::atomic<bool> at_work{false};
  HttpServer server({}, [&](const Request&, Caller& c) {
    at_work = true;
    while (!c.gone()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Response{};
  });
  std::atomic<bool> stop{false};
  std::thread thread([&] { server.run(stop); });
  const Client client(server.port());
  client.send(kGet);
  while (!at_work) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop = true;
  thread.join();
  EXPECT_TRUE(server.finish(10));
}

TEST(HttpServer, ManyClientsAtOnce) {
  const Served served(echo());
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int t = 0; t < 20; ++t) {
    threads.emplace_back([&] {
      const Client client(served.port());
      for (int i = 0; i < 50; ++i) {
        client.send(kGet);
        answered += client.receive("GET /a").find("200 OK") != std::string::npos ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(answered.load(), 1000);
}

TEST(HttpServer, SaysThatAPortIsTaken) {
  const Served served(echo());
  const std::string error = error_of([&] { HttpServer({.port = served.port()}, echo()); });
  EXPECT_NE(error.find("--port 0"), std::string::npos) << error;
}

// Without a token, by any name, and whoever else is refused.
TEST(Explorer, SaysToAnybodyThatItIsAlive) {
  const test::Folder folder;
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    Explorer explorer(
        {.runs = {(folder / "").string()}, .host = host, .port = 0, .token = "secret-secret"});
    std::atomic<bool> stop{false};
    std::thread serving([&] { explorer.run(stop); });
    const std::string address = explorer.address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    const auto asked = [&](const std::string& path) {
      const Client client(port);
      client.send("GET " + path + " HTTP/1.1\r\nHost: proxy.example\r\n\r\n");
      return client.receive();
    };
    const std::string alive = asked("/health");
    EXPECT_NE(alive.find(" 200 "), std::string::npos) << alive;
    EXPECT_NE(alive.find("\r\n\r\n{\"alive\":true,\"version\":\""), std::string::npos) << alive;
    EXPECT_NE(asked("/").find(" 403 "), std::string::npos);
    EXPECT_NE(asked("/api/runs").find(" 403 "), std::string::npos);
    stop = true;
    serving.join();
  }
}

}  // namespace
}  // namespace fovea::explorer
