package consoletest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// The accounts of a house; both have the password [gatewaytest.Password].
const (
	Admin  = "owner@example.test"
	Porter = gatewaytest.Email
)

// House is a gateway with HTTPS on a port that it keeps when it is started again, an
// administrator and a porter.
type House struct {
	*gatewaytest.Program
	Origin string // of the console
}

// NewHouse starts a house with accounts and no station.
func NewHouse(t testing.TB, env ...string) *House {
	t.Helper()
	h := NewEmptyHouse(t, env...)
	h.AddAccount()
	if _, err := h.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: Admin, Password: gatewaytest.Password, Admin: true}); err != nil {
		t.Fatal(err)
	}
	return h
}

// NewEmptyHouse starts a house that nobody has set up.
func NewEmptyHouse(t testing.TB, env ...string) *House {
	t.Helper()
	needBrowser(t)
	free, err := brokertest.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	address := free[0]
	// An empty list of addresses for plain HTTP is not possible; nothing uses that one.
	env = append([]string{"GATEHOUSE_HTTP_TLS_LISTEN=" + address, "GATEHOUSE_MQTT_LISTEN=" + free[1], "TZ=UTC"}, env...)
	return &House{Program: gatewaytest.Exec(t, gatewaytest.Launch{Env: env}), Origin: "https://" + address}
}

// Station adds a station and runs its simulation until the test ends; change may be nil.
func (h *House) Station(id site.StationID, name string, locks int, change func(*stationsim.Config)) adminapi.IssuedStation {
	h.T.Helper()
	issued, err := h.Admin.AddStation(h.T.Context(), adminapi.NewStation{StationID: id, Name: name, Locks: locks})
	if err != nil {
		h.T.Fatal(err)
	}
	h.Play(id, issued.MQTT.Password, locks, change)
	h.AwaitOnline(id, true)
	return issued
}

// Play runs the simulation of a station until the test ends.
func (h *House) Play(id site.StationID, secret string, locks int, change func(*stationsim.Config)) {
	h.T.Helper()
	cfg := stationsim.Config{
		Broker: stationsim.Broker{Address: h.MQTT}, ID: id, Secret: site.Secret(secret), Locks: locks,
		Actuation: 20 * time.Millisecond, Relock: time.Second, Backoff: stationsim.Backoff{Max: time.Second},
	}
	if change != nil {
		change(&cfg)
	}
	station, err := stationsim.New(cfg)
	if err != nil {
		h.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- station.Run(ctx) }()
	h.T.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			h.T.Error(err)
		}
	})
}

// Allow grants the porter a station.
func (h *House) Allow(id site.StationID, terms adminapi.GrantTerms) {
	h.T.Helper()
	if _, err := h.Admin.Grant(h.T.Context(), Porter, id.String(), terms); err != nil {
		h.T.Fatal(err)
	}
}

// Tab opens a tab on the console.
func (h *House) Tab(look Look) *Tab {
	h.T.Helper()
	return NewTab(h.T, h.Origin, look)
}

// SignIn opens the console and signs in.
func (tab *Tab) SignIn(email string) {
	tab.T.Helper()
	tab.Open("/")
	tab.Fill("E-mail", email)
	tab.Fill("Password", gatewaytest.Password)
	tab.Click("button", "Sign in")
	tab.Await(`document.querySelector('.link.live')`)
}

// Visit goes to a page of the console, such as "#/journal", and waits until it has loaded.
func (tab *Tab) Visit(address string) {
	tab.T.Helper()
	tab.Eval(fmt.Sprintf("location.hash = %q", address), nil)
	tab.Await(`document.querySelector('h1') && !document.querySelector('.wait')`)
}
