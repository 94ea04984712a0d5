// Package certificate keeps the certificate with which the gateway's TLS listeners
// identify themselves: its own, or one from files that it is given. It knows files
// and x509 and nothing of doors. The assembly makes one [Keeper] where there is a TLS
// listener, hands [Keeper.TLS] to the servers, and runs it.
//
// # The promise
//
// There is always a certificate to serve. Damaged files, a full or read-only disk
// and a wrong clock become conditions, with what to do about them, and never an error
// that keeps the gateway from starting: the doors that need no TLS must open. A
// certificate is replaced without touching an established connection.
//
// # The gateway's own
//
// At first start the gateway makes a CA, which people install in apps and stations,
// and a server certificate signed by it; four files in one folder:
//
//   - ca.key and ca.crt are made once and never replaced. Lost, ca.crt is made again
//     from its key, with the same subject, so that clients that trust the lost one trust
//     the new one. Damaged, they are left as they are and reported, because only a
//     person can decide that every client has to trust another CA: the gateway continues
//     with the server certificate that it has, or, without one, with one for this run.
//   - server.key is made once, and again only when it is damaged. Renewing writes
//     server.crt alone: so a power cut cannot leave a mixed pair, and clients that pin
//     the public key still accept it.
//
// Each file is written so that a power cut leaves the old or the new one whole. What
// cannot be written is served from memory and written later.
//
// A CA may vouch only for servers, and only for local names and addresses: by critical
// name constraints (RFC 5280, 4.2.1.10) for "local", "localhost", "home.arpa" and
// "internal", for the private, shared, link-local and loopback ranges, and for the
// names that the gateway has when the CA is created. So a thief of its key can pose as
// no site on the Internet. The certificate leaves out a name or address that the CA may
// not vouch for, because clients would refuse all of it. A CA of a former version has
// no constraints and stays as it is; a condition shows how to replace it.
//
// # Given files
//
// A certificate and key from files are read again whenever their content changes,
// and at every reload. Bad ones change nothing and are reported; where there was
// nothing good before, a certificate for this run is served until they are good. The
// gateway's own CA is left alone meanwhile.
//
// # Time
//
// The CA is valid from 2026, whatever the clock shows, until ten years after its
// creation. The server certificate is valid for 397 days, as long as every client accepts
// (Apple allows a CA that people installed 825, browsers allow public ones 398): 32 days
// back, for clients whose clock is behind, and 365 ahead. It is renewed when a third is
// left.
//
// While the clock is untrusted no client must suffer for it. Then the certificate is
// valid from 60 days back to 764 ahead, 824 in all, so that clients with the right
// time accept it although the clock stood still for up to two years. Where the clock is
// ahead of the system's, because one of them was wrong once, it is counted from the
// system's time; where they are two years apart, or the clock is impossible (1970), it is
// valid as long as the CA, which Apple's devices alone refuse. Such a certificate is made
// again as soon as the clock is trusted.
//
// # Names and addresses
//
// The certificate names the host, the gateway, both with ".local", localhost and the
// machine's addresses, 32 at most. A new name or address leads to a new certificate
// within half a minute, for addresses four times and then once an hour; the loss of one
// leads to nothing, and a new certificate keeps the old addresses: one that comes and
// goes does not wear out the memory card. IPv6 link-local addresses are left out: they
// count only together with the name of the client's own interface, which a certificate
// cannot hold.
package certificate
