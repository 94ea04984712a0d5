// Package httpapi has the handlers and the route table of what apps speak to: /v1 as the
// service specification has it, /local/v1 for apps on the same network, /healthz, /readyz
// and /metrics. It turns requests into calls of the rules packages and their answers into
// bytes; it decides nothing about who may do what. Package kit serves the table, and has
// the rules of HTTP.
//
// Promises: a 404 is the same in the same time whatever the reason; no token, no password
// and no station token reaches a log line, a metric or an error; reading a station and
// unlocking touch no storage of their own, so they continue while it fails.
//
// # /local/v1
//
// The same bearer tokens, the same errors and the same 404 as /v1; or the cookie of a
// session.
//
// POST /local/v1/session with {"email","password"} is a login like any other, whose
// refresh token the browser keeps: 200 {"accountId","email","admin"} and a cookie that no
// script reads, __Host-gatehouse-ID over TLS, gatehouse-ID on plain HTTP. It ends the session
// whose cookie that replaces. GET answers with the same or 401, DELETE ends the session:
// 204. The cookie is for pages of this gateway:
// every request with it, and the sign-in, must be addressed to an IP address, localhost or
// a name of the gateway (else 421), must not come from a page of another origin, and must
// come over TLS or from this machine (else 403). Where there is an Authorization header,
// that alone counts.
//
// GET /local/v1/stations returns a JSON array, sorted by station id: each element a
// Station object of /v1 with two more fields, "name" and "token" (the station token). A
// station that the account may not use now, but by one of its grants again later, is there
// with "opensAgain", the time, and beside that as one that has never connected.
//
// GET /local/v1/stations/{station_token}/events is a stream of server-sent events.
// Event "station" carries the Station object, at once and on every change; its id is
// "<boot>-<number>". A client that reconnects with Last-Event-ID gets exactly the
// events that it missed, also after an orderly restart. If they are no longer kept (too
// many, or the gateway was killed) it gets event "gap" with data {} and then the present
// object. A comment comes every 15 s. The stream ends within a second of the end of its access
// token or of the grant, or of the removal of the station; the answer to the next attempt
// says why. More than 64 streams of one account, or 1,152 in all, are refused with 429.
//
// POST /local/v1/stations/{station_token}/locks/{lock_id}/unlock waits for the
// station's own result and answers {"commandId","outcome","lock"}, lock being the
// Lock object of /v1 as it is then. Idempotency-Key works as in /v1.
//
// GET /local/v1/commands/{command_id} returns the same for a command that this account
// has sent; any other is 404 "Command not found". Where the grant has ended since,
// the status of the lock is "unknown".
//
// POST /local/v1/setup with {"code","email","password"} creates the first administrator
// of a gateway without accounts, for a client that knows its setup code (see package
// setup): 201 {"accountId","email"}; 403 for a wrong code, and for a request that came
// neither over TLS nor from this machine; 429 for a wrong code after five from the same
// address within a minute. As soon as there is an account, 404 "Not found".
package httpapi
