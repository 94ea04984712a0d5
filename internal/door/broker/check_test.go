package broker_test

import (
	"testing"

	"gatehouse/internal/door/broker"
)

// Judging a packet allocates nothing.
func TestCheck_allocations(t *testing.T) {
	connect, report := helloOf(1, 5), publication(5, 2, "stations/1/report", 7, "{}")
	connect.properties = join([]byte{0x21, 0, 9, 0x26}, text("name"), text("value"))
	session := join(connect.bytes(), report, packet(0x40, u16(7), []byte{0x10, 0}), subscription(5, 1, commandTopic(1), 1))
	if n := testing.AllocsPerRun(100, func() { _, _ = broker.Check(session) }); n > 1 { // the framer itself
		t.Errorf("%v allocations", n)
	}
	if n, err := broker.Check(session); n != len(session) || err != nil {
		t.Errorf("%d bytes of %d passed: %v", n, len(session), err)
	}
}

// FuzzCheck lets mochi decode what has passed the checks: it never panics, and it
// refuses nothing of it.
func FuzzCheck(f *testing.F) {
	for _, b := range hostileFirst() {
		f.Add(b)
	}
	for _, version := range []byte{4, 5} {
		hello := helloOf(1, version).bytes()
		for _, b := range hostileLater(version) {
			f.Add(join(hello, b))
		}
		f.Add(join(hello, subscription(version, 1, commandTopic(1), 1), publication(version, 2, "stations/1/report", 5, "{}"),
			packet(0xA2, u16(9), properties(version), text(commandTopic(1))), []byte{0xC0, 0, 0x40, 2, 0, 1, 0xE0, 0}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		passed, _ := broker.Check(b)
		if err := broker.Decode(b[:passed]); err != nil {
			t.Errorf("%x passed: %v", b[:passed], err)
		}
	})
}
