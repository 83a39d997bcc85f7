#pragma once

#include <optional>
#include <string>

#include "explorer/http.h"

namespace fovea::explorer {

// Who may ask. A page of some other site, open in the same browser, may not: its requests carry
// that site's Origin, or, by a name that leads here, that site's Host; and it does not know the
// token.
struct Door {
  int port = 0;
  std::string token;     // in the page, for whoever changes something
  bool loopback = true;  // else anybody on the network who has the token, by a cookie
};

std::string new_token();

// Nothing where the request is welcome. To let somebody in by ?token=…, a redirection with a
// cookie.
std::optional<Response> refuse(const Request&, const Door&);

// Of every answer: nothing but this server's own files, in no frame, never guessed at.
void add_common_headers(Response&);

}  // namespace fovea::explorer
