package adminapi_test

import (
	"context"
	"strings"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/webtest"
	"gatehouse/internal/web/adminapi"
)

func TestEdges(t *testing.T) {
	for name, door := range map[string]adminapi.Door{"socket": adminapi.Socket, "web": adminapi.Web} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.addAccount(chief, true)
			h.addAccount(porter, false)
			h.addStation(1042)
			h.must(h.access.ChangeGroup(t.Context(), site.Actor{Origin: site.Admin}, "cleaners", site.OfAccounts, nil, nil))
			table := webtest.Table{
				Handler: h.handler(door), Routes: h.api.Routes(door), Metrics: h.metrics,
				Path: strings.NewReplacer("{email}", porter, "{station}", "1042", "{lock}", "1", "{name}", "Lobby",
					"{who}", porter, "{what}", "1042", "{group}", "cleaners", "{holiday}", "Christmas"),
				Bodies: map[string]string{
					"POST /admin/v1/accounts":                 `{"email":"new@example.test","admin":false}`,
					"PATCH /admin/v1/accounts/{email}":        `{"admin":false}`,
					"PUT /admin/v1/accounts/{email}/password": `{"password":"correct horse battery"}`,
					"POST /admin/v1/stations":                 `{"stationId":7,"name":"South","locks":1}`,
					"PATCH /admin/v1/stations/{station}":      `{"name":"West"}`,
					"PUT /admin/v1/grants/{who}/{what}":       `{"hours":"Mon 08:00-09:00","holidays":"none"}`,
					"PATCH /admin/v1/groups/{group}":          `{"add":{"accounts":["porter@example.test"]},"remove":{"accounts":["chief@example.test"]}}`,
					"POST /admin/v1/holidays":                 `{"name":"Christmas","dates":["12-25"],"ics":"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261225\nEND:VEVENT\nEND:VCALENDAR"}`,
					"POST /admin/v1/tokens":                   `{"name":"Lobby","scopes":["read"],"until":"2100-01-01T00:00:00Z"}`,
					"POST /admin/v1/qr":                       `{"text":"mqtts://gatehouse.local"}`,
					"POST /admin/v1/apply":                    `{"site":{"timezone":"UTC","stations":[{"id":7}]},"dryRun":true}`,
					"POST /admin/v1/backup":                   `{"passphrase":"four words nobody knows","password":"correct horse battery"}`,
					"POST /admin/v1/update":                   `{"url":"https://example.test/x.update","sha256":"abababababababababababababababababababababababababababababababab","at":"2100-01-01T00:00:00Z"}`,
					"POST /admin/v1/journal/witnesses":        `{"witnesses":[{"source":"s","seq":3,"hash":"ab"}]}`,
				},
			}
			if door == adminapi.Web {
				table.Bearer = h.token(chief)
			} else {
				table.Peer = func(ctx context.Context) context.Context { return adminapi.PeerContext(ctx, 0, 0, 1, adminapi.NoGroup) }
			}
			table.Check(t)
		})
	}
}
