package attacktest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// Who tried a door without a right left no trace. Now each attempt, by whatever way, is on
// record with its reason, while the answers stay the same.
func TestAttack_deniedUnlocks(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	admin := p.Admin
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tokens := make(map[site.StationID]string)
	for id := site.StationID(1); id <= 4; id++ {
		tokens[id] = p.Enrol(id).StationToken
	}
	_, err := admin.AddAccount(t.Context(), adminapi.NewAccount{Email: insider, Password: gatewaytest.Password})
	must(err)
	opens := time.Now().UTC().AddDate(0, 0, 2).Truncate(24 * time.Hour).Add(8 * time.Hour)
	hours, err := site.ParseSchedule(opens.Format("Mon 15:04") + "-09:00")
	must(err)
	for id, terms := range map[string]adminapi.GrantTerms{
		"2": {Hours: hours}, "3": {Until: site.At(time.Now().Add(-time.Hour))}, "4": {},
	} {
		_, err = admin.Grant(t.Context(), insider, id, terms)
		must(err)
	}
	issued, err := admin.AddToken(t.Context(), adminapi.NewToken{Name: "Lobby", Scopes: site.Scope{Unlock: []site.StationID{4}}})
	must(err)
	bearers := []string{loginAs(t, p, insider), issued.Text}
	var first []byte
	for _, bearer := range bearers {
		for _, path := range []string{
			"/v1/stations/" + tokens[1] + "/locks/lock-1/unlock", "/v1/stations/" + tokens[2] + "/locks/1/unlock", "/local/v1/stations/" + tokens[3] + "/locks/lock-2/unlock",
			"/local/v1/stations/" + tokens[4] + "/locks/lock-3/unlock", "/v1/stations/none/locks/lock-1/unlock", "/v1/stations/other/locks/lock-x/unlock",
		} {
			answer := p.Do(http.MethodPost, path, bearer, nil)
			if first == nil {
				first = answer.Body
			}
			if answer.Status != http.StatusNotFound || !bytes.Equal(answer.Body, first) {
				t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
			}
		}
	}
	if _, err := admin.Unlock(t.Context(), 99, 1); err == nil {
		t.Error("station 99 is not there")
	}
	want := []string{
		"admin 0  unknown",
		"insider 0  unknown", "insider 1 lock-1 no grant", "insider 2 lock-1 outside its hours", "insider 3 lock-2 ended", "insider 4  unknown",
		"token 0  unknown", "token 1 lock-1 no grant", "token 2 lock-1 no grant", "token 3 lock-2 no grant", "token 4  unknown",
	}
	var got []string
	p.AwaitRecord("the last attempt is on record", func(r site.Record) bool { return r.Kind == site.KindDenied && r.Origin == site.Admin })
	for _, r := range p.Records() {
		if r.Kind == site.KindDenied {
			who := map[bool]string{true: "insider"}[r.Email == insider]
			switch {
			case r.Account == issued.ID:
				who = "token"
			case r.Origin == site.Admin:
				who = "admin"
			}
			got = append(got, fmt.Sprintf("%s %d %s %s", who, int64(r.Station), r.Lock, r.Detail))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q\nwant %q", got, want)
	}
	wantOpens(t, p, bearers[0], site.At(opens))
}

// wantOpens requires that the list names stations 2 and 4, the first as closed until then.
func wantOpens(t *testing.T, p *gatewaytest.Program, bearer string, opens site.Timestamp) {
	t.Helper()
	var list []struct {
		ID         site.StationID     `json:"stationId"`
		OpensAgain site.Timestamp     `json:"opensAgain"`
		Status     site.StationStatus `json:"status"`
	}
	answer := p.Do(http.MethodGet, "/local/v1/stations", bearer, nil)
	if err := json.Unmarshal(answer.Body, &list); err != nil || len(list) != 2 {
		t.Fatalf("listed %s", answer.Body)
	}
	if list[0].ID != 2 || list[0].OpensAgain != opens || list[1].ID != 4 || !list[1].OpensAgain.IsZero() {
		t.Errorf("listed %s, want that 2 opens at %s", answer.Body, opens)
	}
}
