package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse/internal/test/gatewaytest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	gatewaytest.RemoveBinary()
	os.Exit(code)
}

// prepare lets a script run the program as it is shipped, as the command gatehouse, on
// data and a home folder of its own. No command expires, unless the script sets another
// deadline.
func prepare(t *testing.T, env *testscript.Env) error {
	t.Helper()
	env.Setenv("PATH", filepath.Dir(gatewaytest.Binary(t))+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("HOME", env.WorkDir+"/home")
	env.Setenv("XDG_STATE_HOME", "")
	env.Setenv("GATEHOUSE_DATA", env.WorkDir+"/data")
	env.Setenv("GATEHOUSE_HTTP_LISTEN", "127.0.0.1:0")
	env.Setenv("GATEHOUSE_MQTT_LISTEN", "127.0.0.1:0")
	env.Setenv("GATEHOUSE_UNLOCK_TTL", "60s")
	env.Setenv("TZ", "UTC")
	env.Values[testKey{}] = env.T()
	return os.MkdirAll(env.WorkDir+"/home", 0o700)
}

// TestScripts runs testdata/script against the real program; see scriptCommands for
// the commands that they have beside those of package testscript.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		Setup:               func(env *testscript.Env) error { return prepare(t, env) },
	})
}
