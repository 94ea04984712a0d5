package attacktest_test

import (
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// A station that was enrolled after the backup which is restored stays unknown to the gateway
// for good: the cloud's broker went on showing its last state.
func TestAttack_stateOfUnknownStation(t *testing.T) {
	t.Parallel()
	s := newCloudSite(t, gatewaytest.Launch{})
	passphrase, medium := filepath.Join(t.TempDir(), "passphrase"), filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(passphrase, []byte("a passphrase of the site\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if out, status := s.Run(args...); status != 0 {
			t.Fatal(out)
		}
	}
	run("backup", "--passphrase-file", passphrase, medium)
	s.Enrol(77)
	s.Await("the state of the new station has come", func() bool { return len(s.app.state(77)) > 0 })
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	run("restore", "--passphrase-file", passphrase, medium)
	s.Start()
	s.AwaitReady()
	s.Await("it has gone", func() bool { all := s.app.state(77); return len(all[len(all)-1].Payload) == 0 })
	s.awaitStation()
	s.app = newApplication(t, s.broker.URL(), s.gateway)
	s.Await("the state of a station that is known is retained", func() bool { return len(s.app.state(1042)) > 0 })
	if all := s.app.state(77); len(all) > 0 {
		t.Errorf("still retained: %+v", all)
	}
}

// state returns what has come of the state of a station.
func (a *application) state(id site.StationID) []mqttclient.Message {
	return a.named(api.StateTopic(a.gateway, id))
}
