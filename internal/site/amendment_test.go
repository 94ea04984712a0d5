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
	station := &site.Station{ID: 7, HomeAssistant: site.HomeAssistantState}
	for name, c := range map[string]struct{ of, want site.Amendment }{
		"password":  {site.Amendment{UpdateAccount: &site.Account{ID: "a", Password: "x", Admin: true}}, site.Amendment{DropPassword: "a"}},
		"demotion":  {site.Amendment{UpdateAccount: &site.Account{ID: "a"}}, site.Amendment{UpdateAccount: &site.Account{ID: "a"}}},
		"promotion": {site.Amendment{UpdateAccount: &site.Account{ID: "a", Admin: true}}, site.Amendment{}},
		"grant":     {site.Amendment{PutGrant: &site.Grant{Account: "a"}}, site.Amendment{NarrowGrant: &site.Grant{Account: "a"}}},
		"secret":    {site.Amendment{UpdateStation: station, Record: site.Record{Kind: site.KindStationRotated}}, site.Amendment{DropSecret: 7}},
		"mode":      {site.Amendment{UpdateStation: station}, site.Amendment{LowerMode: &site.StationMode{Station: 7, HomeAssistant: site.HomeAssistantState}}},
	} {
		r, ok := c.of.Revoking()
		r.Record = site.Record{}
		if name == "promotion" && ok || name != "promotion" && !reflect.DeepEqual(r, c.want) {
			t.Errorf("%s: %+v, %v", name, r, ok)
		}
	}
}
