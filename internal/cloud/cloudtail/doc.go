// Package cloudtail is the other side of a cloud link: what an application does that
// takes what gateways hand up (contract, section 3). It subscribes for one gateway or
// for all that it may see, puts the records of each into order, each once, says what is
// missing, and acknowledges what it has taken. "gatehouse cloud tail" shows what it
// gives; whoever writes an application of their own finds here what that has to do.
//
// It keeps no records and decides nothing about doors; [Config.Handle] does what is to
// be done with an [Event].
//
// Promises:
//
//   - Records of a gateway are given in order of seq, each (gateway, seq, boot) once as
//     long as the state is kept, whatever the broker repeats, reorders or loses.
//   - A record is acknowledged only after Handle has taken it and every one before it,
//     and after the state is on the disk. What the broker lost is asked for again; only
//     what the gateway counts as delivered already is given up, and named by [Missing].
package cloudtail
