package attacktest_test

import (
	"strings"
	"testing"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// The signer of a command chooses the name in it: the journal showed that name alone,
// and an opening with the night shift's key looked like the front desk's, or like a local
// administrator's. Now each record carries the key, and people see it behind the name.
func TestAttack_borrowedName(t *testing.T) {
	t.Parallel()
	night, err := api.Generate("night")
	if err != nil {
		t.Fatal(err)
	}
	s := newCloudSite(t, gatewaytest.Launch{}, night)
	s.command("by-day", s.token("by-day"))
	token := s.tokenBy(night, "by-night")
	s.command("by-night", token)
	s.command("by-night", token) // refused
	for id, key := range map[string]string{"by-day": "front-desk", "by-night": "night"} {
		r := s.AwaitRecord("the outcome of "+id, func(r site.Record) bool {
			return r.JTI == id && r.Outcome != site.Requested && r.Outcome != site.Refused
		})
		if r.KeyID != key || r.By != "uid 0" || r.Doer() != "uid 0 (signed by "+key+")" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"journal"}, "by uid 0 (signed by night)  station 1042"},
		{[]string{"journal"}, "lock-1  refused  from the cloud  repeated"},
		{[]string{"journal", "--json"}, `"detail":"repeated","jti":"by-night","kid":"night"`},
		{[]string{"journal", "--csv"}, ",by-night,,,night"},
	} {
		s.Await(c.want, func() bool { out, _ := s.Run(c.args...); return strings.Contains(out, c.want) })
	}
}
