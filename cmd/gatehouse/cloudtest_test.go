package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// A broker that takes a message and does not acknowledge it is named as what failed.
func TestDeliver_mute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			_, err := theirs.Read(make([]byte, 1024))
			for _, _ = theirs.Write([]byte{0x20, 2, 0, 0}); err == nil; {
				_, err = theirs.Read(make([]byte, 1024))
			}
		}()
		conn, err := mqttclient.Dial(t.Context(), mqttclient.Config{
			Broker: mqttclient.Broker{URL: "tcp://192.0.2.1", ClientID: "c", Keepalive: time.Minute},
			Lookup: func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil },
			Open:   func(context.Context, string, string) (net.Conn, error) { return ours, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = deliver(t.Context(), conn, mqttclient.Message{Topic: "t"})
		if err == nil || !strings.Contains(err.Error(), "publishing to t: the broker does not acknowledge what it is sent") {
			t.Error(err)
		}
	})
}
