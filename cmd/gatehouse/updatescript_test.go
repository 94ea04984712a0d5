package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/test/need"
	"gatehouse/internal/test/slottest"
)

// TestUpdateScripts runs testdata/update against the real program. Each has in $BOARD a
// folder that stands for a board with version 1.2.3, and updates of some versions that its
// image trusts in $WORK. The systemctl of the scripts writes down what it is asked for.
func TestUpdateScripts(t *testing.T) {
	need.Root(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/update",
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			if err := prepare(t, env); err != nil {
				return err
			}
			board := slottest.New(t, "1.2.3")
			board.Write("var/lib/gatehouse/update/.keep", "")
			env.Setenv("BOARD", board.Root)
			env.Setenv("PATH", env.WorkDir+"/bin"+string(filepath.ListSeparator)+env.Getenv("PATH"))
			key := writeKey(t, board, "release")
			foreign, err := api.Generate("foreign")
			if err != nil {
				return err
			}
			for name, raw := range map[string][]byte{
				"1.3.0.update": packUpdate(t, key, "1.3.0"), "1.2.2.update": packUpdate(t, key, "1.2.2"), "foreign.update": packUpdate(t, foreign, "1.3.0"),
				"bin/systemctl": []byte("#!/bin/sh\necho \"$@\" >>\"$WORK/asked\"\n"),
			} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(env.WorkDir, name)), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(env.WorkDir, name), raw, 0o755); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// writeKey makes a key that the image of the board trusts.
func writeKey(t *testing.T, board slottest.Board, id string) api.PrivateKey {
	t.Helper()
	key, err := api.Generate(id)
	if err != nil {
		t.Fatal(err)
	}
	board.Write("usr/lib/gatehouse-image/update-keys", key.Public().String()+"\n")
	return key
}

// packUpdate returns an update of that version.
func packUpdate(t *testing.T, key api.PrivateKey, version string) []byte {
	t.Helper()
	entry := "title Gatehouse " + version + "\nversion " + version + "\nlinux /gatehouse/@SLOT@/vmlinuz\noptions gatehouse.slot=@SLOT@\n"
	var raw bytes.Buffer
	_, err := updatefile.Pack(&raw, updatefile.Release{
		Family: "gatehouse-arm64", Version: version, Schema: 99, Time: time.Unix(1795000000, 0), Scratch: t.TempDir(),
		Kernel: strings.NewReader("kernel of " + version), Initrd: strings.NewReader("initrd of " + version),
		Entry: strings.NewReader(entry), ShellEntry: strings.NewReader(entry), Root: bytes.NewReader(bytes.Repeat([]byte(version+"\n\n\n"), 1<<17)),
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}
