package attacktest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/gateway"
	"gatehouse/internal/health"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
)

// unsynchronised is a machine without a time service.
type unsynchronised struct{}

func (unsynchronised) Wall(now time.Time) time.Time { return now }
func (unsynchronised) Synchronised() bool           { return false }

// A command that a broker withheld during a power cut was carried out by a gateway whose
// clock was behind, much later; and after a restore, where every command was refused, every
// tool said that all was well. While the clock is not trusted commands are refused with the
// reason "clock", each tool says so, and an administrator's word lasts for one run.
func TestAttack_withheldCommand(t *testing.T) {
	t.Parallel()
	cfg := gatewaytest.Configure(t)
	s := &cloudSite{broker: brokertest.Mosquitto(t)}
	var err error
	if s.key, err = api.Generate("front-desk"); err != nil {
		t.Fatal(err)
	}
	cfg.Cloud.URL, cfg.Cloud.Keys = s.broker.URL(), []string{s.key.Public().String()}
	run := func() {
		s.Program = &gatewaytest.Program{Gateway: gatewaytest.RunAs(t, gateway.Config{Config: cfg, System: unsynchronised{}}), Data: cfg.Data}
		s.awaitLink()
	}
	run()
	status, err := s.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.gateway = status.GatewayID
	s.AddAccount()
	s.issued = s.Enrol(1042)
	s.play(t)
	s.app = newApplication(t, s.broker.URL(), s.gateway)
	refused := func(id string) {
		if got := s.command(id, s.token(id)); got.Reason != "clock" || !strings.Contains(got.Message, "gatehouse clock accept") || s.station.Status().Opened != 0 {
			t.Errorf("%s: %+v", id, got)
		}
	}
	refused("before")
	s.Await("the condition is raised", func() bool { return raised(s.Program, health.CloudClock) })
	for _, args := range [][]string{{"status"}, {"cloud", "status"}, {"doctor"}, {"cloud", "test"}} {
		cmd := exec.CommandContext(t.Context(), gatewaytest.Binary(t), args...) //nolint:gosec // our own binary
		cmd.Env = append(os.Environ(), "GATEHOUSE_DATA="+cfg.Data, "GATEHOUSE_CLOUD_URL="+cfg.Cloud.URL, "GATEHOUSE_CLOUD_KEYS="+cfg.Cloud.Keys[0])
		out, _ := cmd.CombinedOutput()
		if text := string(out); !strings.Contains(text, "lock is not trusted") || !strings.Contains(text, "gatehouse clock accept") {
			t.Errorf("%v says nothing of it:\n%s", args, text)
		}
	}
	if _, err := s.Admin.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.command("accepted", s.token("accepted")); got.Outcome != "done" {
		t.Errorf("accepted: %+v", got)
	}
	if err := s.Gateway.Stop(); err != nil {
		t.Fatal(err)
	}
	before := s.station.Status().Opened
	run()
	if got := s.command("next-run", s.token("next-run")); got.Reason != "clock" || s.station.Status().Opened != before {
		t.Errorf("the next run: %+v", got)
	}
}
