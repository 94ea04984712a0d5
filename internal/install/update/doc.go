// Package update installs newer versions of the image on a board with two slots, and judges
// each one while it is tried. `gatehouse update` calls it, as root: the administrator's
// command, and the service gatehouse-update, which runs at every start and whenever the
// gateway asks for an update. It knows the running gateway only as its administrator does,
// the update file through package updatefile, and the disk through package slot.
//
// An update is refused for all that can be refused; written to the slot that does not run
// and read back past the cache; then the next start tries it once. The new version is made
// the default, which is the commit, when its gateway can open doors, shows its certificate
// and has the stations that were online before. Otherwise the board restarts into the old
// version, which says why.
//
// Promises. Whatever the update, its source or the moment of a power cut, the slot that
// runs and the default are not written to, and a start takes one of them: a slot that is
// being written has no kernel. What is interrupted is continued by the same command:
// downloads by range, and blocks that the card has already are not written again. Memory is
// bounded whatever the size of an update. Root trusts nothing that the gateway's user has
// written: the worst that a request can cause is the installation of a newer version which
// a trusted key has signed, or the trial of the one in the other slot. Errors are a [fault.Error] with one sentence that says what to
// do; no error and no status has the credentials or the query of a URL.
package update
