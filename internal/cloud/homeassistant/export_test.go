package homeassistant

import (
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// Take hands a message of the broker to a link without a connection.
func (l *Link) Take(m mqttclient.Message, authenticated bool) {
	s := newSession(l)
	s.authenticated.Store(authenticated)
	s.receive(m)
}

// Wait waits for the commands that are carried out.
func (l *Link) Wait() { l.running.Wait() }

// EventOf returns a record as an event.
func EventOf(r site.Record) []byte { return eventOf(r) }
