// Package site holds the words of the gateway and their pure rules. It imports
// nothing of ours, does no input or output and keeps no state: every other
// package speaks in its types. Texts from outside are parsed into them once, at
// the edge; past the edge an id is known to be well formed.
//
// The words, each with one meaning everywhere (code, SQL, JSON, topics, command
// line):
//
//   - station: a piece of hardware with one or more locks, named by a [StationID].
//   - lock: one lock of a station, named by a [LockID] ("lock-1").
//   - station token: the secret word by which an app names a station in a URL.
//   - station secret: the MQTT password of the hardware.
//   - account: a person or app that logs in with an e-mail address and a password.
//   - session: one login; one refresh token and every access token made from it.
//   - integration token: what an app sends in the place of a person's access token, with a
//     scope of its own; see [Token].
//   - grant: leave for an account, or a group of accounts, to use a station, or a group
//     of stations, perhaps within hours and with others on holidays.
//   - group: a named set of accounts or of stations, for grants.
//   - holiday: a named entry in the site's list of days on which other hours may hold.
//   - actor: who asks, and through which [Origin].
//   - command: one unlock on its way to a station, named by a [CommandID].
//   - outcome: how a command ended.
//   - record: one line of the journal.
//   - boot: one start of the process, named by a random [BootID].
package site
