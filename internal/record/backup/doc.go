// Package backup takes everything that makes a gateway itself out of it, encrypted
// with a passphrase, and puts it back: the database (identity, accounts, sessions,
// stations' secrets, grants, journal, time floor), the gateway's own certificates, and the
// configuration, but not the key of access tokens, so that nothing in a backup signs a
// token. It knows files and no SQL; the caller plugs in what knows the database. It is the
// only importer of age.
//
// A backup is one file: age (age-encryption.org/v1) with a passphrase, within it gzip,
// within that a tar archive. Its first entry, manifest.json, is a [Manifest]: it states
// which format and version this is, of which gateway, and of every file that follows
// its size and SHA-256. gzip, at its fastest, because the journal is text that shrinks
// to a fraction, and both the card of a board and the stick that a backup goes to are
// slower than that.
//
// The passphrase is stretched by scrypt with N = 2^16 and r = 8, which takes 64 MiB
// of memory for a moment. The usual 2^18 of age takes 256 MiB: on a board of 512 MiB
// that is memory that serves doors. Two bits of the passphrase make up for four times
// less work for an attacker: [GeneratePassphrase] makes one of 100 bits, and
// [JudgePassphrase] wants sixteen characters that are not predictable. A running gateway
// that makes a backup for the web console does the same work, one backup at a time: with
// 64 MiB more it stays below the limit of its unit even in a flood. A file that asks for
// more work than that is refused, so that no file takes the memory of a board.
//
// Its promises: nothing of a backup is written in clear text outside the data
// directory; a backup that was cut off, damaged or made by a newer version is refused
// before anything is replaced; what a restore replaces is kept; and a restore of data
// that a power cut interrupts leaves either the old or the new gateway, which [Complete]
// sees to at the next start. The configuration follows the data, file by file: after a
// power cut in between, restoring again writes the rest.
package backup
