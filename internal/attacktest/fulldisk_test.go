package attacktest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/gatewaytest"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// With a full disk the id of a signed command was kept in memory alone and the door
// opened; after a restart the same token opened it again. A hostile broker keeps every
// token. What cannot be made durable is refused as busy, and doors open locally.
func TestAttack_tokenOnFullDisk(t *testing.T) {
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	s := newCloudSite(t, gatewaytest.Launch{Data: filepath.Join(disk, "data")})
	access, _ := s.Login()
	if got := s.command("before", s.token("before")); got.Outcome != site.Acknowledged && got.Outcome != site.Done {
		t.Fatalf("with room on the disk: %+v", got)
	}
	fill(t, filepath.Join(disk, "fill"))
	s.Await("the storage fails", func() bool {
		if !s.Unlock(access, s.issued.StationToken) {
			t.Fatal("a full disk keeps a local door shut")
		}
		return raised(s.Program, health.StorageFailing)
	})
	token, before := s.token("once"), s.station.Status().Opened
	if got := s.command("once", token); got.Outcome != site.Refused || got.Reason != "busy" {
		t.Errorf("a command whose record is not durable: %+v", got)
	}
	if !s.Unlock(access, s.issued.StationToken) {
		t.Error("a full disk keeps a local door shut")
	}
	s.restart()
	s.command("once", token)
	if opened := s.station.Status().Opened - before - 1; opened > 1 {
		t.Errorf("one token opened the door %d times", opened)
	}
}

func raised(s *gatewaytest.Program, code health.Code) bool {
	status, err := s.Admin.Status(s.T.Context())
	if err != nil {
		return false
	}
	for _, c := range status.Conditions {
		if c.Code == code {
			return true
		}
	}
	return false
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
