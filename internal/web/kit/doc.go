// Package kit is the HTTP server under every API of the gateway: /v1, /local/v1 and
// /admin/v1, over TCP, TLS and the admin socket. An API hands it a table of routes
// ([Route]); the kit chooses the route, asks its guard, reads the body, maps errors to
// statuses, writes, counts and logs the answer, and bounds what a client can hold. It
// knows nothing of stations, accounts or doors.
//
// The rules are the same on every API (contract, section 1):
//
//   - HEAD is answered wherever GET is. A method that a path does not have is 405 with
//     Allow, a path that no table has is 404.
//   - The guard of a route comes before its body. Exactly one Authorization header
//     counts; a request with several has none. A route that takes cookies ([Session])
//     looks at one only where there is no such header.
//   - A body is one JSON object in UTF-8 of at most 16 KiB, unless its route allows more.
//     Names of fields are exact, and none is repeated.
//   - Over a plain listener, every request must be addressed to an IP address or a name of
//     the gateway, else 421: a page may point its own name to the gateway's address.
//   - Every answer is JSON and ends with a newline; an error is {"message":"…"}.
//   - No path, token or body reaches a log line or a metric: they name the pattern.
//
// There is no Strict-Transport-Security. The authority is the gateway's own: with that header
// a browser lets nobody past a certificate that it does not trust (RFC 6797, 8.4), also after
// a new certificate or a board that has taken over the name, and for every other port of the
// name. It would protect little: over a plain listener no password is accepted from the
// network, and no cookie.
//
// # What net/http answers by itself
//
// A request that is no HTTP reaches no handler: net/http answers 400 (request line,
// header, Host or length), 431 (more than 16 KiB of headers), 501 (transfer encoding) or
// 505 in plain text and closes the connection. An Expect header other than 100-continue
// is 417 without a body.
package kit
