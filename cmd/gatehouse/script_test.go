package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this program itself, as the command gatehouse.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gatehouse": main})
}

// TestScripts runs testdata/script against the real program; see scriptCommands for
// the commands that they have beside those of package testscript.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_STATE_HOME", "")
			env.Setenv("GATEHOUSE_DATA", env.WorkDir+"/data")
			env.Setenv("GATEHOUSE_HTTP_LISTEN", "127.0.0.1:0")
			env.Setenv("GATEHOUSE_MQTT_LISTEN", "127.0.0.1:0")
			env.Setenv("TZ", "UTC")
			return os.Mkdir(env.WorkDir+"/home", 0o700)
		},
	})
}
