package config_test

import (
	"testing"

	"gatehouse/internal/config"
)

func TestParse_update(t *testing.T) {
	for _, url := range []string{"", "https://updates.example.test/gatehouse.update", "https://[2001:db8::1]:8443/x?a=b"} {
		if got := problems(t, "[update]\nurl = \""+url+"\""); got != nil {
			t.Errorf("%q: %q", url, got)
		}
	}
	for _, url := range []string{"http://h/x", "h/x", "https://", "https://porter:s3cr3t@h/x", "https://h:s3cr3t/x", "file:///s3cr3t"} {
		got := problems(t, "[update]\nurl = \""+url+"\"")
		if want := "f.toml:2: update.url: it cannot be used: write https://HOST/PATH, without a user name, up to 2048 bytes"; len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q", url, got)
		}
	}
	c, err := config.Parse("f.toml", nil, home())
	if err != nil || c.Update != (config.Update{}) {
		t.Errorf("%+v, %v", c.Update, err)
	}
	// GATEHOUSE_UPDATE_KEYS belongs to those who make the image.
	if _, err := config.Parse("f.toml", nil, append(home(), "GATEHOUSE_UPDATE_KEYS=/keys")); err != nil {
		t.Error(err)
	}
}
