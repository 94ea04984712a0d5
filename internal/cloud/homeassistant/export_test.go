package homeassistant

import "gatehouse/internal/cloud/mqttclient"

// Take hands a message of the broker to a link without a connection.
func (l *Link) Take(m mqttclient.Message) { newSession(l).receive(m) }

// Wait waits for the commands that are carried out.
func (l *Link) Wait() { l.running.Wait() }
