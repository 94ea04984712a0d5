package attacktest_test

import (
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/gatewaytest"
)

// The disk of the tests loses what was not flushed and keeps what was.
func TestDisk(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	d.Record()
	for _, name := range []string{"flushed", "lost"} {
		file, err := os.Create(filepath.Join(d.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(name); err != nil {
			t.Fatal(err)
		}
		if name == "flushed" {
			if err := file.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		_ = file.Close()
	}
	cuts := d.Cuts()
	if len(cuts) < 3 {
		t.Fatalf("%d states: too few to tell anything", len(cuts))
	}
	first, last := cuts[0], cuts[len(cuts)-1]
	first.Mount(t, func(dir string) {
		if _, err := os.Stat(filepath.Join(dir, "flushed")); err == nil {
			t.Error("what was written is there before it was written")
		}
	})
	last.Mount(t, func(dir string) {
		if text, err := os.ReadFile(filepath.Join(dir, "flushed")); err != nil || string(text) != "flushed" {
			t.Errorf("what was flushed is lost: %q, %v", text, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "lost")); err == nil && string(text) == "lost" {
			t.Error("what was not flushed is there")
		}
	})
}

// nextSchema is the build tag of a version whose schema is one newer.
const nextSchema = "gatehouse_nextschema"

// A power cut at each write and each flush of a migration leaves a gateway that
// starts, with every account, station, grant and record of before.
func TestAttack_powerCutInMigration(t *testing.T) {
	gatewaytest.Binary(t)
	gatewaytest.BinaryWith(t, nextSchema)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(d.Dir, "data")})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	p.Unlock(access, issued.StationToken)
	before := len(p.Records())
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	d.Record()
	newer := gatewaytest.Exec(t, gatewaytest.Launch{Data: p.Data, Tags: nextSchema})
	newer.Kill()
	for _, cut := range sample(t, d.Cuts()) {
		cut.Mount(t, func(dir string) {
			q := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(dir, "data"), Tags: nextSchema})
			defer q.Kill()
			access, _ := q.Login()
			if a := q.Do("GET", "/v1/stations/"+issued.StationToken, access, nil); a.Status != 200 {
				t.Errorf("after %d writes (kept %v): the station is gone: %d %s", cut.After, cut.Kept, a.Status, a.Body)
			}
			if n := len(q.Records()); n < before {
				t.Errorf("after %d writes (kept %v): %d records of %d are left", cut.After, cut.Kept, n, before)
			}
		})
	}
}

// sample returns every power cut in the long form, and a few of them in the short
// one, spread over all and the last among them.
func sample(t *testing.T, cuts []gatewaytest.PowerCut) (some []gatewaytest.PowerCut) {
	t.Helper()
	const few = 8
	t.Logf("%d power cuts", len(cuts))
	if len(cuts) < few {
		t.Fatalf("%d power cuts are too few to tell anything", len(cuts))
	}
	if gatewaytest.Torture() {
		return cuts
	}
	for i := range few {
		some = append(some, cuts[(i+1)*(len(cuts)-1)/few])
	}
	return some
}
