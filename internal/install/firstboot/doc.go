// Package firstboot makes a board into the gateway that a site file on its boot
// partition describes. The settings go into the configuration; accounts, stations and
// grants to the running gateway; and the outcome into a result file beside the site
// file, for an installer who has only the card and a reader for it. `gatehouse
// first-boot` calls it, as root; it decides nothing about doors and knows the gateway
// only through its administration API.
//
// Promises. Everything is checked before anything changes, and every problem names
// its line. The power may be cut at any moment: the next run continues, and ends
// where one without a cut would have. Settings with which the gateway does not start
// are rolled back. A secret that was generated is on the disk before it is in force,
// so it is shown in any case, and shown once. The site file is overwritten in place,
// after the result is written and never before. No secret that the site file gave
// appears in the result, in an error or in the log.
package firstboot
