#include "explorer/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "explorer/answers.h"
#include "explorer/files.h"
#include "explorer/guard.h"
#include "fovea/error.h"
#include "io/folder.h"
#include "io/plain_file.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTokenHere = "{{token}}";

// What lies under /page/: scripts and styles.
std::optional<Response> asset(std::string_view path) {
  constexpr std::string_view kFolder = "/page/";
  if (!path.starts_with(kFolder)) return {};
  for (const auto& [name, text] : files::all) {
    if (name != path.substr(kFolder.size()) || name.ends_with(".html")) continue;
    return Response{
        .type = fmt::format("text/{}; charset=utf-8", name.ends_with(".js") ? "javascript" : "css"),
        .body = std::string(text)};
  }
  return {};
}

bool is_loopback(const std::string& host) {
  return host == "127.0.0.1" || host == "localhost" || host == "::1";
}

Response index(const std::string& token) {
  std::string text(files::index_html);
  const size_t at = text.find(kTokenHere);
  text.replace(at, kTokenHere.size(), token);
  return {.type = "text/html; charset=utf-8", .body = text};
}

Response not_there() {
  return {.status = 404, .type = "text/plain; charset=utf-8", .body = "There is no such page.\n"};
}

// A run's report.html, which has its style and script inside. Others may have made it.
Response report_of(Runs& runs, const std::string& name) {
  constexpr uint64_t kMost = uint64_t{256} << 20;
  Response r{.type = "text/html; charset=utf-8"};
  try {
    r.body = read_plain_file(runs.folder(name) / tasks::kReportPage, kMost);
  } catch (const NotThere&) {
    r = not_there();
  } catch (const Unreadable&) {
    r = not_there();
  }
  r.headers = sandbox();
  return r;
}

}  // namespace

struct Explorer::Impl {
  explicit Impl(const ExplorerSettings& s)
      : settings(s),
        runs(folders_of(s)),
        training(root_of(s)),
        server({.host = s.host,
                .port = s.port,
                .headers = common_headers(),
                .admit =
                    [this](const Request& r) {
                      const auto alive = health(r);  // whatever the workers do
                      return alive ? alive : refuse(r, admission);
                    }},
               [this](const Request& r, Caller& c) { return respond(r, c); }) {
    admission = {server.port(), in_address(s.token.empty() ? new_token() : s.token),
                 is_loopback(s.host)};
  }

  // Where trainings go: the first folder that holds runs, or the usual one.
  static fs::path root_of(const ExplorerSettings& s) {
    const auto holds_some = std::find_if(s.runs.begin(), s.runs.end(), [](const std::string& f) {
      return !tasks::RunFolder(f).holds_run();
    });
    return holds_some == s.runs.end() ? fs::path(s.root) : fs::path(*holds_some);
  }
  static std::vector<std::string> folders_of(const ExplorerSettings& s) {
    if (!s.runs.empty()) return s.runs;
    make_folder("serve", s.root);
    return {s.root};
  }

  Response respond(const Request&, Caller&);

  const ExplorerSettings settings;
  Runs runs;
  Training training;
  Admission admission;
  HttpServer server;
};

Response Explorer::Impl::respond(const Request& request, Caller& caller) {
  constexpr std::string_view kRuns = "/runs/", kReport = "/report.html";
  const std::string& path = request.path;
  if (path == "/") return index(admission.token);
  if (path.starts_with("/api/")) return answer(request, caller, runs, training);
  if (path.starts_with(kRuns) && path.ends_with(kReport)) {
    const size_t end = path.size() - kReport.size();
    return report_of(runs, end > kRuns.size() ? path.substr(kRuns.size(), end - kRuns.size()) : "");
  }
  return asset(path).value_or(not_there());
}

Explorer::Explorer(const ExplorerSettings& s) {
  if (!is_loopback(s.host) && s.token.size() < 8) {
    throw Error("serve", fmt::format("{} is open to others: add --token with a secret of eight "
                                     "letters or more",
                                     s.host));
  }
  impl_ = std::make_unique<Impl>(s);
}
Explorer::~Explorer() = default;

std::string Explorer::address() const {
  const ExplorerSettings& s = impl_->settings;
  const std::string host = s.host.find(':') == std::string::npos ? s.host : '[' + s.host + ']';
  const std::string token = impl_->admission.loopback ? "" : "?token=" + impl_->admission.token;
  return fmt::format("http://{}:{}/{}", host, impl_->server.port(), token);
}

bool Explorer::finish() {
  const bool all = impl_->server.finish(2);
  impl_->training.stop();
  return all;
}

void Explorer::run(const std::atomic<bool>& stop) { impl_->server.run(stop); }

}  // namespace fovea::explorer
