#pragma once

#include <optional>
#include <string>

#include "explorer/http.h"

namespace fovea::explorer {

// Who may ask. A page of some other site, open in the same browser, may not: its requests carry
// that site's Origin, or, by a name that leads here, that site's Host; and it does not know the
// token.
struct Admission {
  int port = 0;
  std::string token;     // in the page, for whoever changes something; as in_address() has it
  bool loopback = true;  // else anybody on the network who has the token, by a cookie
};

std::string new_token();
// Any text in letters that an address, a cookie, a header and a page can all hold: é is %C3%A9.
std::string in_address(const std::string&);

// That the server is alive, to GET /health from anybody, a proxy's checks above all; nothing where
// something else is asked.
std::optional<Response> health(const Request&);

// Nothing where the request is welcome. To let somebody in by ?token=…, a redirection with a
// cookie.
std::optional<Response> refuse(const Request&, const Admission&);

// Of every answer: nothing but this server's own files, in no frame, never guessed at.
Headers common_headers();
// Of a page that somebody else may have made, in place of those of these names: its scripts run,
// but as those of no site, without this server's cookie, and reach nothing.
Headers sandbox();

}  // namespace fovea::explorer
