// Package adminapi serves the admin API, /admin/v1 (contract, section 5), through
// two doors: the Unix socket admin.sock, where the file's permissions and the
// peer's credentials decide who may, and the web listeners, where the bearer token of
// an administrator account does. Behind the doors the routes are the same. Its
// rules are those of the services behind it; it only reads requests, calls one of
// them and writes the answer. Package kit serves its table.
//
// Its promises: only administrators are admitted; secrets are shown in
// the answer to what issued them and never again; no body, token, password or path
// reaches the log; every request and every stream is bounded.
//
// The command line calls it through package client.
package adminapi
