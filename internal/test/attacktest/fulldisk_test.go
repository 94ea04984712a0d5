package attacktest_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// With a full disk the id of a signed command was kept in memory alone and the door
// opened; after a restart the same token opened it again. A hostile broker keeps every
// token. What cannot be made durable is refused as busy, and doors open locally.
func TestAttack_tokenOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "mosquitto")
	if disk == "" {
		return
	}
	s := newCloudSite(t, gatewaytest.Launch{Data: filepath.Join(disk, "data")})
	access, _ := s.Login()
	if got := s.command("before", s.token("before")); got.Outcome != site.Acknowledged && got.Outcome != site.Done {
		t.Fatalf("with room on the disk: %+v", got)
	}
	fill(t, filepath.Join(disk, "fill"))
	others := 1
	s.Await("the storage fails", func() bool {
		if !s.Unlock(access, s.issued.StationToken) {
			t.Fatal("a full disk keeps a local door shut")
		}
		others++
		return raised(s.Program, health.StorageFailing)
	})
	token := s.token("once")
	if got := s.command("once", token); got.Outcome != site.Refused || got.Reason != "busy" {
		t.Errorf("a command whose record is not durable: %+v", got)
	}
	if !s.Unlock(access, s.issued.StationToken) {
		t.Error("a full disk keeps a local door shut")
	}
	others++
	s.restart()
	s.command("once", token)
	if opened := s.station.Status().Opened - others; opened > 1 {
		t.Errorf("one token opened the door %d times", opened)
	}
}

// With a full disk, a member who was taken out of a group and a grant that a new holiday
// suspends went on opening doors until the disk took writes again: who can fill the disk
// keeps the access that the administrator revokes. It is gone at once, and is stored as
// soon as there is room.
func TestAttack_withdrawalOnFullDisk(t *testing.T) {
	disk := smallDisk(t)
	if disk == "" {
		return
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk, "data")})
	p.AddAccount()
	one, two := p.Enrol(1), p.Enrol(2)
	ctx, members := t.Context(), adminapi.Members{Accounts: []site.Email{gatewaytest.Email}}
	never, err := site.ParseSchedule("none")
	_, added := p.Admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Add: members})
	_, byGroup := p.Admin.Grant(ctx, "people", "1", adminapi.GrantTerms{})
	_, byDay := p.Admin.Grant(ctx, gatewaytest.Email, "2", adminapi.GrantTerms{Holidays: never})
	if err := errors.Join(err, added, byGroup, byDay, p.Admin.Ungrant(ctx, gatewaytest.Email, "1")); err != nil {
		t.Fatal(err)
	}
	access, _ := p.Login()
	may := func(want int) {
		t.Helper()
		for _, issued := range []adminapi.IssuedStation{one, two} {
			if got := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil).Status; got != want {
				t.Errorf("station %s: status %d, want %d", issued.StationID, got, want)
			}
		}
	}
	may(http.StatusOK)
	filler := filepath.Join(disk, "fill")
	fill(t, filler)
	p.Await("the storage fails", func() bool {
		p.Unlock(access, one.StationToken)
		return raised(p, health.StorageFailing)
	})
	_, left := p.Admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Remove: members})
	day, err := site.ParseDates("01-01..12-31")
	_, closed := p.Admin.AddHolidays(ctx, adminapi.NewHolidays{Name: "closed", Dates: []site.Dates{day}})
	if err != nil || !fault.Is(left, fault.Unavailable) || !fault.Is(closed, fault.Unavailable) {
		t.Errorf("on a full disk: %v; %v; %v", err, left, closed)
	}
	may(http.StatusNotFound)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.Await("it is stored", func() bool {
		_, err := p.Admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Remove: members})
		return err == nil
	})
	may(http.StatusNotFound)
	p.Kill()
	p.Start()
	p.AwaitReady()
	may(http.StatusNotFound)
}

// With a nearly full disk the condition storage-failing came and went with each small
// change that still fitted between larger ones that did not, and so did its lines in the
// log. It stays until there is room.
func TestAttack_fullDisk_flapping(t *testing.T) {
	disk := smallDisk(t)
	if disk == "" {
		return
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk, "data")})
	p.AddAccount()
	var site strings.Builder // too large for what is left
	for id := range 2000 {
		fmt.Fprintf(&site, "[[station]]\nid = %d\nlocks = 1\nname = %q\n", 2000+id, strings.Repeat("x", 60))
	}
	path := filepath.Join(t.TempDir(), "site.toml")
	if err := os.WriteFile(path, []byte(site.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "fill")
	fill(t, filler)
	info, err := os.Stat(filler)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filler, info.Size()-300<<10); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if out, status := p.Run("apply", path); status == 0 {
			t.Fatalf("the large change fits: %s", out)
		}
		p.Login() // a small one
		if !raised(p, health.StorageFailing) {
			t.Error("the condition went away with a small change")
		}
	}
	if n := strings.Count(p.Log(), "storage fails"); n != 1 {
		t.Errorf("%d lines of one full disk", n)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.Await("the storage works again", func() bool { return !raised(p, health.StorageFailing) })
}

func raised(s *gatewaytest.Program, code health.Code) bool { return says(s, code, "") }

// says reports whether a condition is raised whose summary has a text.
func says(s *gatewaytest.Program, code health.Code, text string) bool {
	status, err := s.Admin.Status(s.T.Context())
	return err == nil && slices.ContainsFunc(status.Conditions, func(c health.Condition) bool {
		return c.Code == code && strings.Contains(c.Summary, text)
	})
}

// fill writes until there is no room.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := file.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// smallDisk mounts a disk of 6 MB in the namespaces of the test, which needs these
// programs there, and returns "" outside.
func smallDisk(t *testing.T, programs ...string) string {
	t.Helper()
	if !isolated(t, programs...) {
		return ""
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return disk
}
