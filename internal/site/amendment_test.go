package site_test

import (
	"reflect"
	"testing"

	"gatehouse/internal/site"
)

// Every amendment either adds, or revokes something of an older state; what it revokes revokes the
// same, and has no password.
func TestAmendment_Revoking(t *testing.T) {
	adds := map[string]bool{"AddAccount": true, "AddStation": true, "AddToken": true, "AddGroup": true, "AddMember": true}
	kind := reflect.TypeFor[site.Amendment]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		if name == "Record" || name == "Revocation" {
			continue
		}
		a := site.Amendment{Revocation: 7}
		field := reflect.ValueOf(&a).Elem().Field(i)
		switch field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.String:
			field.SetString("x")
		default:
			field.SetInt(1)
		}
		r, ok := a.Revoking()
		if ok == adds[name] || ok && r.Revocation != 7 {
			t.Errorf("%s revokes: %v, %+v", name, ok, r)
		}
		if again, still := r.Revoking(); ok && (!still || !reflect.DeepEqual(again, r)) {
			t.Errorf("%s: %+v revokes %+v", name, r, again)
		}
		for _, gives := range []bool{r.PutGrant != nil, r.UpdateStation != nil} {
			if gives {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

func TestAmendment_Revoking_replaced(t *testing.T) {
	station := &site.Station{ID: 7, HomeAssistant: site.HomeAssistantState, Locks: 2, Token: "t"}
	for name, c := range map[string]struct{ of, want site.Amendment }{
		"password":  {site.Amendment{UpdateAccount: &site.Account{ID: "a", Password: "x", Admin: true}}, site.Amendment{DropPassword: "a"}},
		"demotion":  {site.Amendment{UpdateAccount: &site.Account{ID: "a"}}, site.Amendment{UpdateAccount: &site.Account{ID: "a"}}},
		"promotion": {site.Amendment{UpdateAccount: &site.Account{ID: "a", Admin: true}}, site.Amendment{}},
		"grant":     {site.Amendment{PutGrant: &site.Grant{Account: "a"}}, site.Amendment{NarrowGrant: &site.Grant{Account: "a"}}},
		"secret":    {site.Amendment{UpdateStation: station, Record: site.Record{Kind: site.KindStationRotated}}, site.Amendment{DropSecret: 7}},
		"mode": {site.Amendment{UpdateStation: station}, site.Amendment{LimitStation: &site.StationLimit{
			Station: 7, HomeAssistant: site.HomeAssistantState, Locks: 2, Token: "e3b98a4da31a127d4bde6e43033f66ba",
		}}},
	} {
		r, ok := c.of.Revoking()
		r.Record = site.Record{}
		if name == "promotion" && ok || name != "promotion" && !reflect.DeepEqual(r, c.want) {
			t.Errorf("%s: %+v, %v", name, r, ok)
		}
	}
}

// An older station has no more than the limit, and the token that counts or none that anybody has.
func TestStationLimit_Of(t *testing.T) {
	now := site.Station{ID: 7, HomeAssistant: site.HomeAssistantState, Locks: 2, Token: "now"}
	r, _ := site.Amendment{UpdateStation: &now}.Revoking()
	limit := *r.LimitStation
	for name, c := range map[string]struct{ of, want site.Station }{
		"the same": {now, now},
		"more":     {site.Station{ID: 7, HomeAssistant: site.HomeAssistantUnlock, Locks: 3, Token: "now"}, now},
		"less":     {site.Station{HomeAssistant: site.HomeAssistantOff, Locks: 1, Token: "now"}, site.Station{HomeAssistant: site.HomeAssistantOff, Locks: 1, Token: "now"}},
	} {
		if got := limit.Of(c.of); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	older := now
	older.Token = "before"
	got := limit.Of(older)
	if got.Token == older.Token || got.Token == now.Token || len(got.Token) < 32 || limit.Of(got) != got {
		t.Errorf("a token of before: %q", got.Token.Reveal())
	}
	if mode := (site.StationLimit{Station: 7, HomeAssistant: site.HomeAssistantState}); mode.Of(older) != older {
		t.Error("a limit of the mode alone changes more")
	}
}
