package slot_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/test/need"
)

// exchange returns the files in a folder, with the service's own folder, and where the
// request is.
func exchange(t *testing.T) (slot.Exchange, string) {
	t.Helper()
	e := slot.Exchange{Root: t.TempDir()}
	folder := e.Root + "/run/gatehouse"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return e, filepath.Join(folder, "update-request.json")
}

// sum is a SHA-256.
var sum = strings.Repeat("0123456789abcdef", 4)

// requests are well formed.
func requests() []slot.Request {
	return []slot.Request{
		{ID: "1", Action: slot.Update, URL: "https://example.com/gatehouse_1.3.0_arm64.update", SHA256: sum},
		{ID: "0b1c-X", Action: slot.Update, File: true, At: site.At(time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC))},
		{ID: "1", Action: slot.Rollback},
		{ID: "1", Action: slot.Withdraw},
	}
}

func TestExchange_request(t *testing.T) {
	e, path := exchange(t)
	for _, want := range requests() {
		if e.Asked() {
			t.Error("a request waits already")
		}
		if err := e.Ask(slot.Request{ID: "earlier", Action: slot.Rollback}); err != nil {
			t.Fatal(err)
		}
		if err := e.Ask(want); err != nil || !e.Asked() {
			t.Fatal(err)
		}
		got, found, err := e.TakeRequest()
		if got.Left <= 0 {
			t.Error("it has no age")
		}
		got.Left = 0
		if err != nil || !found || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %t, %v; want %+v", got, found, err, want)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the request is still there")
		}
		if _, found, err := e.TakeRequest(); err != nil || found {
			t.Errorf("there is another request, %v", err)
		}
	}
	if _, found, err := (slot.Exchange{Root: t.TempDir()}).TakeRequest(); err != nil || found {
		t.Errorf("without a folder: %t, %v", found, err)
	}
}

// A request that root could not take in time is refused, and does not come back.
func TestExchange_TakeRequest_old(t *testing.T) {
	for age, late := range map[int64]bool{600: false, 601: true} {
		e, path := exchange(t)
		uptime := int64(100)
		e.SetUptime(func() int64 { return uptime })
		if err := e.Ask(slot.Request{ID: "1", Action: slot.Rollback}); err != nil {
			t.Fatal(err)
		}
		uptime += age
		if _, found, err := e.TakeRequest(); late != fault.Is(err, fault.Invalid) || late == found {
			t.Errorf("after %d s: %t, %v", age, found, err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("after %d s it is still there", age)
		}
	}
}

func TestExchange_Ask_refusals(t *testing.T) {
	e, path := exchange(t)
	for _, r := range []slot.Request{
		{Action: slot.Rollback},
		{ID: "../1", Action: slot.Rollback},
		{ID: "1"},
		{ID: "1", Action: "reboot"},
		{ID: "1", Action: slot.Rollback, File: true},
		{ID: "1", Action: slot.Rollback, SHA256: sum},
		{ID: "1", Action: slot.Update},
		{ID: "1", Action: slot.Update, File: true, URL: "https://example.com/"},
		{ID: "1", Action: slot.Update, URL: "http://example.com/"},
		{ID: "1", Action: slot.Update, URL: "file:///etc/shadow"},
		{ID: "1", Action: slot.Update, URL: "https:///x"},
		{ID: "1", Action: slot.Update, URL: "https://user:word@example.com/"},
		{ID: "1", Action: slot.Update, URL: "https://example.com/" + strings.Repeat("x", 2<<10)},
		{ID: "1", Action: slot.Update, File: true, SHA256: sum[1:]},
		{ID: "1", Action: slot.Update, File: true, SHA256: strings.ToUpper(sum)},
	} {
		if err := e.Ask(r); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", r, err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := slot.ParseRequest(text); err == nil {
			t.Errorf("root takes %s", text)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("there is a request")
	}
}

// The folder is the service user's, who may be hostile: root reads nothing but what that
// user could have read and removes what it refuses, so that it does not come back.
func TestExchange_TakeRequest_hostile(t *testing.T) {
	good := `{"id":"1","action":"rollback"}`
	write := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, plant := range map[string]func(*testing.T, string){
		"not JSON": write("x"), "empty": write(""), "null": write("null"), "list": write("[" + good + "]"),
		"unknown field": write(`{"id":"1","action":"rollback","force":true}`),
		"two":           write(good + good),
		"time":          write(`{"id":"1","action":"rollback","at":"tomorrow"}`),
		"large":         write(good + strings.Repeat(" ", 4<<10)),
		"link": func(t *testing.T, path string) {
			target := filepath.Join(t.TempDir(), "target")
			write(good)(t, target)
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		},
		"second name": func(t *testing.T, path string) {
			write(good)(t, path+".other")
			if err := os.Link(path+".other", path); err != nil {
				t.Fatal(err)
			}
		},
		"pipe": func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteString(good)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
		},
		"pipe that nobody writes to": func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		e, path := exchange(t)
		plant(t, path)
		if r, found, err := e.TakeRequest(); !fault.Is(err, fault.Invalid) || found {
			t.Errorf("%s: %+v, %t, %v", name, r, found, err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s: it is still there", name)
		}
	}
	e, path := exchange(t)
	write(good)(t, path)
	moved := filepath.Join(t.TempDir(), "folder")
	if err := os.Rename(filepath.Dir(path), moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(moved, filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if _, found, err := e.TakeRequest(); err == nil || found {
		t.Errorf("through a link in the place of the folder: %t, %v", found, err)
	}
}

// A file of another user than the owner of the folder is not read: hard links and what
// others could have moved there. Only root can make one.
func TestExchange_TakeRequest_otherOwner(t *testing.T) {
	need.Root(t)
	e, path := exchange(t)
	if err := os.WriteFile(path, []byte(`{"id":"1","action":"rollback"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if _, found, err := e.TakeRequest(); !fault.Is(err, fault.Invalid) || found {
		t.Errorf("%t, %v", found, err)
	}
}

func TestExchange_status(t *testing.T) {
	e := slot.Exchange{Root: t.TempDir()}
	if _, err := e.ReadStatus(); !fault.Is(err, fault.NotFound) {
		t.Errorf("before there is one: %v", err)
	}
	for _, want := range []site.UpdateStatus{
		{Advice: "Run apt."},
		{Image: true, Family: "gatehouse-arm64", Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Phase: site.UpdateTrial},
	} {
		if err := e.WriteStatus(want); err != nil {
			t.Fatal(err)
		}
		if got, err := e.ReadStatus(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	info, err := os.Stat(e.Root + "/run/gatehouse-update/status.json")
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
