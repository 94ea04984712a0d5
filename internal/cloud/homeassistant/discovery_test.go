package homeassistant_test

import (
	"encoding/json"
	"testing"

	"gatehouse/internal/cloud/homeassistant"
	"gatehouse/internal/site"
)

// An unlock that opened nothing is no event "unlock", on which people build automations.
func TestEventOf_type(t *testing.T) {
	for _, c := range []struct {
		kind    site.Kind
		outcome site.Outcome
		answer  string
		want    string
	}{
		{site.KindUnlock, site.Done, "", "unlock"},
		{site.KindUnlock, site.Acknowledged, "", "unlock"},
		{site.KindUnlock, site.Late, "done", "unlock"},
		{site.KindUnlock, site.Late, "refused", "unlock-failed"},
		{site.KindUnlock, site.Refused, "", "unlock-failed"},
		{site.KindUnlock, site.Failed, "", "unlock-failed"},
		{site.KindUnlock, site.StationGone, "", "unlock-failed"},
		{site.KindUnlock, site.Expired, "", "unlock-failed"},
		{site.KindUnlock, site.Unresolved, "", "unlock-failed"},
		{site.KindDenied, "", "", "unlock-denied"},
		{site.KindNotOpened, "", "", "not-opened"},
	} {
		var event struct {
			Type string `json:"event_type"`
		}
		text := homeassistant.EventOf(site.Record{Kind: c.kind, Facts: site.Facts{Outcome: c.outcome, Answer: c.answer}})
		if err := json.Unmarshal(text, &event); err != nil || event.Type != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.kind, c.outcome, c.answer, text, c.want)
		}
	}
}
