//go:build board

package boardtest_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

var crossBuilt once

// armBinaries returns the folder with the binaries for every board.
func armBinaries(t *testing.T) string {
	t.Helper()
	need.Root(t)
	need.Program(t, "nsenter", "qemu-arm-static", "qemu-aarch64-static")
	return crossBuilt.get(t, "all", func() (string, error) {
		dir := filepath.Join(builds(), "cross")
		return dir, build(nil, "scripts/cross", dir)
	})
}

// The binaries for ARM open a lock on emulated processors: that of a Pi Zero, of
// an old Pi, and one of 64 bits.
func TestARM(t *testing.T) {
	t.Parallel()
	for name, emulator := range map[string][]string{
		"armv6": {"qemu-arm-static", "-cpu", "arm1176"},
		"armv7": {"qemu-arm-static", "-cpu", "cortex-a7"},
		"arm64": {"qemu-aarch64-static", "-cpu", "cortex-a53"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := filepath.Join(armBinaries(t), "gatehouse-linux-"+name)
			g := emulate(t, append(emulator, binary, "serve"))
			issued := g.Enrol(1042)
			station := g.Dial(issued.MQTT)
			access, _ := g.Login()
			acted := make(chan error, 1)
			go func() {
				command, err := station.NextCommand()
				acted <- errors.Join(err, station.TryAck(command))
			}()
			if !g.Unlock(access, issued.StationToken) {
				t.Error("the lock stayed shut")
			}
			if err := <-acted; err != nil {
				t.Error(err)
			}
		})
	}
}

// That the emulated processor of a Pi Zero refuses what it cannot run: else the
// test above would prove nothing for it.
func TestARM_canTell(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(armBinaries(t), "gatehouse-linux-armv7")
	out, err := exec.CommandContext(t.Context(), "qemu-arm-static", "-cpu", "arm1176", binary, "version").CombinedOutput()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGILL {
		t.Errorf("the processor of a Pi Zero takes the binary for ARMv7: %v\n%s", err, out)
	}
}

// emulate runs a gateway until the test ends, and makes the account.
func emulate(t *testing.T, serve []string) *gatewaytest.Gateway {
	t.Helper()
	data := t.TempDir()
	var log bytes.Buffer
	cmd := exec.Command(serve[0], serve[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+data, "GATEHOUSE_DATA="+data, "GATEHOUSE_HTTP_LISTEN=127.0.0.1:0", "GATEHOUSE_MQTT_LISTEN=127.0.0.1:0",
		"GATEHOUSE_ADMIN_SOCKET="+data+"/admin.sock", "GATEHOUSE_LOGIN_HASH_MEMORY=7MiB", "GATEHOUSE_LOGIN_HASH_TIME=1", "GATEHOUSE_UNLOCK_TTL=1m")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway ended: %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	g := &gatewaytest.Gateway{T: t, Admin: client.New(data + "/admin.sock")}
	g.Await("the gateway is ready", func() bool { return findListeners(t, g) })
	if _, err := g.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: gatewaytest.Email, Password: gatewaytest.Password}); err != nil {
		t.Fatal(err)
	}
	return g
}

// findListeners asks the gateway for its addresses and reports whether it is ready.
func findListeners(t *testing.T, g *gatewaytest.Gateway) bool {
	status, err := g.Admin.Status(t.Context())
	if err != nil || !status.Ready {
		return false
	}
	for _, l := range status.Listeners {
		switch l.Name {
		case "http":
			g.HTTP = "http://" + l.Address
		case "mqtt":
			g.MQTT = l.Address
		}
	}
	resp, err := http.Get(g.HTTP + "/readyz")
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
