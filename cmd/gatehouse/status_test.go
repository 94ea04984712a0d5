package main

import (
	"strings"
	"testing"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

func exampleStatus() adminapi.Status {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	return adminapi.Status{
		Version: "1.2.3", GatewayID: "gateway-id", Name: "north-gate", TimeZone: "Europe/Berlin", Started: site.At(now.Add(-90 * time.Minute)),
		Conditions: []health.Condition{{
			Code: health.StorageFailing, Severity: health.Fatal, Summary: "The database cannot be written",
			Advice: "Make room on the disk", Since: site.At(now.Add(-time.Minute)),
		}},
		Clock: adminapi.ClockStatus{Now: site.At(now), Trusted: true},
		Listeners: []adminapi.Listener{
			{Name: "http", Address: "127.0.0.1:8080"},
			{Name: "mqtts", Address: "0.0.0.0:8883", TLS: true},
		},
		Stations: adminapi.StationCount{Enrolled: 3, Online: 2}, Accounts: 4, Sessions: 1,
		Journal: adminapi.JournalSize{Records: 1234, Bytes: 1_200_000, First: 12, Last: 1245},
		Data:    "/var/lib/gatehouse",
		Memory:  adminapi.MemoryStatus{Used: 41_000_000, Limit: 300_000_000},
		Certificate: &adminapi.CertificateStatus{
			Names: []string{"north-gate", "192.168.1.20"}, NotAfter: site.At(now.AddDate(1, 0, 0)), Own: true,
			Fingerprint: "12:34", AuthorityFingerprint: "AB:CD",
		},
		Cloud: &adminapi.CloudStatus{
			URL: "tls://mqtt.example.test", Since: site.At(now.Add(-time.Hour)), Error: "resolve: no such host", Advice: "Correct url",
			NextTry: site.At(now.Add(time.Minute)), Acknowledgement: "application", Delivered: 1200, Waiting: 45, LastDelivery: site.At(now.Add(-2 * time.Hour)),
			Keys: []string{"front-desk", "night"},
		},
		Update: site.UpdateStatus{
			Image: true, Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a", Other: site.SlotStatus{Slot: "b", Version: "1.3.0"},
			Last: &site.LastUpdate{Version: "1.3.0", Outcome: site.UpdateFellBack, Time: site.At(now.Add(-time.Hour)), Reason: "version 1.3.0 did not start"},
		},
	}
}

func TestApp_printStatus(t *testing.T) {
	var out strings.Builder
	testApp().printStatus(&lines{w: &out}, exampleStatus())
	want := `Gateway      NOT READY: it cannot open doors
Version      1.2.3
Name         north-gate
Id           gateway-id
Running      since 2026-11-21 07:30:00 CET (1h30m0s)
Clock        2026-11-21 09:00:00 CET
Time zone    Europe/Berlin
Data         /var/lib/gatehouse
Update       Version 1.2.3 runs, from slot a.
             Slot b has version 1.3.0.
             The last update to version 1.3.0 was undone at 2026-11-21 08:00 CET: version 1.3.0 did not start.
Listens on   http   127.0.0.1:8080
             mqtts  0.0.0.0:8883 (TLS)
Open         http://127.0.0.1:8080
Stations     3 enrolled, 2 online
Accounts     4, with 1 session
Journal      1234 records (12 to 1245), 1.2 MB
Memory       41.0 MB of 300.0 MB
Certificate  the gateway's own, valid until 2027-11-21 09:00:00 CET, for north-gate, 192.168.1.20
             SHA-256 12:34
Authority    SHA-256 AB:CD
Cloud        NOT connected to tls://mqtt.example.test since 2026-11-21 08:00:00 CET, 45 records waiting

fatal: The database cannot be written
  What to do: Make room on the disk
  Since 2026-11-21 08:59:00 CET (storage-failing)
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestApp_cloudRows(t *testing.T) {
	show := func(change func(*adminapi.CloudStatus)) string {
		status := exampleStatus()
		change(status.Cloud)
		var out strings.Builder
		(&lines{w: &out}).table(testApp().cloudRows(status))
		return out.String()
	}
	for want, change := range map[string]func(*adminapi.CloudStatus){
		`Cloud link   NOT connected to tls://mqtt.example.test since 2026-11-21 08:00:00 CET
Because      resolve: no such host
What to do   Correct url
Next try     2026-11-21 09:01:00 CET
Topics       gateways/gateway-id/…
Delivered    up to 1200 of 1245, last 2026-11-21 07:00:00 CET; 45 records waiting
Counts when  the application has acknowledged it
Keys         front-desk, night
`: func(*adminapi.CloudStatus) {},
		`Cloud link   connected to tls://mqtt.example.test since 2026-11-21 08:00:00 CET
Topics       gateways/gateway-id/…
Delivered    up to 0 of 1245, last never; every record is delivered
Counts when  the broker has acknowledged it
Keys         none: signed commands are refused (gatehouse cloud keygen makes one)
`: func(c *adminapi.CloudStatus) {
			*c = adminapi.CloudStatus{URL: c.URL, Since: c.Since, Connected: true, Acknowledgement: "broker"}
		},
	} {
		if got := show(change); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// A gateway that is not ready makes the command fail, with the first thing to do.
func TestNotReady(t *testing.T) {
	status := exampleStatus()
	if err := notReady(status); err == nil || err.Error() != "the gateway is not ready: The database cannot be written; Make room on the disk" {
		t.Errorf("error %v", err)
	}
	status.Conditions = nil
	if notReady(status) == nil {
		t.Error("not ready without a reason is no error")
	}
	status.Ready = true
	if err := notReady(status); err != nil {
		t.Errorf("ready: %v", err)
	}
}
