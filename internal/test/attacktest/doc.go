// Package attacktest attacks the real binary as an outsider would: a station, an
// application on the LAN, a broker elsewhere, a failing disk or clock, a local user.
// Each file holds one weakness that was once real: what was possible, the attack,
// and the proof that it is no longer possible. It holds tests alone.
//
// Each attack runs in a short form in every check. With GATEHOUSETEST_TORTURE=1,
// which "make campaign NAME=torture" sets, it runs in its long form.
package attacktest
