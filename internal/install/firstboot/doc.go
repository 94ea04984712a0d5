// Package firstboot makes a board into the gateway that a site file on its boot
// partition describes: the settings go into the configuration, accounts, stations and
// grants to the running gateway, and what came of it into a result file beside the
// site file, for someone who has nothing but the card and a reader for it. `gatehouse
// first-boot` calls it, as root; it decides nothing about doors and knows the gateway
// only through its administration API.
//
// Promises. Everything is checked before anything changes, and every problem names
// its line. The power may be cut at any moment: the next run goes on, and it ends
// where one without a cut would have. Settings with which the gateway does not come
// up are taken back. A secret that was generated is on the disk before it is in force,
// so it is told in any case, and told once. The secrets of the site file are
// overwritten where they stand, after the result is written and never before. No
// secret that the site file gave appears in the result, in an error or in the log.
package firstboot
