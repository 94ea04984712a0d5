// Package updates is the gateway's side of updates of the system: it asks root for an
// update, reads how it goes, and has the journal say who asked and how it ended. It
// installs nothing: internal/install/update does, as root, which trusts nothing that
// comes from here. Package adminapi calls it for administrators, package link for signed
// commands of the cloud.
//
// Promises: root is asked only after the record of the request was written, and for a
// signed command only when that is durable; each outcome that root states gets one record,
// also over restarts of the gateway (of those that end while it does not run, the two that
// the status has); nothing here ever holds the credentials or the query of a URL beyond the
// request itself.
package updates
