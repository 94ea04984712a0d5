package attacktest_test

import (
	"os"
	"testing"

	"gatehouse/internal/test/gatewaytest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	gatewaytest.RemoveBinary()
	os.Exit(code)
}

// The harness itself: a real gateway opens a door, is killed, comes back and still
// knows it.
func TestProgram(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	station := p.Dial(issued.MQTT)
	go func() {
		if c, err := station.NextCommand(); err == nil {
			_ = station.TryAck(c)
		}
	}()
	if !p.Unlock(access, issued.StationToken) {
		t.Fatal("the door did not open")
	}
	before := len(p.Records())
	p.Kill()
	p.Start()
	p.AwaitReady()
	if after := len(p.Records()); after < before {
		t.Errorf("%d records of %d are there after the kill", after, before)
	}
	if _, most := p.Resident(); most <= 0 {
		t.Error("its memory is unknown")
	}
	if out, status := p.Run("status"); status != 0 {
		t.Errorf("status: %d %s", status, out)
	}
}
