package cloudtail

import (
	"testing"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// Whatever a broker sends, an application goes on, and acknowledges nothing that it was
// not given.
func FuzzTail(f *testing.F) {
	prefix := "gateways/" + string(gatewayID) + "/"
	f.Add(prefix+"journal", `{"seq":1,"boot":"a","kind":"login"}`, prefix+"journal", `{"seq":3,"boot":"b","kind":"login"}`, false)
	f.Add(prefix+"journal", `{"seq":9,"kind":"gap","from":1,"to":9}`, prefix+"journal", `{"seq":2,"boot":"b","kind":"login"}`, false)
	f.Add(prefix+"status", `{"status":"online"}`, prefix+"stations/7/state", ``, true)
	f.Add(prefix+"result", `{"id":"x","outcome":"done"}`, prefix+"live", `{"seq":18446744073709551615,"boot":"a","kind":"x"}`, false)
	f.Fuzz(func(t *testing.T, topic1, payload1, topic2, payload2 string, retained bool) {
		given := uint64(0)
		a, err := newTail(Config{Gateway: All, Acknowledge: true, Handle: func(e Event) error {
			switch e.Kind {
			case Record:
				given = max(given, e.Record.Seq)
			case Gap:
				given = max(given, e.To)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		a.receive(mqttclient.Message{Topic: topic1, Payload: []byte(payload1), Retained: retained})
		a.receive(mqttclient.Message{Topic: topic2, Payload: []byte(payload2), Retained: retained})
		for _, l := range a.ledgers {
			l.tick(time.Now().Add(time.Hour))
			if seq, ok := l.acknowledge(); ok && seq > given {
				t.Errorf("%d is acknowledged, and %d was given", seq, given)
			}
		}
	})
}
