package api_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

func FuzzKeyring_Verify(f *testing.F) {
	r := ring(f)
	f.Add([]byte(forge(f, goodHeader(), goodClaims(), seed(1))))
	f.Add([]byte(forge(f, goodHeader(), updateClaims(), seed(1))))
	f.Add([]byte(forge(f, goodHeader().with(fields{"crit": []string{"b64"}, "b64": false}), goodClaims(), seed(1))))
	f.Add([]byte(forge(f, `{"alg":"none","alg":"EdDSA"}`, `{"exp":1,"exp":2}`, seed(2))))
	f.Add([]byte(forge(f, "null", "null", seed(1))))
	f.Add([]byte("a.b.c"))
	f.Fuzz(func(t *testing.T, token []byte) {
		cmd, err := r.Verify(token, gateway, noon())
		judge(t, cmd, err)
		signed := func(claims fields) bool {
			return strings.HasPrefix(string(bytes.TrimSpace(token)), encode(t, goodHeader())+"."+encode(t, claims)+".")
		}
		if err == nil && !signed(goodClaims()) && !signed(updateClaims()) {
			t.Errorf("a token that nobody signed is taken: %s", token)
		}
	})
}

// What a trusted signer may say, whatever it is.
func FuzzKeyring_Verify_claims(f *testing.F) {
	r := ring(f)
	for _, change := range []fields{nil, {"aud": []string{"a", string(gateway)}}, {"nbf": 1.5}, {"station": "7", "lock": 2}, {"exp": 1e300}} {
		text, _ := base64.RawURLEncoding.DecodeString(encode(f, goodClaims().with(change)))
		f.Add(text)
	}
	for _, change := range []fields{nil, {"window": 3600}, {"window": 1e300}, {"url": "https://a:b@h"}, {"station": nil}, {"sha256": "0x"}} {
		text, _ := base64.RawURLEncoding.DecodeString(encode(f, updateClaims().with(change)))
		f.Add(text)
	}
	f.Add([]byte(`{"\u0065xp":1,"exp":{"exp":[1e9999]}}`))
	f.Fuzz(func(t *testing.T, claims []byte) {
		cmd, err := r.Verify([]byte(forge(t, goodHeader(), string(claims), seed(1))), gateway, noon())
		judge(t, cmd, err)
	})
}

// judge finds a command that no gateway should carry out, or a refusal that says
// nothing or what it should not.
func judge(t *testing.T, cmd api.Command, err error) {
	t.Helper()
	if err != nil {
		refused, ok := errors.AsType[*api.Refusal](err)
		if !ok || refused.Reason == "" || len(refused.ID) > api.MaxID || len(refused.Message) > 400 || strings.ContainsAny(refused.Message, "\n\x1b\x00") {
			t.Errorf("refused by %#v", err)
		}
		return
	}
	switch cmd.Name {
	case api.Unlock:
		if !cmd.Station.Valid() || cmd.Lock < 1 || cmd.Lock > site.MaxLocks || cmd.URL != "" || cmd.SHA256 != "" || cmd.Window != 0 {
			t.Errorf("taken: %+v", cmd)
		}
	case api.Update:
		late := cmd.Moment().Sub(cmd.IssuedAt)
		if cmd.Station != 0 || cmd.Lock != 0 || updates.CheckURL(cmd.URL) != nil || len(cmd.SHA256) != 64 || cmd.Window < 0 || cmd.Window > api.MaxWindow ||
			cmd.Window > 0 && (late < 0 || late >= cmd.Window) {
			t.Errorf("taken: %+v", cmd)
		}
	default:
		t.Errorf("taken: %+v", cmd)
	}
	if cmd.ID == "" || cmd.Gateway != gateway ||
		cmd.Actor == "" || cmd.KeyID == "" || !noon().Before(cmd.Expires) || cmd.Expires.After(noon().Add(65*time.Second)) ||
		cmd.Expires.Sub(cmd.IssuedAt) > api.MaxLifetime {
		t.Errorf("taken: %+v", cmd)
	}
}
