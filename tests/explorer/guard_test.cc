#include "explorer/guard.h"

#include <gtest/gtest.h>

#include "fovea/runtime.h"

namespace fovea::explorer {
namespace {

const Admission kHere{.port = 8080, .token = "secret-secret"};
const Admission kWide{.port = 8080, .token = "secret-secret", .loopback = false};

Request asked(const std::string& method, std::map<std::string, std::string> headers) {
  Request r{.method = method, .path = "/api/runs"};
  r.headers = std::move(headers);
  return r;
}

int status(const Request& r, const Admission& admission) {
  const auto refused = refuse(r, admission);
  return refused ? refused->status : 200;
}

TEST(Guard, AnotherNameThatLeadsHereIsRefused) {
  for (const char* host : {"127.0.0.1:8080", "localhost:8080", "[::1]:8080"}) {
    EXPECT_EQ(status(asked("GET", {{"host", host}}), kHere), 200) << host;
  }
  for (const char* host : {"evil.example:8080", "127.0.0.1", "127.0.0.1:80", "localhost:8080.evil",
                           "127.0.0.1:8080:8080", ""}) {
    EXPECT_EQ(status(asked("GET", {{"host", host}}), kHere), 403) << host;
  }
  EXPECT_EQ(status(asked("GET", {}), kHere), 403);
}

TEST(Guard, OnlyThePageItselfMayPost) {
  const std::string host = "localhost:8080", token = kHere.token;
  EXPECT_EQ(status(asked("POST", {{"host", host}, {"x-fovea-token", token}}), kHere), 200);
  EXPECT_EQ(
      status(asked("POST",
                   {{"host", host}, {"origin", "http://localhost:8080"}, {"x-fovea-token", token}}),
             kHere),
      200);
  EXPECT_EQ(status(asked("POST", {{"host", host}}), kHere), 403);
  EXPECT_EQ(status(asked("POST", {{"host", host}, {"x-fovea-token", "secret-secreT"}}), kHere),
            403);
  EXPECT_EQ(status(asked("POST", {{"host", host}, {"x-fovea-token", token + "x"}}), kHere), 403);
  for (const char* origin : {"http://evil.example", "null", "https://localhost:8080"}) {
    EXPECT_EQ(status(asked("POST", {{"host", host}, {"origin", origin}, {"x-fovea-token", token}}),
                     kHere),
              403)
        << origin;
  }
  EXPECT_EQ(status(asked("DELETE", {{"host", host}, {"x-fovea-token", token}}), kHere), 405);
}

TEST(Guard, AnybodyMayAskWhetherItIsAlive) {
  const auto alive = health({.method = "GET", .path = "/health"});
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->status, 200);
  EXPECT_EQ(alive->body, std::string("{\"alive\":true,\"version\":\"") + version() + "\"}");
  const auto head = health({.method = "HEAD", .path = "/health"});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
  EXPECT_FALSE(health({.method = "POST", .path = "/health"}));
  EXPECT_FALSE(health({.method = "GET", .path = "/healthy"}));
  EXPECT_FALSE(health({.method = "GET", .path = "/api/runs"}));
}

TEST(Guard, OnTheNetworkEverybodyNeedsTheToken) {
  EXPECT_EQ(status(asked("GET", {{"host", "10.0.0.5:8080"}}), kWide), 403);
  Request first{.method = "GET", .path = "/", .query = {{"token", kWide.token}}};
  const auto in = refuse(first, kWide);
  ASSERT_TRUE(in);
  EXPECT_EQ(in->status, 303);
  std::string set;
  for (const auto& [name, value] : in->headers) {
    if (name == "Set-Cookie") set = value;
  }
  EXPECT_NE(set.find("HttpOnly"), std::string::npos);
  EXPECT_NE(set.find("SameSite=Strict"), std::string::npos);
  const std::string cookie = set.substr(0, set.find(';'));
  EXPECT_EQ(status(asked("GET", {{"cookie", cookie}}), kWide), 200);
  EXPECT_EQ(status(asked("GET", {{"cookie", "other=1; " + cookie}}), kWide), 200);
  EXPECT_EQ(status(asked("GET", {{"cookie", cookie + "x"}}), kWide), 403);
  first.query["token"] = "wrong";
  EXPECT_EQ(status(first, kWide), 403);
}

TEST(Guard, EveryAnswerSaysWhatMayBeDoneWithIt) {
  std::string policy, sniff;
  for (const auto& [name, value] : common_headers()) {
    if (name == "Content-Security-Policy") policy = value;
    if (name == "X-Content-Type-Options") sniff = value;
  }
  EXPECT_EQ(sniff, "nosniff");
  EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_EQ(policy.find('*'), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
}

// The whole way: the address that is printed, the cookie that is set, the header of the page.
TEST(Guard, ATokenMayBeOfAnyLetters) {
  for (const std::string token : {"semi;colon", "a&b=c+d#e?f", "with spaces ", "\"quotes\" '\\",
                                  "<script>{{token}}", "100%25", "ütf-8 漢字", "comma, comma"}) {
    const Admission admission{.port = 8080, .token = in_address(token), .loopback = false};
    EXPECT_EQ(admission.token.find_first_of(" ;,&+#=?\"'\\<>"), std::string::npos)
        << admission.token;
    const RequestHead typed =
        parse_head("GET /?token=" + in_address(token) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_EQ(typed.status, 0) << token;
    EXPECT_EQ(typed.request.query.at("token"), token);
    const auto in = refuse(typed.request, admission);
    ASSERT_TRUE(in);
    EXPECT_EQ(in->status, 303) << token;
    std::string cookie;
    for (const auto& [name, value] : in->headers) {
      if (name == "Set-Cookie") cookie = value.substr(0, value.find(';'));
    }
    const RequestHead next =
        parse_head("POST /api/runs HTTP/1.1\r\nHost: x\r\nCookie: a=b; " + cookie +
                   "; c=d\r\nX-Fovea-Token: " + admission.token + "\r\n\r\n");
    ASSERT_EQ(next.status, 0) << token;
    EXPECT_FALSE(refuse(next.request, admission)) << token;
  }
}

TEST(Guard, AReportIsInASandbox) {
  Response r{.headers = sandbox()};
  add_missing(common_headers(), r);
  std::string policy;
  for (const auto& [name, value] : r.headers) {
    if (name != "Content-Security-Policy") continue;
    EXPECT_EQ(policy, "") << "two of them";
    policy = value;
  }
  EXPECT_TRUE(policy.starts_with("sandbox allow-scripts; ")) << policy;
  EXPECT_EQ(policy.find("allow-same-origin"), std::string::npos);
  EXPECT_EQ(policy.find("allow-top-navigation"), std::string::npos);
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
}

TEST(Guard, TokensDiffer) {
  EXPECT_EQ(new_token().size(), 32u);
  EXPECT_NE(new_token(), new_token());
}

}  // namespace
}  // namespace fovea::explorer
