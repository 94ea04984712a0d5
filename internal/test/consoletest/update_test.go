package consoletest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/gateway"
	"gatehouse/internal/site"
	"gatehouse/internal/test/consoletest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// updateBoard is a gateway on a board with two slots, whose root is the test.
type updateBoard struct {
	*gatewaytest.Gateway
	root slot.Exchange
}

func newUpdateBoard(t *testing.T) *updateBoard {
	t.Helper()
	need.Program(t, "chromium", "npm")
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen, cfg.TimeZone = []string{"127.0.0.1:0"}, "UTC"
	b := &updateBoard{root: slot.Exchange{Root: t.TempDir()}}
	if err := os.MkdirAll(filepath.Join(b.root.Root, "run", "gatehouse"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.says(t, site.UpdateStatus{Phase: site.UpdateIdle})
	b.Gateway = gatewaytest.RunAs(t, gateway.Config{Config: cfg, Exchange: b.root})
	if _, err := b.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: consoletest.Admin, Password: gatewaytest.Password, Admin: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// says has root write a status.
func (b *updateBoard) says(t *testing.T, s site.UpdateStatus) {
	t.Helper()
	s.Image, s.Family, s.Default = true, "gatehouse-arm64", "a"
	s.Running, s.Other = site.SlotStatus{Slot: "a", Version: "1.2.3"}, site.SlotStatus{Slot: "b", Version: "1.2.2"}
	if err := b.root.WriteStatus(s); err != nil {
		t.Fatal(err)
	}
}

// takes waits until root finds a request.
func (b *updateBoard) takes(t *testing.T) (r slot.Request) {
	t.Helper()
	b.Await("root is asked", func() (found bool) {
		var err error
		if r, found, err = b.root.TakeRequest(); err != nil {
			t.Fatal(err)
		}
		return found
	})
	return r
}

// An administrator updates the system from a file and from an address, sees how it goes
// and how it ended, and goes back.
func TestUpdate(t *testing.T) {
	t.Parallel()
	b := newUpdateBoard(t)
	tab := consoletest.NewTab(t, b.HTTPS, phone())
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/gateway")
	tab.AwaitText("Version 1.2.3 runs, from slot a.")
	look(tab, "update")

	file := filepath.Join(t.TempDir(), "gatehouse_1.3.0_arm64.update")
	if err := os.WriteFile(file, make([]byte, 30<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	tab.Click("button", "Update")
	look(tab, "update-ask")
	tab.Attach("File", file)
	tab.Click("dialog button.primary", "Update")
	if r := b.takes(t); !r.File || !r.At.IsZero() {
		t.Errorf("root is asked for %+v", r)
	}
	tab.Await(`!document.querySelector('dialog')`)
	if info, err := os.Stat(filepath.Join(b.root.Data(), slot.UploadFolder, slot.UploadName)); err != nil || info.Size() != 30<<20 {
		t.Errorf("the upload is %v, %v", info, err)
	}

	b.says(t, site.UpdateStatus{Phase: site.UpdateWriting, Percent: 42, Target: "1.3.0"})
	tab.AwaitText("Version 1.3.0 is being written to slot b: 42 %.")
	tab.Await(`document.querySelector('progress').value === 42`)
	look(tab, "update-writing")
	tab.Click("button", "Go back")
	tab.Click("dialog button.danger", "Go back")
	tab.AwaitText("An update is in progress")
	tab.Click("dialog button", "Cancel")
	tab.Click("button", "Update")
	tab.Attach("File", file)
	tab.Click("dialog button.primary", "Update")
	tab.AwaitText("An update is in progress") // before all of it is sent
	tab.Click("dialog button", "Cancel")

	b.says(t, site.UpdateStatus{Phase: site.UpdateIdle, Last: &site.LastUpdate{
		Version: "1.3.0", Outcome: site.UpdateFellBack, Time: site.At(time.Date(2026, 11, 23, 3, 10, 0, 0, time.UTC)), Reason: "2 of 5 stations did not come back",
	}})
	tab.AwaitText("The last update to version 1.3.0 was undone at 2026-11-23 03:10 UTC: 2 of 5 stations did not come back.")
	look(tab, "update-fell-back")

	tab.Click("button", "Update")
	tab.Fill("Or its address", "https://chief:hunter2@example.test/x.update")
	tab.Click("dialog button.primary", "Update")
	tab.AwaitText("must not have a user name or a password")
	tab.Fill("Or its address", "https://example.test/x.update")
	tomorrow := time.Now().AddDate(0, 0, 1).UTC().Format("2006-01-02")
	tab.Eval(`{ const e = document.querySelector('dialog [name=at]'); e.value = '`+tomorrow+`T03:00'; e.dispatchEvent(new Event('input', {bubbles: true})); }`, nil)
	tab.Click("dialog button.primary", "Update")
	if r := b.takes(t); r.URL != "https://example.test/x.update" || r.At.Format(time.RFC3339) != tomorrow+"T03:00:00Z" {
		t.Errorf("root is asked for %+v", r)
	}

	tab.Click("button", "Go back")
	look(tab, "update-back")
	tab.Click("dialog button.danger", "Go back")
	if r := b.takes(t); r.Action != slot.Rollback {
		t.Errorf("root is asked for %+v", r)
	}
	b.says(t, site.UpdateStatus{Phase: site.UpdateWaiting, Target: "1.3.0", At: site.At(time.Date(2026, 11, 23, 3, 10, 0, 0, time.UTC))})
	tab.Click("button", "Withdraw")
	tab.AwaitText("Nothing restarts.")
	tab.Click("dialog button.danger", "Withdraw")
	if r := b.takes(t); r.Action != slot.Withdraw {
		t.Errorf("root is asked for %+v", r)
	}
	tab.Visit("#/journal")
	tab.AwaitText(consoletest.Admin + ": update accepted")
	look(tab, "update-journal")
}
