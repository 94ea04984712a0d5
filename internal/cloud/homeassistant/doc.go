// Package homeassistant shows the stations to a Home Assistant, over the MQTT broker of the
// house, and takes unlocks from it where an administrator allows that for a station. The
// gateway connects out, with package mqttclient: its own broker offers none of the wills,
// wildcards and retained messages that Home Assistant needs.
//
// It decides nothing about doors: an unlock goes through the same use case as every
// other, as [site.Integration], with its record before the door.
//
// Promises:
//
//   - Nothing waits for it: it reads the stations and the journal, and a broker that
//     stalls, floods or is gone stops this link alone.
//   - A command opens a door at most once, within 10 s of the time that its sender states;
//     never a retained one, nor one of a station whose mode is not
//     [site.HomeAssistantUnlock] when the command is about to leave; nor without TLS from a
//     broker on another machine, unless the configuration says so.
//   - Who may publish to the house's broker may send commands: it is the broker that
//     knows its clients. What is sent without end costs a bounded number of unlocks and
//     of records.
//   - What is switched off or removed disappears there, also after a restart.
package homeassistant
