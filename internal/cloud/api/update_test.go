package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

const (
	updateURL = "https://updates.example.test/gatehouse_1.3.0_arm64.update"
	updateSum = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
)

func updateClaims() fields {
	return goodClaims().with(fields{"cmd": "update", "station": absent, "lock": absent, "url": updateURL, "sha256": updateSum})
}

// update is the command of updateClaims.
func update() api.Command {
	return api.Command{
		ID: "c-1", Gateway: gateway, Name: api.Update, Actor: "porter@example.test", IssuedAt: noon().UTC(), Expires: noon().UTC().Add(30 * time.Second),
		KeyID: keyID, URL: updateURL, SHA256: updateSum,
	}
}

func TestKeyring_Verify_update(t *testing.T) {
	for name, c := range map[string]struct {
		change fields
		want   api.Reason
		says   string
		turn   func(*api.Command)
	}{
		"plain":            {},
		"window":           {change: fields{"window": 14400}, turn: func(c *api.Command) { c.Window = 4 * time.Hour }},
		"no window":        {change: fields{"window": 0}},
		"longest window":   {change: fields{"window": 604800.0}, turn: func(c *api.Command) { c.Window = 7 * 24 * time.Hour }},
		"capitals":         {change: fields{"sha256": strings.ToUpper(updateSum)}},
		"other claims":     {change: fields{"note": "hello"}},
		"longer window":    {fields{"window": 604801}, api.Malformed, "window", nil},
		"giant window":     {fields{"window": 1e300}, api.Malformed, "window", nil},
		"negative window":  {fields{"window": -1}, api.Malformed, "window", nil},
		"part of a second": {fields{"window": 1.5}, api.Malformed, "window", nil},
		"window in words":  {fields{"window": "4h"}, api.Malformed, "window", nil},
		"null window":      {fields{"window": nil}, api.MissingClaim, "window", nil},
		"station":          {fields{"station": 1042}, api.Malformed, "station", nil},
		"null station":     {fields{"station": nil}, api.Malformed, "station", nil},
		"lock":             {fields{"lock": "lock-1"}, api.Malformed, "lock", nil},
		"no url":           {fields{"url": absent}, api.MissingClaim, "url", nil},
		"url with a user":  {fields{"url": "https://porter:secret@h/x"}, api.Malformed, "user name", nil},
		"plain url":        {fields{"url": "http://secret/x"}, api.Malformed, "https://", nil},
		"url of a list":    {fields{"url": []string{updateURL}}, api.Malformed, "url", nil},
		"endless url":      {fields{"url": updateURL + strings.Repeat("x", 2048)}, api.Malformed, "2048", nil},
		"no sum":           {fields{"sha256": absent}, api.MissingClaim, "sha256", nil},
		"short sum":        {fields{"sha256": updateSum[2:]}, api.Malformed, "sha256", nil},
		"sum of letters":   {fields{"sha256": "z" + updateSum[1:]}, api.Malformed, "sha256", nil},
		"expired":          {fields{"exp": noon().Unix()}, api.Expired, "", nil},
		"too long-lived":   {fields{"exp": noon().Unix() + 61}, api.Lifetime, "", nil},
		"another gateway":  {fields{"aud": "x"}, api.WrongAudience, "", nil},
		"no actor":         {fields{"actor": absent}, api.MissingClaim, "actor", nil},
		"another case":     {fields{"cmd": "Update"}, api.UnknownCommand, "", nil},
	} {
		want := update()
		if c.turn != nil {
			c.turn(&want)
		}
		got, err := ring(t).Verify([]byte(forge(t, goodHeader(), updateClaims().with(c.change), seed(1))), gateway, noon())
		if c.want == "" {
			if err != nil || got != want {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		refusal, ok := err.(*api.Refusal) //nolint:errorlint // Verify promises it
		if !ok || refusal.Reason != c.want || !strings.Contains(refusal.Message, c.says) || strings.Contains(refusal.Message, "secret") || !refusal.Verified {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != api.UnknownCommand && c.want != api.WrongAudience && refusal.Name != api.Update {
			t.Errorf("%s: it is said to be %q", name, refusal.Name)
		}
	}
}

// What is signed here is taken as it was meant.
func TestPrivateKey_Sign_update(t *testing.T) {
	key, err := api.Generate(keyID)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := api.NewKeyring([]string{key.Public().String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, window := range []time.Duration{0, time.Second, 4 * time.Hour, api.MaxWindow} {
		want := update()
		want.Window = window
		token, err := key.Sign(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := trusted.Verify([]byte(token), gateway, noon()); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, change := range []func(*api.Command){
		func(c *api.Command) { c.Window = api.MaxWindow + time.Second },
		func(c *api.Command) { c.Window = time.Millisecond },
		func(c *api.Command) { c.URL = "http://h/x" },
		func(c *api.Command) { c.SHA256 = "" },
	} {
		c := update()
		change(&c)
		if token, err := key.Sign(c); err == nil {
			t.Errorf("%+v is signed: %s", c, token)
		}
	}
}

// A token of another program, with the key of RFC 8037, appendix A.
func TestKeyring_Verify_goldenUpdate(t *testing.T) {
	trusted, err := api.NewKeyring([]string{keyID + " 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile("testdata/update.jwt")
	if err != nil {
		t.Fatal(err)
	}
	want := update()
	want.ID, want.Actor, want.Window = "py-update-1", "Pförtnerin", 4*time.Hour
	got, err := trusted.Verify(token, gateway, noon())
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if at := site.At(got.Moment()).String(); at != "2026-01-01T01:06:40.234Z" { // every version computes the same
		t.Errorf("the moment is %s", at)
	}
}

// The moments of many gateways, and those of one gateway, are spread evenly over the window:
// chi squared over 20 parts stays below the bound that chance exceeds once in a million.
func TestCommand_Moment(t *testing.T) {
	const parts, all = 20, 10_000
	deterministic := func(n int) string { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String() }
	for name, command := range map[string]func(n int) api.Command{
		"many gateways, one command": func(n int) api.Command { return api.Command{Gateway: site.GatewayID(deterministic(n)), ID: "jti"} },
		"one gateway, many commands": func(n int) api.Command { return api.Command{Gateway: gateway, ID: deterministic(n)} },
		"counted ids":                func(n int) api.Command { return api.Command{Gateway: gateway, ID: fmt.Sprint(n)} },
	} {
		for _, window := range []time.Duration{time.Second, 4 * time.Hour, api.MaxWindow} {
			var counts [parts]int
			for n := range all {
				c := command(n)
				c.IssuedAt, c.Window = noon(), window
				into := c.Moment().Sub(noon())
				if into < 0 || into >= window || !c.Moment().Equal(c.Moment()) {
					t.Fatalf("%s: %s into %s", name, into, window)
				}
				counts[int(float64(into)/float64(window)*parts)]++
			}
			var chi float64
			for _, n := range counts {
				chi += float64(n-all/parts) * float64(n-all/parts) / (all / parts)
			}
			if chi > 63.5 {
				t.Errorf("%s, %s: chi squared is %.1f of %v", name, window, chi, counts)
			}
		}
	}
	if c := update(); !c.Moment().IsZero() {
		t.Error("a moment without a window")
	}
}

// The status of a gateway that was started from an image, and of one that was not.
func TestEncode_statusUpdate(t *testing.T) {
	for want, s := range map[string]*api.StatusUpdate{
		`{"image":false,"advice":"By its package."}`: {UpdateStatus: site.UpdateStatus{Advice: "By its package."}},
		`{"image":true,"family":"gatehouse-arm64","running":{"slot":"a","version":"1.2.3"},"default":"a","other":{"slot":"b","version":""},"phase":"idle",` +
			`"last":{"version":"1.3.0","outcome":"fell-back","time":"2026-01-01T00:00:00.000Z","reason":"it did not start"},"text":"Version 1.2.3 runs."}`: {
			UpdateStatus: site.UpdateStatus{
				Image: true, Family: "gatehouse-arm64", Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a", Other: site.SlotStatus{Slot: "b"},
				Phase: site.UpdateIdle,
				Last:  &site.LastUpdate{Version: "1.3.0", Outcome: site.UpdateFellBack, Time: site.At(noon()), Reason: "it did not start"},
			},
			Text: "Version 1.2.3 runs.",
		},
	} {
		if got := string(api.Encode(api.Status{Status: api.Online, Update: s})); got != `{"status":"online","update":`+want+`}` {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		var back api.Status
		if err := json.Unmarshal([]byte(`{"update":`+want+`}`), &back); err != nil || string(api.Encode(back.Update)) != want {
			t.Errorf("%+v, %v", back.Update, err)
		}
	}
}
