package main

import (
	"os"
	"testing"
)

func TestApp_updateFrom(t *testing.T) {
	t.Chdir(t.TempDir())
	const set = "https://updates.example.test/gatehouse.update"
	if err := os.WriteFile("gatehouse.toml", []byte("[update]\nurl = \""+set+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{config: "gatehouse.toml", environ: []string{"HOME=/nowhere"}}
	for _, c := range []struct {
		args  []string
		check bool
		want  string
	}{
		{[]string{"x.update"}, false, "x.update"},
		{[]string{"x.update"}, true, "x.update"},
		{nil, true, set},
	} {
		if got, err := a.updateFrom(c.args, updateFlags{check: c.check}); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if got, err := a.updateFrom(nil, updateFlags{}); err == nil {
		t.Errorf("without an argument it updates from %q", got)
	}
}
