package attacktest_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// A copied card with a client id of its own stayed connected beside the board that it was
// copied from: one command opened the doors of both, and neither noticed.
func TestAttack_copiedCard(t *testing.T) {
	need.Program(t, "mosquitto")
	t.Parallel()
	broker := brokertest.Mosquitto(t)
	launch := gatewaytest.Launch{Data: filepath.Join(t.TempDir(), "data"), Env: []string{"GATEHOUSE_CLOUD_URL=" + broker.URL()}}
	board := gatewaytest.Exec(t, launch)
	if err := board.Stop(); err != nil {
		t.Fatal(err)
	}
	card := filepath.Join(t.TempDir(), "data")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", launch.Data, card).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	board.Start()
	board.AwaitReady()
	launch.Data, launch.Env = card, append(launch.Env, "GATEHOUSE_CLOUD_CLIENT_ID=the-copy")
	for _, g := range []*gatewaytest.Program{board, gatewaytest.Exec(t, launch)} {
		g.Await("it notices the other", func() bool { return raised(g, health.CloudIdentity) })
	}
}
