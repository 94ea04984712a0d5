// Package sitefile reads a site file: one TOML text that states the accounts,
// stations and grants that a gateway is to have (contract, section 5). It finds
// every problem at once and says in which line each stands; it changes nothing
// and knows nothing of what is on the gateway, which is the part of package
// provision. The command line parses with it; the admin API checks with it what
// the command line sent. No secret of a site ever stands in one of its errors.
package sitefile
