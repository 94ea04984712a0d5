// Package sitefile holds the accounts, stations and grants that a gateway is to have, as
// a site file states them (contract, section 5). A file is read once into the types of
// this package. The same types travel over the admin socket and are applied by package
// provision, so each value keeps the line in which it was written.
//
// It finds every problem of a file at once. It changes nothing and knows nothing of what
// is on the gateway. No secret of a site appears in one of its problems.
package sitefile
