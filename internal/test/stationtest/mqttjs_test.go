package stationtest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

func TestOutage_mqttjs(t *testing.T) {
	t.Parallel()
	need.Program(t, "node", "npm")
	survivesOutage(t, startMQTTjs)
}

// startMQTTjs starts the station of testdata/station.cjs.
func startMQTTjs(t *testing.T, address string, login adminapi.MQTTLogin) station {
	t.Helper()
	script := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "scripts", "mqttjs"))
	script.Stderr = os.Stderr
	modules, err := script.Output()
	if err != nil {
		t.Fatalf("MQTT.js is missing: run scripts/mqttjs and see why: %v", err)
	}
	node := exec.CommandContext(t.Context(), "node", "testdata/station.cjs", strings.TrimSpace(string(modules)), address, login.ClientID, login.Password)
	node.Stderr = os.Stderr
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	s := station{delivered: make(chan struct{}, 9), left: make(chan time.Duration, 1)}
	kept, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct {
				Left      *int64
				Delivered bool
				Kept      bool
			}
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case err != nil:
				t.Errorf("node says %s", lines.Text())
			case line.Kept:
				close(kept)
			case line.Delivered:
				s.delivered <- struct{}{}
			case line.Left != nil:
				s.left <- time.Duration(*line.Left) * time.Millisecond
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-read
		_ = node.Wait()
	})
	s.reportOld = func() {
		if _, err := io.WriteString(in, "old\n"); err != nil {
			t.Error(err)
		}
		await.Receive(t, "the old report is kept", kept)
	}
	return s
}
