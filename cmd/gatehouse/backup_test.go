package main

import (
	"slices"
	"testing"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
)

// Every file that the configuration names by its path goes with a backup, or is named as
// left out; a credential goes with its folder.
func TestApp_configuration(t *testing.T) {
	cfg := config.Config{
		TLS: config.TLS{Certificate: "/etc/gatehouse/gate.pem", Key: "credential:gate.key"},
		Cloud: config.Cloud{Broker: mqttclient.Broker{
			PasswordFile: "/etc/gatehouse/cloud.password", CA: "/srv/ca.pem",
			Certificate: "/etc/gatehouse/cloud.pem", Key: "/etc/gatehouse/cloud.key",
		}},
		Homeassistant: config.Homeassistant{PasswordFile: "/etc/gatehouse/house.password", CA: "/srv/house.pem"},
	}
	where := (&app{config: "/etc/gatehouse/gatehouse.toml"}).configuration(cfg)
	want := []string{"/etc/gatehouse/gate.pem", "/etc/gatehouse/cloud.password", "/srv/ca.pem", "/etc/gatehouse/cloud.pem", "/etc/gatehouse/cloud.key", "/etc/gatehouse/house.password", "/srv/house.pem"}
	if !slices.Equal(where.More, want) || !slices.Equal(where.Outside(), []string{"/srv/ca.pem", "/srv/house.pem"}) {
		t.Errorf("with it go %q, without %q", where.More, where.Outside())
	}
}
